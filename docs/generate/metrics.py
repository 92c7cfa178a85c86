"""Every metric, as the exporter declares it."""

from __future__ import annotations

from deltaplane_services.observe.metrics import EVERY
from generate.tables import code, table


def metric_tables() -> str:
    """A line for each metric: name, kind, labels besides the stream's, meaning; in the order of declaration."""
    rows = [[code(one.name), one.kind, ", ".join(map(code, one.labels)), one.help] for one in EVERY]
    return table(["Metric", "Kind", "Labels besides `stream`", "What it says"], rows)
