"""The replay report: what is on the page, what is not, and that nothing of a stranger's can do anything there."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import html
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.arrays import Floats
from deltaplane_services.observe.report.charts import charts_of, gmeans, vanished
from deltaplane_services.observe.report.labels import short_names
from deltaplane_services.observe.report.page import run_page
from deltaplane_services.observe.report.plotly_figures import library
from deltaplane_services.observe.report.record import run_of
from services.report_summaries import HOSTILE, span, summary, vanishing

CHARTS = ("gmean", "recall", "imbalance", "counts", "sigmas", "weights", "confusion")
Attributes = dict[str, str | None]


class Parsed(HTMLParser):
    """A page as a browser would see it: elements with their attributes, and the text in each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, Attributes]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "br"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "elements end in the order in which they began"

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def text(self, *tags: str) -> str:
        """All text directly in these elements; without any, of all but style and script."""
        return "\n".join(data for tag, data in self.texts if (tag in tags if tags else tag not in {"style", "script"}))

    def find(self, tag: str, **attributes: str) -> list[Attributes]:
        """The attributes of all such elements."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [given for name, given in self.elements if name == tag and wanted.items() <= given.items()]


def page_of(value: dict[str, Any]) -> tuple[str, Parsed]:
    page = run_page(run_of(value, "test"))
    return page, Parsed(page)


@functools.cache
def usual() -> tuple[str, Parsed]:
    """The page of the run in which a class vanishes."""
    return page_of(vanishing())


def drawn(parsed: Parsed) -> dict[str, Any]:
    """The figures that the page's script is given, by the name of the chart."""
    (text,) = (data for tag, data in parsed.texts if tag == "script" and data.startswith('{"colours"'))
    return {name.removeprefix("plot-"): figure for name, figure in json.loads(text)["figures"].items()}


def values_of(trace: dict[str, Any]) -> Floats:
    """The y values of a line of a figure."""
    return np.frombuffer(base64.b64decode(trace["y"]["bdata"]), dtype=trace["y"]["dtype"]).astype(np.float64)


def test_every_picture_is_there_with_its_name_its_note_and_its_table() -> None:
    _, parsed = usual()
    assert tuple(drawn(parsed)) == CHARTS
    for name in CHARTS:
        assert len(parsed.find("figure", id=f"chart-{name}")) == 1
        assert len(parsed.find("h2", id=f"title-{name}")) == 1
        assert len(parsed.find("p", id=f"note-{name}")) == 1
        described = {"aria_labelledby": f"title-{name}", "aria_describedby": f"note-{name}"}
        assert len(parsed.find("div", id=f"plot-{name}", role="img", **described)) == 1
    assert len(parsed.find("table")) == len(CHARTS) + 4
    assert len(parsed.find("tr", data_row="1500")) == len(CHARTS) - 1


def test_the_library_that_draws_is_carried_whole_and_is_the_only_other_script_that_may_run() -> None:
    page, parsed = usual()
    (packed,) = (data for tag, data in parsed.texts if tag == "script" and data == library().packed)
    text = gzip.decompress(base64.b64decode(packed)).decode()
    assert text == library().text
    (policy,) = parsed.find("meta", http_equiv="Content-Security-Policy")
    allowed = re.search("script-src ([^;]*);", policy["content"] or "")
    assert allowed is not None
    own = next(data for tag, data in parsed.texts if tag == "script" and data.startswith('"use strict"'))
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in (own, text)}
    assert set(allowed.group(1).split()) == hashes
    assert len(page) < 5_000_000


def test_the_page_says_what_was_run_and_what_came_of_it() -> None:
    _, parsed = usual()
    text = parsed.text()
    for words in (
        "stream.csv",
        "3,000 rows",
        "window 1000",
        "digest " + "0123456789abcdef" * 4,
        "✓ verified",
        "0.8125",
        "6k rows/s",
        "retirements retired",
        "Refused rows: 2 unreadable",
        "the row has 2 cells and the file 9 columns",
        "solver.kind",
        "(40 in all)",
        "2024-01-01",
    ):
        assert words in text, words


def test_a_run_that_is_not_verified_is_not_said_to_be() -> None:
    unverified = page_of(summary([], verified=None))[1].text()
    refuted = page_of(summary([], verified=False))[1].text()
    assert "✓ verified" not in unverified + refuted
    assert "✗ NOT verified" in refuted


