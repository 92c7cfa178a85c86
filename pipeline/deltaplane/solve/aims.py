"""The weights of candidates, and the threshold of their blend, for an objective other than the G-mean; pure.

The value of a candidate is the value of the objective at the candidate's best threshold, by the histogram of its
scores. The blend is a plane of its own: it has its own histogram, and its threshold is the best one of that histogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.solve.objectives import Objective, Pace, best_threshold, shortfall
from deltaplane.solve.score_histograms import (
    BINS,
    EDGES,
    PRIOR_SCORES,
    ScoreHistory,
    faded,
    normal_histograms,
    score_units,
    tally,
)

__all__ = ["NO_TIME", "SHARPNESS", "Aim", "Quantized", "shares_by", "take_aim"]

SHARPNESS = 20.0
"""A candidate whose value is 0.01 lower has a share that is a fifth smaller. These values are less certain than
G-means: they depend on the few rows with extreme scores, and each candidate is judged at the best of its thresholds."""

NO_TIME = -(2**63)
"""The watermark of rows that have no event time."""


@dataclass(frozen=True, eq=False)
class Aim:
    """The objective that candidates are weighed by if it is not the G-mean, and the scores that give their values.

    ``of``: class label to histograms. ``milliseconds``: the event time in which the rows of the histograms came, faded
    as they are. ``watermark``: the largest event time so far, in milliseconds. ``unmet``: why no threshold is within
    the bound of the objective, or None if one is.
    """

    objective: Objective
    of: Mapping[str, ScoreHistory]
    milliseconds: float
    watermark: int
    unmet: str | None

    def tally(self, target: str, decisions: Floats, shares: Floats, own: Flags) -> Int64s:
        """int64[w * c + 1, 2 sides, BINS]: numbers of rows by bin of score, for a class's candidates, then its blend.

        ``decisions`` float64[n, w * c] are the products ``x·w`` of the candidates. ``shares`` float64[w, c] are their
        shares of the blend. ``own`` bool[n]: which rows are of the class.
        """
        history = self.of[target]
        units = np.vstack([history.units.reshape(-1, 2), history.units_of_blend(shares)])
        return tally(np.column_stack([decisions, decisions @ shares.ravel()]), units, own)


class Quantized(NamedTuple):
    """The decision values that the candidates for a class give to the rows that they were solved from, in summary.

    ``biases`` float64[w, c]: the biases that the solver gave. ``sides`` float64[w, c, 2 sides, 2]: the mean and
    standard deviation of the decision values of each side. Both are NaN if there is no plane.
    """

    biases: Floats
    sides: Floats


def take_aim(
    objective: Objective,
    planes: Mapping[str, Quantized],
    live: Mapping[str, int],
    known: Aim | None,
    scores: Mapping[str, Int64s],
    watermark: int,
) -> tuple[Aim, dict[str, Floats]]:
    """The aim after the new scores are counted, and for each class the shares float64[w, c] that follow from it.

    ``planes``: class label to its candidates. ``live``: the number of live rows of each side. ``known``: the aim
    before, under this objective or another, or None. ``scores``: class label to new counts
    int64[w * c + 1, 2 sides, BINS]. ``watermark``: the largest event time so far, in milliseconds.
    """
    last = NO_TIME if known is None else known.watermark
    elapsed = float(watermark - last) if NO_TIME not in (last, watermark) and watermark > last else 0.0
    of, shares, unmet, milliseconds = {}, {}, None, 0.0
    for target, (biases, sides) in planes.items():
        exist = ~np.isnan(biases.ravel())
        before, shape = None if known is None else known.of.get(target), (exist.size + 1, 2, BINS)
        counts = np.zeros(shape) if before is None or before.counts.shape != shape else before.counts
        counts, factor = faded(counts, scores.get(target))
        milliseconds = max(milliseconds, (0.0 if known is None else known.milliseconds) * factor + elapsed)
        expected = np.zeros(shape)
        expected[:-1][exist] = normal_histograms(biases.ravel()[exist], sides.reshape(-1, 2, 2)[exist])
        pace = _pace(counts[-1], live[target] / max(1, sum(live.values())), milliseconds)
        values = best_threshold(objective, *_both(counts[:-1] + PRIOR_SCORES * expected[:-1]), pace).values
        # As with the G-mean, a candidate that was never tried has no value yet.
        tried = counts[:-1].sum(axis=(1, 2)) > 0.0
        by_plane = shares_by(np.where(tried, values, min(0.0, values.min())), exist, SHARPNESS)
        expected[-1] = np.tensordot(by_plane, expected[:-1], axes=1)
        best = best_threshold(objective, *_both(counts[-1:] + PRIOR_SCORES * expected[-1:]), pace)
        if not best.within[0]:
            unmet = shortfall(objective, float(best.values[0]), float(counts[-1].sum()))
        shares[target] = by_plane.reshape(biases.shape)
        of[target] = ScoreHistory(score_units(biases, sides), counts, float(EDGES[best.edges[0]]))
    return Aim(objective, of, milliseconds, watermark, unmet), shares


def _both(histograms: Floats) -> tuple[Floats, Floats]:
    return histograms[:, 0], histograms[:, 1]


def _pace(counts: Floats, share: float, milliseconds: float) -> Pace:
    """How often rows of each side come: as often as in the scored rows, and at first in the proportion of live rows."""
    own, rest = counts.sum(axis=-1).tolist()
    return Pace(own + 2.0 * PRIOR_SCORES * share, rest + 2.0 * PRIOR_SCORES * (1.0 - share), milliseconds)


def shares_by(values: Floats, exist: Flags, sharpness: float) -> Floats:
    """The shares of candidates in their blend, by their ``values``; they add to 1, or are all 0 if none exists.

    ``values`` float64 and ``exist`` bool, of the same shape. Shares are proportional to ``exp(sharpness · value)``.
    """
    if not exist.any():
        return np.zeros(exist.shape)
    shares = np.where(exist, np.exp(sharpness * (values - values[exist].max())), 0.0)
    return np.asarray(shares / shares.sum(), dtype=np.float64)
