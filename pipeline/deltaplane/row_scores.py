"""What a stream scores that has a new model after every row.

The problem: a record, a delta and a model for each row cost a millisecond, nearly all of it the handling of messages,
so that nobody can afford to test a long stream row by row. How it is solved: the statistics after every row are one
running sum of integers, and the planes are made of it many at a time (:mod:`deltaplane.rowwise`), bit for bit those
that a merger would have published. Where that cannot be, one row after the other is learned and solved for.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from itertools import chain

import numpy as np
import numpy.typing as npt

from deltaplane.definition import StreamDefinition
from deltaplane.errors import SolveRefused
from deltaplane.merger import plane_of
from deltaplane.metrics import Confusion
from deltaplane.moments import Moments
from deltaplane.rowwise import Passage, decide, fits
from deltaplane.sample import AdmittedSamples
from deltaplane.solver import Plane
from deltaplane.statistics import Statistics, moments_by_class

Int32s = npt.NDArray[np.int32]


class RowScores:
    """The truth and prediction of every row of one partition, each predicted by the plane of the rows before it.

    Changed by ``add`` only. ``scores`` are those that the model of a stream of that partition alone carries when every
    row is a record of its own and is scored by the model that contains all rows before it.
    """

    def __init__(self, definition: StreamDefinition) -> None:
        assert self.takes(definition), "a stream whose rows cannot be scored one by one"
        self.definition = definition
        self.scores = Confusion()
        self._statistics = Statistics(definition.dimension)
        self._plane: Plane | None = None
        self._learned = False
        self._labels: list[str] = []
        self._held: deque[tuple[Int32s, Int32s]] = deque()
        self._rows = 0

    @staticmethod
    def takes(definition: StreamDefinition) -> bool:
        """Whether a stream is of this kind: one partition, one window of rows or over all, its rows as they come."""
        windows = definition.ladder.windows
        return (
            definition.partitions == 1
            and len(windows) == 1
            and windows[0].kind != "time"
            and definition.ladder.pane_rows == 1
            and not definition.automatic
            and definition.feature_map.kind == "none"
        )

    @property
    def plane(self) -> Plane | None:
        """The plane of all rows so far; where that is refused the last good one, as in a merger."""
        if self._learned:
            with suppress(SolveRefused):
                self._plane = plane_of(self._statistics, self.definition)
        self._learned = False
        return self._plane

    def add(self, samples: AdmittedSamples) -> None:
        """Score and learn the next rows, in their order; no id among them may have come before."""
        codes = self._recode(samples)
        at, counts = 0, Counter[tuple[str, str]]()
        while at < len(samples):
            at += self._add_many(samples, codes, at, counts) or self._add_one(samples, codes, at, counts)
        self.scores = self.scores + Confusion(counts)

    def _recode(self, samples: AdmittedSamples) -> Int32s:
        self._labels.extend(label for label in samples.labels if label not in self._labels)
        table = np.array([self._labels.index(label) for label in samples.labels], dtype=np.int32)
        return table[samples.codes]

    def _add_one(self, samples: AdmittedSamples, codes: Int32s, at: int, counts: Counter[tuple[str, str]]) -> int:
        plane = self.plane
        if plane is not None:
            guess = plane.classes[plane.predict(samples.features[at : at + 1])[0]]
            counts[self._labels[codes[at]], guess] += 1
        coming = samples.placed[at : at + 1], codes[at : at + 1]
        self._learn(coming, self._pushed_out(coming))
        return 1

    def _add_many(self, samples: AdmittedSamples, codes: Int32s, at: int, counts: Counter[tuple[str, str]]) -> int:
        """All rows from ``at`` on at once, and how many they are; 0 where there is no plane to begin with, or more than
        two classes are, or the numbers are too large.
        """
        plane, definition = self.plane, self.definition
        coming = samples.placed[at:], codes[at:]
        labels = {self._labels[code] for code in np.unique(coming[1]).tolist()} | self._statistics.counts().keys()
        if plane is None or plane.positive is None or definition.prior is not None or not labels <= set(plane.classes):
            return 0
        own = self._labels.index(plane.positive)
        rest = next(label for label in plane.classes if label != plane.positive)
        grams, nothing = self._statistics.grams(), Moments.zero(definition.dimension)
        going = self._pushed_out(coming)
        passage = Passage(
            own=grams.get(plane.positive, nothing),
            rest=grams.get(rest, nothing),
            coming=coming[0],
            coming_own=coming[1] == own,
            going=going[0],
            going_own=going[1] == own,
        )
        if not fits(definition.solver, passage):
            return 0
        last = plane.weights[0], float(plane.biases[0])
        decisions, refused = decide(passage, samples.features[at:], definition.grid, definition.solver, last)
        for truth, right in ((plane.positive, passage.coming_own), (rest, ~passage.coming_own)):
            claimed = int(np.count_nonzero(decisions[right] > 0.0))
            counts[truth, plane.positive] += claimed
            counts[truth, rest] += int(np.count_nonzero(right)) - claimed
        before, good = self._statistics, np.flatnonzero(~refused)
        self._learn(coming, going)
        if self.plane is plane and len(good):
            # After the last row none is determined. Then the plane before the last good row is the one that stays.
            entered, gone = good[-1], max(0, good[-1] - (len(refused) - len(going[1])))
            change = self._of((coming[0][:entered], coming[1][:entered])) - self._of((going[0][:gone], going[1][:gone]))
            self._plane = plane_of(before + change, definition)
        return len(refused)

    def _pushed_out(self, coming: tuple[Int32s, Int32s]) -> tuple[Int32s, Int32s]:
        """The rows that leave the window when these have come; some may be of these themselves."""
        window = self.definition.ladder.windows[0]
        excess = 0 if window.kind == "all" else max(0, self._rows + len(coming[1]) - window.length)
        rows, codes, found = [coming[0][:0]], [coming[1][:0]], 0
        for block in chain(self._held, [coming]):
            if found >= excess:
                break
            rows.append(block[0][: excess - found])
            codes.append(block[1][: excess - found])
            found += len(codes[-1])
        return np.concatenate(rows), np.concatenate(codes)

    def _learn(self, coming: tuple[Int32s, Int32s], going: tuple[Int32s, Int32s]) -> None:
        """Move the window on."""
        change = self._of(coming) - self._of(going)
        self._statistics, self._learned = self._statistics + change, True
        if self.definition.ladder.windows[0].kind == "all":
            return
        self._held.append(coming)
        self._rows += len(coming[1]) - len(going[1])
        left = len(going[1])
        while left:
            rows, codes = self._held.popleft()
            if len(codes) > left:
                self._held.appendleft((rows[left:], codes[left:]))
            left -= min(left, len(codes))

    def _of(self, rows: tuple[Int32s, Int32s]) -> Statistics:
        parts = moments_by_class(*rows, self._labels)
        return Statistics(self.definition.dimension, {(0, label): moments for label, moments in parts.items()})
