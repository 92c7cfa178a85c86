"""Every metric, as the exporter declares it."""

from __future__ import annotations

from deltaplane_services.observe.metrics import metric_names
from deltaplane_services.observe.metrics.metric_names import Metric
from generate.tables import code, table


def metric_tables() -> str:
    """A line for each metric: name, kind, labels besides the stream's, meaning; in the order of declaration."""
    declared = {one.name: one for one in _declared()}
    rows = [[code(one.name), one.kind, ", ".join(map(code, one.labels)), one.help] for one in declared.values()]
    return table(["Metric", "Kind", "Labels besides `stream`", "What it says"], rows)


def _declared() -> list[Metric]:
    found = []
    for value in vars(metric_names).values():
        if isinstance(value, Metric):
            found.append(value)
        elif isinstance(value, tuple):
            found += [one for one in value if isinstance(one, Metric)]
    return found
