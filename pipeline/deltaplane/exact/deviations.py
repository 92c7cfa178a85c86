"""Where features lie over live rows, and how far they spread: exact from Gram matrices until the last step.

A weight in raw units says how steep the decision is, not how much the feature decides: a feature of deviation 20,000
with a weight of 0.001 moves decisions two hundred times as far as one of deviation 0.01 with a weight of 10. Times the
deviation of its feature, a weight is in the units of the decision value, and weights can be ranked.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from deltaplane.arrays import Floats, Positions
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.triangle import layout_of

__all__ = ["deviations", "means", "ranked", "standardized"]


def deviations(grams: Iterable[Moments], grid: Grid) -> Floats:
    """Standard deviations float64[d], in raw units, of the features over the rows of all these Gram matrices.

    The variance in grid steps is ``(n Σq² - (Σq)²) / n²``. Numerator and denominator are exact integers, their quotient
    and its root are rounded once each, and a step is a power of two: a constant feature has exactly 0, and equal
    statistics have equal deviations. Without rows all are 0.
    """
    total = Moments.zero(grid.features + 1)
    for gram in grams:
        total = total + gram
    rows, layout = total.count, layout_of(total.dimension)
    if not rows:
        return np.zeros(grid.features)
    squares = total.integers(layout.diagonal).tolist()[:-1]
    sums = total.integers(layout.last).tolist()[:-1]
    # Python divides integers of any size with one rounding.
    variances = [(rows * square - part * part) / (rows * rows) for square, part in zip(squares, sums, strict=True)]
    return np.asarray(grid.steps * np.sqrt(variances), dtype=np.float64)


def means(grams: Iterable[Moments], grid: Grid) -> Floats:
    """Means float64[d], in raw units, of the features over the rows of all these Gram matrices.

    Without rows they are the offsets. The mean in grid steps is a quotient of exact integers and is rounded once.
    """
    total = Moments.zero(grid.features + 1)
    for gram in grams:
        total = total + gram
    rows = total.count
    if not rows:
        return np.array(grid.offsets, dtype=np.float64)
    # A row is [q, -1], so the last column has the sums with the other sign.
    sums = total.integers(layout_of(total.dimension).last).tolist()[:-1]
    return np.asarray(grid.offsets + grid.steps * np.array([-part / rows for part in sums]), dtype=np.float64)


def standardized(weights: Floats, spread: Floats) -> Floats:
    """Weights float64[..., d] times the deviations float64[d] of their features: how far one deviation moves a row."""
    return np.asarray(weights * spread, dtype=np.float64)


def ranked(weights: Floats) -> Positions:
    """The features intp[d] of weights float64[p, d] by the largest magnitude among the planes, the largest first.

    Equal ones stay in their order.
    """
    return np.argsort(-np.abs(weights).max(axis=0), kind="stable")
