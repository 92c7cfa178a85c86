"""Metrics of the services for Prometheus: a pure projection of what they have anyway.

:mod:`.names` names every metric once and says who exports it. A service makes its metrics object first, serves
it (:func:`deltaplane_services.health.serving`), and tells it what happens; nothing here asks a broker.
"""

from __future__ import annotations

from deltaplane_services.metrics_export.central import MergerMetrics, ScorerMetrics
from deltaplane_services.metrics_export.process import ServiceMetrics
from deltaplane_services.metrics_export.stream import StreamView
from deltaplane_services.metrics_export.worker import WorkerMetrics

__all__ = ["MergerMetrics", "ScorerMetrics", "ServiceMetrics", "StreamView", "WorkerMetrics"]
