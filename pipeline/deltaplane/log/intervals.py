"""Confidence intervals of measures, from the numbers of rows of each class.

The problem: beside each other, a sensitivity of 1.0 on two rows looks better than one of 0.9 on two thousand, and a
jump with two positive rows looks like news.

How it is solved: a recall is a share of the rows of its class, and has Wilson's interval (1927), which stays between 0
and 1 and is reliable for few rows. The G-mean is a root of a product of independent shares. Its interval is combined
from theirs on the logarithmic scale (method of variance estimates recovery, Zou and Donner 2008). Rows are taken to be
independent: if neighbours are alike, as in runs of one label, the true intervals are wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from deltaplane.log.confusion import NAN, Binary, Confusion

__all__ = ["NORMAL_95", "Interval", "gmean_interval", "measure_intervals", "share_interval"]

NORMAL_95 = 1.959963984540054
"""The number of standard deviations about the mean that hold 95 % of a normal distribution."""

Interval = tuple[float, float]
"""Lower and upper end; NaN without rows."""


def share_interval(hits: int, rows: int, deviations: float = NORMAL_95) -> Interval:
    """Wilson's interval of a share that is estimated by ``hits`` of ``rows``; NaN without rows."""
    if not rows:
        return NAN, NAN
    share, squared = hits / rows, deviations * deviations
    middle = (share + squared / (2 * rows)) / (1 + squared / rows)
    half = deviations / (1 + squared / rows) * math.sqrt(share * (1 - share) / rows + squared / (4 * rows * rows))
    # At the ends the formula gives 0 and 1, except for rounding.
    return (0.0 if hits == 0 else max(0.0, middle - half)), (1.0 if hits == rows else min(1.0, middle + half))


def gmean_interval(sides: Sequence[tuple[int, int]], deviations: float = NORMAL_95) -> Interval:
    """The interval of the k-th root of a product of k shares, each given as (hits, rows); NaN if one has no rows."""
    if not sides or any(rows == 0 for _, rows in sides):
        return NAN, NAN
    shares = [hits / rows for hits, rows in sides]
    limits = [share_interval(hits, rows, deviations) for hits, rows in sides]
    if min(shares) == 0.0:
        # The logarithm of zero is infinite. So only the upper ends of the shares bound the product.
        return 0.0, math.prod(high for _, high in limits) ** (1 / len(sides))
    logs = [math.log(share) for share in shares]
    middle = math.fsum(logs) / len(logs)
    down = math.hypot(*(log - math.log(low) for log, (low, _) in zip(logs, limits, strict=True))) / len(logs)
    up = math.hypot(*(math.log(high) - log for log, (_, high) in zip(logs, limits, strict=True))) / len(logs)
    return math.exp(middle - down), min(1.0, math.exp(middle + up))


def measure_intervals(confusion: Confusion, positive: str | None) -> dict[str, Interval]:
    """Measure to 95 % interval: accuracy and G-mean, and with ``positive`` the shares of that class as well."""
    intervals = {"accuracy": share_interval(confusion.correct, confusion.rows)}
    if positive is None:
        sides = [(confusion.counts.get((label, label), 0), rows) for label, rows in confusion.truths().items()]
        return {"gmean": gmean_interval(sides), **intervals}
    found = Binary.of(confusion, positive)
    own = found.true_positives, found.true_positives + found.false_negatives
    rest = found.true_negatives, found.true_negatives + found.false_positives
    return {
        "gmean": gmean_interval([own, rest]),
        "sensitivity": share_interval(*own),
        "specificity": share_interval(*rest),
        "precision": share_interval(found.true_positives, found.true_positives + found.false_positives),
        **intervals,
    }
