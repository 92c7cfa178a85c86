"""Positions of the entries of a symmetric matrix in its packed upper triangle, which is stored row by row."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Positions

__all__ = ["Layout", "layout_of", "positions_of_leading"]


class Layout(NamedTuple):
    """Positions that lead from a D x D matrix to its packed triangle, and back.

    Positions in the triangle: ``unpack`` [D, D] of each entry of the matrix, ``diagonal`` [D] of its diagonal, and
    ``last`` [D] of its last column. Positions in the flat matrix: ``packed`` [D(D+1)/2] of each entry of the triangle.
    """

    unpack: Positions
    diagonal: Positions
    last: Positions
    packed: Positions


@functools.lru_cache(maxsize=64)
def positions_of_leading(dimension: int, leading: int) -> Positions:
    """Where the packed triangle of a matrix of ``leading`` stands in that of a D x D matrix: the triangle of its first
    ``leading`` - 1 unknowns and its last.
    """
    kept = np.append(np.arange(leading - 1), dimension - 1)
    rows, columns = np.triu_indices(leading)
    positions: Positions = layout_of(dimension).unpack[kept[rows], kept[columns]]
    positions.flags.writeable = False
    return positions


@functools.lru_cache(maxsize=64)
def layout_of(dimension: int) -> Layout:
    """The layout of a D x D matrix; its arrays are shared between callers, and read-only."""
    rows, columns = np.triu_indices(dimension)
    packed = np.ravel_multi_index((rows, columns), (dimension, dimension)).astype(np.intp)
    unpack = np.zeros((dimension, dimension), dtype=np.intp)
    unpack[rows, columns] = unpack[columns, rows] = np.arange(len(rows))
    layout = Layout(unpack, unpack.diagonal().copy(), unpack[:, -1].copy(), packed)
    for positions in layout:
        positions.flags.writeable = False
    return layout
