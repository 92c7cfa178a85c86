"""The description of a metric, and the bucket bounds of histograms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["BYTES", "SECONDS", "Metric"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
BYTES = tuple(float(4**power) for power in range(4, 14))
"""Upper bounds of buckets; the last bound in bytes is the size of the largest possible message."""


@dataclass(frozen=True)
class Metric:
    """A metric by its full name; the names of counters end in ``_total``."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
