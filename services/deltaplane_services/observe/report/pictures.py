"""The contents of a picture before it is drawn: panels of lines along the stream, or a matrix of counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane_services.observe.report.style import Ink
from deltaplane_services.observe.report.value_tables import Table

__all__ = [
    "MOST_ON_A_LINEAR_AXIS",
    "Axis",
    "Chart",
    "Line",
    "Matrix",
    "Panel",
    "class_column",
    "column",
    "is_wide",
    "isolated",
]

MOST_ON_A_LINEAR_AXIS = 10.0
"""An axis of counts is logarithmic if the largest value is at least so many times the smallest."""


@dataclass(frozen=True)
class Axis:
    """The rows of a stream, and the event time at each; None if there are no times."""

    rows: Floats
    times_milliseconds: Floats | None
    first: float
    last: float


@dataclass(frozen=True)
class Line:
    """Values, NaN for gaps, and the name in the legend (empty: not in the legend).

    The values are at the rows of the axis, unless the line has rows of its own. ``filled``: the area down to zero is
    filled.
    """

    name: str
    values: Floats
    ink: Ink
    width: float = 1.9
    opacity: float = 1.0
    rows: Floats | None = None
    filled: bool = False


@dataclass(frozen=True)
class Panel:
    """One plot. ``y``: shares from 0 to 1, counts from ``lowest`` up, or signed values between ``limits``.

    ``height`` is in CSS pixels.
    """

    lines: tuple[Line, ...]
    y: Literal["share", "count", "signed"]
    height: int
    name: str = ""
    lowest: float = 0.0
    limits: tuple[float, float] | None = None

    @property
    def logarithmic(self) -> bool:
        """Whether the axis is logarithmic: if it shows counts of very different sizes."""
        return self.y == "count" and is_wide([line.values for line in self.lines])


@dataclass(frozen=True)
class Matrix:
    """Counts int64[n, n] of rows: rows of the matrix are true classes, columns are predicted ones."""

    labels: tuple[str, ...]
    counts: Int64s

    @property
    def shares(self) -> Floats:
        """float64[n, n]: the counts as shares of each true class; 0 for a class without rows."""
        return np.asarray(self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1), dtype=np.float64)


@dataclass(frozen=True)
class Chart:
    """One picture: its title, a note on what it shows, and the same values as a table.

    It has either a ``matrix``, or ``panels`` one above the other along the stream, with a common ``axis`` of rows,
    parts of which may be ``shaded``.
    """

    name: str
    title: str
    note: str
    table: Table
    panels: tuple[Panel, ...] = ()
    axis: Axis | None = None
    shaded: tuple[tuple[float, float], ...] = ()
    matrix: Matrix | None = None

    @property
    def legend(self) -> tuple[Line, ...]:
        """The lines of the legend: those of the first panel that have a name."""
        return tuple(line for panel in self.panels[:1] for line in panel.lines if line.name)


def isolated(values: Floats) -> Flags:
    """bool[n]: which values have a gap, or an end of the array, on both sides."""
    there = np.concatenate([[False], np.isfinite(values), [False]])
    return np.asarray(there[1:-1] & ~there[:-2] & ~there[2:], dtype=np.bool_)


def is_wide(values: Sequence[Floats]) -> bool:
    """Whether the largest positive value is many times the smallest (:data:`MOST_ON_A_LINEAR_AXIS`)."""
    every = np.concatenate([np.ravel(part) for part in values]) if values else np.empty(0)
    every = every[np.isfinite(every) & (every > 0)]
    return len(every) > 0 and bool(every.max() >= MOST_ON_A_LINEAR_AXIS * every.min())


def column(values: Sequence[float]) -> Floats:
    """The values as float64[n]."""
    return np.asarray(values, dtype=np.float64)


def class_column(tables: Sequence[Mapping[str, float]], name: str, *, zero_is_gap: bool = False) -> Floats:
    """float64[n]: the value under a name in each of n tables; NaN if a table lacks it."""
    values = column([table.get(name, math.nan) for table in tables])
    return np.where(values == 0.0, math.nan, values) if zero_is_gap else values
