"""When labels come that come late: so many rows after their own row, or a span of event time after it.

The problem: test-then-train learns a row as soon as it has been predicted. If the label comes weeks later, the plane
that predicts a row knows nothing of those weeks, and figures that pretend otherwise flatter. So rows wait here, in the
order in which they came: what is learned in the end is the same rows in the same order, whatever the delay.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Int64s
from deltaplane.errors import DefinitionError
from deltaplane.table_values import UNIT_MILLISECONDS, amount, span_text

__all__ = ["LabelClock", "LabelDelay"]


@dataclass(frozen=True)
class LabelDelay:
    """How late labels come: ``length`` rows after their own, or, if it is ``timed``, milliseconds of event time.

    The label of a row is known when the row that comes ``length`` rows later is predicted. A label cannot be known when
    its own row is: 0 rows are as good as 1. Raises :class:`DefinitionError` for a length that is out of range.
    """

    length: int
    timed: bool = False

    def __post_init__(self) -> None:
        if not self.timed <= self.length < limits.WINDOW_LENGTH:
            raise DefinitionError(
                f"label-delay: expected from {int(self.timed)} to below {limits.WINDOW_LENGTH} rows or milliseconds,"
                f" got {self.length}"
            )

    @classmethod
    def parse(cls, text: str) -> LabelDelay:
        """``500`` are rows, ``7d`` (or ms, s, m, h, w) is a span of event time."""
        number, unit = amount(text, "label-delay", "a number of rows (500) or a span of event time (7d, 12h, 90s)")
        return cls(number * UNIT_MILLISECONDS[unit], timed=True) if unit else cls(number)

    def __str__(self) -> str:
        """The text that :meth:`parse` makes this delay of."""
        return span_text(self.length) if self.timed else str(self.length)


class LabelClock:
    """Tells of how many rows the labels have come; changed by its methods only.

    Labels come in the order of their rows. A row's time is the largest event time of all rows up to it, so one that
    comes out of order does not hold up the labels of those behind it, nor overtake those before it.
    """

    def __init__(self, delay: LabelDelay) -> None:
        self._delay = delay
        self._rows = 0
        self._now = -(2**62)
        self._known = 0
        # The moments at which labels come, of rows from number _known on, block by block; none is empty.
        self._due: deque[Int64s] = deque()

    def arrive(self, times_milliseconds: Int64s) -> Int64s:
        """int64[n]: how many rows had their labels when each of the next n rows came.

        ``times_milliseconds`` int64[n] are their event times, which count only if the delay is timed.
        """
        first, self._rows = self._rows, self._rows + len(times_milliseconds)
        if not self._delay.timed:
            return np.maximum(0, np.arange(first, self._rows) - max(1, self._delay.length) + 1)
        if not len(times_milliseconds):
            return np.empty(0, dtype=np.int64)
        clock = np.maximum.accumulate(np.concatenate([[self._now], times_milliseconds]))[1:]
        self._due.append(clock + self._delay.length)
        self._now = int(clock[-1])
        near: list[Int64s] = []
        for due in self._due:
            near.append(due)
            if due[-1] > self._now:
                break
        return self._known + np.searchsorted(np.concatenate(near), clock, side="right").astype(np.int64)

    def known(self) -> int:
        """How many rows have their labels before the next one comes."""
        if not self._delay.timed:
            return max(0, self._rows - max(1, self._delay.length) + 1)
        while self._due and self._due[0][-1] <= self._now:
            self._known += len(self._due.popleft())
        if self._due:
            come = int(np.searchsorted(self._due[0], self._now, side="right"))
            self._known, self._due[0] = self._known + come, self._due[0][come:]
        return self._known
