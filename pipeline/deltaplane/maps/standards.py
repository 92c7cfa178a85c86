"""Centers and scales of features, on which maps are standardised, fitted on the first rows in integers."""

from __future__ import annotations

import math

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.exact.grid import Grid
from deltaplane.exact.ordinary import ordinary

__all__ = ["SCALE_LARGEST", "SCALE_SMALLEST", "default_sigma", "fit_standards"]

SCALE_SMALLEST, SCALE_LARGEST = 2.0**-10, 2.0**31


def default_sigma(features: int, kind: str) -> float:
    """The root of the number of features: about the distance of two ordinary rows, over the root of two.

    In the mixed map it is 1, since each direction has the root of the number that it looks at.
    """
    return 1.0 if kind == "mixed" else math.sqrt(features)


def fit_standards(grid: Grid, rows: Floats) -> list[tuple[int, float]]:
    """A center and a scale for each feature, in grid steps, fitted on the first rows float64[n, d].

    A center is the mean and a scale the deviation, but for two sorts of features. A whole-numbered one whose deviation
    is below half a step gets half a step, so that a rare flag counts like a common one and not more than everything
    else. One that never varied gets its own magnitude, or one in its own unit if that is zero.
    Values that are missing, not narrow on the grid, or not ordinary (:mod:`deltaplane.exact.ordinary`) are left out.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        # Not by the grid's own placing, to which a row fits as a whole or not at all.
        quantized = np.rint((rows - grid.offsets) / grid.steps)
    return [
        _fit_feature(column[_fitted_on(raw, column)].astype(np.int64), step)
        for raw, column, step in zip(rows.T, quantized.T, grid.steps.tolist(), strict=True)
    ]


def _fitted_on(raw: Floats, quantized: Floats) -> Flags:
    """bool[n]: which values of a feature a center and a scale are fitted on, by themselves and by their grid values."""
    usual = np.abs(quantized) < limits.GRID_RANGE
    finite = np.isfinite(raw)
    usual[finite] &= ordinary(raw[finite])
    return np.asarray(usual)


def _fit_feature(values: Int64s, step: float) -> tuple[int, float]:
    """Center and scale, in grid steps, for the grid integers int64[n] of one feature; in integers, so exact."""
    number = max(1, len(values))
    center = (2 * int(values.sum()) + number) // (2 * number)
    upper, lower = np.divmod(values - center, 2**limits.SPLIT_BITS)
    products = ((upper, upper, 30), (upper, lower, 16), (lower, lower, 0))
    squares = sum(int((a * b).sum()) << shift for a, b, shift in products)
    if not squares:
        return center, min(max(float(abs(center)) or 1.0 / step, 0.5), SCALE_LARGEST)
    return center, max(math.isqrt((squares << 16) // number) / 2.0**8, 0.5)
