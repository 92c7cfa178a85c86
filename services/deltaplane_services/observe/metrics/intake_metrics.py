"""What an intake exports: what it has read and sent, and what waits in its stores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client.metrics_core import Metric as Family

from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.intake.joining import IntakeProcessor
from deltaplane_services.observe.health import State
from deltaplane_services.observe.metrics import metric_names
from deltaplane_services.observe.metrics.families import family
from deltaplane_services.observe.metrics.process_metrics import ServiceMetrics

__all__ = ["IntakeMetrics"]

_READ = ("events", "labels", "deletions", "refused")
_SENT = ("samples", "silent", "retirements", "queries")
_FORGOTTEN = ("events", "labels")


class IntakeMetrics(ServiceMetrics):
    """Metrics of one intake process."""

    def __init__(
        self, definition: StreamDefinition, site: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(definition, "intake", site, clock=clock)
        self._counts: Counter[str] = Counter()
        self._held: Mapping[int, Mapping[str, int]] = {}
        self._silent_since: float | None = None

    def registry_is_silent(self) -> bool:
        """Note that the schema registry does not answer; whether that is new."""
        if self._silent_since is not None:
            return False
        self._silent_since = self._clock()
        return True

    def registry_answers(self) -> None:
        """Note that the schema registry answers, or is not needed."""
        self._silent_since = None

    def turn(self, processors: Sequence[IntakeProcessor], *, joined: bool, waiting: int) -> None:
        """One turn is over: the processors at work, and how many partitions wait to be taken over."""
        counts = Counter(self._counts)
        for one in processors:
            counts.update(one.counts)
            one.counts.clear()
        self.took(sum(counts.values()) - sum(self._counts.values()))
        self._counts = counts
        self._held = {one.partition: dict(one.held) for one in processors}
        rebuilding = sum(one.rebuilding for one in processors)
        state = _readiness(len(processors), rebuilding, joined=joined, waiting=waiting)
        if state.good and self._silent_since is not None:
            state = State(good=False, why="intake: the schema registry does not answer; waiting for it")
        self.turned(state)

    def collect(self) -> Iterator[Family]:
        """The metrics, for the registry."""
        yield from super().collect()
        counts, stream = self._counts, self._stream
        yield family(metric_names.INTAKE_RECORDS, stream, [((what,), float(counts[what])) for what in _READ])
        yield family(metric_names.INTAKE_SENT, stream, [((what,), float(counts[what])) for what in _SENT])
        forgotten = [((what,), float(counts[f"{what} forgotten"])) for what in _FORGOTTEN]
        yield family(metric_names.INTAKE_FORGOTTEN, stream, forgotten)
        silent = self._silent_since
        seconds = 0.0 if silent is None else self._clock() - silent
        yield family(metric_names.INTAKE_REGISTRY_SILENT, stream, [((), seconds)])
        for metric, name in (
            (metric_names.INTAKE_WAITING, "waiting"),
            (metric_names.INTAKE_LABELS, "labels"),
            (metric_names.INTAKE_ROWS, "rows"),
        ):
            held = [((self._site, str(partition)), float(held[name])) for partition, held in self._held.items()]
            yield family(metric, stream, held)


def _readiness(assigned_source: int, rebuilding: int, *, joined: bool, waiting: int) -> State:
    if not joined:
        return State(good=False, why="intake: not a member of the group yet")
    if waiting:
        return State(good=False, why=f"intake: {waiting} partitions wait to be taken over")
    if rebuilding:
        return State(
            good=False, why=f"intake: {rebuilding} of {assigned_source} partitions are rebuilt from the topics"
        )
    return State(good=True, why=f"intake: at work on {assigned_source} partitions")