def test_why_a_run_ended_early_stands_at_its_head() -> None:
    text = page_of(summary([], ended_early="line 12: <broken>"))[1].text("p")
    assert "line 12: <broken>" in text


def test_the_page_loads_nothing_and_forbids_it_to_itself() -> None:
    page, parsed = usual()
    # What is packed is letters of base64, and may look like anything.
    ours = re.sub(r'"bdata":"[^"]*"|sha256-[\w+/=]*', "", page.replace(library().packed, ""))
    assert len(ours) < len(page) - len(library().packed)
    assert not re.search(r"https?:|//[a-z]|@import|\bsrc\s*=|@font-face|url\((?!#)", ours, re.IGNORECASE)
    for tag, attributes in parsed.elements:
        assert tag not in {
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
            "video",
            "audio",
            "image",
            "foreignobject",
        }
        target = attributes.get("href")
        assert target is None or target == "data:," or target.startswith("#"), attributes
        assert not any(name.startswith("on") or name == "style" for name in attributes), attributes
    (policy,) = parsed.find("meta", http_equiv="Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in (policy["content"] or "").split(";"))
    assert rules["default-src"] == rules["form-action"] == rules["base-uri"] == "'none'"
    assert "unsafe" not in str(rules)
    assert rules["script-src"].startswith("'sha256-")
    assert [given.get("type") for given in parsed.find("script")] == ["application/gzip", "application/json", None]
    assert len(parsed.find("style")) == 2


def test_ids_are_unique_and_every_reference_has_its_target() -> None:
    page, parsed = usual()
    ids = [given["id"] for _, given in parsed.elements if "id" in given]
    assert len(ids) == len(set(ids))
    references = re.findall(r'href="#([^"]*)"|aria-(?:labelledby|describedby)="([^"]*)"', page)
    assert references
    assert {one or two for one, two in references} <= set(ids)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_of_strangers_is_text_wherever_it_stands(hostile: str) -> None:
    value = vanishing(("plain", hostile))
    value |= {"source": hostile, "stream": hostile, "digest": hostile, "ended_early": hostile, "window": [hostile]}
    value["model"] |= {"features": [hostile, "width"], "kind": hostile, "refusal": hostile}
    value["rejections"] = {"counts": {hostile: 1}, "first": [{"line": 1, "kind": hostile, "reason": hostile}]}
    value["outcomes"] = {hostile: 3}
    value["settings"] = {hostile: {hostile: [hostile]}}
    page, parsed = page_of(value)
    shown = re.sub("[\x00-\x08\ud800]", "\N{REPLACEMENT CHARACTER}", hostile)
    for tag in ("td", "th", "dt", "code", "p", "h2", "title"):
        # The name of a file ends the path of a source, which is what title and head show of it.
        assert (re.split(r"[\\/]", shown)[-1] if tag == "title" else shown) in parsed.text(tag), tag
    assert {tag for tag, _ in parsed.elements} == {tag for tag, _ in usual()[1].elements}
    assert len(parsed.find("script")) == 3
    assert len(parsed.find("style")) == 2
    assert not any(name.startswith("on") for _, given in parsed.elements for name in given)
    assert "\x00" not in page
    page.encode("utf-8")


@pytest.mark.parametrize("label", ["$\\alpha$", "#0068a8", "_a", "<b>bold</b> & co"])
def test_a_label_that_looks_like_a_colour_a_formula_or_a_tag_is_text_in_a_picture(label: str) -> None:
    _, parsed = page_of(vanishing(("plain", label)))
    assert label in parsed.text("li")
    figures = drawn(parsed)
    assert {html.unescape(trace["name"]) for trace in figures["recall"]["data"]} == {"plain", label}
    ticks = [tick.replace("<br>", "") for tick in figures["confusion"]["layout"]["xaxis"]["ticktext"]]
    assert html.escape(label, quote=False) in ticks


def test_lines_break_where_a_class_has_vanished_and_are_never_drawn_as_zero_or_one() -> None:
    figures = drawn(usual()[1])
    for chart, place in (("gmean", 1), ("recall", 1), ("counts", 1), ("imbalance", 0)):
        line = figures[chart]["data"][place]
        there = np.isfinite(values_of(line))
        assert there.tolist() == [not 10 <= at < 20 for at in range(30)], chart
        assert line["connectgaps"] is False
    assert np.isfinite(values_of(figures["recall"]["data"][0])).all()
    assert [(shape["x0"], shape["x1"]) for shape in figures["gmean"]["layout"]["shapes"]] == [(1000.0, 2000.0)]


def test_a_vanished_class_is_a_dash_in_the_tables() -> None:
    run = run_of(vanishing(), "test")
    for chart in charts_of(run):
        if chart.name in {"gmean", "imbalance"}:
            assert [row[2] for row in chart.table.body] == [
                "–" if 10 <= at < 20 else row[2] for at, row in enumerate(chart.table.body)
            ]
            assert sum(row[2] == "–" for row in chart.table.body) == 10
    counts = next(chart for chart in charts_of(run) if chart.name == "counts").table
    assert [row[3] == "–" for row in counts.body] == [10 <= at < 20 for at in range(30)]


def test_a_value_between_two_gaps_is_a_dot_and_is_not_lost() -> None:
    counts = {"no": 60, "yes": 40}
    spans = [span(at, counts, {"no": 0.8, "yes": 0.7} if at == 5 else {"no": 0.8}) for at in range(10)]
    line = drawn(page_of(summary(spans))[1])["recall"]["data"][1]
    sizes = np.frombuffer(base64.b64decode(line["marker"]["size"]["bdata"]), dtype=line["marker"]["size"]["dtype"])
    assert np.flatnonzero(sizes).tolist() == [5]
    assert line["mode"] == "lines+markers"


def test_gmean_of_one_class_alone_is_not_drawn() -> None:
    lone = span(3, {"no": 60, "yes": 40}, {"no": 1.0}) | {
        "gmean": 1.0,
        "lately": {"gmean": 1.0, "recalls": {"no": 1.0}},
    }
    both = span(4, {"no": 60, "yes": 40}, {"no": 0.81, "yes": 0.64})
    run = run_of(summary([lone, both], positive=None), "test")
    for lately in (True, False):
        first, second = gmeans(run, lately=lately).tolist()
        assert math.isnan(first)
        assert second == pytest.approx(0.72)


def test_the_part_where_a_class_has_vanished_is_known() -> None:
    assert vanished(run_of(vanishing(), "test")) == ((1000.0, 2000.0),)


def test_a_stream_without_event_times_has_no_dates() -> None:
    value = vanishing()
    for point in value["series"]:
        point["watermark"] = 0
    _, parsed = page_of(value)
    assert "event time" not in parsed.text("th")
    assert "1970" not in parsed.text()


@pytest.mark.parametrize("classes", [1, 2, 5, 40])
def test_any_number_of_classes_has_a_report_of_bounded_size(classes: int) -> None:
    labels = [f"class {at}" for at in range(classes)]
    counts = {label: 5 + at for at, label in enumerate(labels)}
    spans = [
        span(
            at,
            counts,
            dict.fromkeys(labels, 0.9),
            weights=[[0.1 * at, 1.0]] * classes,
            weights_of=labels,
            sigmas=dict.fromkeys(labels, 0.5),
        )
        for at in range(400)
    ]
    page, parsed = page_of(summary(spans, labels, positive=None))
    assert len(page) < 5_000_000
    assert ("of 40 classes" in parsed.text("p")) == (classes == 40)
    assert ("all other classes" in parsed.text("th")) == (classes == 40)


def test_a_run_without_points_has_a_page() -> None:
    _, parsed = page_of(summary([]))
    assert [given["id"] for given in parsed.find("figure")] == ["chart-confusion"]


def test_the_same_run_has_the_same_page() -> None:
    assert page_of(vanishing())[0] == usual()[0]


# Names ---------------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=60), unique=True), st.integers(12, 60))
def test_names_that_differ_stay_different_on_one_line_of_bounded_length(names: list[str], most: int) -> None:
    shown = short_names(names, most)
    assert list(shown) == names
    assert all(len(short) <= most and short.isprintable() for short in shown.values())
    assert len(set(shown.values())) == len(names)
    assert all(shown[name] == name for name in names if len(name) <= most and name.isprintable() and "…" not in name)


def test_long_names_that_begin_alike_are_told_apart_everywhere() -> None:
    labels = [f"a class with quite a long name, {at}" for at in range(5)]
    value = vanishing(labels)
    for point in value["series"]:
        point |= {"weights": [[0.5, 1.0]] * 5, "weights_of": labels}
    figures = drawn(page_of(value)[1])
    titles = [note["text"] for note in figures["recall"]["layout"]["annotations"]]
    assert titles == labels
    ticks = figures["confusion"]["layout"]["xaxis"]["ticktext"]
    assert [tick.replace("<br>", "") for tick in ticks] == labels
    assert len(set(figures["confusion"]["narrow"][0][1]["xaxis"]["ticktext"])) == 5


# Weights -------------------------------------------------------------------------------------------------------------


def weighted(deviations: list[float] | None, **changed: Any) -> dict[str, Any]:
    """Three points with the raw weights (0.001, 10) of height and width."""
    counts, recalls = {"no": 60, "yes": 40}, {"no": 0.8, "yes": 0.7}
    weights = {"weights": [[0.001, -10.0]], "weights_of": ["yes"], "deviations": deviations}
    return summary([span(at, counts, recalls, **weights) for at in range(3)], **changed)


def test_weights_are_ranked_in_units_in_which_they_can_be_compared() -> None:
    _, parsed = page_of(weighted([20_000.0, 0.01]))
    figure = drawn(parsed)["weights"]
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["height", "width"]
    assert [values_of(trace)[-1] for trace in figure["data"]] == [20.0, -0.1]
    assert figure["layout"]["yaxis"]["range"] == figure["layout"]["yaxis2"]["range"]
    assert "Standardized" in parsed.text("p")
    text = parsed.text("td", "th")
    assert text.index("height") < text.index("width")
    for cell in ("20", "-0.1000", "20,000", "0.0010", "-10"):
        assert cell in text.split("\n"), cell


def test_a_peak_does_not_flatten_all_other_weights_and_is_said_to_reach_out() -> None:
    value = weighted([1.0, 1.0])
    value["series"] = [span(at, {"no": 6, "yes": 4}, {}, weights=[[0.5, -0.25 * (at % 5)]]) for at in range(300)]
    assert drawn(page_of(value)[1])["weights"]["layout"]["yaxis"]["range"][1] < 1.5
    before = page_of(value)[1].text("p")
    value["series"][100]["weights"] = [[70.0, 0.0]]
    _, parsed = page_of(value)
    assert drawn(parsed)["weights"]["layout"]["yaxis"]["range"][1] < 1.5
    assert "140" in parsed.text("td"), "the table has it"
    assert "reach beyond their strip" in parsed.text("p")
    assert "reach beyond their strip" not in before


def test_weights_of_a_run_that_tells_no_deviations_are_raw_and_said_to_be() -> None:
    value = weighted(None)
    del value["series"][0]["deviations"]
    _, parsed = page_of(value)
    figure = drawn(parsed)["weights"]
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["width", "height"]
    assert figure["layout"]["yaxis"]["range"] != figure["layout"]["yaxis2"]["range"]
    assert "In raw units" in parsed.text("p")
    assert "raw weight" in parsed.text("th")


def test_with_five_classes_the_weights_show_five() -> None:
    labels = [f"class {at}" for at in range(5)]
    point = span(0, dict.fromkeys(labels, 9), dict.fromkeys(labels, 0.9), deviations=[1.0, 2.0])
    point |= {"weights": [[0.1 * at, 1.0] for at in range(5)], "weights_of": labels}
    _, parsed = page_of(summary([point], labels, positive=None))
    assert {trace["name"] for trace in drawn(parsed)["weights"]["data"]} == set(labels)
    assert "weight, class 4" in parsed.text("th")


# Words ---------------------------------------------------------------------------------------------------------------


def test_the_first_date_is_that_of_the_first_row() -> None:
    _, parsed = page_of(vanishing() | {"first_event_time": 1_703_000_000_000})
    assert "2023-12-19 to" in parsed.text("p")


@pytest.mark.parametrize(
    ("name", "words"), [("stream", " · "), ("streams", "streams ·"), ("electricity", "stream electricity ·")]
)
def test_the_stream_is_named_once(name: str, words: str) -> None:
    text = page_of(summary([], stream=name))[1].text("p")
    assert words in text
    assert "stream stream" not in text


def test_a_verified_run_without_a_plane_is_not_said_to_have_weights() -> None:
    value = summary([], verified=True)
    assert "same weights" not in page_of(value)[1].text()
    assert "there is no plane" in page_of(value)[1].text()
    assert "same weights" in usual()[1].text()
