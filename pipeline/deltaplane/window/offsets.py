"""The log offsets of the slots that a partition holds.

The problem: a column of offsets takes 8 bytes a row, although only the oldest row's offset is ever asked for. How it is
solved: offsets come in the order of the log. If a record brings many rows, their offsets are equal. If each record
brings one row, their offsets grow by a constant step, mostly 1. Such a run is kept as three numbers: its first slot,
the offset there, and its step.

No order is relied on, though: any offsets come back as they were given. At worst they take about 12 bytes a row, since
every run but the last has two rows or more. Steps are computed modulo 2^64, as NumPy does, so that even the step from
one end of int64 to the other is a step like any other.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

import numpy as np

from deltaplane.arrays import Int64s

__all__ = ["OffsetRuns"]

_GONE = 8
"""Runs are removed once at least one in so many is no longer held, so that each removal moves few others."""


class OffsetRuns:
    """The log offsets of consecutive slots, as runs of a constant step."""

    def __init__(self) -> None:
        # The place of a slot is its distance from this base, which a new numbering does not change.
        self._base = 0
        self._places = array("q")
        self._offsets = array("q")
        # If the last run has a single row, it has no step yet, and its entry is not read.
        self._steps = array("q")

    def append(self, slot: int, offsets: Int64s) -> None:
        """Add the offsets int64[n] of n slots; ``slot``, the first of them, must be the one after the last."""
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
        """Whether the offset of the next place continues the last run; a run without a step gets its step from it."""
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

    def forget_below(self, until: int) -> None:
        """Forget every slot below ``until``, which may be the one after the last."""
        gone = bisect_right(self._places, until - self._base) - 1
        if gone * _GONE >= len(self._places):
            del self._places[:gone], self._offsets[:gone], self._steps[:gone]

    def renumber(self, shift: int) -> None:
        """Give every slot a number that is greater by ``shift``."""
        self._base += shift


def _begins(steps: Int64s, begin: int) -> list[int]:
    """The rows at which runs begin, from row ``begin`` on.

    ``steps`` int64[n] holds the step from each row to the next; the last entry is not read.
    """
    begins = []
    for row in (steps[1:-1] != steps[:-2]).nonzero()[0].tolist():
        # The run ends at the next row; the row after that begins another run, whatever the step between the two is.
        if row >= begin:
            begins.append(begin)
            begin = row + 2
    if begin < len(steps):
        begins.append(begin)
    return begins


def _wrapped(number: int) -> int:
    """The int64 number that equals ``number`` modulo 2^64."""
    return (number + 2**63) % 2**64 - 2**63
