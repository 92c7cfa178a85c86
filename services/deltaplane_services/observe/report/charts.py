"""The pictures of one run, each with the same values as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from deltaplane.arrays import Floats
from deltaplane_services.observe.report.canvas import (
    Axis,
    Frame,
    Line,
    class_column,
    column,
    mark_spans,
    scale_counts,
    short,
    stream_axes,
    strips,
    time_text,
)
from deltaplane_services.observe.report.matrix import draw_matrix, matrix_table
from deltaplane_services.observe.report.record import Run
from deltaplane_services.observe.report.style import Ink, inks, light
from deltaplane_services.observe.report.value_tables import Table, cell

__all__ = [
    "CLASSES_IN_ONE_PLOT",
    "MOST_CLASSES",
    "MOST_FEATURES",
    "SHARE_OF",
    "Chart",
    "axis_of",
    "charts_of",
    "gmeans",
    "stream_table",
    "vanished",
]

MOST_CLASSES = 12
"""Classes that pictures show; the others are in the JSON."""

CLASSES_IN_ONE_PLOT = 4
"""Above this, recalls are drawn in a strip for each class: lines that cross all the time cannot be told apart."""

MOST_FEATURES = 8


@dataclass(frozen=True)
class Chart:
    """One picture: ``draw`` makes the figure for a width, ``along_stream`` says whether x is the rows of the stream."""

    name: str
    title: str
    note: str
    table: Table
    draw: Callable[[Frame], Figure]
    along_stream: bool = True


def charts_of(run: Run) -> list[Chart]:
    """All pictures that a run has something to show in."""
    charts = []
    if run.spans:
        shown = run.main_classes(MOST_CLASSES)
        charts += [_gmean(run), _recalls(run, shown), _imbalance(run), _counts(run, shown)]
        if any(span.sigmas for span in run.spans):
            charts.append(_sigmas(run, shown))
        if any(span.blend for span in run.spans):
            charts.append(_blend(run))
        if any(span.weights for span in run.spans):
            charts.append(_weights(run))
    if run.confusion:
        charts.append(_confusion(run))
    return charts


def axis_of(run: Run) -> Axis:
    """The x axis of a run's pictures: the rows at the end of every span."""
    times = None
    if run.has_times:
        times = column([math.nan if span.time_milliseconds is None else span.time_milliseconds for span in run.spans])
        known = np.isfinite(times)
        times = np.interp(np.arange(len(times)), np.flatnonzero(known), times[known])
    rows = column([span.rows_to for span in run.spans])
    return Axis(rows, times, float(run.spans[0].rows_from), float(rows[-1]))


def gmeans(run: Run, *, lately: bool) -> Floats:
    """G-means of the spans. With one class in the truth there is nothing between classes to measure: a gap."""
    return column(
        [
            value if len(recalls) > 1 else math.nan
            for value, recalls in (
                (span.lately_gmean, span.lately_recalls) if lately else (span.gmean, span.recalls) for span in run.spans
            )
        ]
    )


def stream_table(run: Run, columns: dict[str, Floats]) -> Table:
    """Columns along the stream: the rows, the time where there is one, and the values."""
    head = ("rows", *(("event time",) if run.has_times else ()), *columns)
    body = []
    for at, span in enumerate(run.spans):
        first = (f"{span.rows_to:,}", *((time_text(span.time_milliseconds),) if run.has_times else ()))
        body.append((*first, *(cell(values[at]) for values in columns.values())))
    return Table(head, tuple(body), keys=tuple(span.rows_to for span in run.spans))


def _gmean(run: Run) -> Chart:
    axis, one, lately = axis_of(run), gmeans(run, lately=False), gmeans(run, lately=True)
    overall = run.measures["gmean"]
    lines = [Line("each span of rows", one, Ink(light("line1"), ()), width=0.9, opacity=0.5)]
    lines += [Line("lately", lately, Ink(light("line1"), ()), width=2.2)]
    if math.isfinite(overall):
        whole = np.full(len(axis.rows), overall)
        lines += [Line(f"all rows: {overall:.4f}", whole, Ink(light("line2"), (5.0, 3.0)), width=1.4)]

    def draw(frame: Frame) -> Figure:
        figure, axes = stream_axes(frame, axis, 230, lines)
        axes.set_ylim(-0.02, 1.02)
        mark_spans(axes, vanished(run))
        return figure

    note = (
        "Test, then train: every row is scored by the model that existed before it. 'Lately' is over the last fortieth"
        " of the spans. The line breaks where a class has no rows to be scored; shaded: a class has no live rows."
    )
    return Chart("gmean", "G-mean", note, stream_table(run, {"lately": lately, "this span": one}), draw)


