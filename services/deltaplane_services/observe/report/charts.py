"""The pictures of one run, each with the same values as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deltaplane.arrays import Floats
from deltaplane_services.observe.report.labels import time_text
from deltaplane_services.observe.report.matrix import matrix_of, matrix_table
from deltaplane_services.observe.report.pictures import Axis, Chart, Line, Panel, class_column, column
from deltaplane_services.observe.report.record import Run
from deltaplane_services.observe.report.style import Ink, inks
from deltaplane_services.observe.report.value_tables import Table, cell
from deltaplane_services.observe.report.weights import Weights

__all__ = [
    "CLASSES_IN_ONE_PLOT",
    "MOST_CLASSES",
    "MOST_FEATURES",
    "SHARE_OF",
    "USUAL_SHARE",
    "WITHIN_THE_STRIP",
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

USUAL_SHARE = 0.99
"""Of weights and shifts: if the rest are several times as large, they do not set the scale."""

WITHIN_THE_STRIP = 5.0
"""The largest shift in deviations that is drawn whole, however rare it is: what one looks for is a peak."""


def charts_of(run: Run) -> list[Chart]:
    """All pictures that a run has something to show in."""
    charts = []
    if run.spans:
        shown = run.main_classes(MOST_CLASSES)
        charts += [_gmean(run), *_precision(run), _recalls(run, shown), _imbalance(run), _counts(run, shown)]
        charts += _drift(run)
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


def stream_table(run: Run, columns: dict[str, Floats], digits: Mapping[str, int] | None = None) -> Table:
    """Columns along the stream: the rows, the time if there is one, and the values.

    ``digits``: column to its digits after the point; 4 for a column without any.
    """
    head = ("rows", *(("event time",) if run.has_times else ()), *columns)
    body = []
    for at, span in enumerate(run.spans):
        first = (f"{span.rows_to:,}", *((time_text(span.time_milliseconds),) if run.has_times else ()))
        body.append((*first, *(cell(values[at], (digits or {}).get(name, 4)) for name, values in columns.items())))
    return Table(head, tuple(body), keys=tuple(span.rows_to for span in run.spans))


def _along(run: Run, name: str, title: str, note: str, panels: Sequence[Panel], values: dict[str, Floats]) -> Chart:
    """A picture along the stream."""
    table = stream_table(run, values, dict.fromkeys(values, _DIGITS[name]) if name in _DIGITS else None)
    return Chart(name, title, note, table, tuple(panels), axis_of(run), vanished(run))


_DIGITS = {"counts": 0, "imbalance": 2}
"""Name of a picture to the digits of the numbers in its table."""


def _gmean(run: Run) -> Chart:
    one, lately, overall = gmeans(run, lately=False), gmeans(run, lately=True), run.measures["gmean"]
    lines = [Line("each span of rows", one, Ink("line1"), width=0.9, opacity=0.5)]
    lines += [Line("lately", lately, Ink("line1"), width=2.2)]
    served = class_column([span.lately for span in run.spans], "served_gmean")
    if np.isfinite(served).any():
        lines += [Line("lately, as served", served, Ink("line3"), width=1.8)]
    if math.isfinite(overall):
        whole = np.full(len(run.spans), overall)
        lines += [Line(f"all rows: {overall:.4f}", whole, Ink("line2", (5.0, 3.0)), width=1.4)]
    note = (
        "Test, then train: every row is scored by the model that existed before it. 'Lately' is over the last fortieth"
        " of the spans. The line breaks where a class has no rows to be scored; shaded: a class has no live rows."
    )
    values = {"lately": lately, "this span": one}
    if run.served:
        values["lately, as served"] = served
        note += " As served: what was predicted when rows came, before their labels did."
    return _along(run, "gmean", "G-mean", note, [Panel(tuple(lines), "share", 230)], values)


def _precision(run: Run) -> list[Chart]:
    """What the G-mean costs: precision beside sensitivity, and false alarms; nothing without a positive class."""
    names = {"precision": "precision", "sensitivity": "sensitivity", "false_alarms_per_1000_rows": "false alarms"}
    values = {name: class_column([span.lately for span in run.spans], key) for key, name in names.items()}
    if run.positive is None or not np.isfinite(values["precision"]).any():
        return []
    pens = inks(("precision", "sensitivity"))
    lines = tuple(Line(name, values[name], pen, width=1.8) for name, pen in pens.items())
    alarms = Line("", values["false alarms"], Ink("line4"), width=1.6, filled=True)
    panels = [Panel(lines, "share", 170), Panel((alarms,), "count", 80, "false alarms per 1,000 rows")]
    note = (
        f"Lately. Precision: of the rows predicted {run.positive!r}, the share that is; sensitivity: of those that are,"
        " the share predicted so. The line breaks where there are none."
    )
    return [_along(run, "precision", "Precision and false alarms", note, panels, values)]


def _recalls(run: Run, shown: Sequence[str]) -> Chart:
    pens, tables = inks(shown), [span.lately_recalls for span in run.spans]
    values = {label: class_column(tables, label) for label in shown}
    panels = [Panel(tuple(Line(label, values[label], pens[label]) for label in shown), "share", 200)]
    if len(shown) > CLASSES_IN_ONE_PLOT:
        panels = [_strip(label, values[label], 42) for label in shown]
    left_out = _left_out(run, shown)
    note = f"Share predicted right of each class, lately.{left_out} The line breaks where a class has no rows."
    return _along(run, "recall", "Recall by class", note, panels, values)


def _strip(name: str, shares: Floats, height: int) -> Panel:
    """A low plot of shares, filled."""
    return Panel((Line("", shares, Ink("line1"), width=1.6, filled=True),), "share", height, name)


def _imbalance(run: Run) -> Chart:
    values = column([span.imbalance_ratio for span in run.spans])
    panels = [Panel((Line("", values, Ink("ink"), width=1.6),), "count", 110, lowest=1.0)]
    note = "Live rows of the largest class over those of the smallest that has any; 1 is balanced."
    return _along(run, "imbalance", "Imbalance ratio", note, panels, {"imbalance ratio": values})


def _counts(run: Run, shown: Sequence[str]) -> Chart:
    pens, tables = inks(shown), [span.counts for span in run.spans]
    values = {label: class_column(tables, label, zero_is_gap=True) for label in shown}
    panels = [Panel(tuple(Line(label, values[label], pens[label]) for label in shown), "count", 150)]
    note = f"Rows of each class in the window.{_left_out(run, shown)} The line breaks where a class has none."
    return _along(run, "counts", "Live rows by class", note, panels, values)


def _sigmas(run: Run, shown: Sequence[str]) -> Chart:
    pens, tables = inks(shown), [span.sigmas for span in run.spans]
    values = {label: class_column(tables, label) for label in shown}
    panels = [Panel(tuple(Line(label, values[label], pens[label]) for label in shown), "count", 110)]
    note = f"What a row of each class weighs when the plane is solved.{_left_out(run, shown)}"
    return _along(run, "sigmas", "Class weights σ", note, panels, values)


SHARE_OF = {
    "windows": "window {}",
    "C": "C = {}",
    "weightings": "weighting: {}",
    "cuts": "cut: {}",
    "boundaries": "{} boundary",
}
"""How a choice of the automatic mode is called, by its kind."""


def _blend(run: Run) -> Chart:
    """A strip for each choice of the automatic mode: its share in the plane."""
    names = dict.fromkeys(
        (kind, choice) for span in run.spans for kind in SHARE_OF for choice in span.blend.get(kind, ())
    )
    values = {
        SHARE_OF[kind].format(choice): column([span.blend.get(kind, {}).get(choice, math.nan) for span in run.spans])
        for kind, choice in names
    }
    panels = [_strip(name, shares, 30) for name, shares in values.items()]
    note = (
        "The plane is a blend of candidates: one for each window (rows that are live), C (larger fits closer),"
        " weighting (what a row of each class counts) and cut (where the threshold lies between the classes). Each"
        " strip is the share of all candidates with that choice; better recent G-mean, larger share."
    )
    return _along(run, "blend", "What the plane leans to", note, panels, values)


def _weights(run: Run) -> Chart:
    """A strip for each of the strongest features, a line for each class."""
    weights = Weights(run, MOST_CLASSES)
    top, classes = weights.strongest(MOST_FEATURES), weights.classes
    pens = inks(run.main_classes(MOST_CLASSES)) if len(classes) > 1 else {classes[0]: Ink("line1")}
    of_all = _limits([plane[:, top] for plane in weights.by_class.values()])
    panels: list[Panel] = []
    for feature in top:
        columns = {label: plane[:, feature] for label, plane in weights.by_class.items()}
        lines = [
            Line(label if len(classes) > 1 else "", values, pens[label], width=1.6) for label, values in columns.items()
        ]
        # Standardized weights have one unit, and so one scale; raw ones have as many as there are features.
        limits = of_all if weights.standardized else _limits(list(columns.values()))
        panels.append(Panel(tuple(lines), "signed", 46, run.features[feature], limits=limits))
    values = {weights.name(feature, label): weights.by_class[label][:, feature] for feature in top for label in classes}
    note = _weights_note(run, weights, top)
    note += _PEAKS if any(map(_reaches_out, panels)) else ""
    return _along(run, "weights", "Weights of the plane", note, panels, values)


def _drift(run: Run) -> list[Chart]:
    """A strip for each of the features that shift most; nothing if nobody has looked."""
    number = max((len(span.shift) for span in run.spans), default=0)
    if not number:
        return []
    gap = (math.nan,) * number
    shifts = np.array([span.shift if len(span.shift) == number else gap for span in run.spans], dtype=np.float64)
    shifts = np.where(np.isfinite(shifts), shifts, np.nan)
    names = run.raw_features if len(run.raw_features) == number else tuple(f"feature {at + 1}" for at in range(number))
    top = np.argsort(-np.nan_to_num(np.abs(shifts)).max(axis=0), kind="stable")[:MOST_FEATURES].tolist()
    limits = _limits([shifts[:, at] for at in top], inside=WITHIN_THE_STRIP)
    panels = [
        Panel((Line("", shifts[:, at], Ink("line3"), width=1.6),), "signed", 46, names[at], limits=limits) for at in top
    ]
    note = (
        "How far the mean of a feature, over the last fortieth of the spans, is from that of as many rows before, in"
        " deviations of these: told without labels."
    )
    note += f" The {len(top)} of {number:,} features that shift most." if len(top) < number else ""
    note += _PEAKS if any(map(_reaches_out, panels)) else ""
    return [_along(run, "drift", "Drift of features", note, panels, {names[at]: shifts[:, at] for at in top})]


def _reaches_out(panel: Panel) -> bool:
    """Whether a line leaves its panel."""
    low, high = panel.limits or (-math.inf, math.inf)
    return any(bool(((line.values < low) | (line.values > high)).any()) for line in panel.lines)


_PEAKS = " Peaks that would dwarf all else reach beyond their strip; the table has them."


def _limits(values: Sequence[Floats], inside: float = 0.0) -> tuple[float, float]:
    """From the lowest to the highest value, zero among them; a few peaks that dwarf all others are left outside.

    No value of at most ``inside`` is left outside.
    """
    every = np.concatenate([[0.0], *(np.ravel(part) for part in values)])
    every = every[np.isfinite(every)]
    size = np.abs(every)
    usual = max(inside, 1.5 * float(np.quantile(size, USUAL_SHARE)))
    within = every[size <= usual] if 2.0 * usual < float(size.max()) else every
    low, high = float(within.min()), float(within.max())
    return (low, high) if low < high else (-1.0, 1.0)


def _weights_note(run: Run, weights: Weights, top: Sequence[int]) -> str:
    which = f"Above zero a feature speaks for {weights.classes[0]!r}."
    if len(weights.classes) > 1:
        which = "Above zero a feature speaks for the line's class."
    number = len(run.features)
    which += " Where no plane can be solved the last good one stays."
    some = f" The {len(top)} of {number:,} features with the largest weights." if len(top) < number else ""
    unit = (
        "Standardized: each weight times the deviation of its feature over the live rows, so that weights can be"
        " compared."
        if weights.standardized and not weights.of_the_end
        else "Standardized: each weight times the deviation of its feature over the live rows at the end of the run."
        if weights.of_the_end
        else "In raw units, so every feature has a scale of its own: the run does not tell the deviations of features."
    )
    return f"{which} {unit}{some}"


def _confusion(run: Run) -> Chart:
    note = (
        "Rows by their true class and the predicted one, of all rows scored."
        " The stronger the colour, the larger the share of its true class."
    )
    matrix = matrix_of(run, MOST_CLASSES)
    return Chart("confusion", "Confusion", note, matrix_table(matrix), matrix=matrix)


def vanished(run: Run) -> tuple[tuple[float, float], ...]:
    """Parts of the stream where a class that had live rows has none left; with few classes, else it says little."""
    if len(run.classes) > CLASSES_IN_ONE_PLOT:
        return ()
    parts: list[tuple[float, float]] = []
    seen: set[str] = set()
    for span in run.spans:
        live = {label for label, count in span.counts.items() if count}
        if seen - live:
            joined = bool(parts) and parts[-1][1] == span.rows_from
            first = parts.pop()[0] if joined else float(span.rows_from)
            parts.append((first, float(span.rows_to)))
        seen |= live
    return tuple(parts)


def _left_out(run: Run, shown: Sequence[str]) -> str:
    number = len(run.classes)
    return f" The {len(shown)} of {number:,} classes with the most rows." if len(shown) < number else ""
