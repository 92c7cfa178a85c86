"""The scores of a stream that has a new model after every row.

The problem: a record, a delta and a model for each row take a millisecond, nearly all of it for the handling of
messages, so a test of a long stream row by row takes too long. How it is solved: the statistics after every row are one
running sum of integers, and the planes are solved from it many at a time (:mod:`deltaplane.solve.sliding_planes`), bit
for bit those that a merger would have published. If that is not possible, rows are learned and solved for one by one.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import numpy as np

from deltaplane.arrays import Floats, Int32s, Int64s
from deltaplane.errors import SolveRefused
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics, moments_by_class
from deltaplane.log.confusion import Confusion
from deltaplane.log.merger import plane_of
from deltaplane.log.scoring import NoteScored, ScoredRows
from deltaplane.solve.last_rows import LastRows, Rows
from deltaplane.solve.sliding_planes import Passage, decide, fits
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import AdmittedSamples

__all__ = ["RowScores"]


class RowScores:
    """The truth and prediction of every row of one partition, each predicted by the plane of the rows before it.

    Changed by ``add`` only. ``scores``: those that a model of a stream with this partition alone would carry if every
    row were a record of its own, scored by the model that contains all rows before it. ``rows_alone``: the number of
    rows that were solved for one by one. ``alone_because``: the latest reason for that. ``note`` is called with the
    predictions.
    """

    def __init__(self, definition: StreamDefinition, note: NoteScored | None = None) -> None:
        assert self.takes(definition), "a stream whose rows cannot be scored one by one"
        self._note = note
        self.definition = definition
        self.scores = Confusion()
        self.rows_alone = 0
        self.alone_because = ""
        self._statistics = Statistics(definition.dimension)
        self._plane: Plane | None = None
        self._learned = False
        self._labels: list[str] = []
        self._window = LastRows(definition.nested_windows.windows[0].length or None)

    @staticmethod
    def takes(definition: StreamDefinition) -> bool:
        """Whether the rows of a stream can be scored here.

        It must have one partition, one window (of rows or without end) with panes of one row, no map, and not be in the
        automatic mode.
        """
        windows = definition.nested_windows.windows
        return (
            definition.partitions == 1
            and len(windows) == 1
            and not windows[0].timed
            and definition.nested_windows.pane_rows == 1
            and not definition.automatic
            and definition.feature_map.kind == "none"
        )

    @property
    def plane(self) -> Plane | None:
        """The plane of all rows so far, or if that is refused the last good one, as in a merger."""
        if self._learned:
            with suppress(SolveRefused):
                self._plane = plane_of(self._statistics, self.definition)
        self._learned = False
        return self._plane

    def add(self, samples: AdmittedSamples) -> None:
        """Score and learn the next rows, in their order. No id among them may have come before."""
        rows = Rows(samples.quantized, self._recode(samples))
        at, counts = 0, Counter[tuple[str, str]]()
        while at < len(rows):
            left = samples.features[at:], rows[at:], counts
            places = samples.rows[at:]
            at += self._add_many(*left, places) or self._add_one(*left, places)
        self.scores = self.scores + Confusion(counts)

    def _recode(self, samples: AdmittedSamples) -> Int32s:
        self._labels.extend(label for label in samples.labels if label not in self._labels)
        table = np.array([self._labels.index(label) for label in samples.labels], dtype=np.int32)
        return table[samples.codes]

    def _add_one(self, features: Floats, coming: Rows, counts: Counter[tuple[str, str]], places: Int64s) -> int:
        """Score and learn the first of the rows; returns 1."""
        self.rows_alone += 1
        plane, first = self.plane, coming[:1]
        if plane is not None:
            values = plane.decide(features[:1])
            chosen = plane.choose(values)
            counts[self._labels[first.labels[0]], plane.classes[chosen[0]]] += 1
            if self._note is not None:
                self._note(ScoredRows(places[:1], plane.classes, chosen, values, features[:1], plane.positive))
        self._learn(first, *self._window.moved_on(first))
        return 1

    def _add_many(self, features: Floats, coming: Rows, counts: Counter[tuple[str, str]], places: Int64s) -> int:
        """Score and learn all rows at once; returns their number, or 0 if that is not possible.

        It is not possible without a plane, with a prior, with more than two classes, or if the numbers are too large.
        """
        plane, definition = self.plane, self.definition
        labels = {self._labels[code] for code in np.unique(coming.labels).tolist()} | self._statistics.counts().keys()
        # Statistics are per label. So all other labels are one class here only if there is just one of them.
        if len(labels) > 2:
            self.alone_because = f"{len(labels)} classes (two are solved for many rows at a time)"
            return 0
        if plane is None or plane.positive is None or definition.prior is not None or not labels <= set(plane.classes):
            return 0
        rest = next(label for label in plane.classes if label != plane.positive)
        grams, nothing = self._statistics.grams(), Moments.zero(definition.dimension)
        going, window = self._window.moved_on(coming)
        passage = Passage(
            own=grams.get(plane.positive, nothing),
            rest=grams.get(rest, nothing),
            coming=coming,
            going=going,
            positive=self._labels.index(plane.positive),
        )
        if not fits(definition.solver, passage):
            self.alone_because = "weights by class, or squares that add up to 2**61 (a coarser grid)"
            return 0
        last = plane.weights[0], float(plane.biases[0])
        decisions, refused = decide(passage, features, definition.grid, definition.solver, last)
        for truth, right in zip((plane.positive, rest), passage.sides(coming), strict=True):
            claimed = int(np.count_nonzero(decisions[right] > 0.0))
            counts[truth, plane.positive] += claimed
            counts[truth, rest] += int(np.count_nonzero(right)) - claimed
        if self._note is not None:
            values = decisions[:, None]
            self._note(ScoredRows(places, plane.classes, plane.choose(values), values, features, plane.positive))
        before, good = self._statistics, np.flatnonzero(~refused)
        self._learn(coming, going, window)
        if self.plane is plane and len(good):
            # If the statistics after the last row determine no plane, the plane before the last good row stays.
            entered, gone = good[-1], max(0, good[-1] - (len(coming) - len(going)))
            self._plane = plane_of(before + self._of(coming[:entered]) - self._of(going[:gone]), definition)
        return len(coming)

    def _learn(self, coming: Rows, going: Rows, window: LastRows) -> None:
        """Add the rows that come, take out those that go, and replace the window."""
        change = self._of(coming) - self._of(going)
        self._statistics, self._learned, self._window = self._statistics + change, True, window

    def _of(self, rows: Rows) -> Statistics:
        parts = moments_by_class(rows.quantized, rows.labels, self._labels)
        return Statistics(self.definition.dimension, {(0, label): moments for label, moments in parts.items()})
