"""A pipeline on Kafka as a replay drives it: publish a chunk, then wait until a model contains it."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltaplane.arrays import Floats
from deltaplane.errors import DeltaplaneError
from deltaplane.log.model import Model
from deltaplane.log.records import DeadLetter
from deltaplane.log.scoring import ScoredRows
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import publisher, reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.operations.model_listing import live_deviations
from deltaplane_services.processors.codec import Codec, readable
from deltaplane_services.processors.messages import DEAD_LETTERS, RETIREMENTS, SAMPLES, Outgoing
from deltaplane_services.processors.worker_processor import DEAD_LETTERED

__all__ = ["WAIT_SECONDS", "KafkaPipeline", "PipelineStalled", "Service"]

logger = logging.getLogger(__name__)

WAIT_SECONDS = 60.0
"""The longest wait for a chunk to reach a model, a rebuild of the window included; then the replay gives up."""


class PipelineStalled(DeltaplaneError):
    """Published records did not reach a model in time, or a service ended."""


@dataclass(frozen=True)
class Service:
    """A service that was started for a pipeline, and the file that its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def tail(self, lines: int = 15) -> str:
        """The last lines of its output."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])


class KafkaPipeline:
    """Publishes to the topics of a stream and follows its model. The services run in other processes."""

    def __init__(self, settings: ServiceSettings, services: Sequence[Service] = ()) -> None:
        self.definition = settings.definition
        self._settings = settings
        self._drained = False
        self._services = services
        self._undo: Callable[[], None] = lambda: None
        self._publisher = publisher(settings, "site")
        self._site = settings.site
        ends = reader(settings, "site")
        self._models = ModelFollower(reader(settings, "central"), settings.definition)
        self._letters = reader(settings, "site")
        places = range(self.definition.partitions)
        self._letters.follow([(DEAD_LETTERS, p, ends.bounds(DEAD_LETTERS, p)[1]) for p in places])
        self._letters_seen: set[bytes | None] = set()
        self._rows_seen = 0
        self._letters_before = self._letters_of(self.model)
        self._expected = {
            (topic, partition): ends.bounds(topic, partition)[1]
            for topic in (SAMPLES, RETIREMENTS)
            for partition in places
        }
        ends.close()

    @property
    def model(self) -> Model | None:
        """The newest model."""
        return self._models.model

    def deviations(self) -> Floats | None:
        """Standard deviations float64[d] of the features at the end of the replay, or None.

        A model does not carry the statistics: they are added up from checkpoints and deltas. None before :meth:`drain`,
        and if checkpoints and deltas do not give the model's statistics.
        """
        model = self.model
        if not self._drained or model is None:
            return None
        try:
            return live_deviations(self._settings, model)
        except DeltaplaneError as fault:
            logger.info("weights stay in raw units: %s", fault)
            return None

    def publish(self, records: Iterable[Outgoing], now: int) -> None:
        """Publish the records of one chunk. ``now`` is not used: the broker's clock stamps the records."""
        del now
        for record in records:
            self._publisher.publish((record,))
            self._expected[record.topic, record.partition] += 1

    def advance(self, now: int) -> None:
        """Wait until a model contains everything that was published. Raises :class:`PipelineStalled`."""
        del now
        self._publisher.flush()
        self._wait(drained=False)

    def drain(self, now: int) -> None:
        """Wait as :meth:`advance` does and, if a window is of time, until every source has reached the watermark."""
        del now
        self._publisher.flush()
        self._wait(drained=True)
        self._drained = True

    def _wait(self, *, drained: bool) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._is_in_model(drained=drained):
            if self._models.poll(500, 0.02):
                deadline = max(deadline, time.monotonic() + WAIT_SECONDS / 2)
            self._check_services()
            if time.monotonic() > deadline:
                raise PipelineStalled(
                    f"what was published did not reach a model within {WAIT_SECONDS:g} s;"
                    f" expected {self._expected}, got {self.model.positions if self.model else 'no model'};"
                    f" are a worker and a merger of this stream running?{self._tails()}"
                )

    def _check_services(self) -> None:
        for service in self._services:
            if service.process.poll() is not None:
                raise PipelineStalled(
                    f"the {service.name} ended with code {service.process.returncode}; the end of its log:"
                    f"\n{service.tail()}"
                )

    def _tails(self) -> str:
        return "".join(f"\nThe end of the log of the services:\n{service.tail()}" for service in self._services[:1])

    def _is_in_model(self, *, drained: bool) -> bool:
        model = self.model
        if model is None:
            return False
        reached = {
            position.source.partition: position for position in model.positions if position.source.site == self._site
        }
        for (topic, partition), end in self._expected.items():
            position = reached.get(partition)
            if position is None or (position.samples if topic == SAMPLES else position.retirements) < end:
                return False
        timed = drained and self.definition.nested_windows.timed
        return not timed or all(position.watermark == model.watermark for position in reached.values())

    def dead_letters(self) -> list[DeadLetter]:
        """New dead letters of the site since the last call; waits until all that the model counts have come.

        Raises :class:`PipelineStalled` if some are missing and no more come.
        """
        letters: list[DeadLetter] = []
        expected = self._letters_of(self.model) - self._letters_before
        deadline = time.monotonic() + WAIT_SECONDS
        while self._rows_seen < expected:
            for record in self._letters.poll(1000, 0.02):
                # A worker that restarts writes the same letters again, with the same keys.
                if record.key not in self._letters_seen:
                    self._letters_seen.add(record.key)
                    deadline = time.monotonic() + WAIT_SECONDS
                    letters.append(readable(Codec.dead_letter(record)))
                    self._rows_seen += letters[-1].rows
            if time.monotonic() > deadline:
                raise PipelineStalled(
                    f"{expected} samples and retirements were refused, dead letters of {self._rows_seen} came, and no"
                    f" more within {WAIT_SECONDS:g} s; look at {self.definition.name}.{DEAD_LETTERS}"
                )
        return letters

    def _letters_of(self, model: Model | None) -> int:
        """The number of rows and records that the workers behind a model sent to the dead letters."""
        counts = {} if model is None else model.totals
        return sum(n for name, n in counts.items() if name in DEAD_LETTERED or name.startswith("refused "))

    def scored(self) -> list[tuple[int, ScoredRows]]:
        """Nothing: workers keep only the counts, and do not send predictions of rows."""
        return []

    def rounding_error(self) -> None:
        """None: only the workers know it."""

    def on_close(self, undo: Callable[[], None]) -> None:
        """Have ``undo`` called at the end, after the clients are closed."""
        self._undo = undo

    def close(self) -> None:
        """Close the clients, and undo what was done for this pipeline alone."""
        try:
            self._models.close()
            self._letters.close()
        finally:
            self._undo()
