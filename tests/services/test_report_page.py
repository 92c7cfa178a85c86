"""The replay report: what is on the page, what is not, and that nothing of a stranger's can do anything there."""

from __future__ import annotations

import functools
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from deltaplane_services.observe.report.charts import charts_of, gmeans, vanished
from deltaplane_services.observe.report.page import run_page
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


def strokes(page: str, chart: str, frame: str, colour: str) -> list[str]:
    """Paths of lines in a picture, in one colour; a path that begins anew (M) has a gap before it."""
    (svg,) = re.findall(rf'<svg[^>]*aria-labelledby="title-{chart}"[^>]*class="{frame}".*?</svg>', page, re.DOTALL) or (
        re.findall(rf'<svg[^>]*class="{frame}"[^>]*aria-labelledby="title-{chart}".*?</svg>', page, re.DOTALL)
    )
    paths = re.findall(r"<path([^>]*)>", svg)
    return [
        found.group(1)
        for path in paths
        if f'stroke="var(--{colour})"' in path and "clip-path" in path and (found := re.search(r' d="([^"]*)"', path))
    ]


def test_every_picture_is_there_in_both_widths_with_its_name_its_note_and_its_table() -> None:
    _, parsed = usual()
    for name in CHARTS:
        assert len(parsed.find("figure", id=f"chart-{name}")) == 1
        assert len(parsed.find("h2", id=f"title-{name}")) == 1
        assert len(parsed.find("p", id=f"note-{name}")) == 1
        for frame in ("wide", "narrow"):
            drawn = parsed.find("svg", class_=frame, aria_labelledby=f"title-{name}", role="img")
            assert len(drawn) == 1, (name, frame)
    assert len(parsed.find("table")) == len(CHARTS) + 3
    assert len(parsed.find("tr", data_row="1500")) == len(CHARTS) - 1


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
    assert not re.search(r"https?:|//[a-z]|@import|\bsrc\s*=|@font-face|url\((?!#)", page, re.IGNORECASE)
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
    assert len(parsed.find("script")) == len(parsed.find("style")) == 1


def test_ids_are_unique_and_every_reference_has_its_target() -> None:
    page, parsed = usual()
    ids = [given["id"] for _, given in parsed.elements if "id" in given]
    assert len(ids) == len(set(ids))
    references = re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"|aria-(?:labelledby|describedby)="([^"]*)"', page)
    assert references
    assert {one or two or three for one, two, three in references} <= set(ids)


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
    assert len(parsed.find("script")) == len(parsed.find("style")) == 1
    assert not any(name.startswith("on") for _, given in parsed.elements for name in given)
    assert "\x00" not in page
    page.encode("utf-8")


def test_a_label_that_looks_like_a_colour_or_a_formula_stays_as_it_is_in_a_picture() -> None:
    _, parsed = page_of(vanishing(("$\\alpha$", "#0068a8")))
    pictured = parsed.text("text")
    assert "$\\alpha$" in pictured
    assert "#0068a8" in pictured


def test_a_label_with_an_underscore_at_its_head_has_a_place_in_the_legend() -> None:
    _, parsed = page_of(vanishing(("_a", "_b")))
    assert {"_a", "_b"} <= {text.strip() for tag, text in parsed.texts if tag == "text"}


@pytest.mark.parametrize("frame", ["wide", "narrow"])
def test_lines_break_where_a_class_has_vanished_and_are_never_drawn_as_zero_or_one(frame: str) -> None:
    page, _ = usual()
    for chart, colour in (("gmean", "line1"), ("recall", "line2"), ("counts", "line2"), ("imbalance", "ink")):
        drawn = strokes(page, chart, frame, colour)
        assert drawn, chart
        for path in drawn:
            assert path.count("M") == 2, (chart, path)
    (steady,) = strokes(page, "recall", frame, "line1")
    assert steady.count("M") == 1


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
    _, parsed = page_of(summary(spans))
    assert any(tag == "use" for tag, _ in parsed.elements), "a marker is drawn by reference"


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
    assert vanished(run_of(vanishing(), "test")) == [(1000.0, 2000.0)]


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
    assert len(page) < 4_000_000
    assert ("of 40 classes" in parsed.text("p")) == (classes == 40)
    assert ("all other classes" in parsed.text("th")) == (classes == 40)


def test_a_run_without_points_has_a_page() -> None:
    _, parsed = page_of(summary([]))
    assert [given["id"] for given in parsed.find("figure")] == ["chart-confusion"]


def test_the_same_run_has_the_same_page() -> None:
    assert page_of(vanishing())[0] == usual()[0]
