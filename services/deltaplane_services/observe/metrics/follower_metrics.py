"""What a process exports that follows a table: the version that is in, those that are to come, and rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric as Family

from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.observe.health import State
from deltaplane_services.observe.metrics import label_values, table_metric_names
from deltaplane_services.observe.metrics.families import family
from deltaplane_services.observe.metrics.process_metrics import ServiceMetrics

__all__ = ["FollowerMetrics"]


class FollowerMetrics(ServiceMetrics):
    """Metrics of one process that follows a table; ``source`` is that of its history, as text."""

    def __init__(self, definition: StreamDefinition, source: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(definition, "follower", clock=clock)
        self._source = source
        self._version = self._behind = 0
        self._rows: dict[str, int] = dict.fromkeys(label_values.TABLE_CHANGES, 0)

    def followed(self, came: int, went: int, refused: int) -> None:
        """A version was accepted, with which so many rows came and went; so many more the definition refuses."""
        for change, count in zip(label_values.TABLE_CHANGES, (came, went, refused), strict=True):
            self._rows[change] += count
        self.took(came + went)

    def turn(self, version: int, behind: int) -> None:
        """One turn is over: the newest version that is in, and how many more there are."""
        self._version, self._behind = version, behind
        self.turned(State(good=True, why=f"follower: version {version:,} of the table is in, {behind:,} are to come"))

    def collect(self) -> Iterator[Family]:
        """The metrics, for the registry."""
        yield from super().collect()
        stream, source = self._stream, self._source
        yield family(table_metric_names.TABLE_VERSION, stream, [((source,), float(self._version))])
        yield family(table_metric_names.TABLE_BEHIND, stream, [((source,), float(self._behind))])
        rows = [((source, change), float(count)) for change, count in self._rows.items()]
        yield family(table_metric_names.TABLE_ROWS, stream, rows)
