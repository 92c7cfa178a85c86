"""The scores of the last samples of a stream, from the cumulative scores that its models carry."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from deltaplane.log.confusion import Confusion

__all__ = ["Cell", "RecentScores"]

Cell = tuple[str, str]


class RecentScores:
    """Differences of scores between consecutive models, kept until newer ones alone hold ``most_rows`` rows.

    So ``recent`` covers at least that many samples, if there were so many, and at most one model's samples more. A
    model with fewer scores than an earlier one (from a merger that has just started from its checkpoints) adds nothing.
    """

    def __init__(self, most_rows: int) -> None:
        self.total = Confusion()
        self._most_rows = most_rows
        self._parts: deque[tuple[int, Mapping[Cell, int]]] = deque()
        self._cells: Counter[Cell] = Counter()
        self._rows = 0
        self._begun = False

    @property
    def recent(self) -> Confusion:
        """The scores of the last samples."""
        return Confusion(self._cells)

    def see(self, scores: Confusion) -> None:
        """Take the cumulative scores of a model.

        Those of the first model count as recent only if they are at most ``most_rows``.
        """
        known = self.total.counts
        part = {cell: count - known.get(cell, 0) for cell, count in scores.counts.items() if count > known.get(cell, 0)}
        if not part:
            self._begun = True
            return
        self.total = self.total + Confusion(part)
        rows = sum(part.values())
        if not self._begun and rows > self._most_rows:
            self._begun = True
            return
        self._begun = True
        self._parts.append((rows, part))
        self._cells.update(part)
        self._rows += rows
        while self._rows - self._parts[0][0] >= self._most_rows:
            old_rows, old = self._parts.popleft()
            self._cells.subtract(old)
            self._rows -= old_rows
        # Drop counts of zero, which would otherwise stay for every pair that ever occurred.
        self._cells = +self._cells
