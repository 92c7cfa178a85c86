"""How well decision values rank rows at any threshold: areas under curves, and the precision at the top.

The problem: ROC and precision-recall curves need all scores in order, and a stream has no end. How it is solved: scores
are counted by class in a fixed number of bins, whose width grows with the score (``STEPS`` bins per doubling), so that
their scale need not be known. The order of rows in one bin is not known. So each figure comes with the lowest and the
highest value that any order of these rows could give, ties or not; the figure of the scores themselves is between them.
The figure itself is the exact one if all scores in a bin are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.log.confusion import NAN

__all__ = ["SCORE_BINS", "STEPS", "Estimate", "ScoreCurve", "ScoreTally", "bins_of"]

STEPS = 256
"""Bins per doubling of a score: scores in one bin differ by less than 1/256 of their size."""

_LOWEST, _HIGHEST = -24, 16
"""Exponents of the powers of two between which scores are told apart. Smaller scores are in the bin of zero, larger
ones in the last bin."""

_SIDE = STEPS * (_HIGHEST - _LOWEST)

SCORE_BINS = 2 * _SIDE + 1
"""The number of bins, for scores of both signs and zero."""


class Estimate(NamedTuple):
    """A figure, and the bounds of the figure that the scores themselves would give; NaN if undefined."""

    value: float
    low: float
    high: float


_UNDEFINED = Estimate(NAN, NAN, NAN)


def bins_of(scores: Floats) -> Int64s:
    """int64[n]: the bin of each score; a higher score is never in a lower bin. Scores must not be NaN."""
    parts, powers = np.frexp(np.minimum(np.abs(scores), 2.0**_HIGHEST))
    # frexp is exact: the part is from a half to below one, or zero.
    steps = np.floor((parts - 0.5) * (2 * STEPS)).astype(np.int64)
    places = np.where(
        (powers <= _LOWEST) | (parts == 0.0), 0, (powers.astype(np.int64) - 1 - _LOWEST) * STEPS + steps + 1
    )
    places = np.minimum(places, _SIDE)
    return np.asarray(_SIDE + np.where(scores < 0, -places, places), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ScoreCurve:
    """Numbers of rows by the bin of their score: int64[SCORE_BINS] of the class itself (``own``) and of all others."""

    own: Int64s
    rest: Int64s

    @property
    def positives(self) -> int:
        """The number of rows of the class."""
        return int(self.own.sum())

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.positives + int(self.rest.sum())

    def roc_auc(self) -> Estimate:
        """The probability that a row of the class scores higher than another row; a tie counts as a half.

        NaN unless there are rows of both.
        """
        positives, negatives = self.positives, self.rows - self.positives
        if not positives or not negatives:
            return _UNDEFINED
        # Python's integers: products of counts are exact, however many rows there are.
        below = np.concatenate([[0], np.cumsum(self.rest)[:-1]])
        seen = np.flatnonzero(self.own)
        won = sum(int(n) * int(b) for n, b in zip(self.own[seen], below[seen], strict=True))
        tied = sum(int(n) * int(m) for n, m in zip(self.own[seen], self.rest[seen], strict=True))
        pairs = positives * negatives
        return Estimate((2 * won + tied) / (2 * pairs), won / pairs, (won + tied) / pairs)

    def average_precision(self) -> Estimate:
        """The area under the precision-recall curve: the sum of precisions, each times the increase of recall.

        NaN without rows of the class.
        """
        positives = self.positives
        if not positives:
            return _UNDEFINED
        own, rest = self._from_the_top()
        found, alarms = np.cumsum(own), np.cumsum(rest)
        value = _dot(own, found / (found + alarms)) / positives
        low = _dot(own - alarms * _harmonic(found - own + alarms, own), np.ones(len(own))) / positives
        # At best, the rows of the class come first in their bin and tie: each has the precision of the last of them.
        high = _dot(own, found / np.maximum(found + alarms - rest, 1)) / positives
        return Estimate(value, min(low, value), max(high, value))

    def precision_at(self, rows: int) -> Estimate:
        """The share of the class among the ``rows`` rows with the highest scores; NaN if there are fewer rows."""
        if not 0 < rows <= self.rows:
            return _UNDEFINED
        own, rest = self._from_the_top()
        until = np.cumsum(own + rest)
        at = int(np.searchsorted(until, rows))
        found, in_bin, others = int(own[:at].sum()), int(own[at]), int(rest[at])
        taken = rows - (int(until[at]) - in_bin - others)
        value = found + in_bin * taken / (in_bin + others)
        return Estimate(value / rows, (found + max(0, taken - others)) / rows, (found + min(in_bin, taken)) / rows)

    def _from_the_top(self) -> tuple[Int64s, Int64s]:
        """Numbers of rows of the class and of others, for each bin with rows, the highest bin first."""
        seen = np.flatnonzero(self.own + self.rest)[::-1]
        return self.own[seen], self.rest[seen]


def _harmonic(start: Int64s, terms: Int64s) -> Floats:
    """float64[m]: the sums ``1/(start + 1) + … + 1/(start + terms)``."""
    # Only curves need this slow import. At the top of the module it would delay every start.
    from scipy.special import digamma  # noqa: PLC0415

    return np.asarray(digamma(start + terms + 1.0) - digamma(start + 1.0), dtype=np.float64)


def _dot(left: Floats | Int64s, right: Floats) -> float:
    return float(np.dot(np.asarray(left, dtype=np.float64), right))


class ScoreTally:
    """Counts the scores of rows by class; changed by :meth:`add` only.

    A plane scores its own positive class against the other. If the definition names none, that class may change along a
    stream. So counts are kept by the plane's positive class: 164 KB for each of them and each class.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Int64s] = {}

    def add(self, positive: str, scores: Floats, truth: Int64s, labels: Mapping[int, str]) -> None:
        """Count rows by ``scores`` float64[n], high for ``positive``; ``truth`` int64[n] are codes of ``labels``."""
        known: Flags = ~np.isnan(scores)
        bins, truth = bins_of(scores[known]), truth[known]
        for code in np.unique(truth).tolist():
            counts = np.bincount(bins[truth == code], minlength=SCORE_BINS).astype(np.int64)
            key = positive, labels[code]
            self._counts[key] = self._counts[key] + counts if key in self._counts else counts

    def curve(self, positive: str) -> ScoreCurve:
        """The curve of a class; scores that are high for another class count with the opposite sign."""
        sides = [np.zeros(SCORE_BINS, dtype=np.int64), np.zeros(SCORE_BINS, dtype=np.int64)]
        for (high, label), counts in self._counts.items():
            sides[label != positive] = sides[label != positive] + (counts if high == positive else counts[::-1])
        return ScoreCurve(*sides)
