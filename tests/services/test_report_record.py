"""Files that are compared may come from anywhere: what is wrong with one is said by its name and place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltaplane_services.observe.report.compare import MOST_RUNS, best, check_same_rows, comparison, read_runs, remarks
from deltaplane_services.observe.report.comparison_page import comparison_page
from deltaplane_services.observe.report.json_fields import ReportError
from deltaplane_services.observe.report.record import Run, read_run, run_of
from services.report_summaries import HOSTILE, vanishing

Change = Callable[[dict[str, Any]], object]


def write(path: Path, **changed: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(vanishing() | changed), "utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v.pop("gmean"), "gmean: expected a number or null, got 'nothing'"),
        (lambda v: v.update(gmean="0.8"), "gmean: expected a number or null, got '0.8'"),
        (lambda v: v.update(gmean=True), "gmean: expected a number or null, got True"),
        (lambda v: v.update(gmean=float("inf")), "gmean: expected a number or null, got inf"),
        (lambda v: v.update(rows=1.5), "rows: expected a whole number, got 1.5"),
        (lambda v: v.update(rows=2**70), "rows: expected a whole number"),
        (lambda v: v.update(classes=[]), "classes: expected an object, got []"),
        (lambda v: v.update(classes={"a": "many"}), "classes.a: expected a whole number, got 'many'"),
        (lambda v: v.update(series={}), "series: expected a list"),
        (lambda v: v.update(series=[7]), "series[0].: expected an object, got 7"),
        (lambda v: v["series"][3].update(rows_to=None), "series[3].rows_to: expected a whole number, got None"),
        (lambda v: v["series"][3].pop("lately"), "series[3].lately: expected an object"),
        (lambda v: v["series"][3].update(weights=[[1], [2]]), "series[3].weights: expected 1 rows"),
        (lambda v: v["series"][3].update(weights=[["x", 2]]), "series[3].weights: expected lists of numbers"),
        (lambda v: v["series"][3].update(weights=[[1.0]]), "series[3].weights: expected 2 numbers in each row"),
        (lambda v: v["series"][3].update(deviations=[1.0]), "series[3].deviations: expected 2 numbers from zero up"),
        (lambda v: v["series"][3].update(deviations=[1, -1]), "series[3].deviations: expected 2 numbers from zero up"),
        (lambda v: v.update(first_event_time="1"), "first_event_time: expected a whole number, got '1'"),
        (lambda v: v["series"][3].update(rows_to=1), "expected rows_to to grow"),
        (lambda v: v.update(series=v["series"] * 100), "expected at most 800 points, got 3000"),
        (lambda v: v["confusion"][0].pop("count"), "confusion[0].count: expected a whole number"),
    ],
)
def test_a_value_that_is_not_what_it_should_be_is_named_with_its_place(change: Change, words: str) -> None:
    value = vanishing()
    change(value)
    with pytest.raises(ReportError) as refused:
        run_of(value, "a.json")
    assert str(refused.value).startswith("a.json: ")
    assert words in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '"text"', "[" * 100_000, "9" * 10_000, "{}"])
def test_a_file_that_is_no_summary_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ReportError, match=r"a\.json"):
        read_run(path)


def test_a_file_that_is_not_there_or_not_text_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="there is no file"):
        read_run(tmp_path / "missing.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReportError, match=r"binary\.json"):
        read_run(tmp_path / "binary.json")
    with pytest.raises(ReportError, match="cannot be read"):
        read_run(tmp_path)


def test_runs_are_named_by_as_much_of_their_paths_as_tells_them_apart(tmp_path: Path) -> None:
    paths = [write(tmp_path / "one" / "a.json"), write(tmp_path / "two" / "a.json")]
    assert list(read_runs(paths)) == ["one/a", "two/a"]
    assert list(read_runs([paths[0], write(tmp_path / "b.json")])) == ["a", "b"]


def test_too_few_files_too_many_and_one_given_twice_are_refused(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{at}.json") for at in range(MOST_RUNS + 1)]
    for wrong in (paths[:1], paths):
        with pytest.raises(ReportError, match="expected 2 to 12 files"):
            read_runs(wrong)
    with pytest.raises(ReportError, match="is given twice"):
        read_runs([paths[0], paths[0]])


def test_the_best_of_a_measure_is_marked_and_what_is_undefined_is_a_dash(tmp_path: Path) -> None:
    runs = read_runs(
        [write(tmp_path / "a.json", gmean=0.7, accuracy=None), write(tmp_path / "b.json", gmean=0.9, accuracy=0.5)]
    )
    rows = {row[0]: row[1:] for row in comparison(runs).body}
    assert rows["G-mean"] == ("0.7000", "0.9000")
    assert rows["accuracy"] == ("–", "0.5000")
    marked = best(runs)
    assert ("G-mean", "b") in marked
    assert ("G-mean", "a") not in marked
    assert ("accuracy", "b") not in marked, "there is no second to be better than"
    assert ("sensitivity", "a") in marked, "of equals, both are best"
    assert ("sensitivity", "b") in marked


def test_runs_over_different_rows_are_refused_and_have_no_best_if_they_are_shown_all_the_same(tmp_path: Path) -> None:
    other = write(tmp_path / "b.json", data="9 rows, CRC-32 of their labels 1", gmean=0.9)
    runs = read_runs([write(tmp_path / "a.json", data="8 rows, CRC-32 of their labels 2"), other])
    with pytest.raises(ReportError, match=r"different rows.*a: 8 rows.*; b: 9 rows.*--different-rows"):
        check_same_rows(runs)
    assert best(runs) == set()
    assert "different rows" in remarks(runs)[0]
    assert "different rows" in comparison_page(runs)
    before = read_runs([write(tmp_path / "c.json", rows=7, gmean=0.9), write(tmp_path / "d.json")])
    with pytest.raises(ReportError, match=r"9 rows of stream\.csv"):
        check_same_rows(before)
    same = read_runs([write(tmp_path / "e.json"), write(tmp_path / "f.json")])
    check_same_rows(same)
    assert "taken on trust" in remarks(same)[0]


def test_what_makes_runs_no_better_or_worse_is_said(tmp_path: Path) -> None:
    def pair(**other: Any) -> dict[str, Run]:
        same: dict[str, Any] = {"data": "x", "intervals": {"gmean": [0.7, 0.9]}}
        return read_runs([write(tmp_path / "a.json", **same), write(tmp_path / "b.json", **same | other)])

    assert {run for _, run in best(pair(positive="no", gmean=0.9))} == {"a", "b"}
    assert {measure for measure, _ in best(pair(positive="no", gmean=0.9))} == {"G-mean", "accuracy"}
    assert "positive class differs (a: yes, b: no)" in remarks(pair(positive="no"))[0]
    assert best(pair(scored=2000)) == set()
    assert "scored 2,000 to 3,000 rows, which is too many" in remarks(pair(scored=2000))[0]
    assert "scored 2,990 to 3,000 rows, a few" in remarks(pair(scored=2990))[0]
    assert "interval and that of a overlap" in remarks(pair(gmean=0.85))[0]
    assert remarks(pair(gmean=0.95, intervals={"gmean": [0.91, 0.97]})) == []


def test_settings_that_differ_are_shown_and_others_are_not(tmp_path: Path) -> None:
    settings = {"chunk": 100, "seed": 0, "definition": {"solver": {"kind": "wlpsvm", "C": 1.0}}}
    other = {"chunk": 20, "seed": 0, "definition": {"solver": {"kind": "wlpsvm"}}}
    runs = read_runs([write(tmp_path / "a.json", settings=settings), write(tmp_path / "b.json", settings=other)])
    rows = {row[0]: row[1:] for row in comparison(runs).body}
    assert rows["chunk"] == ("100", "20")
    assert rows["solver.C"] == ("1", "–")
    assert not {"seed", "solver.kind"} & rows.keys()


def test_the_page_of_several_runs_has_a_curve_for_each_and_the_value_of_each_at_every_row(tmp_path: Path) -> None:
    short = vanishing()["series"][:10]
    runs = read_runs([write(tmp_path / "a.json"), write(tmp_path / "b.json", series=short)])
    page = comparison_page(runs)
    assert page.count('id="chart-') == 2
    for colour in ("line1", "line2"):
        assert f'stroke="var(--{colour})"' in page, "a sample of each line is in the legend"
    _, _, after = page.partition('<tr data-row="1500">')
    row = after[: after.index("</tr>")]
    assert row == '<th scope="row">1,500</th><td>–</td><td>–</td>'
    _, _, after = page.partition('<tr data-row="500">')
    assert after.startswith('<th scope="row">500</th><td>0.7400</td><td>0.7400</td>')


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_of_strangers_are_text_in_the_page_of_several_runs(hostile: str) -> None:
    run = run_of(vanishing() | {"source": hostile, "stream": hostile, "digest": hostile}, "test")
    page = comparison_page({"a": run, hostile: run})
    assert page.count("<script") == page.count("</script>") == 3
    assert page.count("<style") == page.count("</style>") == 2
    assert "<img" not in page
    assert "<b>" not in page
