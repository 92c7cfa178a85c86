"""Falls of quality along a stream, found by a stated test, and the shifts of features there.

The test: is the recall of some class over the newest spans together lower than over all spans before them? Fisher's
one-sided exact test gives the p-value: the probability of so few hits if nothing had changed. It must be below 0.01
divided by the number of classes, spans and looks (Bonferroni), and the recall must be lower by at least ``LEAST_FALL``.
There are two looks at each span: at the latest spans, and if these show no fall, at four times as many, for classes
with few rows. A span belongs to a fall only if its own recall is lower, too. Such spans near each other are one fall.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from deltaplane.log.confusion import Confusion
from deltaplane.log.feature_sums import Shift, joined, shift_between
from deltaplane.log.prequential import Point

__all__ = ["CHANCE", "LEAST_FALL", "MOST_FALLS", "Fall", "falls"]

CHANCE = 0.01
LEAST_FALL = 0.05
_LOOKS = (1, 4)
MOST_FALLS = 20
"""The largest number of falls reported: the deepest ones."""


@dataclass(frozen=True, eq=False)
class Fall:
    """A fall of recall in the rows ``rows_from`` to ``rows_to``.

    ``label``: the class with the smallest p-value, which is ``chance``. ``before`` and ``during``: the confusions.
    ``shift``: the shift of the features over all rows, ``shift_of_class``: over the rows of the class; None if not
    known. ``first`` and ``last``: the indices of its first and last point.
    """

    rows_from: int
    rows_to: int
    label: str
    chance: float
    before: Confusion
    during: Confusion
    shift: Shift | None
    shift_of_class: Shift | None
    first: int
    last: int

    @property
    def depth(self) -> float:
        """The difference by which the recall of the label fell."""
        return _recall(self.before, self.label) - _recall(self.during, self.label)


def falls(points: Sequence[Point], spans_lately: int) -> list[Fall]:
    """The deepest falls along a stream, in its order; each look is at ``spans_lately`` spans, or four times as many."""
    labels = {truth for point in points for truth, _ in point.scores.counts}
    tests = max(1, len(_LOOKS) * len(points) * len(labels))
    found: list[Fall] = []
    flagged: dict[int, tuple[str, float]] = {}
    until = [Confusion()]
    for point in points:
        until.append(until[-1] + point.scores)
    for look in _LOOKS:
        known = set(flagged)
        for at in range(len(points)):
            places = range(max(0, at + 1 - look * spans_lately), at + 1)
            if known.isdisjoint(places):
                for place, worst in _lower(points, places, until[places.start], CHANCE / tests):
                    if place not in flagged or worst[1] < flagged[place][1]:
                        flagged[place] = worst
    for first, last in _runs(sorted(flagged), spans_lately):
        if (fall := _fall(points, first, last, flagged)) is not None:
            found.append(fall)
    deepest = sorted(found, key=lambda fall: -fall.depth)[:MOST_FALLS]
    return sorted(deepest, key=lambda fall: fall.rows_from)


def _lower(
    points: Sequence[Point], places: range, before: Confusion, limit: float
) -> Iterator[tuple[int, tuple[str, float]]]:
    """The indices among ``places`` with a lower recall, if the recall of all together is significantly lower."""
    worst = _worst(before, sum((points[place].scores for place in places), Confusion()))
    if worst is not None and worst[1] < limit:
        usual = _recall(before, worst[0]) - LEAST_FALL
        yield from ((place, worst) for place in places if _recall(points[place].scores, worst[0]) < usual)


def _worst(before: Confusion, now: Confusion) -> tuple[str, float] | None:
    """(class whose fall has the smallest p-value, the p-value), or None if no class fell."""
    usual, worst = before.truths(), None
    for label, rows in now.truths().items():
        if not usual.get(label) or _recall(before, label) - _recall(now, label) < LEAST_FALL:
            continue
        hits, hits_before = now.counts.get((label, label), 0), before.counts.get((label, label), 0)
        chance = _chance(hits, rows, hits_before, usual[label])
        if worst is None or chance < worst[1]:
            worst = label, chance
    return worst


def _chance(hits: int, rows: int, hits_before: int, rows_before: int) -> float:
    """The p-value of so few hits among the rows, if recall had not changed (Fisher's exact test, one-sided)."""
    # Only a report needs this slow import. At the top of the module it would delay every start.
    from scipy.special import gammaln  # noqa: PLC0415

    def choose(n: int, k: np.ndarray) -> np.ndarray:
        return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))

    total, right = rows + rows_before, hits + hits_before
    fewer = np.arange(max(0, right - rows_before), hits + 1, dtype=np.float64)
    logs = choose(rows, fewer) + choose(rows_before, right - fewer) - choose(total, np.array(float(right)))
    return float(min(1.0, np.exp(logs).sum()))


def _fall(points: Sequence[Point], first: int, last: int, flagged: Mapping[int, tuple[str, float]]) -> Fall | None:
    others, inside = points[:first], points[first : last + 1]
    before, during = (sum((point.scores for point in part), Confusion()) for part in (others, inside))
    label, chance = min((flagged[at] for at in range(first, last + 1) if at in flagged), key=lambda one: one[1])
    if not before.truths().get(label) or not during.truths().get(label):
        return None
    sums = [[point.sums for point in part if point.sums is not None] for part in (others, inside)]
    usual, now = (joined(part) for part in sums)
    shift = shift_of_class = None
    if usual and now:
        shift = shift_between(*(reduce(add, part.values()) for part in (usual, now)))
    if label in usual and label in now:
        shift_of_class = shift_between(usual[label], now[label])
    return Fall(
        inside[0].rows_from, inside[-1].rows_to, label, chance, before, during, shift, shift_of_class, first, last
    )


def _runs(places: Sequence[int], near: int) -> list[tuple[int, int]]:
    """(first, last) of each run of ascending ``places`` whose neighbours are at most ``near`` apart."""
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and runs[-1][1] >= place - near:
            runs[-1] = runs[-1][0], place
        else:
            runs.append((place, place))
    return runs


def _recall(scores: Confusion, label: str) -> float:
    rows = scores.truths().get(label, 0)
    return scores.counts.get((label, label), 0) / rows if rows else float("nan")
