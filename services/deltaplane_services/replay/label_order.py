"""Whether the rows of a file come sorted by their label.

Test-then-train asks of each row what the rows before it have taught. Where a file holds one class after the other, they
have taught nothing of the row's class, and every figure says so and no more. A sorted file has as few runs of equal
labels as classes, or twice as many where it was put together of two; rows in any mixed order have about
1 + n·(1 - Σp²) of them, with a deviation that is known, too (Mood 1940).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import ne
from typing import Any

from deltaplane import limits

__all__ = ["LabelOrder"]

_FEW = 0.05
"""Of the runs that chance gives: fewer are spells, as streams in the order of time may have them."""

_DEVIATIONS = 4.0


class LabelOrder:
    """Counts the runs of equal labels of a stream, chunk after chunk.

    ``positive``: the class that all others are taken against, None where each is its own.
    """

    def __init__(self, positive: str | None) -> None:
        self._positive = positive
        self._last: str | bool | None = None
        self._counts: Counter[str | bool] = Counter()
        self.runs = 0
        self.first_run = 0
        """Rows before the first one of another class."""

    def add(self, labels: Sequence[str]) -> None:
        """The labels of the rows that come next."""
        if not labels or len(self._counts) > limits.CLASSES:
            return
        seen: list[str | bool]
        seen = list(labels) if self._positive is None else [label == self._positive for label in labels]
        self._counts.update(seen)
        changes = sum(map(ne, seen[1:], seen[:-1])) + (seen[0] != self._last)
        if self.runs + changes <= 1:
            self.first_run += len(seen)
        elif self.runs <= 1:
            first = seen[0] if self.runs == 0 else self._last
            self.first_run += next(at for at, label in enumerate(seen) if label != first)
        self.runs += changes
        self._last = seen[-1]

    def to_dict(self) -> dict[str, Any]:
        """All that was counted, in plain values, as :meth:`go_on_from` takes it."""
        counts = [[label, count] for label, count in self._counts.items()]
        return {"last": self._last, "counts": counts, "runs": self.runs, "first_run": self.first_run}

    def go_on_from(self, counted: Mapping[str, Any]) -> None:
        """Begin with what another one had counted. Raises KeyError, TypeError and ValueError where it is none."""
        self._last = counted["last"]
        self._counts = Counter({label: int(count) for label, count in counted["counts"]})
        self.runs, self.first_run = int(counted["runs"]), int(counted["first_run"])

    @property
    def classes(self) -> int:
        """Classes that have come."""
        return len(self._counts)

    @property
    def expected_runs(self) -> float:
        """The runs that the same rows have in a random order, on average."""
        rows = self._counts.total()
        return rows + 1 - sum(count * count for count in self._counts.values()) / rows if rows else 0.0

    @property
    def is_sorted(self) -> bool:
        """Whether one class comes after the other, and chance would hardly ever have it so."""
        return 1 < self.classes <= limits.CLASSES and self.runs <= 2 * self.classes and self._is_no_chance()

    @property
    def has_spells(self) -> bool:
        """Whether labels come in long runs, far fewer than chance gives."""
        return 1 < self.classes <= limits.CLASSES and self.runs <= _FEW * self.expected_runs and self._is_no_chance()

    def _is_no_chance(self) -> bool:
        rows = self._counts.total()
        squares = sum(count**2 for count in self._counts.values())
        cubes = sum(count**3 for count in self._counts.values())
        variance = (squares * (squares + rows * (rows + 1)) - 2 * rows * cubes - rows**3) / (rows**2 * (rows - 1))
        return self.expected_runs - self.runs > _DEVIATIONS * math.sqrt(max(variance, 0.0))
