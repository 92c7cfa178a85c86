"""Falls of quality with what changed at that time, and drifts of features regardless of labels, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from deltaplane.arrays import Positions
from deltaplane.log import confusion
from deltaplane.log.confusion import Confusion
from deltaplane.log.falls import Fall, falls
from deltaplane.log.feature_sums import FeatureSums, Shift, joined, shift_between
from deltaplane.log.prequential import Point
from deltaplane_services.observe.blend_tables import blend_shares
from deltaplane_services.replay.result import ReplayResult

__all__ = ["FEATURES_TOLD", "SPANS_LATELY", "changes", "shift_of", "spans_lately"]

SPANS_LATELY = 40
"""What has been lately, in the series, is what has been over this part of all spans."""

FEATURES_TOLD = 5
"""The most features that are listed for a change: those that shifted most."""

_LEAST_SHARE = 0.1
"""The smallest change of a choice's share that is listed."""


def spans_lately(points: Sequence[Point]) -> int:
    """How many of the points have been lately."""
    return max(1, len(points) // SPANS_LATELY)


def changes(result: ReplayResult, spans_lately: int) -> dict[str, Any]:
    """The falls of quality and the drifts of features in a replay."""
    return {
        "falls": [_fall(fall, result) for fall in falls(result.points, spans_lately)],
        "drifts": [
            {
                "row": drift.row,
                "features": _told(result, Shift(drift.shift, drift.spread), np.flatnonzero(drift.certain)),
            }
            for drift in result.yardsticks.drifts
        ],
    }


def shift_of(points: Sequence[Point], at: int, spans_lately: int) -> list[float] | None:
    """The shift of the mean of each feature, in standard deviations; None if it is not known.

    It compares the last ``spans_lately`` points up to ``at`` with as many points before them. It is not known if there
    are too few points, or if one of them holds no sums.
    """
    middle = at + 1 - spans_lately
    before, now = (points[max(0, end - spans_lately) : end] for end in (middle, at + 1))
    if middle < 1 or any(point.sums is None for point in (*before, *now)):
        return None
    found: list[float] = shift_between(_added(before), _added(now)).means.tolist()
    return found


def _added(points: Sequence[Point]) -> FeatureSums:
    return reduce(add, joined(point.sums for point in points if point.sums is not None).values())


def _fall(fall: Fall, result: ReplayResult) -> dict[str, Any]:
    start, end = result.points[max(0, fall.first - 1)], result.points[fall.last]
    during = [_side(fall.during, end, result), _side(fall.before, start, result)]
    return {
        "rows_from": fall.rows_from,
        "rows_to": fall.rows_to,
        "class": fall.label,
        "chance": fall.chance,
        "during": during[0],
        "before": during[1],
        "recall_before": confusion.recalls(fall.before)[fall.label],
        "recall_during": confusion.recalls(fall.during)[fall.label],
        "features": [] if fall.shift is None else _told(result, fall.shift, None),
        "features_of_class": [] if fall.shift_of_class is None else _told(result, fall.shift_of_class, None),
        "blend": _blend_changes(start, end, result),
    }


def _side(scores: Confusion, point: Point, result: ReplayResult) -> dict[str, float]:
    """The G-mean and the imbalance ratio of some rows, and the imbalance ratio of the live rows at their end."""
    return {
        "gmean": confusion.summary(scores, result.positive).gmean,
        "imbalance_ratio": confusion.imbalance_ratio(scores.truths()),
        "live_imbalance_ratio": confusion.imbalance_ratio(point.counts),
    }


def _told(result: ReplayResult, shift: Shift, of: Positions | None) -> list[dict[str, Any]]:
    """The features that shifted most, largest first: among ``of``, or among all if that is None."""
    order = np.argsort(-shift.sizes, kind="stable")
    chosen = [at for at in order.tolist() if of is None or at in of][:FEATURES_TOLD]
    names = result.definition.features
    return [
        {"feature": names[at], "shift": float(shift.means[at]), "spread": float(shift.spreads[at])} for at in chosen
    ]


def _blend_changes(start: Point, end: Point, result: ReplayResult) -> list[dict[str, Any]]:
    """Choices of the automatic mode whose share of the plane differs between the start and the end."""
    shares = [blend_shares(point.leaning, result.definition) or {} for point in (start, end)]
    return [
        {"kind": kind, "choice": choice, "before": before, "during": during}
        for kind, choices in shares[1].items()
        for choice, during in choices.items()
        if abs(during - (before := shares[0].get(kind, {}).get(choice, 0.0))) >= _LEAST_SHARE
    ]
