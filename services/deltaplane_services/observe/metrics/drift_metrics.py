"""How far features have shifted, as metrics: of the samples that a worker learns, and of the queries of a scorer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric as Family

from deltaplane.log.drift import DriftWatch
from deltaplane_services.observe.metrics import label_values
from deltaplane_services.observe.metrics.families import Labels, family
from deltaplane_services.observe.metrics.metric import Metric

__all__ = ["shift_families"]


def shift_families(
    shift: Metric, spread: Metric, stream: str, features: Sequence[str], watches: Sequence[DriftWatch]
) -> Iterator[Family]:
    """For each feature, the largest shift and spread of any watch; no series before one has seen 400 rows.

    It costs something, and belongs into the thread of a scrape, not into the loop of a service.
    """
    found = [watch.shifts() for watch in watches]
    farthest = (abs, lambda ratio: abs(math.log(ratio)) if ratio > 0.0 else math.inf)
    for at, metric in enumerate((shift, spread)):
        series: list[tuple[Labels, float]] = []
        for place, feature in enumerate(features[: label_values.MOST_FEATURES]):
            known = [value for of in found if math.isfinite(value := float(of[at][place]))]
            if known:
                series.append(((feature,), max(known, key=farthest[at])))
        yield family(metric, stream, series)
