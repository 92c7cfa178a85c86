"""The page of one run."""

from __future__ import annotations

import math
from collections.abc import Iterable

from deltaplane_services.observe.report.canvas import NARROW, WIDE, Frame, short, time_text
from deltaplane_services.observe.report.charts import MOST_CLASSES, Chart, axis_of, charts_of
from deltaplane_services.observe.report.elements import Element, document, element, table
from deltaplane_services.observe.report.record import Run
from deltaplane_services.observe.report.svg import inline_svg
from deltaplane_services.observe.report.value_tables import cell, outcomes_table, rejections_table, settings_table

__all__ = ["figure", "header", "run_page"]


def run_page(run: Run) -> str:
    """Everything about one replay as one HTML file that needs nothing besides."""
    charts = charts_of(run)
    axis = axis_of(run) if run.spans else None
    ends = (axis.first, axis.last) if axis is not None else (0.0, 0.0)
    along = [figure(chart, *ends) for chart in charts if chart.along_stream]
    others = [figure(chart, *ends) for chart in charts if not chart.along_stream]
    return document(
        f"{_file_name(run.source)} – Deltaplane replay",
        header("Deltaplane replay", _file_name(run.source), _about(run)),
        element(
            "main",
            _verdict(run),
            _notices(run),
            _tiles(run),
            along,
            _counts(run, others),
            _refused(run),
            _settings(run),
        ),
    )


def header(kind: str, title: str, about: str) -> Element:
    """The head of a page, with the button that changes between light and dark."""
    words = element("div", element("p", kind, class_="kind"), element("h1", title), element("p", about, class_="about"))
    button = element("button", "Dark", class_="theme", type="button", hidden=True, aria_label="Change to light or dark")
    return element("header", words, button, class_="top")


def figure(chart: Chart, first: float, last: float) -> Element:
    """A picture in its wide and its narrow form, of which one is shown, its note, and its table."""
    readout = element("output", class_="readout") if chart.along_stream else None
    note = element("p", chart.note, class_="note", id=f"note-{chart.name}")
    caption = element("figcaption", element("h2", chart.title, id=f"title-{chart.name}"), readout, note)
    plot = element("div", [_drawn(chart, frame) for frame in (WIDE, NARROW)], class_="plot")
    if chart.along_stream:
        plot.append(element("span", class_="cross", hidden=True))
        plot.set("tabindex", "0")
        plot.set("role", "group")
        plot.set("aria-label", f"{chart.title}: arrow keys move along the stream")
    values = element(
        "details",
        element("summary", "The values as a table"),
        table(chart.table, name=f"{chart.title}, values", low=not chart.along_stream),
    )
    return element(
        "figure",
        caption,
        plot,
        values,
        class_="card along" if chart.along_stream else "card",
        id=f"chart-{chart.name}",
        data_first=f"{first:.0f}" if chart.along_stream else None,
        data_last=f"{last:.0f}" if chart.along_stream else None,
    )


def _drawn(chart: Chart, frame: Frame) -> Element:
    svg = inline_svg(chart.draw, frame, f"{chart.name}-{frame.name}")
    svg.set("class", frame.name)
    svg.set("role", "img")
    svg.set("aria-labelledby", f"title-{chart.name}")
    svg.set("aria-describedby", f"note-{chart.name}")
    svg.set("data-left", f"{frame.left / frame.width:.6f}")
    svg.set("data-right", f"{1.0 - frame.right / frame.width:.6f}")
    return svg


def _file_name(source: str) -> str:
    return source.replace("\\", "/").rstrip("/").rpartition("/")[2] or source


def _about(run: Run) -> str:
    parts = [f"stream {run.stream}", f"{run.rows:,} rows", f"{len(run.features):,} features"]
    parts += [f"window {', '.join(run.windows)}", f"{sum(run.counts.values()):,} rows live"]
    if run.has_times:
        known = [span.time_milliseconds for span in run.spans if span.time_milliseconds is not None]
        parts.append(f"{time_text(known[0])[:10]} to {time_text(known[-1])[:10]}")
    return " · ".join(parts)


def _verdict(run: Run) -> Element:
    word, kind, why = {
        True: ("✓ verified", "good", "refitted from the live rows alone: same digest, same weights, bit for bit"),
        False: ("✗ NOT verified", "bad", "a fit of the live rows from scratch differs; please report this"),
        None: ("not verified", "", "replay with --verify to have it proved"),
    }[run.verified]
    return element(
        "section",
        element("strong", word, class_=kind or None),
        element("span", why),
        element("code", f"digest {run.digest}"),
        class_="card verdict",
        aria_label="Verification",
    )


def _notices(run: Run) -> Iterable[Element]:
    refusal = run.model.get("refusal")
    if run.ended_early is not None:
        yield element("p", element("strong", "Ended early: "), run.ended_early, class_="card notice")
    if refusal:
        yield element("p", element("strong", "The last good plane is shown: "), str(refusal), class_="card notice")
    for text in run.warnings:
        yield element("p", element("strong", "Warning: "), text, class_="card notice")
    for text in run.notes:
        yield element("p", element("strong", "Note: "), text, class_="card")
    if run.positive_chosen:
        why = f"{run.positive}, the rarer one, was chosen; --positive names another"
        yield element("p", element("strong", "Positive class: "), why, class_="card")


def _tiles(run: Run) -> Element:
    measures = run.measures
    tiles = [("G-mean", cell(measures["gmean"]))]
    if run.positive is not None:
        tiles += [(f"sensitivity ({run.positive})", cell(measures["sensitivity"]))]
        tiles += [("specificity", cell(measures["specificity"])), ("F-measure", cell(measures["f_measure"]))]
        tiles += [("relative sensitivity", cell(measures["relative_sensitivity"]))]
    tiles += [("accuracy", cell(measures["accuracy"])), ("imbalance ratio", cell(run.imbalance_ratio, 2))]
    tiles += [("rows scored", f"{run.scored:,}")]
    rate = f"{short(run.rows_per_second)} rows/s" if math.isfinite(run.rows_per_second) else "–"
    tiles += [("throughput", rate), ("time", f"{cell(run.seconds, 2)} s")]
    tiles += [("retired", f"{run.outcomes.get('retirements retired', 0):,}"), ("refused", f"{run.rejected:,}")]
    if run.thinned:
        tiles.append(("thinned out", f"{run.thinned:,}"))
    boxes = [
        element("div", element("dt", name), element("dd", value), class_=None if at else "main")
        for at, (name, value) in enumerate(tiles)
    ]
    return element("dl", boxes, class_="tiles")


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
    return element("section", element("h2", f"Refused rows: {kinds}{first}"), rows, class_="card", id="refused")


def _settings(run: Run) -> Element:
    settings = table(settings_table(run), name="Settings", text=True, low=True)
    return element("section", element("h2", "Settings"), settings, class_="card")
