"""What a picture shows, before anything is drawn: panels of lines along the stream, or a matrix of counts."""

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
"""Times the smallest value is as large as the largest before an axis of counts turns logarithmic."""


@dataclass(frozen=True)
class Axis:
    """The rows of a stream, and the event time at each: None where there are no times."""

    rows: Floats
    times_milliseconds: Floats | None
    first: float
    last: float


@dataclass(frozen=True)
class Line:
    """Values, NaN where there is none, and the name in the legend ('' for not there).

    They are at the rows of the axis, unless the line has rows of its own. ``filled``: down to zero.
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
    """One plot. ``y``: shares from 0 to 1, counts from ``lowest`` up, or values with a sign, between ``limits``.

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
        """Whether the axis is: of counts that are of very different sizes."""
        return self.y == "count" and is_wide([line.values for line in self.lines])


@dataclass(frozen=True)
class Matrix:
    """Counts int64[n, n] of rows by their true class, downwards, and the predicted one, to the right."""

    labels: tuple[str, ...]
    counts: Int64s

    @property
    def shares(self) -> Floats:
        """float64[n, n]: of the rows of a true class; 0 for one without any."""
        return np.asarray(self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1), dtype=np.float64)


@dataclass(frozen=True)
class Chart:
    """One picture, its title, a note on what it shows, and the same values as a table.

    Either it has ``panels`` one above the other, along the stream, the rows of which are on their common ``axis``, with
    some parts of it ``shaded``; or it is a ``matrix``.
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
        """The lines that need a legend: those of the first panel that have a name."""
        return tuple(line for panel in self.panels[:1] for line in panel.lines if line.name)


def isolated(values: Floats) -> Flags:
    """bool[n]: which values have a gap, or an end, on both sides."""
    there = np.concatenate([[False], np.isfinite(values), [False]])
    return np.asarray(there[1:-1] & ~there[:-2] & ~there[2:], dtype=np.bool_)


def is_wide(values: Sequence[Floats]) -> bool:
    """Whether the largest value above zero is many times the smallest."""
    every = np.concatenate([np.ravel(part) for part in values]) if values else np.empty(0)
    every = every[np.isfinite(every) & (every > 0)]
    return len(every) > 0 and bool(every.max() >= MOST_ON_A_LINEAR_AXIS * every.min())


def column(values: Sequence[float]) -> Floats:
    """Values as float64[n]."""
    return np.asarray(values, dtype=np.float64)


def class_column(tables: Sequence[Mapping[str, float]], name: str, *, zero_is_gap: bool = False) -> Floats:
    """What each of the tables has under a name; NaN where it has nothing."""
    values = column([table.get(name, math.nan) for table in tables])
    return np.where(values == 0.0, math.nan, values) if zero_is_gap else values
