"""The metrics of a worker: its partitions, their rebuilds, its deltas, and the time from sample to model.

That time ends when a merger makes a model, in another process and perhaps far away. Only the worker knows when the
samples of a delta were appended to the log. Only a model says when it was made, and which deltas it contains. So the
worker remembers the log time of the newest sample of each delta that it published, and looks for the delta in the
models that it reads. The two times come from two clocks, so the result is only as accurate as these agree.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from prometheus_client.metrics_core import Metric as Family

from deltaplane.arrays import Floats
from deltaplane.log.delta import Delta, Source
from deltaplane.log.drift import DriftWatch
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.outcomes import RetirementOutcome, SampleOutcome
from deltaplane_services.observe.health import State
from deltaplane_services.observe.metrics import label_values, metric_names
from deltaplane_services.observe.metrics.drift_metrics import shift_families
from deltaplane_services.observe.metrics.families import Labels, family, histogram, single
from deltaplane_services.observe.metrics.process_metrics import ServiceMetrics
from deltaplane_services.processors.letters import without_letter
from deltaplane_services.processors.messages import DELTAS, Output, Record
from deltaplane_services.processors.worker_processor import WorkerProcessor

__all__ = ["MOST_WAITED_FOR", "WorkerMetrics"]

_TAKEN = (
    *(str(outcome) for outcome in (SampleOutcome.APPLIED, SampleOutcome.DUPLICATE, SampleOutcome.ANNIHILATED)),
    *(f"retirements {outcome}" for outcome in RetirementOutcome),
)
"""The keys of a delta's counts that are added up; samples that replaced another are counted as applied."""

MOST_WAITED_FOR = 10_000
"""The most deltas of a source that are looked for in models; if no merger runs for long, the oldest are not
measured."""


@dataclass
class _Published:
    """Deltas of one life of a source: (tile number, log time of its newest sample in milliseconds) for each."""

    writer: str
    tiles: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MOST_WAITED_FOR))


@dataclass(frozen=True)
class _Held:
    """What is exported about the sources after a turn; it is replaced as a whole."""

    rebuild_since: Mapping[int, float] = field(default_factory=dict)
    serving: frozenset[int] = frozenset()
    rows: Mapping[int, int] = field(default_factory=dict)
    ahead: Mapping[int, float] = field(default_factory=dict)
    rounding: Sequence[Floats] = ()
    aside: Mapping[int, bool] = field(default_factory=dict)
    watches: Sequence[DriftWatch] = ()


