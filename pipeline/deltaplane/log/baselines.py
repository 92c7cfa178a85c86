"""What rows would score without a model worth the name, beside the model: the least that it has to be better than.

- ``majority``: the most frequent class of all rows before.
- ``last label``: the class of the row before; if labels come in spells it is hard to beat, and has learned nothing.
- ``frozen``: the plane of the first rows, never learned on since; what it is worse by is what learning on is worth.

All are tested on the rows that the model is tested on, and no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.log.confusion import Confusion
from deltaplane.log.scoring import ScoredRows
from deltaplane.solve.solver import Plane

__all__ = ["FROZEN_ROWS", "Baselines", "KnownThen"]

FROZEN_ROWS = 1000
"""The plane is frozen once so many rows have been learned, or the longest window is full, if that is shorter."""


@dataclass(frozen=True)
class KnownThen:
    """What was known when each of n rows came, whose labels come late: None if it was nothing.

    ``last`` is the class of the last row that had its label, ``most`` the most frequent class of those that had.
    """

    last: Sequence[str | None]
    most: Sequence[str | None]

    def of_rows(self, rows: Int64s) -> KnownThen:
        """The same of some of the rows int64[m] alone."""
        return KnownThen([self.last[row] for row in rows.tolist()], [self.most[row] for row in rows.tolist()])


class Baselines:
    """The scores of all baselines along a stream; changed by ``add`` and ``learned`` only.

    ``window_rows``: the longest window of the stream, 0 for one that is not of so many rows.
    """

    def __init__(self, window_rows: int = 0) -> None:
        self.majority, self.last_label, self.frozen = Confusion(), Confusion(), Confusion()
        self.frozen_at: int | None = None
        self._freeze_at = min(FROZEN_ROWS, window_rows or FROZEN_ROWS)
        self._plane: Plane | None = None
        self._labels: list[str] = []
        self._seen: Counter[int] = Counter()
        self._last: dict[int, int] = {}

    def add(
        self,
        partition: int,
        labels: Sequence[str],
        codes: Int64s,
        scored: Sequence[ScoredRows],
        known_then: KnownThen | None = None,
    ) -> None:
        """The next rows of a partition: ``codes`` int64[n] of their classes in ``labels``, and which were scored.

        ``known_then``: what was known when they came, if their labels have come late; else it is all rows before.
        """
        truth = self._coded(labels)[codes]
        if known_then is None:
            before = np.concatenate([[self._last.get(partition, -1)], truth[:-1]])
            most = np.full(len(truth), self._code(self.most_frequent))
        else:
            before, most = self._coded_as_known(known_then.last), self._coded_as_known(known_then.most)
        for piece in scored:
            own, guesses, known = truth[piece.rows], self._guesses(piece), self._labels
            self.majority += _counted(own, most[piece.rows], known)
            self.last_label += _counted(own, before[piece.rows], known)
            self.frozen += Confusion.of(own, guesses, known)
        self._seen.update(dict(zip(*(part.tolist() for part in np.unique(truth, return_counts=True)), strict=True)))
        if len(truth):
            self._last[partition] = int(truth[-1])

    @property
    def most_frequent(self) -> str | None:
        """The most frequent class of all rows so far, the first by name of several."""
        return min(
            (self._labels[code] for code in self._seen),
            key=lambda label: (-self._seen[self._labels.index(label)], label),
            default=None,
        )

    def learned(self, rows: int, plane: Plane | None) -> None:
        """Note that a model of the first ``rows`` has this plane."""
        if self._plane is None and plane is not None and rows >= self._freeze_at:
            self._plane, self.frozen_at = plane, rows

    def _guesses(self, piece: ScoredRows) -> Int64s:
        """int64[n]: what the frozen plane predicts; until there is one it is the plane of the time."""
        if self._plane is None:
            return self._coded(piece.classes)[piece.chosen]
        plane = self._plane
        return self._coded(plane.classes)[plane.choose(plane.decide(piece.inputs))]

    def _code(self, label: str | None) -> int:
        """The code of a label, -1 of none."""
        return -1 if label is None else int(self._coded([label])[0])

    def _coded_as_known(self, labels: Sequence[str | None]) -> Int64s:
        return np.array([*map(self._code, labels)], dtype=np.int64)

    def _coded(self, labels: Sequence[str]) -> Int64s:
        self._labels += [label for label in labels if label not in self._labels]
        return np.array([self._labels.index(label) for label in labels], dtype=np.int64)


def _counted(truth: Int64s, told: Int64s, labels: Sequence[str]) -> Confusion:
    """The rows of which something was told: codes int64[n] of ``labels``, -1 where nothing was."""
    return Confusion.of(truth[told >= 0], told[told >= 0], labels)
