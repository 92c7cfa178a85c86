"""The distributions of the scores of planes, by side: histograms that workers count and mergers keep; pure.

The problem: the best threshold of a plane for an objective, and the best candidate, follow from the scores of rows that
the plane had not learned, at every threshold and not only at one. And planes change with every model: a decision value
of 0.001 is extreme for one plane and nothing for the next.

How it is solved: a score is a decision value in the plane's own units. Zero is half way between the mean decision
values of the two sides. One is their root mean square deviation from it, with both sides given equal weight. Both
follow from the Gram matrices (see ``Problem.projections``) and travel with the plane. So scores of one model mean about
the same as those of the next, and all have the same bins: ``BINS`` of equal width from ``-REACH`` to ``REACH``, with
the outer ones open. Workers count rows by bin and side; integers add. A merger adds them to the counts that it has,
which fade with all rows, both sides alike, so that their proportion stays.
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
"""Scores beyond ±``REACH`` are in the outer bins. With both sides given equal weight, these are few."""

SCORE_BYTES = 2 * BINS * 8
"""The bytes of the histograms of both sides of one plane."""

EDGES: Floats = np.linspace(-REACH, REACH, BINS + 1)
"""The thresholds that can be chosen, float64[bins + 1]: exact multiples of a sixteenth."""

FADE_SCORES = 2000.0
"""The number of scored rows after which histograms have faded to 1/e, both sides alike. One extreme row in a thousand
must still be seen, and scores from before a change must be forgotten soon after it."""

FADE_RARE_SCORES = 20.0
"""The least number of rows of the rarer side in which histograms fade to 1/e, however rare that side is."""

PRIOR_SCORES = 1.0
"""Rows of each side that each histogram has at the start, spread as if decision values were normal."""


@dataclass(frozen=True, eq=False)
class ScoreHistory:
    """The faded scores of the candidates for one class against the rest, and of their blend.

    ``units`` float64[w, c, 2]: by window and choice, the product ``x·w`` with the score 0, and its increase from the
    score 0 to the score 1; NaN if there is no plane. ``counts`` float64[w * c + 1, 2 sides, BINS]: faded numbers of
    rows by bin, the last for the blended plane. ``threshold``: the score above which the blended plane claims a row.
    """

    units: Floats
    counts: Floats
    threshold: float

    def units_of_blend(self, shares: Floats) -> tuple[float, float]:
        """The units of the blend with ``shares`` float64[w, c]: the weighted means of the units of its candidates.

        The spread of a sum is at most the sum of the spreads. Candidates for the same class are so alike that the two
        are nearly equal.
        """
        taken = np.where((shares > 0.0)[..., None], shares[..., None] * self.units, 0.0).sum(axis=(0, 1))
        return float(taken[0]), float(taken[1])

    def bias_of_blend(self, shares: Floats) -> float:
        """The bias that puts the blended plane at the threshold."""
        zero, one = self.units_of_blend(shares)
        return zero + self.threshold * one


def score_units(biases: Floats, sides: Floats) -> Floats:
    """float64[..., 2]: the units of scores, see :class:`ScoreHistory`.

    ``biases`` float64[...]: the biases b that the solver gave. ``sides`` float64[..., 2 sides, 2]: the mean and the
    standard deviation of the decision values ``x·w - b`` of each side.
    """
    means, deviations = sides[..., 0], sides[..., 1]
    spread = np.hypot(deviations[..., 0], deviations[..., 1]) / np.sqrt(2.0)
    unit = np.hypot(spread, (means[..., 0] - means[..., 1]) / 2.0)
    return np.stack([biases + means.mean(axis=-1), np.where(unit == 0.0, 1.0, unit)], axis=-1)


def known_units(units: Floats) -> Floats | None:
    """The units float64[p, 2] of planes, or None if any of them is not finite or is not above zero."""
    return units if bool(np.isfinite(units).all()) and bool((units[:, 1] > 0.0).all()) else None


def normal_histograms(biases: Floats, sides: Floats) -> Floats:
    """float64[m, 2 sides, BINS]: the shares of scores in each bin for m planes, if decision values were normal.

    ``biases`` float64[m] and ``sides`` float64[m, 2, 2] as for :func:`score_units`.
    """
    # A merger alone needs it. At the top of the module, this import would make the others start half as long again.
    from scipy.special import ndtr  # noqa: PLC0415

    zero, one = np.moveaxis(score_units(biases, sides), -1, 0)
    means = (sides[..., 0] + (biases - zero)[..., None]) / one[..., None]
    deviations = np.maximum(sides[..., 1] / one[..., None], 1e-6)
    below = ndtr((EDGES[1:-1] - means[..., None]) / deviations[..., None])
    ends = np.zeros((*below.shape[:-1], 1))
    return np.asarray(np.diff(np.concatenate([ends, below, ends + 1.0], axis=-1), axis=-1), dtype=np.float64)


def bins_of(scores: Floats) -> tuple[Int64s, Flags]:
    """The bin of each score, int64 of its shape, and whether it is counted: NaN is not."""
    with np.errstate(all="ignore"):
        places = np.floor(scores * (BINS / (2.0 * REACH)) + BINS / 2.0)
    counted = ~np.isnan(places)
    return np.clip(np.where(counted, places, 0.0), 0, BINS - 1).astype(np.int64), counted


def tally(decisions: Floats, units: Floats, own: Flags) -> Int64s:
    """int64[m, 2 sides, BINS]: the numbers of rows by the bin of their score, for m planes.

    ``decisions`` float64[n, m]: decision values of the rows. ``units`` float64[m, 2]: the decision value with the score
    0, and the increase from there to the score 1. ``own`` bool[n] or bool[n, m]: which rows are of the class itself.
    NaN is not counted.
    """
    planes = decisions.shape[1]
    with np.errstate(all="ignore"):
        bins, counted = bins_of((decisions - units[:, 0]) / units[:, 1])
    sides = np.where(own, 0, 1)
    cells = (2 * np.arange(planes) + (sides if own.ndim == 2 else sides[:, None])) * BINS + bins
    return np.bincount(cells[counted], minlength=planes * 2 * BINS).reshape(planes, 2, BINS).astype(np.int64)


def faded(known: Floats, new: Int64s | None) -> tuple[Floats, float]:
    """The counts float64[m, 2 sides, BINS] after they have faded and the new ones are added; and the fading factor.

    The factor follows from the rows that the blended plane, the last of the m, has scored. Without new counts, nothing
    fades.
    """
    if new is None:
        return known, 1.0
    rows = new[-1].sum(axis=-1)
    so_far = known[-1].sum(axis=-1) + rows
    rare = float(so_far.min()) / max(1.0, float(so_far.sum()))
    factor = float(np.exp(-float(rows.sum()) * min(1.0 / FADE_SCORES, rare / FADE_RARE_SCORES)))
    return known * factor + new, factor
