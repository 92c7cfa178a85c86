"""The numbers of a report's pictures and tables: how they are written, and that what matters is drawn whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sklearn.metrics import precision_score

from deltaplane_services.observe.report.charts import charts_of
from deltaplane_services.observe.report.record import run_of
from services.report_summaries import span, summary, vanishing
from services.test_report_page import drawn, page_of

LATELY = {"rows_from": 0, "gmean": 0.8, "recalls": {"no": 0.8, "yes": 0.7}}


def test_one_row_is_a_whole_number_among_counts() -> None:
    run = run_of(summary([span(0, {"no": 1200, "yes": 1}, {"no": 0.8, "yes": 0.7})]), "test")
    counts = next(chart for chart in charts_of(run) if chart.name == "counts").table
    assert counts.body[0][-2:] == ("1,200", "1")


def shifting() -> dict[str, Any]:
    """A hundred points, at one of which a feature has shifted by 1.3 deviations."""
    counts, recalls, spans = {"no": 60, "yes": 40}, {"no": 0.8, "yes": 0.7}, []
    for at in range(100):
        shift = [1.3 if at == 50 else 0.02 * (at % 5), 0.01]
        spans.append(span(at, counts, recalls, lately=LATELY | {"shift": shift}))
    return summary(spans)


def test_a_shift_of_features_is_drawn_whole_however_short_it_is() -> None:
    _, parsed = page_of(shifting())
    layout = drawn(parsed)["drift"]["layout"]
    assert layout["yaxis"]["range"][1] > 1.3
    assert layout["yaxis"]["tickvals"] == [0, 1], "its size can be read"
    assert "reach beyond" not in parsed.text("p")


def test_a_weight_below_one_has_its_size_beside_the_strip() -> None:
    weights = {"weights": [[-0.3, 0.02]], "weights_of": ["yes"], "deviations": [1.0, 1.0]}
    value = summary([span(at, {"no": 60, "yes": 40}, {"no": 0.8, "yes": 0.7}, **weights) for at in range(3)])
    assert drawn(page_of(value)[1])["weights"]["layout"]["yaxis"]["tickvals"] == [-0.2, 0]


def test_tenths_on_a_logarithmic_axis_are_written_as_numbers() -> None:
    sigmas = {"no": 0.002, "yes": 1.0}
    value = summary([span(0, {"no": 60, "yes": 40}, {"no": 0.8, "yes": 0.7}, sigmas=sigmas)])
    axis = drawn(page_of(value)[1])["sigmas"]["layout"]["yaxis"]
    assert (axis["type"], axis["tickformat"]) == ("log", "~g"), "100m would be a hundred millions, or metres"


def test_kappa_and_correlation_stand_on_the_page_of_many_classes() -> None:
    value = vanishing(["a", "b", "c"]) | {"positive": None, "kappa": 0.4321, "matthews": 0.5432}
    text = page_of(value)[1].text("dt", "dd")
    for words in ("Cohen's kappa", "0.4321", "Matthews correlation", "0.5432"):
        assert words in text


def test_below_a_confusion_stands_the_precision_of_each_class() -> None:
    truth = ["a"] * 9 + ["b"] * 5 + ["c"] * 3
    predicted = ["a"] * 7 + ["b", "b"] + ["b"] * 4 + ["c"] + ["c", "a", "b"]
    counts = Counter(zip(truth, predicted, strict=True))
    cells = [{"truth": one, "predicted": other, "count": count} for (one, other), count in counts.items()]
    run = run_of(summary([], "abc", positive=None) | {"confusion": cells}, "test")
    (chart,) = charts_of(run)
    theirs = precision_score(truth, predicted, labels=list(chart.table.head[1:4]), average=None)
    assert chart.table.body[-1] == ("precision", *(f"{value:.4f}" for value in theirs), "", "")


def test_a_name_is_shortened_only_where_there_is_no_room() -> None:
    value = vanishing()
    value["model"]["features"] = ["spectral band number 4 of ten", "width"]
    narrow = drawn(page_of(value)[1])["weights"]["narrow"]
    assert [below for below, _ in narrow] == [340], "29 characters have room on any other screen"


def test_refused_rows_are_counted_by_reason_before_they_stand_one_by_one() -> None:
    value = vanishing()
    value["rejected"] = 1210
    value["rejections"]["reasons"] = [
        {"reason": "the label is missing", "rows": 3, "examples": [], "cure": None},
        {"reason": "the feature `a` is …", "rows": 1207, "examples": [], "cure": "leave it out with `--ignore a`"},
    ]
    page, parsed = page_of(value)
    words = parsed.text("td", "th").split("\n")
    at = words.index("1,207")
    assert words[at : at + 3] == ["1,207", "the feature `a` is …", "leave it out with `--ignore a`"]
    assert words[at + 3 : at + 6] == ["3", "the label is missing", "–"]
    assert page.index("1,207") < page.index("one by one") < page.index("the row has 2 cells")
