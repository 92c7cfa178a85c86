"""Whether the rows of a file are sorted by their label.

Test-then-train predicts each row from the rows before it. If a file holds one class after the other, the rows before
have taught nothing about the next class, and all figures are meaningless. A sorted file has as many runs of equal
labels as classes, or twice as many if two sorted files were joined. In a random order the number of runs has mean 1 +
n·(1 - Σp²) and a known standard deviation (Mood 1940).
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
"""The share of the expected runs below which labels come in spells, as streams in the order of time may have them."""

_DEVIATIONS = 4.0


class LabelOrder:
    """Counts the runs of equal labels of a stream, chunk after chunk.

    ``positive`` is the class that is compared with all others together; None compares each class by itself.
    """

    def __init__(self, positive: str | None) -> None:
        self._positive = positive
        self._last: str | bool | None = None
        self._counts: Counter[str | bool] = Counter()
        self.runs = 0
        self.first_run = 0
        """Number of rows before the first row of another class."""

    def add(self, labels: Sequence[str]) -> None:
        """Count the labels of the rows that come next."""
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
        """All counts as plain values, in the form that :meth:`go_on_from` takes."""
        counts = [[label, count] for label, count in self._counts.items()]
        return {"last": self._last, "counts": counts, "runs": self.runs, "first_run": self.first_run}

    def go_on_from(self, counted: Mapping[str, Any]) -> None:
        """Begin with the counts of an earlier replay.

        Raises KeyError, TypeError or ValueError if they are malformed.
        """
        self._last = counted["last"]
        self._counts = Counter({label: int(count) for label, count in counted["counts"]})
        self.runs, self.first_run = int(counted["runs"]), int(counted["first_run"])

    @property
    def classes(self) -> int:
        """Number of classes so far."""
        return len(self._counts)

    @property
    def expected_runs(self) -> float:
        """Mean number of runs that the same rows have in a random order."""
        rows = self._counts.total()
        return rows + 1 - sum(count * count for count in self._counts.values()) / rows if rows else 0.0

    @property
    def is_sorted(self) -> bool:
        """Whether the classes come one after the other, in an order that chance would hardly ever give."""
        return 1 < self.classes <= limits.CLASSES and self.runs <= 2 * self.classes and self._is_no_chance()

    @property
    def has_spells(self) -> bool:
        """Whether labels come in long runs: far fewer runs than chance gives."""
        return 1 < self.classes <= limits.CLASSES and self.runs <= _FEW * self.expected_runs and self._is_no_chance()

    def _is_no_chance(self) -> bool:
        rows = self._counts.total()
        squares = sum(count**2 for count in self._counts.values())
        cubes = sum(count**3 for count in self._counts.values())
        variance = (squares * (squares + rows * (rows + 1)) - 2 * rows * cubes - rows**3) / (rows**2 * (rows - 1))
        return self.expected_runs - self.runs > _DEVIATIONS * math.sqrt(max(variance, 0.0))
