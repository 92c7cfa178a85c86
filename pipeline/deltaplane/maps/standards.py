"""Centers and scales by which maps standardise features, fitted on the first rows in integers."""

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
    """The default width of a map: the root of the number of features, about 1/√2 of the distance of two ordinary rows.

    In the mixed map it is 1, since each direction has the root of the number of its own features as a factor.
    """
    return 1.0 if kind == "mixed" else math.sqrt(features)


def fit_standards(grid: Grid, rows: Floats) -> list[tuple[int, float]]:
    """A center and a scale for each feature, in grid steps, fitted on the first rows float64[n, d].

    A center is the mean, rounded to an integer, and a scale the standard deviation, with two exceptions. A deviation
    below half a step becomes half a step, so that a rare flag does not outweigh everything else. A feature that never
    varied gets its magnitude as the scale, or one raw unit if that is zero. Values that are missing, of more than two
    limbs on the grid, or not ordinary (:mod:`deltaplane.exact.ordinary`) are left out.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        # Grid.quantize is not used, since it places a row only if all of its values fit.
        quantized = np.rint((rows - grid.offsets) / grid.steps)
    return [
        _fit_feature(column[_fitted_on(raw, column)].astype(np.int64), step)
        for raw, column, step in zip(rows.T, quantized.T, grid.steps.tolist(), strict=True)
    ]


def _fitted_on(raw: Floats, quantized: Floats) -> Flags:
    """bool[n]: which values of a feature the center and the scale are fitted on, by raw values and grid values."""
    usual = np.abs(quantized) < limits.GRID_RANGE
    finite = np.isfinite(raw)
    usual[finite] &= ordinary(raw[finite])
    return np.asarray(usual)


def _fit_feature(values: Int64s, step: float) -> tuple[int, float]:
    """The center and the scale of one feature, in grid steps, from its grid integers int64[n], in integers."""
    number = max(1, len(values))
    center = (2 * int(values.sum()) + number) // (2 * number)
    upper, lower = np.divmod(values - center, 2**limits.SPLIT_BITS)
    products = ((upper, upper, 30), (upper, lower, 16), (lower, lower, 0))
    squares = sum(int((a * b).sum()) << shift for a, b, shift in products)
    if not squares:
        return center, min(max(float(abs(center)) or 1.0 / step, 0.5), SCALE_LARGEST)
    return center, max(math.isqrt((squares << 16) // number) / 2.0**8, 0.5)
