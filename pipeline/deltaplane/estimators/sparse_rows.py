"""Rows of a sparse matrix, made dense block by block, with the same results, bit for bit, as of the dense matrix.

Grids and scales are fitted feature by feature, statistics are sums over rows, and a decision is a function of one row.
So nothing needs all rows and all features at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from deltaplane.arrays import Floats
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.maps.standards import fit_standards

__all__ = ["DENSE_ENTRIES", "Rows", "dense_parts", "grid_fitted_on", "is_sparse", "standards_of"]

DENSE_ENTRIES = 2**22
"""The numbers that are made dense at once: 32 MiB."""

Rows: TypeAlias = Any
"""Rows float64[n, d], or a sparse matrix (CSR) of the same shape."""


def is_sparse(rows: Rows) -> bool:
    """Whether rows are a sparse matrix or a sparse array of SciPy, in any format."""
    return bool(sparse.issparse(rows))


def dense_parts(rows: Rows) -> Iterator[tuple[slice, Floats]]:
    """Consecutive parts of the rows: (which rows, float64[k, d]). Dense rows are one part."""
    if not is_sparse(rows):
        yield slice(0, len(rows)), rows
        return
    at_once = max(1, DENSE_ENTRIES // max(1, rows.shape[1]))
    for begin in range(0, rows.shape[0], at_once):
        part = slice(begin, min(begin + at_once, rows.shape[0]))
        yield part, rows[part].toarray()


def _dense_features(rows: Rows) -> Iterator[tuple[slice, Floats]]:
    """Consecutive features of all rows of a sparse matrix: (which features, float64[n, k])."""
    by_feature = rows.tocsc()
    at_once = max(1, DENSE_ENTRIES // max(1, rows.shape[0]))
    for begin in range(0, rows.shape[1], at_once):
        part = slice(begin, min(begin + at_once, rows.shape[1]))
        yield part, by_feature[:, part].toarray()


def grid_fitted_on(rows: Rows) -> Grid:
    """The grid that is fitted on all rows, as by :func:`deltaplane.exact.grid.fit_grid`."""
    if not is_sparse(rows) or not rows.shape[1]:
        return fit_grid(rows)
    grids = [fit_grid(features) for _, features in _dense_features(rows)]
    steps, offsets = (np.concatenate([getattr(grid, name) for grid in grids]) for name in ("steps", "offsets"))
    return Grid(steps, offsets, min(grid.range_bits for grid in grids))


def standards_of(rows: Rows, grid: Grid) -> dict[str, Any]:
    """The ``centers`` and ``scales`` of a feature map's table, fitted on sparse rows; empty for dense rows."""
    if not is_sparse(rows):
        return {}
    standards: list[tuple[int, float]] = []
    for part, features in _dense_features(rows):
        standards += fit_standards(replace(grid, steps=grid.steps[part], offsets=grid.offsets[part]), features)
    return {"centers": [center for center, _ in standards], "scales": [scale for _, scale in standards]}
