"""Metrics of ``deltaplane bootstrap follow``, which follows a table; as ``metric_names``."""

from __future__ import annotations

from deltaplane_services.observe.metrics.metric import Metric

__all__ = ["TABLE", "TABLE_BEHIND", "TABLE_ROWS", "TABLE_VERSION"]

TABLE_VERSION = Metric(
    "deltaplane_table_version", "gauge", "Newest version of the table that its source contains.", ("source",)
)
TABLE_BEHIND = Metric(
    "deltaplane_table_versions_behind", "gauge", "Versions of the table that are still to be followed.", ("source",)
)
TABLE_ROWS = Metric(
    "deltaplane_table_rows_total",
    "counter",
    "Rows that came and went with versions of the table, and those that the definition refused.",
    ("source", "change"),
)

TABLE = (TABLE_VERSION, TABLE_BEHIND, TABLE_ROWS)
"""Metrics of ``deltaplane bootstrap follow``."""
