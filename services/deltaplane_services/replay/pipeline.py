"""What a replay needs of a pipeline, and the embedded one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from deltaplane.arrays import Floats
from deltaplane.exact.deviations import deviations
from deltaplane.log.merger import of_modelled_classes
from deltaplane.log.model import Model
from deltaplane.log.records import DeadLetter
from deltaplane.log.scoring import ScoredRows
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_dead_letter
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, RunnerOptions
from deltaplane_services.processors.messages import DEAD_LETTERS, RECEIPTS, Outgoing

__all__ = ["EmbeddedPipeline", "Pipeline"]


class Pipeline(Protocol):
    """Publish the records of a chunk, then advance: the model contains them when it returns."""

    @property
    def model(self) -> Model | None:
        """The newest model."""

    def deviations(self) -> Floats | None:
        """Deviations of the features over the live rows, float64[d] in raw units, where they are known here."""

    def publish(self, records: Iterable[Outgoing], now: int) -> None:
        """Put records on their topics at ``now``, in milliseconds since the epoch of the stream's own time."""

    def advance(self, now: int) -> None:
        """Return when the model contains all that was published."""

    def drain(self, now: int) -> None:
        """Return when, besides, every source has heard the last watermark."""

    def dead_letters(self) -> list[DeadLetter]:
        """What was refused since the last call."""

    def scored(self) -> list[tuple[int, ScoredRows]]:
        """What was predicted of rows since the last call, by partition, where that is kept; nothing elsewhere."""

    def rounding_error(self) -> Floats | None:
        """Largest distance between a feature's values and the grid, float64[d], where it is known here."""

    def close(self) -> None:
        """Let go of everything."""


class EmbeddedPipeline:
    """The pipeline in this process. Consumed records are let go of, so that memory does not grow with the file."""

    def __init__(
        self,
        definition: StreamDefinition,
        seed: int,
        *,
        keep_window: bool = False,
        keep_scored: bool = False,
        broker: EmbeddedBroker | None = None,
        now: int = 0,
    ) -> None:
        self._definition = definition
        # A round must take all of a chunk, so that the next chunk meets a model that contains it.
        options = RunnerOptions(
            records_per_poll=2**31, seed=seed, decode=False, keep_window=keep_window, keep_scored=keep_scored
        )
        self._runner = EmbeddedRunner(definition, options=options, broker=broker, now=now)
        if broker is not None:
            # The rows that are live are read again before others come.
            self._runner.drain(now)

    def logs(self, now: int) -> EmbeddedBroker:
        """The logs from which another pipeline goes on."""
        self._runner.checkpoint(now)
        return self._runner.broker

    @property
    def model(self) -> Model | None:
        """The newest model."""
        return self._runner.merger.model

    def deviations(self) -> Floats | None:
        """From the statistics behind the newest model."""
        live = of_modelled_classes(self._runner.merger.merger.statistics, self._definition)
        return deviations(live.grams(self._definition.nested_windows.longest).values(), self._definition.plane_grid)

    def publish(self, records: Iterable[Outgoing], now: int) -> None:
        """Append to the embedded broker's logs."""
        self._runner.broker.append_all(records, now)

    def advance(self, now: int) -> None:
        """One round of the runner."""
        self._runner.round(now)

    def drain(self, now: int) -> None:
        """Rounds until there is nothing left to do."""
        self._runner.drain(now)

    def dead_letters(self) -> list[DeadLetter]:
        """Take dead letters and receipts off their topics."""
        broker, letters = self._runner.broker, []
        for partition in range(broker.partitions):
            begin, end = broker.begin(DEAD_LETTERS, partition), broker.end(DEAD_LETTERS, partition)
            if begin < end:
                letters += [read_dead_letter(record.value) for record in broker.fetch(DEAD_LETTERS, partition, begin)]
                broker.trim(DEAD_LETTERS, partition, end)
            broker.trim(RECEIPTS, partition, broker.end(RECEIPTS, partition))
        return letters

    def scored(self) -> list[tuple[int, ScoredRows]]:
        """That of all workers."""
        return self._runner.take_scored()

    def rounding_error(self) -> Floats | None:
        """That of all workers."""
        return self._runner.rounding_error

    def close(self) -> None:
        """Nothing is held outside this process."""
