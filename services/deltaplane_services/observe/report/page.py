"""The page of one run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from deltaplane_services.observe.report.baselines import baselines_table, top_table
from deltaplane_services.observe.report.changes import changes_of
from deltaplane_services.observe.report.charts import MOST_CLASSES, charts_of
from deltaplane_services.observe.report.elements import Element, document, element, table
from deltaplane_services.observe.report.labels import how_late, time_text
from deltaplane_services.observe.report.pictures import Chart, Line
from deltaplane_services.observe.report.plotly_figures import figure_of, narrow_layouts
from deltaplane_services.observe.report.record import Run
from deltaplane_services.observe.report.tiles import tiles_of
from deltaplane_services.observe.report.value_tables import (
    outcomes_table,
    refusal_reasons_table,
    rejections_table,
    settings_table,
)
from deltaplane_services.observe.report.weights import Weights

__all__ = ["figure", "figures", "header", "run_page"]


def run_page(run: Run) -> str:
    """Everything about one replay as one HTML file that needs nothing besides."""
    charts = charts_of(run)
    along = [figure(chart) for chart in charts if chart.panels]
    others = [figure(chart) for chart in charts if not chart.panels]
    return document(
        f"{_file_name(run.source)} – Deltaplane replay",
        figures(charts),
        header("Deltaplane replay", _file_name(run.source), _about(run)),
        element(
            "main",
            _verdict(run),
            _notices(run),
            tiles_of(run),
            _against(run),
            _top(run),
            changes_of(run),
            along,
            _last_weights(run),
            _counts(run, others),
            _refused(run),
            _settings(run),
        ),
    )


def figures(charts: Sequence[Chart]) -> dict[str, Any]:
    """What the page's script draws, by the id of the element: Plotly's figures, and the event times along a stream."""
    drawn = {}
    for chart in charts:
        times = None if chart.axis is None else chart.axis.times_milliseconds
        figure_as_json = json.loads(figure_of(chart).to_json())
        drawn[f"plot-{chart.name}"] = figure_as_json | {
            "rows": None if times is None or chart.axis is None else chart.axis.rows.tolist(),
            "times": None if times is None else times.tolist(),
            "narrow": narrow_layouts(chart, figure_as_json["layout"]),
        }
    return drawn


def header(kind: str, title: str, about: str) -> Element:
    """The head of a page, with the button that changes between light and dark."""
    words = element("div", element("p", kind, class_="kind"), element("h1", title), element("p", about, class_="about"))
    button = element("button", "Dark", class_="theme", type="button", hidden=True, aria_label="Change to light or dark")
    return element("header", words, button, class_="top")


def figure(chart: Chart) -> Element:
    """The place that a picture is drawn in, with its note, its legend and its table."""
    note = element("p", chart.note, class_="note", id=f"note-{chart.name}")
    caption = element("figcaption", element("h2", chart.title, id=f"title-{chart.name}"), note)
    described = {"aria_labelledby": f"title-{chart.name}", "aria_describedby": f"note-{chart.name}"}
    plot = element("div", id=f"plot-{chart.name}", class_="plot", role="img", **described)
    if chart.panels:
        keys = f"{chart.title}: arrow keys move along the stream"
        plot = element("div", plot, class_="keys", tabindex="0", role="group", aria_label=keys)
    values = element(
        "details",
        element("summary", "The values as a table"),
        table(chart.table, name=f"{chart.title}, values", low=not chart.panels),
    )
    # The point that the arrow keys have reached, read aloud by screen readers.
    said = element("output", class_="said") if chart.panels else None
    kind = "card along" if chart.panels else "card"
    return element("figure", caption, _legend(chart.legend), plot, said, values, class_=kind, id=f"chart-{chart.name}")


def _legend(lines: Sequence[Line]) -> Element | None:
    """Every name whole, beside a piece of its line."""
    return (
        element("ul", (element("li", _sample(line), line.name) for line in lines), class_="legend") if lines else None
    )


def _sample(line: Line) -> Element:
    pen = {
        "stroke": f"var(--{line.ink.colour})",
        "stroke_width": f"{line.width:g}",
        "stroke_opacity": f"{line.opacity:g}",
    }
    dashes = " ".join(f"{length:g}" for length in line.ink.dashes) or None
    drawn = element("line", x1="0", x2="28", y1="5", y2="5", stroke_dasharray=dashes, **pen)
    return element("svg", drawn, width="28", height="10", aria_hidden="true")


def _last_weights(run: Run) -> Element | None:
    if not any(span.weights for span in run.spans):
        return None
    weights = Weights(run, MOST_CLASSES)
    how = "weights" if weights.standardized else "raw weights"
    note = f"Of the last plane, sorted by the size of their {how}; above zero a feature speaks for the class."
    shown, number = len(weights.last_table.body), len(run.features)
    note += f" The first {shown} of {number:,} features." if shown < number else ""
    content = table(weights.last_table, name="Weights of the last plane")
    return element(
        "section", element("h2", "Weights at the end"), element("p", note, class_="note"), content, class_="card"
    )


def _file_name(source: str) -> str:
    return source.replace("\\", "/").rstrip("/").rpartition("/")[2] or source


def _about(run: Run) -> str:
    # A stream that nobody has named is called "stream", which needs no word before it.
    named = run.stream if run.stream.startswith("stream") else f"stream {run.stream}"
    parts = [named, f"{run.rows:,} rows", f"{len(run.features):,} features"]
    parts += [f"window {', '.join(run.windows)}", f"{sum(run.counts.values()):,} rows live"]
    parts += [] if run.label_delay is None else [f"labels {how_late(run.label_delay)}"]
    if run.has_times:
        known = [span.time_milliseconds for span in run.spans if span.time_milliseconds is not None]
        first = known[0] if run.first_time_milliseconds is None else run.first_time_milliseconds
        parts.append(f"{time_text(first)[:10]} to {time_text(known[-1])[:10]}")
    return " · ".join(parts)


def _verdict(run: Run) -> Element:
    same = (
        "same digest, same weights, bit for bit" if run.has_plane else "same digest, bit for bit; there is no plane yet"
    )
    word, kind, why = {
        True: ("✓ verified", "good", f"refitted from the live rows alone: {same}"),
        False: ("✗ NOT verified", "bad", "a fit of the live rows from scratch differs; please report this"),
        None: ("not verified", "", "replay with --verify to have it proved"),
    }[run.verified]
    return element(
        "section",
        element("strong", word, class_=kind or None),
        element("span", why),
        element("code", f"digest {run.digest}"),
        element("small", "fingerprint of the exact sums behind the model: the same live rows, the same digest"),
        class_="card verdict",
        aria_label="Verification",
    )


def _notices(run: Run) -> Iterable[Element]:
    refusal, unmet = run.model.get("refusal"), run.objective.get("unmet")
    if run.ended_early is not None:
        yield element("p", element("strong", "Ended early: "), run.ended_early, class_="card notice")
    if refusal:
        yield element("p", element("strong", "The last good plane is shown: "), str(refusal), class_="card notice")
    for text in (*run.warnings, *run.cautions):
        yield element("p", element("strong", "Warning: "), text, class_="card notice")
    for text in run.notes:
        yield element("p", element("strong", "Note: "), text, class_="card")
    if unmet:
        yield element("p", element("strong", "Not within bounds: "), str(unmet), class_="card notice")


def _against(run: Run) -> Element | None:
    """What the same rows score without a model that goes on learning, beside the model."""
    if not run.baselines:
        return None
    note = (
        f"On the same rows: the most frequent class so far; {_last_label(run)}; and the plane of the first"
        f" {_frozen_rows(run)} rows, never learned on since. A model is worth what it is better by. Below its figures"
        " stand the ends between which they lie with 95 %, from the rows of each class (Wilson) as if each were alone."
    )
    content = table(baselines_table(run), name="The model and what it is held against", low=True)
    return element(
        "section",
        element("h2", "Held against"),
        element("p", note, class_="note"),
        content,
        class_="card",
        id="against",
    )


def _last_label(run: Run) -> str:
    if run.label_delay is None:
        return "the class of the row before (labels came with their rows here; --label-delay has them come late)"
    return f"the last label that had come when the row did, as labels came {how_late(run.label_delay)}"


def _frozen_rows(run: Run) -> str:
    at = run.baselines.get("frozen", {}).get("frozen_at", math.nan)
    return f"{at:,.0f}" if math.isfinite(at) else "…"


def _top(run: Run) -> Element | None:
    if not run.top:
        return None
    note = (
        f"Of the rows with the highest scores for {run.positive!r}: the share that is of it (precision), how many times"
        " that is its share among all rows (lift), and how much of it is found so (recall)."
    )
    content = table(top_table(run), name="Rows with the highest scores", low=True)
    return element(
        "section", element("h2", "At the top"), element("p", note, class_="note"), content, class_="card", id="top"
    )


def _counts(run: Run, beside: list[Element]) -> Element:
    outcomes = element("section", element("h2", "Samples and retirements"), class_="card")
    outcomes.append(table(outcomes_table(run), name="Outcomes of samples and retirements", low=True))
    # A large matrix needs all the width.
    large = len(run.classes) > MOST_CLASSES // 2
    return element("div", beside, outcomes, class_="pair stacked" if large else "pair")


def _refused(run: Run) -> Element | None:
    if not run.rejected:
        return None
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in run.rejected_by_kind.items())
    shown = len(run.rejections)
    first = f"; the first {shown}" if shown < run.rejected else ""
    rows = table(rejections_table(run), name="Refused rows", text=True)
    if not run.refusal_reasons:
        return element("section", element("h2", f"Refused rows: {kinds}{first}"), rows, class_="card", id="refused")
    reasons = table(refusal_reasons_table(run), name="Refused rows by reason", text=True)
    each = element("details", element("summary", f"The first {shown} one by one"), rows)
    return element("section", element("h2", f"Refused rows: {kinds}"), reasons, each, class_="card", id="refused")


def _settings(run: Run) -> Element:
    settings = table(settings_table(run), name="Settings", text=True, low=True)
    return element("section", element("h2", "Settings"), settings, class_="card")
