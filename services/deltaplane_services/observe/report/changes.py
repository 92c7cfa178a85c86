"""The part of a page on changes: when quality fell and what was different then, and when features shifted."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence

from deltaplane_services.observe.report.changes_told import DriftTold, FallTold, FeatureTold
from deltaplane_services.observe.report.charts import axis_of
from deltaplane_services.observe.report.elements import Element, element, table
from deltaplane_services.observe.report.labels import time_text
from deltaplane_services.observe.report.record import Run
from deltaplane_services.observe.report.value_tables import Table, cell

__all__ = ["changes_of", "drifts_table", "falls_table"]

_TimeAt = Callable[[float], str]
"""The event time at a row as text; empty if there is none."""


def changes_of(run: Run) -> Element | None:
    """The part of the page on changes; None if the run was not searched for changes."""
    if run.drifts is None:
        return None
    parts: list[Element] = []
    if run.falls:
        note = (
            "Where the recall of a class was lower than in all rows before, and by no chance (Fisher's exact test, 1 in"
            " 100 over the whole stream). Features: by how many deviations their means differ from before, among all"
            " rows and among those of that class; and what the plane leaned to."
        )
        falls = table(falls_table(run.falls, _time_at(run)), name="Where quality fell", text=True, low=True)
        parts += [element("h3", "Where quality fell"), element("p", note, class_="note"), falls]
    if run.drifts:
        note = (
            "Told from the features alone, without labels: blocks of 100 rows before and after differ by no chance"
            " (Student's t; 5 false alarms in 10 million rows). In deviations of the rows before."
        )
        drifts = table(drifts_table(run.drifts, _time_at(run)), name="Where features shifted", text=True, low=True)
        parts += [element("h3", "Where features shifted"), element("p", note, class_="note"), drifts]
    nothing = None if parts else element("p", "No fall of quality was found, and no shift of features.", class_="note")
    return element("section", element("h2", "When and why"), parts, nothing, class_="card", id="changes")


def _time_at(run: Run) -> Callable[[float], str]:
    """A function that gives the event time at a row: that of the span that contains the row."""
    times = axis_of(run).times_milliseconds if run.spans else None
    rows = [span.rows_to for span in run.spans]

    def time_at(row: float) -> str:
        return "" if times is None else time_text(float(times[min(bisect_left(rows, row), len(rows) - 1)]))[:16]

    return time_at


def falls_table(falls: Sequence[FallTold], time_at: _TimeAt) -> Table:
    """A table with a row for each fall."""
    body = [
        (
            _rows(fall.rows_from, fall.rows_to, time_at),
            f"{fall.label}: {cell(fall.recalls[0])} → {cell(fall.recalls[1])}",
            f"{cell(fall.gmeans[0])} → {cell(fall.gmeans[1])}",
            f"{cell(fall.ratios[0], 2)} → {cell(fall.ratios[1], 2)}",
            _shifts(fall.features),
            _shifts(fall.features_of_class),
            ", ".join(f"{name} {before:.0%} → {during:.0%}" for name, before, during in fall.blend) or "–",
        )
        for fall in falls
    ]
    head = (
        "rows",
        "recall",
        "G-mean",
        "imbalance of the rows",
        "features, all rows",
        "features, that class",
        "leaning to",
    )
    return Table(head, tuple(body))


def drifts_table(drifts: Sequence[DriftTold], time_at: _TimeAt) -> Table:
    """A table with a row for each drift."""
    body = [
        (f"{drift.row:,}" + (f", {time}" if (time := time_at(drift.row)) else ""), _shifts(drift.features))
        for drift in drifts
    ]
    return Table(("by row", "features that had shifted"), tuple(body))


def _rows(first: int, last: int, time_at: _TimeAt) -> str:
    times = f", {time} to {time_at(last)}" if (time := time_at(first)) else ""
    return f"{first:,} to {last:,}{times}"


_LEAST_TOLD = 0.1
"""The smallest shift in standard deviations that is shown, and half of the smallest logarithm of a factor."""


def _shifts(features: Sequence[FeatureTold]) -> str:
    told = [_shift(one) for one in features]
    return ", ".join(filter(None, told)) or "–"


def _shift(one: FeatureTold) -> str:
    if math.isnan(one.shift):
        return f"{one.name} was constant"
    spread = f", spread × {one.spread:.2f}" if abs(math.log(one.spread or 1.0)) > 2 * _LEAST_TOLD else ""
    return f"{one.name} {one.shift:+.2f}{spread}" if abs(one.shift) >= _LEAST_TOLD or spread else ""