class WorkerMetrics(ServiceMetrics):
    """Metrics of one worker process at a site."""

    def __init__(self, definition: StreamDefinition, site: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(definition, "worker", site, clock)
        self._held = _Held()
        self._published: dict[Source, _Published] = {}
        # Writer to what has been counted of its life: watermarks passed over, and times that look like seconds.
        self._counted: dict[str, tuple[int, int]] = {}
        self._like_seconds = self._drifts = 0
        self._drifts_of: dict[str, int] = {}
        self._rebuilds = histogram(metric_names.REBUILD_SECONDS)
        self._delta_bytes = histogram(metric_names.DELTA_BYTES)
        self._to_model = histogram(metric_names.SAMPLE_TO_MODEL)
        for made in (self._rebuilds, self._delta_bytes, self._to_model):
            made.labels(self._stream)

    def turn(
        self,
        sources: Mapping[int, WorkerProcessor],
        waiting: Collection[int],
        *,
        joined: bool,
        aside: Mapping[int, str] | None = None,
        removed: Collection[int] = (),
        topics: Collection[str] = (),
    ) -> None:
        """Note the end of a turn: partition to source at work, partitions still to be claimed, and group membership.

        ``aside``: partition to the reason why its source is set aside; ``removed``: those of them that were removed
        from the stream. ``topics``: what is wrong with the topics.
        """
        aside = aside or {}
        now = self._clock()
        for source in sources.values():
            self._count_odd_times(source)
            self._count_drifts(source)
        serving = {partition for partition, source in sources.items() if source.serving}
        before = self._held.rebuild_since
        since = {partition: before.get(partition, now) for partition in sorted({*waiting, *sources} - serving)}
        for partition in serving & before.keys():
            self._rebuilds.labels(self._stream).observe(now - before[partition])
        self._held = _Held(
            rebuild_since=since,
            serving=frozenset(serving),
            rows={partition: source.partition.rows_held for partition, source in sources.items()},
            ahead={
                partition: ahead / 1000.0
                for partition, source in sources.items()
                if (ahead := source.clock.ahead_milliseconds) is not None
            },
            rounding=[source.rounding_error for source in sources.values()],
            watches=[source.watch for source in sources.values() if source.watch is not None],
            aside=dict.fromkeys([*since, *serving, *removed], False) | dict.fromkeys(aside.keys() - set(removed), True),
        )
        faults = [*topics, *(f"source {self._site}/{p} is set aside: {aside[p]}" for p in aside if p not in removed)]
        self.turned(_readiness(since, serving, removed, faults, joined=joined))

    def _count_odd_times(self, source: WorkerProcessor) -> None:
        """Add the counts of a source to the totals, which outlive the sources."""
        found = source.ignored_watermarks, source.clock.like_seconds
        before = self._counted.get(source.writer, (0, 0))
        if found != before:
            self._counted[source.writer] = found
            self._ignored_watermarks += found[0] - before[0]
            self._like_seconds += found[1] - before[1]

    def _count_drifts(self, source: WorkerProcessor) -> None:
        """Have the features of a source watched, and add the drifts found to the total."""
        if source.watch is None:
            source.watch = DriftWatch(len(self._definition.features))
        before = self._drifts_of.get(source.writer, 0)
        self._drifts_of[source.writer] = source.watch.drifts
        self._drifts += source.watch.drifts - before

    def delta(self, processor: WorkerProcessor, tile: int, samples: Sequence[Record], output: Output) -> None:
        """Note the output that a source made of these samples; ``tile`` is the number of its delta, if there is one."""
        self.published(output.first)
        deltas = [record for record in output.then if record.topic == DELTAS]
        self.took(sum(_taken(record.message) for record in deltas))
        for record in deltas:
            if isinstance(record.message, Delta):
                self.without_letter(without_letter(record.message.counts))
            self._delta_bytes.labels(self._stream).observe(len(record.value or b""))
        if deltas and samples:
            published = self._published.get(processor.source)
            if published is None or published.writer != processor.writer:
                published = self._published[processor.source] = _Published(processor.writer)
            published.tiles.append((tile, max(record.log_time for record in samples)))

    def model(self, model: Model) -> None:
        """Note the next newer model, and measure the deltas that it is the first to contain."""
        self.saw_version(model.version)
        for position in model.positions:
            published = self._published.get(position.source)
            if published is None or position.owner != published.writer:
                continue
            while published.tiles and published.tiles[0][0] < position.sequence:
                _, log_time = published.tiles.popleft()
                self._to_model.labels(self._stream).observe(max(0.0, (model.created - log_time) / 1000.0))

    def collect(self) -> Iterator[Family]:
        """The metrics, for the registry."""
        yield from super().collect()
        held, now, stream = self._held, self._clock(), self._stream
        since = dict.fromkeys(held.serving, now) | dict(held.rebuild_since)
        ages: list[tuple[Labels, float]] = [
            ((self._site, str(partition)), max(0.0, now - began)) for partition, began in sorted(since.items())
        ]
        yield family(metric_names.REBUILDING, stream, ages)
        rows: list[tuple[Labels, float]] = [
            ((self._site, str(partition)), float(count)) for partition, count in held.rows.items()
        ]
        yield family(metric_names.ROWS_HELD, stream, rows)
        ahead = [((self._site, str(partition)), seconds) for partition, seconds in held.ahead.items()]
        yield family(metric_names.EVENT_TIME_AHEAD, stream, ahead)
        timed = self._definition.nested_windows.timed
        yield single(
            metric_names.MAX_SKEW, stream, self._definition.max_skew_milliseconds / 1000.0 if timed else math.inf
        )
        yield single(metric_names.LIKE_SECONDS, stream, self._like_seconds)
        set_aside: list[tuple[Labels, float]] = [
            ((self._site, str(partition)), float(is_aside)) for partition, is_aside in sorted(held.aside.items())
        ]
        yield family(metric_names.SET_ASIDE, stream, set_aside)
        if held.rounding:
            errors = np.max(held.rounding, axis=0)
            named = zip(self._definition.features[: label_values.MOST_FEATURES], errors, strict=False)
            yield family(metric_names.ROUNDING, stream, (((feature,), float(error)) for feature, error in named))
            yield single(metric_names.ROUNDING_STEPS, stream, float(np.max(errors / self._definition.grid.steps)))
        yield single(metric_names.DRIFTS, stream, self._drifts)
        # The shifts are computed here, in the thread of a scrape, so that they cost the worker's loop nothing.
        features = self._definition.features
        yield from shift_families(
            metric_names.FEATURE_SHIFT, metric_names.FEATURE_SPREAD, stream, features, held.watches
        )
        for made in (self._rebuilds, self._delta_bytes, self._to_model):
            yield from made.collect()


def _taken(delta: object) -> int:
    """The number of samples and retirements of a delta that are not dead letters."""
    counts = delta.counts if isinstance(delta, Delta) else {}
    return sum(counts.get(key, 0) for key in _TAKEN)


def _readiness(
    rebuilding: Collection[int],
    serving: Collection[int],
    removed: Collection[int],
    faults: Sequence[str],
    *,
    joined: bool,
) -> State:
    if not joined:
        return State(good=False, why="worker: not a member of the group yet")
    if faults:
        return State(good=False, why="\n".join([f"worker: serving partitions {sorted(serving)}, but:", *faults]))
    if rebuilding:
        return State(good=False, why=f"worker: rebuilding partitions {sorted(rebuilding)}, serving {sorted(serving)}")
    gone = f"; removed from the stream: {sorted(removed)}" if removed else ""
    if not serving and not removed:
        return State(good=True, why="worker: standing by, all partitions are with other workers")
    return State(good=True, why=f"worker: serving partitions {sorted(serving)}{gone}")
