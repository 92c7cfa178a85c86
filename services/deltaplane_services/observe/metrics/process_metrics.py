"""What each service exports of itself, beside its registry, its pulse and its readiness.

The service's own thread tells what happened, once a turn or as it happens; the threads of the health server read. What
they read is replaced, never changed, or is one of Prometheus's own histograms, which lock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import prometheus_client
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import CollectorRegistry

from deltaplane import __version__
from deltaplane.log.records import DeadLetter
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.observe.health import Answers, State
from deltaplane_services.observe.metrics import label_values, metric_names
from deltaplane_services.observe.metrics.families import Labels, family, histogram, single
from deltaplane_services.observe.refusal_log import RefusalLog
from deltaplane_services.processors.messages import DEAD_LETTERS, Outgoing
from deltaplane_services.processors.topics import read_by

__all__ = ["LAG_SECONDS", "SILENCE_SECONDS", "ServiceMetrics"]

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 120.0
"""A loop that has not turned for so long has hung. A turn waits for a broker that is away, for 30 seconds at a time."""

LAG_SECONDS = 1.0
"""Seconds between two looks at how far the readers are behind. Each look waits for the client's own thread, so that one
after every turn would take a good part of the turn."""


class ServiceMetrics:
    """The part that all services have in common; a collector of its own registry.

    ``site`` is that of the topics that it reads, or nothing; ``clock`` is monotonic, in seconds.
    """

    def __init__(
        self, definition: StreamDefinition, role: str, site: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.registry = CollectorRegistry()
        self._definition = definition
        self._stream = definition.name
        self._role = role
        self._site = site
        self._clock = clock
        self._turned = clock()
        self._turns = 0
        self._state = State(good=False, why=f"{role}: starting")
        self._seen_version = 0
        self._refused_models = self._ignored_watermarks = 0
        self._lags: Mapping[tuple[str, int], int] = {}
        self._look_at = clock()
        self._silence: str | None = None
        # From zero on: of a series that begins with its first count, Prometheus sees no increase. A process that
        # follows a table has the rights of a historian.
        self._silent_batches: dict[str, int] = dict.fromkeys(read_by("historian" if role == "follower" else role), 0)
        self._unsafe: Mapping[str, int] = {}
        self._dead_letters: dict[str, int] = dict.fromkeys(label_values.DEAD_LETTER_REASONS, 0)
        self._refusals = RefusalLog(definition.name)
        self._commits = histogram(metric_names.COMMIT_SECONDS)
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)
        self.registry.register(self)

    # What the service tells ------------------------------------------------------------------------------------------

    def turned(self, state: State) -> None:
        """One turn of the loop is over: say whether the service does its work, and why or why not."""
        self._turned = self._clock()
        self._turns += 1
        self._state = state
        self._say_refusals()

    def delivered(self, topic: str, seconds: float) -> None:
        """A record is acknowledged, so many seconds after it was handed over; the topic with or without prefix."""
        topic = topic.removeprefix(f"{self._stream}.")
        self._commits.labels(self._stream, topic).observe(max(0.0, seconds))

    def published(self, records: Iterable[Outgoing]) -> None:
        """These records are to be published: dead letters among them are counted, and said in the log in time."""
        letters = [
            record.message if isinstance(record.message, DeadLetter) else None
            for record in records
            if record.topic == DEAD_LETTERS
        ]
        for letter in letters:
            self._dead_letters[_reason(letter)] += 1
        self._refusals.refused(letter for letter in letters if letter is not None)

    def without_letter(self, kinds: Mapping[str, int]) -> None:
        """Count refusals that have no dead letter of their own, by kind."""
        self._refusals.without_letter(kinds)

    def took(self, count: int) -> None:
        """Count rows, retirements, queries or deltas that came and were not refused."""
        self._refusals.saw(count)

    def _say_refusals(self, *, last: bool = False) -> None:
        if line := self._refusals.line(self._clock(), last=last):
            logger.warning("%s", line)

    def ends(self) -> None:
        """The service finishes, and takes on no more work."""
        self.turned(State(good=False, why=f"{self._role}: ending"))
        self._say_refusals(last=True)

    def lags(self, lags: Mapping[tuple[str, int], int]) -> None:
        """Set the number of records still to be read, by topic (without the stream's prefix) and partition."""
        self._lags = dict(lags)

    def look_at_lags(self, look: Callable[[], Mapping[tuple[str, int], int]]) -> None:
        """Take the :meth:`lags` from ``look`` if the last ones are old; called after every turn."""
        if (now := self._clock()) >= self._look_at:
            self._look_at = now + LAG_SECONDS
            self.lags(look())

    def unsafe_topics(self, unsafe: Mapping[str, int]) -> None:
        """Set the number of settings of each topic that may cost rows; called from another thread."""
        self._unsafe = dict(unsafe)

    def saw_version(self, version: int) -> None:
        """Take note of the version of a model that this process has seen."""
        self._seen_version = max(self._seen_version, version)

    def refused_model(self) -> None:
        """Count a record of the models topic that is passed over: it is no model that this stream can have."""
        self._refused_models += 1

    def silent(self, why: str | None) -> None:
        """Take note that a client delivers nothing, though its log goes on, and why; None: that is over."""
        self._silence, self._turned = why, self._clock()

    def passed_over(self, topic: str) -> None:
        """Count a batch of a topic, with the stream's prefix, that is passed over, since no client reads it."""
        topic = topic.removeprefix(f"{self._stream}.")
        # Replaced, never changed: another thread may be at it.
        self._silent_batches = {**self._silent_batches, topic: self._silent_batches.get(topic, 0) + 1}

    # What the health server asks -------------------------------------------------------------------------------------

    def alive(self) -> State:
        """Whether the loop has turned lately."""
        silent = self._clock() - self._turned
        if silent > SILENCE_SECONDS:
            return State(good=False, why=f"{self._role}: the loop has not turned for {silent:.0f} s; start it again")
        return State(good=True, why=f"{self._role}: the loop turned {silent:.1f} s ago")

    def ready(self) -> State:
        """Whether the service does its work: its loop does not hang, and its client delivers what its logs have."""
        alive = self.alive()
        if alive.good and (why := self._silence) is not None:
            return State(good=False, why=f"{self._role}: {why}; looking for a batch that no client reads")
        return self._state if alive.good else alive

    def answers(self) -> Answers:
        """All that the health server asks."""
        return Answers(self.registry, self.alive, self.ready)

    def collect(self) -> Iterator[Family]:
        """The metrics, for the registry."""
        stream = self._stream
        yield family(metric_names.BUILD, stream, [((self._role, __version__), 1.0)])
        yield single(metric_names.READY, stream, float(self.ready().good))
        yield single(metric_names.TURNS, stream, self._turns)
        yield single(metric_names.SEEN_VERSION, stream, self._seen_version)
        yield single(metric_names.REFUSED_MODELS, stream, self._refused_models)
        yield single(metric_names.IGNORED_WATERMARKS, stream, self._ignored_watermarks)
        lags: list[tuple[Labels, float]] = [
            ((topic, self._site, str(partition)), float(lag)) for (topic, partition), lag in self._lags.items()
        ]
        yield family(metric_names.LAG, stream, lags)
        yield family(metric_names.UNSAFE_SETTINGS, stream, [((topic,), float(n)) for topic, n in self._unsafe.items()])
        silent = [((topic,), float(count)) for topic, count in self._silent_batches.items()]
        yield family(metric_names.SILENT_BATCHES, stream, silent)
        letters = [((reason,), float(count)) for reason, count in self._dead_letters.items()]
        yield family(metric_names.DEAD_LETTERS, stream, letters)
        yield from self._commits.collect()


def _reason(letter: DeadLetter | None) -> str:
    """Why a record became a dead letter, as a label value."""
    reason = label_values.OTHER if letter is None else label_values.word(letter.kind)
    return reason if reason in label_values.DEAD_LETTER_REASONS else label_values.OTHER
