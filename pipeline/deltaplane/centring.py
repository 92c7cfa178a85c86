"""Moves a Gram matrix to the origin of its rows' means, on integers, so that nothing is lost to cancellation.

The rows of a Gram matrix are [q, -1]; those of the moved one are [q - centre, -1] with an integer centre. Every entry
of the moved matrix is a polynomial of entries of the other, so it is exact in integers of any width; 128 bits hold it.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deltaplane.moments import Moments

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]

_ENTRIES_AT_ONCE = 2**14
"""Entries that are moved in one go: they stay in the cache from one step to the next, which halves the time."""


class Layout(NamedTuple):
    """Positions in the packed upper triangle: of the whole matrix, of its diagonal, of its last column."""

    unpack: Positions
    diagonal: Positions
    last: Positions


@functools.lru_cache(maxsize=16)
def layout_of(dimension: int) -> Layout:
    """Where the entries of a D x D Gram matrix stand in its packed triangle."""
    rows, columns = np.triu_indices(dimension)
    unpack = np.zeros((dimension, dimension), dtype=np.intp)
    unpack[rows, columns] = unpack[columns, rows] = np.arange(len(rows))
    return Layout(unpack, unpack.diagonal().copy(), unpack[:, -1].copy())


def moved(moments: Moments, centre: Integers, layout: Layout) -> Moments:
    """The Gram matrix of rows [q - centre, -1] from that of rows [q, -1], on 128-bit integers.

    ``G'_ij = (G_ij + k_j G_id) + k_i (G_jd + k_j G_dd)``, with centre k, d the column of -1, and k_d = 0. In digits of
    32 bits: |k| < 2**30, so that a digit and two products with a digit fit int64.
    """
    low, mask = moments.low.view(np.int64), 2**32 - 1
    digits = np.array([low & mask, low >> 32 & mask, moments.high & mask, moments.high >> 32])
    last = digits[:, layout.last]
    rows, columns = np.triu_indices(moments.dimension)
    digits += last[:, rows] * centre[columns]
    last = _carried(last + last[:, -1:] * centre)
    digits = _carried(digits + last[:, columns] * centre[rows])
    low = digits[1] << 32 | digits[0]
    return Moments(moments.dimension, digits[3] << 32 | digits[2], low.view(np.uint64))


def centred(moments: Moments, centre: Integers, layout: Layout, *, narrow: bool, out: Floats | None = None) -> Floats:
    """float64[D, D]: the Gram matrix of rows [q - centre, -1], formed on integers, each entry rounded once.

    ``narrow``: its entries are known to fit int64, so that wrapping round on the way to them does no harm. ``out``:
    where to put it; by default a new array.
    """
    dimension = moments.dimension
    gram = np.empty((dimension, dimension)) if out is None else out
    if not narrow:
        gram[:] = moved(moments, centre, layout).to_float()
        return gram
    packed = moments.low.view(np.int64)
    last = packed[layout.last]
    moved_last = last + centre * last[-1]
    step = -(-_ENTRIES_AT_ONCE // dimension)
    for start in range(0, dimension, step):
        rows = slice(start, start + step)
        exact = packed[layout.unpack[rows]]
        exact += last[rows, None] * centre
        exact += centre[rows, None] * moved_last
        gram[rows] = exact
    return gram


def _carried(digits: Integers) -> Integers:
    """Carry int64[4, n] digits in place, so that all but the highest are in [0, 2**32)."""
    for at in range(3):
        digits[at + 1] += digits[at] >> 32
        digits[at] &= 2**32 - 1
    return digits
