"""What a server of answers counts, in a registry of its own."""

from __future__ import annotations

from collections.abc import Iterator

import prometheus_client
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import CollectorRegistry

from deltaplane_services.observe.metrics import http_metric_names
from deltaplane_services.observe.metrics.families import histogram, single
from deltaplane_services.observe.metrics.metric import Metric
from deltaplane_services.serve.model_source import ModelSource

__all__ = ["ServeMetrics"]


class ServeMetrics:
    """Requests by path and status, their seconds, rows by outcome, and the model that answers.

    Used by the event loop alone; ``registry`` is what is scraped.
    """

    def __init__(self, source: ModelSource) -> None:
        self._source = source
        self._stream = source.definition.name
        self.registry = CollectorRegistry()
        self._requests = _counter(http_metric_names.HTTP_REQUESTS, self.registry)
        self._rows = _counter(http_metric_names.HTTP_ROWS, self.registry)
        self._seconds = histogram(http_metric_names.HTTP_SECONDS)
        self.registry.register(self._seconds)
        self.registry.register(self)
        # From zero on: of a series that begins with its first count, Prometheus sees no increase.
        for outcome in http_metric_names.HTTP_OUTCOMES:
            self._rows.labels(self._stream, outcome)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request to ``path``, as the routes have it, had this status after so many seconds."""
        self._requests.labels(self._stream, path, str(status)).inc()
        self._seconds.labels(self._stream, path).observe(seconds)

    def rows(self, answered: int, refused: int) -> None:
        """So many rows of a request had an answer, and so many had none."""
        self._rows.labels(self._stream, http_metric_names.HTTP_OUTCOMES[0]).inc(answered)
        self._rows.labels(self._stream, http_metric_names.HTTP_OUTCOMES[1]).inc(refused)

    def collect(self) -> Iterator[Family]:
        """The model that answers; no series before there is one."""
        served = self._source.newest()
        if not isinstance(served, str):
            yield single(http_metric_names.HTTP_VERSION, self._stream, served.version)
        yield single(http_metric_names.HTTP_STALE, self._stream, float(self._source.stale() is not None))


def _counter(metric: Metric, registry: CollectorRegistry) -> prometheus_client.Counter:
    labels = ("stream", *metric.labels)
    return prometheus_client.Counter(metric.name, metric.help, labels, registry=registry)
