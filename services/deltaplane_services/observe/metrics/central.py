"""The metrics of the merger and of the scorer.

A merger that stands by is ready: it does all that is asked of it, and a supervisor that replaces mergers one at a time
waits for the new one to be ready before it ends the old one. But it exports no metrics of the stream, since the elected
merger does. An elected merger is ready once it has read all deltas that were there when it began.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client.metrics_core import Metric as Family

from deltaplane.arrays import Floats
from deltaplane.log.delta import Verdict
from deltaplane.log.drift import DriftWatch
from deltaplane.log.model import Model
from deltaplane.log.records import Prediction
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.observe.health import State
from deltaplane_services.observe.metrics import label_values, metric_names
from deltaplane_services.observe.metrics.drift_metrics import shift_families
from deltaplane_services.observe.metrics.families import family, histogram, single
from deltaplane_services.observe.metrics.process_metrics import ServiceMetrics
from deltaplane_services.observe.metrics.stream_metrics import StreamView
from deltaplane_services.processors.messages import Output
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from deltaplane_services.processors.solving import solver_digest

__all__ = ["WAITING_SECONDS", "MergerMetrics", "ScorerMetrics"]


class MergerMetrics(ServiceMetrics):
    """Metrics of one merger process, and of the stream while it is elected; it trims the logs of ``site``."""

    def __init__(
        self, definition: StreamDefinition, clock: Callable[[], float] = time.monotonic, site: str = ""
    ) -> None:
        self.stream = StreamView(definition)
        self.stream.hidden = True
        super().__init__(definition, "merger", clock=clock)
        self._trim_site = site
        self._trimmed: Mapping[tuple[str, int], int] = {}
        self._log_begins: Mapping[tuple[str, int], int] = {}
        self._elected = False
        self._faults: list[str] = []
        self._verdicts: Mapping[Verdict, int] = {}
        self._void_prequential_counts = self._refused_checkpoints = 0
        self._solver = solver_digest(definition)
        self._solving = histogram(metric_names.SOLVE_SECONDS)
        self._solving.labels(self._stream)

    def turn(
        self,
        verdicts: Mapping[Verdict, int] | None,
        *,
        joined: bool,
        has_place: bool,
        caught_up: bool = True,
        void_prequential_counts: int = 0,
        ignored_watermarks: int = 0,
    ) -> None:
        """Note the end of a turn: the verdicts of this merger, and its place in the group.

        ``verdicts`` is None if this merger has not begun.
        """
        self._elected = has_place and verdicts is not None
        # A merger that is elected again starts to count from 0.
        self.took(max(0, sum((verdicts or {}).values()) - sum(self._verdicts.values())))
        self._verdicts = dict(verdicts or {})
        self._void_prequential_counts = void_prequential_counts
        self._ignored_watermarks = max(self._ignored_watermarks, ignored_watermarks)
        self.stream.hidden = not self._elected
        readiness = self._readiness(joined=joined, has_place=has_place, caught_up=caught_up)
        if self._faults:
            readiness = State(good=False, why="\n".join([f"{readiness.why}, but:", *self._faults]))
        self.turned(readiness)

    def topics(self, faults: Sequence[str]) -> None:
        """Set what is wrong with brokers and topics, as shown from the next turn on."""
        self._faults = list(faults)

    def checkpoints(self, *, refused: int) -> None:
        """Set the number of sources whose newest checkpoint was refused by its topic."""
        self._refused_checkpoints = refused

    def _readiness(self, *, joined: bool, has_place: bool, caught_up: bool) -> State:
        if not joined:
            return State(good=False, why="merger: not a member of the group yet")
        if not has_place:
            return State(good=True, why="merger: standing by, another merger is elected")
        if not self._elected:
            return State(good=False, why="merger: elected, and has not read the checkpoints yet")
        if not caught_up:
            return State(good=False, why="merger: elected, reading the deltas behind the checkpoints")
        model = self.stream.model
        if model is None:
            return State(good=True, why="merger: elected, no model yet")
        refusal = "" if model.refusal is None else f"; plane of version {model.plane_version}: {model.refusal}"
        return State(good=True, why=f"merger: elected, the newest model is version {model.version}{refusal}")

    def model(self, model: Model) -> None:
        """Note the next model of the models topic, whichever merger published it."""
        self.saw_version(model.version)
        self.stream.observe(model)

    def deviations(self, found: Floats) -> None:
        """Set the standard deviations float64[d] of the features, over the live rows behind this merger's newest model.

        They are in raw units.
        """
        self.stream.deviations = found

    def solved(self, seconds: float, output: Output) -> None:
        """Note the seconds that solving took; not counted if ``output`` holds no model, since nothing had changed."""
        if output.then:
            self._solving.labels(self._stream).observe(seconds)

    def trimmed(self, gone: Mapping[tuple[str, int], int], begins: Mapping[tuple[str, int], int]) -> None:
        """Add the records that were deleted, and set where each log begins. Called from another thread."""
        before = self._trimmed
        self._trimmed = {place: before.get(place, 0) + gone.get(place, 0) for place in {**before, **begins}}
        self._log_begins = dict(begins)

    def collect(self) -> Iterator[Family]:
        """The metrics, for the registry."""
        yield from super().collect()
        for metric, logs in ((metric_names.TRIMMED, self._trimmed), (metric_names.LOG_BEGIN, self._log_begins)):
            yield family(metric, self._stream, [((t, self._trim_site, str(p)), float(n)) for (t, p), n in logs.items()])
        yield single(metric_names.ELECTED, self._stream, float(self._elected))
        counts = {label_values.word(verdict): float(self._verdicts.get(verdict, 0)) for verdict in Verdict}
        yield family(metric_names.DELTAS, self._stream, (((verdict,), count) for verdict, count in counts.items()))
        yield single(metric_names.VOID_TRIALS, self._stream, float(self._void_prequential_counts))
        yield single(metric_names.REFUSED_CHECKPOINTS, self._stream, float(self._refused_checkpoints))
        yield family(metric_names.SOLVER, self._stream, [((self._solver,), 1.0)])
        yield from self._solving.collect()
        yield from self.stream.collect()


WAITING_SECONDS = 10.0
"""A scorer whose turn takes longer waits for a broker: for acknowledgements, or for its position in a log."""


class ScorerMetrics(ServiceMetrics):
    """Metrics of one scorer process."""

    def __init__(self, definition: StreamDefinition, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(definition, "scorer", clock=clock)
        self._predictions = self._drifts = 0
        self._stale = False
        self._watches: tuple[DriftWatch, ...] = ()

    def turn(self, processor: ScorerProcessor, *, outage: str | None = None, stale: str | None = None) -> None:
        """Note the end of a turn.

        ``outage``: what keeps every scorer from work. ``stale``: why the model is not renewed.
        """
        model, self._stale = processor.model, stale is not None
        if processor.watches is None:
            processor.watches = {}
        self._watches, self._drifts = tuple(processor.watches.values()), processor.drifts
        if model is not None:
            # The newest version, not the highest: in a topic that was made anew, versions begin again.
            self._seen_version = model.version
        readiness = _scorer_readiness(model, ready=processor.ready)
        if fault := outage or stale:
            readiness = State(good=False, why=f"scorer: {fault} ({readiness.why.removeprefix('scorer: ')})")
        self.turned(readiness)

    def ready(self) -> State:
        """Whether the scorer is ready, as for any service, and no turn waits for a broker."""
        silent = self._clock() - self._turned
        if silent > WAITING_SECONDS and super().ready().good:
            return State(good=False, why=f"scorer: waits for a broker, for {silent:.0f} s by now")
        return super().ready()

    def answered(self, output: Output) -> None:
        """Note that queries were answered."""
        answered = sum(isinstance(one.message, Prediction) for one in output.then)
        self._predictions += answered
        self.took(answered)
        self.published(output.first)

    def collect(self) -> Iterator[Family]:
        """The metrics, for the registry."""
        yield from super().collect()
        yield single(metric_names.PREDICTIONS, self._stream, self._predictions)
        yield single(metric_names.STALE_MODEL, self._stream, float(self._stale))
        yield single(metric_names.QUERY_DRIFTS, self._stream, self._drifts)
        features = self._definition.features
        yield from shift_families(
            metric_names.QUERY_SHIFT, metric_names.QUERY_SPREAD, self._stream, features, self._watches
        )


def _scorer_readiness(model: Model | None, *, ready: bool) -> State:
    if model is None:
        return State(good=False, why="scorer: no model yet; queries wait in their topic")
    if not ready:
        return State(
            good=False, why=f"scorer: model version {model.version} has no plane: {model.refusal}; queries wait"
        )
    return State(good=True, why=f"scorer: answers by model version {model.version}")