def _recalls(run: Run, shown: Sequence[str]) -> Chart:
    axis, pens = axis_of(run), inks(shown)
    tables = [span.lately_recalls for span in run.spans]
    values = {label: class_column(tables, label) for label in shown}

    def draw(frame: Frame) -> Figure:
        if len(shown) <= CLASSES_IN_ONE_PLOT:
            figure, axes = stream_axes(frame, axis, 200, [Line(label, values[label], pens[label]) for label in shown])
            axes.set_ylim(-0.02, 1.02)
            mark_spans(axes, vanished(run))
            return figure
        rows = [(label, [Line("", values[label], Ink(light("line1"), ()), width=1.7)]) for label in shown]
        figure, every = strips(frame, axis, 42, rows)
        for axes, label in zip(every, shown, strict=True):
            axes.set_ylim(-0.06, 1.06)
            axes.set_yticks([0, 0.5, 1], ["0", "", "1"])
            axes.fill_between(axis.rows, values[label], 0.0, color=light("line1"), alpha=0.13, linewidth=0)
        return figure

    left_out = _left_out(run, shown)
    note = f"Share predicted right of each class, lately.{left_out} The line breaks where a class has no rows."
    return Chart("recall", "Recall by class", note, stream_table(run, values), draw)


def _imbalance(run: Run) -> Chart:
    axis, values = axis_of(run), column([span.imbalance_ratio for span in run.spans])

    def draw(frame: Frame) -> Figure:
        figure, axes = stream_axes(frame, axis, 110, [Line("", values, Ink(light("ink"), ()), width=1.6)])
        scale_counts(axes, frame, [values], lowest=1.0)
        mark_spans(axes, vanished(run))
        return figure

    note = "Live rows of the largest class over those of the smallest that has any; 1 is balanced."
    return Chart("imbalance", "Imbalance ratio", note, stream_table(run, {"imbalance ratio": values}), draw)


def _counts(run: Run, shown: Sequence[str]) -> Chart:
    axis, pens = axis_of(run), inks(shown)
    tables = [span.counts for span in run.spans]
    values = {label: class_column(tables, label, zero_is_gap=True) for label in shown}

    def draw(frame: Frame) -> Figure:
        lines = [Line(label, values[label], pens[label]) for label in shown]
        figure, axes = stream_axes(frame, axis, 150, lines)
        scale_counts(axes, frame, values.values(), lowest=0.0)
        mark_spans(axes, vanished(run))
        return figure

    note = f"Rows of each class in the window.{_left_out(run, shown)} The line breaks where a class has none."
    return Chart("counts", "Live rows by class", note, stream_table(run, values), draw)


def _sigmas(run: Run, shown: Sequence[str]) -> Chart:
    axis, pens = axis_of(run), inks(shown)
    tables = [span.sigmas for span in run.spans]
    values = {label: class_column(tables, label) for label in shown}

    def draw(frame: Frame) -> Figure:
        figure, axes = stream_axes(frame, axis, 110, [Line(label, values[label], pens[label]) for label in shown])
        scale_counts(axes, frame, values.values(), lowest=0.0)
        mark_spans(axes, vanished(run))
        return figure

    note = f"What a row of each class weighs when the plane is solved.{_left_out(run, shown)}"
    return Chart("sigmas", "Class weights σ", note, stream_table(run, values), draw)


SHARE_OF = {"windows": "window {}", "C": "C = {}", "weightings": "weighting: {}", "cuts": "cut: {}"}
"""How a choice of the automatic mode is called, by its kind."""


def _blend(run: Run) -> Chart:
    """A strip for each choice of the automatic mode: its share in the plane."""
    axis = axis_of(run)
    names = dict.fromkeys(
        (kind, choice) for span in run.spans for kind in SHARE_OF for choice in span.blend.get(kind, ())
    )
    values = {
        SHARE_OF[kind].format(choice): column([span.blend.get(kind, {}).get(choice, math.nan) for span in run.spans])
        for kind, choice in names
    }

    def draw(frame: Frame) -> Figure:
        rows = [(name, [Line("", shares, Ink(light("line1"), ()), width=1.4)]) for name, shares in values.items()]
        figure, every = strips(frame, axis, 30, rows)
        for axes, shares in zip(every, values.values(), strict=True):
            axes.set_ylim(-0.06, 1.06)
            axes.set_yticks([0, 1], ["0", "1"])
            axes.fill_between(axis.rows, shares, 0.0, color=light("line1"), alpha=0.13, linewidth=0)
        return figure

    note = (
        "The plane is a blend of candidates: one for each window, C, weighting and cut. Each strip is the share of all"
        " candidates with that choice; better recent G-mean, larger share."
    )
    return Chart("blend", "What the plane leans to", note, stream_table(run, values), draw)


