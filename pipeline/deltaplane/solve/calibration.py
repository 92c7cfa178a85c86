"""From the score of a row to the probability of its class: curves from counts of scores by bin and side; pure.

The problem: a decision value ranks rows, and says nothing of how often such rows are of the class. That differs from
stream to stream, changes along each, and is no sigmoid where classes are mixed up by noise.

How it is solved: workers count the scores of the live plane on rows that it has not learned, by bin and side: integers,
which add. A merger remembers them twice, in a short and in a long memory that fade with all rows. Each memory gives the
share of the class in every bin, made monotone by pooling neighbours that are out of order (isotonic regression), once
as steps and once as lines between the middles of the steps. The curve is the mean of these four. Of several classes,
each has a curve against the rest, and a row's probabilities are scaled to add to one.

Measured on seven streams: sigmoids fitted on the bins (Platt's, and the beta family) are as good where scores are close
to normal and far off where they are not (an error of 0.11 on SEA, where this has 0.01); one memory of any length is too
slow for one stream or too unsure for another.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deltaplane.arrays import Floats, Int64s
from deltaplane.solve.score_histograms import BINS, EDGES, FADE_RARE_SCORES, bins_of, tally
from deltaplane.solve.solver import Plane

__all__ = ["CALIBRATION_BYTES", "MEMORIES", "Calibration", "Tallies", "curve_of", "probabilities_by", "tally_plane"]

MEMORIES = (800.0, 5000.0)
"""Scored rows with which each memory fades by 1/e; no faster than with 20 rows of the rarer side."""

CALIBRATION_BYTES = 2 * len(MEMORIES) * BINS * 8 + 64
"""What a model carries of each plane, and more than a delta does."""

_UNSEEN = 0.02
"""Rows of each side that every bin begins with: no probability is 0 or 1."""

_MIDDLES: Floats = (EDGES[1:] + EDGES[:-1]) / 2.0


@dataclass(frozen=True, eq=False)
class Tallies:
    """Rows by the bin of their score. A value that adds.

    ``of``: class label to int64[2 sides, BINS], the rows of the class itself and all others.
    """

    of: Mapping[str, Int64s] = field(default_factory=dict)

    def __add__(self, other: Tallies) -> Tallies:
        total = dict(self.of)
        for target, counts in other.of.items():
            total[target] = total[target] + counts if target in total else counts
        return Tallies(total)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tallies):
            return NotImplemented
        same = self.of.keys() == other.of.keys()
        return same and all(np.array_equal(self.of[target], other.of[target]) for target in self.of)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Calibration:
    """What is known of the scores of a model's plane.

    ``of``: for each class that has a plane, float64[memories, 2 sides, BINS], faded counts.
    """

    of: Mapping[str, Floats]

    @functools.cached_property
    def curves(self) -> dict[str, Floats]:
        """The probability float64[BINS] of a class in each bin, never falling; of classes with rows on both sides."""
        seen = {target: counts for target, counts in self.of.items() if (counts[-1].sum(axis=1) > 0.0).all()}
        return {target: curve_of(counts) for target, counts in seen.items()}

    def probabilities(self, plane: Plane, decisions: Floats) -> Floats:
        """float64[n, k]: the probability of each of the plane's classes, by the decision values float64[n, p] of rows.

        See :func:`probabilities_by`. A class with a plane that has never been scored on both sides has the share of
        live rows that it has. All are NaN where no row of either side has been scored yet, or units are not known.
        """
        curves = self.curves_of(plane)
        if curves is None:
            return np.full((len(decisions), len(plane.classes)), np.nan)
        return probabilities_by(curves, plane, decisions)

    def curves_of(self, plane: Plane) -> Floats | None:
        """The curve float64[p, BINS] of each of the plane's targets; None where no row of either side was scored yet.

        None, too, where the units of the plane's scores are not known.
        """
        known = self.curves
        if plane.units is None or not known.keys() & set(plane.targets):
            return None
        live = max(1, sum(plane.counts.values()))
        return np.array([known.get(of, np.full(BINS, plane.counts.get(of, 0) / live)) for of in plane.targets])

    def remembers(self, targets: Sequence[str], new: Tallies) -> Calibration:
        """What is known after new rows were scored, of the planes of ``targets`` alone."""
        return Calibration({target: _faded(self.of.get(target), new.of.get(target)) for target in targets})


def probabilities_by(curves: Floats, plane: Plane, decisions: Floats) -> Floats:
    """float64[n, k]: the probability of each of the plane's classes, by decision values float64[n, p] of n rows.

    ``curves`` float64[p, BINS] has a probability for each bin of a score, for each of the plane's targets. What a row
    gets adds to one; it is NaN where a decision value of the row is. The plane has units.
    """
    assert plane.units is not None, "curves are of scores, which have units"
    places, counted = bins_of((decisions - plane.units[:, 0]) / plane.units[:, 1])
    own = np.where(np.asarray(counted.all(axis=1))[:, None], curves[np.arange(len(curves)), places], np.nan)
    if plane.positive is None:
        return np.asarray(own / own.sum(axis=1, keepdims=True), dtype=np.float64)
    positive = np.array([label == plane.positive for label in plane.classes])
    return np.where(positive, own, 1.0 - own)


def curve_of(counts: Floats) -> Floats:
    """The probability float64[BINS] of a class in each bin, from faded counts float64[memories, 2 sides, BINS]."""
    # Only who is asked for a probability needs this. All others would wait for it at their start.
    from scipy.optimize import isotonic_regression  # noqa: PLC0415

    curves = []
    for memory in counts:
        rows = memory.sum(axis=0)
        weights = rows + 2.0 * _UNSEEN
        fitted = isotonic_regression((memory[0] + _UNSEEN) / weights, weights=weights)
        first = np.asarray(fitted.blocks[:-1])
        # A step stands for its rows, so a line goes through the middle of these.
        middles = np.add.reduceat(weights * _MIDDLES, first) / np.add.reduceat(weights, first)
        curves += [fitted.x, np.interp(_MIDDLES, middles, fitted.x[first])]
    return np.asarray(np.mean(curves, axis=0), dtype=np.float64)


def tally_plane(plane: Plane, decisions: Floats, truths: Int64s, places: Mapping[str, int]) -> Tallies:
    """How many rows have their score in each bin, by the class of each plane; nothing where units are not known.

    ``decisions`` float64[n, p] are decision values, ``truths`` int64[n] the classes of the rows as ``places`` has them.
    """
    if plane.units is None:
        return Tallies()
    targets = plane.targets
    counts = tally(decisions, plane.units, truths[:, None] == np.array([places[target] for target in targets]))
    return Tallies(dict(zip(targets, counts, strict=True)))


def _faded(known: Floats | None, new: Int64s | None) -> Floats:
    counts = np.zeros((len(MEMORIES), 2, BINS)) if known is None else known
    if new is None:
        return counts
    sides = counts.sum(axis=2) + new.sum(axis=1)
    rare = sides.min(axis=1) / np.maximum(1.0, sides.sum(axis=1))
    factors = np.exp(-float(new.sum()) * np.minimum(1.0 / np.array(MEMORIES), rare / FADE_RARE_SCORES))
    return np.asarray(counts * factors[:, None, None] + new, dtype=np.float64)
