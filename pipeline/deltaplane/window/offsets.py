"""The log offsets of the slots that a partition holds.

The problem: a column of offsets takes 8 bytes a row, while only that of the oldest row is ever asked for. How it is
solved: offsets come in the order of the log, equal ones where a record brings many rows, and ones with a constant step,
mostly one, where each brings a row. Such a run is kept as three numbers: its first slot, the offset there, its step.

Nothing is supposed of the offsets, though: any come back as they were given, and take about 12 bytes a row at worst,
since every run but the last has two rows or more. Steps are counted modulo 2^64, as NumPy does, so that one from end to
end of int64 is a step like any other.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

import numpy as np

from deltaplane.arrays import Int64s

__all__ = ["OffsetRuns"]

_GONE = 8
"""Runs are taken out when one in so many, at least, is held no longer: each then moves few others."""


class OffsetRuns:
    """Offsets of consecutive slots."""

    def __init__(self) -> None:
        # A slot has a place that never changes: how far its number is from this base.
        self._base = 0
        self._places = array("q")
        self._offsets = array("q")
        # A last run of a single row has no step yet; what stands for it is not looked at.
        self._steps = array("q")

    def append(self, slot: int, offsets: Int64s) -> None:
        """Add the offsets int64[n] of the slots from one on, which must be the one after the last."""
        if not len(offsets):
            return
        place, offset = slot - self._base, offsets.item(0)
        joined = self._join(place, offset)
        if len(offsets) == 1:
            if not joined:
                self._places.append(place)
                self._offsets.append(offset)
                self._steps.append(0)
            return
        steps = np.zeros(len(offsets), dtype=np.int64)
        np.subtract(offsets[1:], offsets[:-1], out=steps[:-1])
        if not joined:
            begins = _begins(steps, 0)
        elif steps.item(0) == self._steps[-1]:
            begins = _begins(steps, 0)[1:]
        else:
            begins = _begins(steps, 1)
        self._places.extend([place + begin for begin in begins])
        self._offsets.extend([offsets.item(begin) for begin in begins])
        self._steps.extend([steps.item(begin) for begin in begins])

    def _join(self, place: int, offset: int) -> bool:
        """Whether the offset of the next place goes on with the last run; one that has no step yet takes it."""
        if not self._places:
            return False
        rows = place - self._places[-1]
        if rows == 1:
            self._steps[-1] = _wrapped(offset - self._offsets[-1])
            return True
        return _wrapped(self._offsets[-1] + rows * self._steps[-1]) == offset

    def offset(self, slot: int) -> int:
        """The offset of a slot that is held."""
        place = slot - self._base
        run = bisect_right(self._places, place) - 1
        return _wrapped(self._offsets[run] + (place - self._places[run]) * self._steps[run])

    def let_go(self, until: int) -> None:
        """Forget every slot below ``until``, which may be the one after the last."""
        gone = bisect_right(self._places, until - self._base) - 1
        if gone * _GONE >= len(self._places):
            del self._places[:gone], self._offsets[:gone], self._steps[:gone]

    def renumber(self, shift: int) -> None:
        """Give every slot a number that is greater by ``shift``."""
        self._base += shift


def _begins(steps: Int64s, begin: int) -> list[int]:
    """The rows at which runs begin, from a row on; ``steps`` int64[n] lead from each of n rows, but the last, on."""
    begins = []
    for row in (steps[1:-1] != steps[:-2]).nonzero()[0].tolist():
        # The run ends at the row after, from which another step leads, no matter which, to where the next one begins.
        if row >= begin:
            begins.append(begin)
            begin = row + 2
    if begin < len(steps):
        begins.append(begin)
    return begins


def _wrapped(number: int) -> int:
    """The number of int64 that is equal modulo 2^64."""
    return (number + 2**63) % 2**64 - 2**63
