"""Decision values of rows: the same bits for one row as for many, on every machine, in every language.

A decision value is a sum in a fixed order: the products of values and weights, from the first feature to the last, and
then the intercept, with each step rounded once to float64. A matrix product adds in an order that depends on the number
of rows. Its last bits may differ, so a row at the boundary could have one class alone and another among other rows.
"""

from __future__ import annotations

import numpy as np

from deltaplane.arrays import Floats

__all__ = ["ENTRIES", "decision_values", "values_by_own_planes"]


ENTRIES = 2**16
"""Values of rows that are processed at once: few enough for the cache."""

_MANY_ROWS = 16
"""From this number of rows on, a loop over features is faster than a loop over planes. The bits are the same."""


def decision_values(rows: Floats, weights: Floats, biases: Floats) -> Floats:
    """The decision values ``x·w - b``, float64[n, p], of rows float64[n, d] by p planes: float64[p, d] and float64[p].

    Values that overflow are infinite or NaN; nothing is raised.
    """
    values = np.empty((len(rows), len(biases)))
    at_once = max(1, ENTRIES // rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), at_once):
            block = rows[start : start + at_once]
            add = _by_feature if len(block) >= _MANY_ROWS else _by_row
            values[start : start + at_once] = add(block, weights) - biases
    return values


def values_by_own_planes(rows: Floats, weights: Floats, biases: Floats) -> Floats:
    """The decision value float64[n] of each row float64[n, d] by its own plane: weights [n, d] and biases [n]."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(_in_order(rows * weights) - biases)


def _by_feature(rows: Floats, weights: Floats) -> Floats:
    """The sums float64[n, p], one feature of all rows at a time: fast for many rows."""
    columns, of_planes = np.ascontiguousarray(rows.T), weights.T[:, :, None]
    total = of_planes[0] * columns[0]
    products = np.empty_like(total)
    for column, of_each in zip(columns[1:], of_planes[1:], strict=True):
        np.multiply(of_each, column, out=products)
        total += products
    return np.asarray(total.T)


def _by_row(rows: Floats, weights: Floats) -> Floats:
    """The same sums float64[n, p], one plane at a time: fast for few rows."""
    return np.stack([_in_order(rows * of_plane) for of_plane in weights], axis=1)


def _in_order(products: Floats) -> Floats:
    """The sum float64[n] of each row of products float64[n, d], from the first to the last.

    NumPy adds in pairs if only the sum is asked for, and one by one if every partial sum is.
    """
    return np.add.accumulate(products, axis=1)[:, -1]
