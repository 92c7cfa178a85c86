"""The interface that a replay needs of a pipeline, and the embedded pipeline in this process."""

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
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, RunnerOptions
from deltaplane_services.processors.codec import Codec, readable
from deltaplane_services.processors.messages import DEAD_LETTERS, RECEIPTS, Outgoing

__all__ = ["EmbeddedPipeline", "Pipeline"]


class Pipeline(Protocol):
    """Publish the records of a chunk, then advance: when ``advance`` returns, the model contains them."""

    @property
    def model(self) -> Model | None:
        """The newest model."""

    def deviations(self) -> Floats | None:
        """Standard deviations float64[d] of the features over the live rows, in raw units; None if not known here."""

    def publish(self, records: Iterable[Outgoing], now: int) -> None:
        """Append records to their topics at ``now``, the time of the stream in milliseconds since the epoch."""

    def advance(self, now: int) -> None:
        """Return when the model contains everything that was published."""

    def drain(self, now: int) -> None:
        """Return when, in addition, every source has heard the last watermark."""

    def dead_letters(self) -> list[DeadLetter]:
        """What was refused since the last call."""

    def scored(self) -> list[tuple[int, ScoredRows]]:
        """Predictions of rows since the last call, by partition; empty if the pipeline does not keep them."""

    def rounding_error(self) -> Floats | None:
        """Largest absolute difference of each feature from its grid value, float64[d]; None if not known here."""

    def close(self) -> None:
        """Release everything."""


class EmbeddedPipeline:
    """The pipeline in this process. Consumed records are deleted, so that memory does not grow with the file."""

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
        # A round must read the whole chunk, so that the model contains it before the next chunk comes.
        options = RunnerOptions(
            records_per_poll=2**31, seed=seed, decode=False, keep_window=keep_window, keep_scored=keep_scored
        )
        self._runner = EmbeddedRunner(definition, options=options, broker=broker, now=now)
        if broker is not None:
            # Rebuild the window from the logs before new rows come.
            self._runner.drain(now)

    def logs(self, now: int) -> EmbeddedBroker:
        """The logs from which another pipeline can go on; a checkpoint is written first."""
        self._runner.checkpoint(now)
        return self._runner.broker

    @property
    def model(self) -> Model | None:
        """The newest model."""
        return self._runner.merger.model

    def deviations(self) -> Floats | None:
        """Standard deviations float64[d] of the features, from the statistics behind the newest model."""
        live = of_modelled_classes(self._runner.merger.merger.statistics, self._definition)
        return deviations(live.grams(self._definition.nested_windows.longest).values(), self._definition.plane_grid)

    def publish(self, records: Iterable[Outgoing], now: int) -> None:
        """Append to the embedded broker's logs."""
        self._runner.broker.append_all(records, now)

    def advance(self, now: int) -> None:
        """Run one round."""
        self._runner.round(now)

    def drain(self, now: int) -> None:
        """Run rounds until there is nothing left to do."""
        self._runner.drain(now)

    def dead_letters(self) -> list[DeadLetter]:
        """The new dead letters. They and the receipts are deleted from their topics."""
        broker, letters = self._runner.broker, []
        for partition in range(broker.partitions):
            begin, end = broker.begin(DEAD_LETTERS, partition), broker.end(DEAD_LETTERS, partition)
            if begin < end:
                refused = broker.fetch(DEAD_LETTERS, partition, begin)
                letters += [readable(Codec.dead_letter(record)) for record in refused]
                broker.trim(DEAD_LETTERS, partition, end)
            broker.trim(RECEIPTS, partition, broker.end(RECEIPTS, partition))
        return letters

    def scored(self) -> list[tuple[int, ScoredRows]]:
        """The predictions of all workers since the last call."""
        return self._runner.take_scored()

    def rounding_error(self) -> Floats | None:
        """The largest rounding error of all workers."""
        return self._runner.rounding_error

    def close(self) -> None:
        """Do nothing: this pipeline holds nothing outside the process."""
