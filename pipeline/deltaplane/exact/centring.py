"""Gram matrices of centred rows, computed on integers, so that nothing is lost to cancellation.

A Gram matrix is of rows [q, -1]. The centred one is of rows [q - centre, -1], with an integer centre near the mean.
Each of its entries is a polynomial of entries of the first, so that integers give it exactly; 128 bits hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats, Int64s, Positions
from deltaplane.exact.blocks import tiles
from deltaplane.exact.moments import Moments
from deltaplane.exact.triangle import Layout, layout_of

__all__ = ["Stack", "centred"]

_ENTRIES_AT_ONCE = 2**14
"""Entries that are centred in one go: they stay in the cache from one step to the next, which halves the time."""


def centred(moments: Moments, centre: Int64s, layout: Layout) -> Moments:
    """The Gram matrix of rows [q - centre, -1] from that of rows [q, -1], on 128-bit integers.

    ``centre`` int64[D] is below 2**45 in magnitude, and its last entry is 0. With centre k and d the column of -1:
    ``G'_ij = (G_ij + k_j G_id) + k_i (G_jd + k_j G_dd)``. It is computed in digits of 32 bits. If |k| < 2**30, a digit
    plus two products of k with a digit fit int64. A centre beyond that is split in two limbs.
    """
    if (np.abs(centre) >= 2**30).any():
        return _centred_far(moments, centre, layout)
    low, mask = moments.low.view(np.int64), 2**32 - 1
    digits = np.array([low & mask, low >> 32 & mask, moments.high & mask, moments.high >> 32])
    last = digits[:, layout.last]
    rows, columns = np.triu_indices(moments.dimension)
    digits += last[:, rows] * centre[columns]
    last = _carried(last + last[:, -1:] * centre)
    digits = _carried(digits + last[:, columns] * centre[rows])
    low = digits[1] << 32 | digits[0]
    return Moments(moments.dimension, digits[3] << 32 | digits[2], low.view(np.uint64))


def _centred_far(moments: Moments, centre: Int64s, layout: Layout) -> Moments:
    """As :func:`centred`, for a centre |k| < 2**45, split into ``upper * 2**30 + lower``."""
    low, mask = moments.low.view(np.int64), 2**32 - 1
    digits = np.array([low & mask, low >> 32 & mask, moments.high & mask, moments.high >> 32])
    upper, lower = centre >> 30, centre & 2**30 - 1
    last = digits[:, layout.last]
    rows, columns = np.triu_indices(moments.dimension)

    def times(digits: Int64s, at: Int64s | slice) -> Int64s:
        """The products of numbers in carried digits with the centre's entries ``at`` some places, modulo 2**128."""
        far = _carried(_carried(digits * upper[at]) << 30)
        return _carried(far + _carried(digits * lower[at]))

    digits = _carried(digits + times(last[:, rows], columns))
    last = _carried(last + times(last[:, -1:], slice(None)))
    digits = _carried(digits + times(last[:, columns], rows))
    low = digits[1] << 32 | digits[0]
    return Moments(moments.dimension, digits[3] << 32 | digits[2], low.view(np.uint64))


@dataclass(frozen=True, eq=False)
class Stack:
    """n exact Gram matrices of the same D: ``entries`` int64[n, D(D+1)/2] if all fit, else None and ``moments``.

    A difference of ``entries`` wraps round if it does not fit int64. So a caller stacks ``entries`` only if it knows
    that the differences it will use fit.
    """

    entries: Int64s | None
    moments: tuple[Moments, ...] = ()

    @classmethod
    def of(cls, moments: Sequence[Moments], *, int64: bool) -> Stack:
        """The stack of several Gram matrices; ``int64``: the caller knows that all their entries fit int64."""
        if not int64:
            return cls(None, tuple(moments))
        packed = moments[0].low[None] if len(moments) == 1 else np.array([part.low for part in moments])
        return cls(packed.view(np.int64))

    def __or__(self, other: Stack) -> Stack:
        """The stack of these Gram matrices followed by others."""
        if self.entries is not None and other.entries is not None:
            return Stack(np.concatenate([self.entries, other.entries]))
        return Stack(None, self.moments + other.moments)

    def __sub__(self, other: Stack) -> Stack:
        if self.entries is not None and other.entries is not None:
            return Stack(self.entries - other.entries)
        return Stack(None, tuple(mine - theirs for mine, theirs in zip(self.moments, other.moments, strict=True)))

    def at(self, positions: Positions) -> Int64s:
        """The entries [n, m] at m positions of each packed triangle: int64, or Python's integers if they do not fit."""
        if self.entries is not None:
            return self.entries.take(positions, axis=1)
        return np.array([part.integers(positions) for part in self.moments])

    def centred(self, centre: Int64s) -> Floats:
        """float64[n, D, D]: the Gram matrices of rows [q - centre, -1], each for its own row of ``centre`` int64[n, D].

        They are computed on integers, and each entry is rounded once.
        """
        count, dimension = centre.shape
        layout, gram = layout_of(dimension), np.empty((count, dimension, dimension))
        if self.entries is None:
            for at, part in enumerate(self.moments):
                gram[at] = centred(part, centre[at], layout).to_float()
            return gram
        last = self.entries.take(layout.last, axis=1)
        centred_last = last + centre * last[:, -1:]
        for sets, rows in tiles(count, dimension, dimension, _ENTRIES_AT_ONCE):
            exact = self.entries[sets].take(layout.unpack[rows], axis=1)
            exact += last[sets, rows, None] * centre[sets, None]
            exact += centre[sets, rows, None] * centred_last[sets, None]
            gram[sets, rows] = exact
        return gram


def _carried(digits: Int64s) -> Int64s:
    """The digits int64[4, n], lowest first, carried in place: all but the highest are then in [0, 2**32)."""
    for at in range(3):
        digits[at + 1] += digits[at] >> 32
        digits[at] &= 2**32 - 1
    return digits
