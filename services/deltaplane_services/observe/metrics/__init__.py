"""Metrics of the services for Prometheus: a pure projection of what they have anyway.

``metric_names``, ``http_metric_names`` and ``table_metric_names`` name every metric once. A service makes its metrics
object first, serves it (:func:`deltaplane_services.observe.health.serving`), and tells it what happens; nothing here
asks a broker.
"""

from __future__ import annotations

from deltaplane_services.observe.metrics import http_metric_names, metric_names, table_metric_names
from deltaplane_services.observe.metrics.central import MergerMetrics, ScorerMetrics
from deltaplane_services.observe.metrics.follower_metrics import FollowerMetrics
from deltaplane_services.observe.metrics.intake_metrics import IntakeMetrics
from deltaplane_services.observe.metrics.judge_metrics import JudgeMetrics
from deltaplane_services.observe.metrics.process_metrics import ServiceMetrics
from deltaplane_services.observe.metrics.stream_metrics import StreamView
from deltaplane_services.observe.metrics.worker_metrics import WorkerMetrics

__all__ = [
    "EVERY",
    "FollowerMetrics",
    "IntakeMetrics",
    "JudgeMetrics",
    "MergerMetrics",
    "ScorerMetrics",
    "ServiceMetrics",
    "StreamView",
    "WorkerMetrics",
]

EVERY = (*metric_names.STREAM, *metric_names.PROCESS, *http_metric_names.SERVE, *table_metric_names.TABLE)
"""Every metric that any process exports."""
