"""Rows of a replay that wait for labels that come late, and what was predicted of them when they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.log.answers import answer
from deltaplane.log.baselines import KnownThen
from deltaplane.log.confusion import Confusion
from deltaplane.log.label_delay import LabelClock, LabelDelay
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.readers import RowBlock, rechunk

__all__ = ["HeldRows", "Labelled"]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows whose labels have come, what was known when they came themselves, and the scores of what was predicted then.

    Rows that came before there was a plane, and those that no plane can answer, are in no scores.
    """

    block: RowBlock
    known_then: KnownThen
    served: Confusion


@dataclass(frozen=True, eq=False)
class _Held:
    """n rows, and of each the class that was predicted, the last label known and the most frequent one, or None."""

    block: RowBlock
    predicted: list[str | None]
    last: list[str | None]
    most: list[str | None]

    def __len__(self) -> int:
        return len(self.block)

    def cut(self, start: int, stop: int) -> _Held:
        part = slice(start, stop)
        return _Held(self.block.cut(start, stop), self.predicted[part], self.last[part], self.most[part])


class HeldRows:
    """Rows in the order in which they came, until their labels come; changed by its methods only.

    It holds the rows of one delay in memory.
    """

    def __init__(self, definition: StreamDefinition, delay: LabelDelay) -> None:
        self._definition = definition
        self._clock = LabelClock(delay)
        self._held: deque[_Held] = deque()
        self._let_go = self._came = 0
        self._last: str | None = None

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return self._came - self._let_go

    def arrive(self, block: RowBlock, model: Model | None, most_frequent: str | None) -> None:
        """Predict rows with the model that there is, and hold them.

        ``most_frequent`` is the most frequent class of the rows that have been let go of.
        """
        if not len(block):
            return
        self._came += len(block)
        predicted: list[str | None] = [None] * len(block)
        if model is not None and model.plane is not None:
            predicted = answer(model.plane, self._definition, block.features).classes
        times = block.event_times_milliseconds
        known = self._clock.arrive(np.zeros(len(block), dtype=np.int64) if times is None else times)
        self._held.append(_Held(block, predicted, [], [most_frequent] * len(block)))
        self._held[-1].last.extend(self._labels_before(known))

    def come(self) -> Labelled | None:
        """The rows whose labels have come by now; None if there are none."""
        return self._let_go_of(self._clock.known() - self._let_go)

    def rest(self, most: int) -> Labelled | None:
        """At most so many of the rows that still wait, as if their labels had come; None if none waits."""
        return self._let_go_of(min(most, self.rows))

    def _let_go_of(self, rows: int) -> Labelled | None:
        parts: list[_Held] = []
        missing = rows
        while missing:
            first = self._held.popleft()
            if len(first) > missing:
                self._held.appendleft(first.cut(missing, len(first)))
                first = first.cut(0, missing)
            parts.append(first)
            missing -= len(first)
        if not parts:
            return None
        self._let_go += rows
        block = next(rechunk([part.block for part in parts], rows))
        self._last = self._class_of(block.labels[-1])
        predicted, last, most = (
            [one for part in parts for one in getattr(part, name)] for name in ("predicted", "last", "most")
        )
        return Labelled(block, KnownThen(last, most), self._scores(block.labels, predicted))

    def _scores(self, labels: Sequence[str], predicted: list[str | None]) -> Confusion:
        truths = map(self._class_of, labels)
        pairs = [(truth, told) for truth, told in zip(truths, predicted, strict=True) if told is not None]
        names = sorted({name for pair in pairs for name in pair})
        places = {name: at for at, name in enumerate(names)}
        codes = np.array([[places[truth], places[told]] for truth, told in pairs], dtype=np.int64).reshape(-1, 2)
        return Confusion.of(codes[:, 0], codes[:, 1], names)

    def _labels_before(self, known: Int64s) -> list[str | None]:
        """The last label that was known of each of some rows, by how many were known int64[n], which never fall."""
        found: list[str | None] = []
        parts, begin, at = iter(self._held), self._let_go, next(iter(self._held))
        next(parts)
        for count in known.tolist():
            if count <= self._let_go:
                found.append(self._last)
                continue
            while count > begin + len(at):
                begin, at = begin + len(at), next(parts)
            found.append(self._class_of(at.block.labels[count - begin - 1]))
        return found

    def _class_of(self, label: str) -> str:
        return self._definition.classes.class_of(label) or label
