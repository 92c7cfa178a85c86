"""How the scores of planes are spread, by class: histograms that workers count and mergers remember; pure.

The problem: where to put a plane's threshold for what somebody asks for, and which candidate is best at it, follows
from its scores of rows that it had not learned, at every threshold and not only at one. And planes change with every
model: a decision value of a thousandth is far out for one and nothing for the next.

How it is solved: a score is a decision value in the plane's own units: zero is half way between the mean decision
values of the two sides, one is their spread about it, with both sides given equal weight. Both follow from the Gram
matrices (see ``Problem.projections``) and travel with the plane. So scores of one model mean about what those of the
next do, and the bins are the same for all: ``BINS`` of equal width from ``-REACH`` to ``REACH``, the outer ones open.
Workers count rows by bin and side: integers, which add. A merger adds them to what it knows, which fades with all rows,
both sides alike, so that their proportion stays what it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s

__all__ = [
    "BINS",
    "EDGES",
    "FADE_RARE_SCORES",
    "FADE_SCORES",
    "PRIOR_SCORES",
    "REACH",
    "SCORE_BYTES",
    "ScoreHistory",
    "bins_of",
    "faded",
    "known_units",
    "normal_histograms",
    "score_units",
    "tally",
]

BINS = 128
"""Bins of a histogram of scores."""

REACH = 4.0
"""Scores beyond are in the outer bins. With both sides given equal weight, few are."""

SCORE_BYTES = 2 * BINS * 8
"""What the histograms of both sides of one plane take."""

EDGES: Floats = np.linspace(-REACH, REACH, BINS + 1)
"""The thresholds that can be chosen, float64[bins + 1]: exact multiples of a sixteenth."""

FADE_SCORES = 2000.0
"""Histograms fade by 1/e with so many scored rows, both sides alike: one in a thousand far out must still be seen, and
what was learned before a change forgotten soon after it."""

FADE_RARE_SCORES = 20.0
"""They fade no faster than by 1/e with so many rows of the side that has fewer, however rare it is."""

PRIOR_SCORES = 1.0
"""Rows of each side that each histogram begins with, spread as normal decision values are."""


@dataclass(frozen=True, eq=False)
class ScoreHistory:
    """What is known of the scores of the candidates for one class against the rest, and of the plane blended of them.

    ``units`` float64[w, c, 2]: by window and choice the decision value ``x·w`` that has the score 0, and by how much it
    grows to the score 1; NaN where there is no plane. ``counts`` float64[w * c + 1, 2 sides, BINS] are faded rows by
    bin, the last ones of the blended plane. ``threshold``: the score above which the blended plane claims a row.
    """

    units: Floats
    counts: Floats
    threshold: float

    def units_of_blend(self, shares: Floats) -> tuple[float, float]:
        """The units of the plane that is blended by ``shares`` float64[w, c]: means of those of its candidates.

        A spread of a sum is at most the sum of spreads; candidates for the same class are so alike that it is about it.
        """
        taken = np.where((shares > 0.0)[..., None], shares[..., None] * self.units, 0.0).sum(axis=(0, 1))
        return float(taken[0]), float(taken[1])

    def bias_of_blend(self, shares: Floats) -> float:
        """The bias that puts the blended plane at the threshold."""
        zero, one = self.units_of_blend(shares)
        return zero + self.threshold * one


def score_units(biases: Floats, sides: Floats) -> Floats:
    """float64[..., 2]: what scores are counted from and in, see :class:`ScoreHistory`.

    ``biases`` float64[...] are those that the planes were solved with, ``sides`` float64[..., 2 sides, 2] the mean and
    the deviation of the decision values ``x·w - b`` of each side.
    """
    means, deviations = sides[..., 0], sides[..., 1]
    spread = np.hypot(deviations[..., 0], deviations[..., 1]) / np.sqrt(2.0)
    unit = np.hypot(spread, (means[..., 0] - means[..., 1]) / 2.0)
    return np.stack([biases + means.mean(axis=-1), np.where(unit == 0.0, 1.0, unit)], axis=-1)


def known_units(units: Floats) -> Floats | None:
    """The units float64[p, 2] of planes, or None where scores in them would say nothing: they are not finite."""
    return units if bool(np.isfinite(units).all()) and bool((units[:, 1] > 0.0).all()) else None


def normal_histograms(biases: Floats, sides: Floats) -> Floats:
    """float64[m, 2 sides, BINS]: how the scores of m planes would be spread were decision values normal, adding to 1.

    ``biases`` float64[m] and ``sides`` float64[m, 2, 2] as for :func:`score_units`.
    """
    # Only a merger cuts. All others would wait for this at their start, half as long as for everything else.
    from scipy.special import ndtr  # noqa: PLC0415

    zero, one = np.moveaxis(score_units(biases, sides), -1, 0)
    means = (sides[..., 0] + (biases - zero)[..., None]) / one[..., None]
    deviations = np.maximum(sides[..., 1] / one[..., None], 1e-6)
    below = ndtr((EDGES[1:-1] - means[..., None]) / deviations[..., None])
    ends = np.zeros((*below.shape[:-1], 1))
    return np.asarray(np.diff(np.concatenate([ends, below, ends + 1.0], axis=-1), axis=-1), dtype=np.float64)


def bins_of(scores: Floats) -> tuple[Int64s, Flags]:
    """The bin of each score, int64 of its shape, and whether it is a number: what is none has no bin."""
    with np.errstate(all="ignore"):
        places = np.floor(scores * (BINS / (2.0 * REACH)) + BINS / 2.0)
    counted = ~np.isnan(places)
    return np.clip(np.where(counted, places, 0.0), 0, BINS - 1).astype(np.int64), counted


def tally(decisions: Floats, units: Floats, own: Flags) -> Int64s:
    """int64[m, 2 sides, BINS]: rows by the bin of their score, for m planes.

    ``decisions`` float64[n, m] are values ``x·w``, ``units`` float64[m, 2] what they are counted from and in; ``own``
    bool[n] or bool[n, m]: which rows are of the class itself. What is no number is not counted.
    """
    planes = decisions.shape[1]
    with np.errstate(all="ignore"):
        bins, counted = bins_of((decisions - units[:, 0]) / units[:, 1])
    sides = np.where(own, 0, 1)
    cells = (2 * np.arange(planes) + (sides if own.ndim == 2 else sides[:, None])) * BINS + bins
    return np.bincount(cells[counted], minlength=planes * 2 * BINS).reshape(planes, 2, BINS).astype(np.int64)


def faded(known: Floats, new: Int64s | None) -> tuple[Floats, float]:
    """What is known, float64[m, 2 sides, BINS], with new counts added to it; and the factor by which it has faded.

    The last of the m is the blended plane's, whose rows are those of the trial.
    """
    if new is None:
        return known, 1.0
    rows = new[-1].sum(axis=-1)
    so_far = known[-1].sum(axis=-1) + rows
    rare = float(so_far.min()) / max(1.0, float(so_far.sum()))
    factor = float(np.exp(-float(rows.sum()) * min(1.0 / FADE_SCORES, rare / FADE_RARE_SCORES)))
    return known * factor + new, factor