def _weights(run: Run) -> Chart:
    """A strip for each feature: in raw units features have scales of their own, so that one y axis would hide most."""
    axis = axis_of(run)
    with_plane = {label for span in run.spans for label in span.weights}
    classes = [label for label in run.main_classes(CLASSES_IN_ONE_PLOT) if label in with_plane] or sorted(with_plane)[
        :1
    ]
    pens = inks(run.main_classes(MOST_CLASSES)) if len(classes) > 1 else {classes[0]: Ink(light("line1"), ())}
    planes = {label: _weights_of(run, label) for label in classes}
    strength = np.nanmean([np.nan_to_num(np.abs(plane)).mean(axis=0) for plane in planes.values()], axis=0)
    top = np.argsort(-strength, kind="stable")[:MOST_FEATURES].tolist()

    def draw(frame: Frame) -> Figure:
        lines = {
            feature: [
                Line(label if len(classes) > 1 else "", planes[label][:, feature], pens[label], width=1.6)
                for label in classes
            ]
            for feature in top
        }
        figure, every = strips(frame, axis, 46, [(run.features[feature], lines[feature]) for feature in top])
        for axes, feature in zip(every, top, strict=True):
            values = np.concatenate([[0.0], *(plane[:, feature] for plane in planes.values())])
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            room = 0.06 * (high - low) or 1.0
            axes.set_ylim(low - room, high + room)
            axes.set_yticks(sorted({low, 0.0, high} if min(-low, high) > 0.25 * (high - low) else {low, high}))
            axes.yaxis.set_major_formatter(lambda value, _: short(value, 2))
            mark_spans(axes, vanished(run))
            axes.axhline(0.0, color=light("edge"), linewidth=1.0)
        return figure

    table = {
        _weight_name(run, feature, label, classes): planes[label][:, feature] for feature in top for label in classes
    }
    return Chart("weights", "Weights of the plane", _weights_note(run, classes, top), stream_table(run, table), draw)


def _weights_of(run: Run, label: str) -> Floats:
    """float64[spans, features]: NaN where there is no plane with the class on its positive side."""
    gap = (math.nan,) * len(run.features)
    return np.asarray([span.weights.get(label, gap) for span in run.spans], dtype=np.float64)


def _weight_name(run: Run, feature: int, label: str, classes: Sequence[str]) -> str:
    return run.features[feature] if len(classes) == 1 else f"{run.features[feature]}, {label}"


def _weights_note(run: Run, classes: Sequence[str], top: Sequence[int]) -> str:
    which = f"Above zero a feature speaks for {classes[0]!r}."
    if len(classes) > 1:
        which = "Above zero a feature speaks for the line's class."
    number = len(run.features)
    which += " Where no plane can be solved the last good one stays."
    some = f" The {len(top)} of {number:,} features with the largest weights." if len(top) < number else ""
    return f"{which} In raw units, so every feature has a scale of its own.{some}"


def _confusion(run: Run) -> Chart:
    note = (
        "Rows by their true class and the predicted one, of all rows scored."
        " The stronger the colour, the larger the share of its true class."
    )
    table = matrix_table(run, MOST_CLASSES)
    return Chart(
        "confusion", "Confusion", note, table, lambda frame: draw_matrix(frame, run, MOST_CLASSES), along_stream=False
    )


def vanished(run: Run) -> list[tuple[float, float]]:
    """Parts of the stream where a class that had live rows has none left; with few classes, else it says little."""
    if len(run.classes) > CLASSES_IN_ONE_PLOT:
        return []
    parts: list[tuple[float, float]] = []
    seen: set[str] = set()
    for span in run.spans:
        live = {label for label, count in span.counts.items() if count}
        if seen - live:
            joined = bool(parts) and parts[-1][1] == span.rows_from
            first = parts.pop()[0] if joined else float(span.rows_from)
            parts.append((first, float(span.rows_to)))
        seen |= live
    return parts


def _left_out(run: Run, shown: Sequence[str]) -> str:
    number = len(run.classes)
    return f" The {len(shown)} of {number:,} classes with the most rows." if len(shown) < number else ""
