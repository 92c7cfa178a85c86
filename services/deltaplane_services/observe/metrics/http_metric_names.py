"""Metrics of ``deltaplane serve``, a server of answers, which is no service of the pipeline; as ``metric_names``."""

from __future__ import annotations

from deltaplane_services.observe.metrics.metric import SECONDS, Metric

__all__ = ["HTTP_OUTCOMES", "HTTP_REQUESTS", "HTTP_ROWS", "HTTP_SECONDS", "HTTP_STALE", "HTTP_VERSION", "SERVE"]

HTTP_OUTCOMES = ("answered", "refused")
HTTP_REQUESTS = Metric(
    "deltaplane_http_requests_total", "counter", "Requests for answers, by path and status.", ("path", "status")
)
HTTP_SECONDS = Metric(
    "deltaplane_http_request_seconds",
    "histogram",
    "From the head of a request until its answer is made, waiting for a newer model included.",
    ("path",),
    SECONDS,
)
HTTP_ROWS = Metric(
    "deltaplane_http_rows_total", "counter", "Rows of requests, by whether they had an answer.", ("outcome",)
)
HTTP_VERSION = Metric(
    "deltaplane_http_model_version", "gauge", "Version of the model that answers; no series before there is one."
)
HTTP_STALE = Metric("deltaplane_http_model_stale", "gauge", "1 where nobody renews the model that answers, else 0.")

SERVE = (HTTP_REQUESTS, HTTP_SECONDS, HTTP_ROWS, HTTP_VERSION, HTTP_STALE)
"""Metrics of ``deltaplane serve``."""
