"""From the score of a row to the probability of its class: curves from counts of scores by bin and side; pure.

The problem: a decision value ranks rows, but does not say how often such rows are of the class. That frequency differs
from stream to stream, changes along each stream, and is not a sigmoid if labels are noisy.

How it is solved: workers count the scores of the live plane on rows that it has not learned, by bin and side. The
counts are integers, so they add. A merger keeps them in two memories, a short and a long one; both fade with all scored
rows. Each memory gives the share of the class in every bin. Isotonic regression (pooling neighbours that are out of
order) makes the shares monotone. They are taken once as steps and once as lines between the middles of the steps. The
curve is the mean of these four. If there are several classes, each has a curve against the rest, and the probabilities
of a row are scaled to add to one.

Measured on seven streams: sigmoids fitted on the bins (Platt's, and the beta family) are as good where scores are close
to normal and far off where they are not (an error of 0.11 on SEA, against 0.01 here); one memory of any length is too
slow for one stream or too uncertain for another.
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
"""Numbers of scored rows after which each memory has faded to 1/e; it never fades so far before 20 rows of the rarer
side were scored."""

CALIBRATION_BYTES = 2 * len(MEMORIES) * BINS * 8 + 64
"""An upper bound of the bytes of one plane's calibration in a model; a delta needs fewer."""

_UNSEEN = 0.02
"""Rows of each side that every bin has at the start, so that no probability is 0 or 1."""

_MIDDLES: Floats = (EDGES[1:] + EDGES[:-1]) / 2.0


@dataclass(frozen=True, eq=False)
class Tallies:
    """Numbers of rows by the bin of their score. Tallies can be added.

    ``of``: class label to int64[2 sides, BINS]: the rows of the class itself, then all others.
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
    """The faded counts of the scores of a model's planes.

    ``of``: class label to counts float64[memories, 2 sides, BINS], for each class that has a plane.
    """

    of: Mapping[str, Floats]

    @functools.cached_property
    def curves(self) -> dict[str, Floats]:
        """Class label to the probability float64[BINS] in each bin, never falling; for classes scored on both sides."""
        seen = {target: counts for target, counts in self.of.items() if (counts[-1].sum(axis=1) > 0.0).all()}
        return {target: curve_of(counts) for target, counts in seen.items()}

    def probabilities(self, plane: Plane, decisions: Floats) -> Floats:
        """float64[n, k]: the probability of each of the plane's classes, from decision values float64[n, p] of n rows.

        See :func:`probabilities_by` and :meth:`curves_of`. All are NaN if there are no curves.
        """
        curves = self.curves_of(plane)
        if curves is None:
            return np.full((len(decisions), len(plane.classes)), np.nan)
        return probabilities_by(curves, plane, decisions)

    def curves_of(self, plane: Plane) -> Floats | None:
        """The curve float64[p, BINS] of each of the plane's targets, or None if there are none.

        There are none if no target has been scored on both sides yet, or if the plane has no units. A target that has
        not been scored on both sides has its share of the live rows as the probability in every bin.
        """
        known = self.curves
        if plane.units is None or not known.keys() & set(plane.targets):
            return None
        live = max(1, sum(plane.counts.values()))
        return np.array([known.get(of, np.full(BINS, plane.counts.get(of, 0) / live)) for of in plane.targets])

    def remembers(self, targets: Sequence[str], new: Tallies) -> Calibration:
        """The calibration after the ``new`` rows were scored, of the planes of ``targets`` alone."""
        return Calibration({target: _faded(self.of.get(target), new.of.get(target)) for target in targets})


def probabilities_by(curves: Floats, plane: Plane, decisions: Floats) -> Floats:
    """float64[n, k]: the probability of each of the plane's classes, from decision values float64[n, p] of n rows.

    ``curves`` float64[p, BINS]: for each of the plane's targets, the probability in each bin of a score. The
    probabilities of a row add to one. They are NaN if a decision value of the row is. The plane must have units.
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
    # Only probabilities need this slow import. At the top of the module it would delay the start of every process.
    from scipy.optimize import isotonic_regression  # noqa: PLC0415

    curves = []
    for memory in counts:
        rows = memory.sum(axis=0)
        weights = rows + 2.0 * _UNSEEN
        fitted = isotonic_regression((memory[0] + _UNSEEN) / weights, weights=weights)
        first = np.asarray(fitted.blocks[:-1])
        # A step stands for its rows, so the line passes through the mean score of those rows.
        middles = np.add.reduceat(weights * _MIDDLES, first) / np.add.reduceat(weights, first)
        curves += [fitted.x, np.interp(_MIDDLES, middles, fitted.x[first])]
    return np.asarray(np.mean(curves, axis=0), dtype=np.float64)


def tally_plane(plane: Plane, decisions: Floats, truths: Int64s, places: Mapping[str, int]) -> Tallies:
    """The number of rows in each bin of scores, for each target of the plane; empty if the plane has no units.

    ``decisions`` float64[n, p]: decision values. ``truths`` int64[n]: the true classes, as the codes of ``places``.
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
