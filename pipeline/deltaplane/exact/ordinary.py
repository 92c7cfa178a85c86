"""Which values of a feature are ordinary: a scale is fitted on these, so that fill values do not set it.

The problem: files hold numbers that stand for a missing value (-999, 1e10, 9.96921e36). A grid is fitted once, so a
scale set by such numbers would be wrong long after they have left every window. How it is solved: a value is judged by
its distance from the median, compared with the spread, the median of all such distances. Up to half of the values may
be anything without moving either. Two refinements: values equal to the median are not counted in the spread, so that a
feature that is mostly 0 has one; and the spread is also taken over the *different* distances, and the smaller of the
two counts, since one fill value may be more frequent than all other values that are not 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Floats

__all__ = ["FillValue", "in_proportion", "likely_fill_values", "looks_like_fill_value", "ordinary", "spread_of"]


_FILLED_WITH = frozenset(
    {9.96921e36, float(np.float32(9.96921e36)), 9.969209968386869e36}
    | {float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)}
    | {2.0**bits - 1.0 for bits in (15, 16, 31, 32, 63)}
    | {2.0**bits for bits in (15, 31, 63)}
)
"""Magnitudes that libraries and formats fill with: NetCDF's, the largest floats, the ends of whole-number types."""

_NINES_OR_ROUND = re.compile(r"99+(\.9+)?|[1-9]0{8,}")


class FillValue(NamedTuple):
    """A value of one feature that is likely to stand for a missing one, and the number of ``rows`` that have it."""

    feature: str
    value: float
    rows: int


def spread_of(values: Floats) -> float:
    """The typical distance of finite values float64[n] from their median; up to half of the values cannot move it.

    It is 0 if all values are equal. It is also 0 if there is just one other value that lies far out, as for a constant
    feature with a fill value.
    """
    if not len(values):
        return 0.0
    middle = _middle(values)
    distances = _distances(values, middle)
    distances = np.sort(distances[distances > 0])
    if not len(distances):
        return 0.0
    different = distances[np.flatnonzero(np.append(True, distances[1:] != distances[:-1]))]
    if len(different) == 1:
        other = float(values[values != middle][0])
        far = limits.OUT_OF_PROPORTION if not looks_like_fill_value(other) else limits.FAR_FOR_A_MARK
        return float(different[0]) if different[0] <= far * max(abs(middle), 1.0) else 0.0
    return float(min(distances[(len(distances) - 1) // 2], different[(len(different) - 1) // 2]))


def ordinary(values: Floats) -> Flags:
    """bool[n]: which of the finite values float64[n] are ordinary, so that a scale may be fitted on them.

    A value is not if it is :data:`limits.OUT_OF_PROPORTION` times further from the median than is typical, or likely to
    stand for a missing one.
    """
    if not len(values):
        return np.ones(0, dtype=np.bool_)
    spread, distances = spread_of(values), _distances(values, _middle(values))
    usual: Flags = distances / limits.OUT_OF_PROPORTION <= spread
    for value, _ in _marks(values, distances, spread):
        usual &= values != value
    return usual


def in_proportion(values: Floats) -> Flags:
    """bool[n]: which values are in proportion to the inner 99 of 100 values, whether those are ordinary or not.

    Such a value is more than a single bogus number, and a grid should reach it if it can.
    """
    distances = _distances(values, _middle(values)) if len(values) else values
    spread = distances[distances > 0]
    if len(spread) < 2:
        return np.ones(len(values), dtype=np.bool_)
    usual: Flags = distances / limits.OUT_OF_PROPORTION <= np.quantile(spread, 0.99, method="lower")
    return usual


def looks_like_fill_value(value: float) -> bool:
    """Whether a number looks like one that stands for a missing value.

    Such numbers are nines, a digit and many zeros, and what libraries fill with (NetCDF's value, the end of a type).
    """
    magnitude = abs(value)
    if magnitude in _FILLED_WITH:
        return True
    text = f"{magnitude:.0f}" if magnitude.is_integer() and magnitude < 1e22 else repr(magnitude)
    return bool(_NINES_OR_ROUND.fullmatch(text)) or bool(re.fullmatch(r"[1-9]e\+\d+", text))


def likely_fill_values(names: Sequence[str], rows: Floats) -> list[FillValue]:
    """The values of rows float64[n, d] that are likely to stand for a missing one: far out, and repeated exactly.

    NaN and infinite values are left out. ``names`` are those of the d features.
    """
    found = []
    for name, column in zip(names, rows.T, strict=True):
        values = column[np.isfinite(column)]
        if len(values):
            marks = _marks(values, _distances(values, _middle(values)), spread_of(values))
            found += [FillValue(name, value, count) for value, count in marks]
    return found


def _marks(values: Floats, distances: Floats, spread: float) -> list[tuple[float, int]]:
    """(value, number of rows) of values that are likely to stand for a missing one, the furthest out first.

    ``distances`` float64[n] are those of ``values`` from their median, and ``spread`` is their :func:`spread_of`.
    """
    middle = _middle(values)
    spread = spread or max(abs(middle), 1.0)
    far = np.flatnonzero(distances / limits.FAR_FOR_A_MARK > spread)
    if len(far) < limits.ROWS_OF_A_MARK:
        return []
    distinct, counts = np.unique(values[far], return_counts=True)
    marks = [
        (value, count)
        for value, count in zip(distinct.tolist(), counts.tolist(), strict=True)
        if count >= limits.ROWS_OF_A_MARK
        and (looks_like_fill_value(value) or abs(value - middle) / limits.OUT_OF_PROPORTION > spread)
    ]
    # Many repeated values far out are no marks but a feature of a few large numbers.
    return sorted(marks, key=lambda mark: -abs(mark[0] - middle)) if len(marks) <= limits.MARKS_OF_A_FEATURE else []


def _middle(values: Floats) -> float:
    """The median, the lower one of an even number: always one of the values, so that a common value has distance 0."""
    return float(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])


def _distances(values: Floats, middle: float) -> Floats:
    with np.errstate(over="ignore"):
        distances: Floats = np.abs(values - middle)
    return distances
