"""Weighing candidates, and cutting their blend, for what is asked for; pure.

Each candidate is worth what it comes to at its own best threshold, by the histogram of its scores. The blend is another
plane than any of them, so it has a histogram of its own, and is cut at the best threshold of that.
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
"""The share of a candidate that is worth a percent less is a fifth smaller. What is asked for is known less exactly
than the G-mean, since it hangs on few rows far out, and the best threshold of each candidate flatters it."""

NO_TIME = -(2**63)
"""The watermark of rows that have no event time."""


@dataclass(frozen=True, eq=False)
class Aim:
    """What candidates are weighed for where it is not the G-mean, and the scores that say what each is worth.

    ``of`` is by class label. ``milliseconds`` of event time have gone by while the rows in the histograms came, faded
    as they are, up to ``watermark``. ``unmet``: why no threshold is within the bound of the objective; None if one is.
    """

    objective: Objective
    of: Mapping[str, ScoreHistory]
    milliseconds: float
    watermark: int
    unmet: str | None

    def tally(self, target: str, decisions: Floats, shares: Floats, own: Flags) -> Int64s:
        """int64[w * c + 1, 2 sides, BINS]: rows by the bin of their score, for the candidates of a class and the blend.

        ``decisions`` float64[n, w * c] are ``x·w`` of the candidates, whose ``shares`` float64[w, c] make the blend;
        ``own`` bool[n]: which rows are of the class.
        """
        history = self.of[target]
        units = np.vstack([history.units.reshape(-1, 2), history.units_of_blend(shares)])
        return tally(np.column_stack([decisions, decisions @ shares.ravel()]), units, own)


class Quantized(NamedTuple):
    """Where the candidates for a class have the rows that they were solved from.

    ``biases`` float64[w, c] are those they were solved with, ``sides`` float64[w, c, 2 sides, 2] the mean and deviation
    of the decision values of each side; NaN where there is no plane.
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
    """What is known of all scores, with the new ones, and for each class the shares float64[w, c] that follow from it.

    ``live``: rows of each side. ``known``: what was before, under this objective or another. ``watermark`` is the
    largest event time so far, in milliseconds.
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
        # As with the G-mean, what was never tried is not worth anything yet.
        tried = counts[:-1].sum(axis=(1, 2)) > 0.0
        by_plane = shares_by(np.where(tried, values, min(0.0, values.min())), exist, SHARPNESS)
        expected[-1] = np.tensordot(by_plane, expected[:-1], axes=1)
        cut = best_threshold(objective, *_both(counts[-1:] + PRIOR_SCORES * expected[-1:]), pace)
        if not cut.within[0]:
            unmet = shortfall(objective, float(cut.values[0]), float(counts[-1].sum()))
        shares[target] = by_plane.reshape(biases.shape)
        of[target] = ScoreHistory(score_units(biases, sides), counts, float(EDGES[cut.edges[0]]))
    return Aim(objective, of, milliseconds, watermark, unmet), shares


def _both(histograms: Floats) -> tuple[Floats, Floats]:
    return histograms[:, 0], histograms[:, 1]


def _pace(counts: Floats, share: float, milliseconds: float) -> Pace:
    """How often rows come: as they were scored, and before there are any in the proportion that is live."""
    own, rest = counts.sum(axis=-1).tolist()
    return Pace(own + 2.0 * PRIOR_SCORES * share, rest + 2.0 * PRIOR_SCORES * (1.0 - share), milliseconds)


def shares_by(values: Floats, exist: Flags, sharpness: float) -> Floats:
    """The shares of candidates that are worth ``values``, and of which some ``exist``; they add to 1, if any does."""
    if not exist.any():
        return np.zeros(exist.shape)
    shares = np.where(exist, np.exp(sharpness * (values - values[exist].max())), 0.0)
    return np.asarray(shares / shares.sum(), dtype=np.float64)
