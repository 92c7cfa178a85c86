"""The merger's loop on Kafka: deltas in by offset, models and checkpoints out.

Several mergers may run; membership of a group on the one-partition checkpoints topic elects the one that publishes. The
others wait. A merger that was paused and still believes itself elected does no harm: checkpoints are compared by
offset, and model versions that are not higher are ignored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from deltaplane.definition import StreamDefinition
from deltaplane_services.kafka.log import DeliveryFailed, LogReader, Publisher, is_passing, raise_if_error
from deltaplane_services.processors.merger import MergerProcessor
from deltaplane_services.processors.records import CHECKPOINTS, DELTAS, MODELS, Output

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MergerClients:
    """Makes the clients of a merger, all on the central cluster; the consumer is only for the election."""

    consumer: Callable[[], Consumer]
    publisher: Callable[[], Publisher]
    reader: Callable[[], LogReader]


@dataclass(frozen=True)
class MergerPace:
    """Models at most every ``refresh_seconds``, checkpoints every ``checkpoint_seconds``."""

    refresh_seconds: float = 0.1
    checkpoint_seconds: float = 10.0


class MergerService:
    """One merger process, elected or standing by: ``step`` is one turn of its loop."""

    def __init__(self, definition: StreamDefinition, clients: MergerClients, pace: MergerPace) -> None:
        self.definition = definition
        self.processor: MergerProcessor | None = None
        self._clients = clients
        self._pace = pace
        self._publisher = clients.publisher()
        self._reader = clients.reader()
        self._published_at = self._checkpointed_at = 0.0
        self._election = clients.consumer()
        self._election.subscribe(
            [f"{definition.name}.{CHECKPOINTS}"],
            on_assign=self._elected,
            on_revoke=self._deposed,
            on_lost=self._deposed,
        )

    @property
    def elected(self) -> bool:
        """Whether this merger publishes."""
        return self.processor is not None

    # Election --------------------------------------------------------------------------------------------------------

    def _elected(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        consumer.assign([TopicPartition(place.topic, place.partition, OFFSET_END) for place in places])
        if not places:
            return
        processor = MergerProcessor(self.definition)
        _, end = self._reader.bounds(CHECKPOINTS, 0)
        checkpoints = list(self._reader.read(CHECKPOINTS, 0, 0, end))
        _, end = self._reader.bounds(MODELS, 0)
        resume = processor.restore(checkpoints, list(self._reader.read(MODELS, 0, end - 1, end)))
        starts = []
        for partition in range(self.definition.partitions):
            begin, end = self._reader.bounds(DELTAS, partition)
            start = max(resume.get(partition, 0), 0)
            if start < begin and partition in resume:
                raise DeliveryFailed(
                    f"deltas-{partition}: the checkpoint goes on at offset {start}, the log begins at {begin};"
                    " retention has eaten deltas that no checkpoint holds: raise it, and start the stream anew"
                )
            starts.append((DELTAS, partition, max(start, begin)))
        self._reader.follow(starts)
        self.processor = processor
        logger.info(
            "elected; going on with %s", ", ".join(f"deltas-{partition} at {start}" for _, partition, start in starts)
        )

    def _deposed(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        del consumer
        if places and self.processor is not None:
            logger.info("standing by")
            self.processor = None

    # Work ------------------------------------------------------------------------------------------------------------

    def step(self, most: int, timeout_seconds: float) -> None:
        """Poll once. A failed delivery is answered by a new publisher, and by making models and checkpoints again."""
        for message in self._election.consume(100, timeout=0.0 if self.elected else timeout_seconds):
            if not is_passing(message):
                raise_if_error(message)
        processor = self.processor
        if processor is None:
            return
        records = self._reader.poll(most, timeout_seconds)
        try:
            self._publish(processor.process(records))
            now = time.monotonic()
            if now - self._published_at >= self._pace.refresh_seconds:
                self._publish(processor.publish(time.time_ns() // 1_000_000))
                self._published_at = now
            if now - self._checkpointed_at >= self._pace.checkpoint_seconds:
                self._publish(processor.checkpoints())
                self._checkpointed_at = now
            self._publisher.check()
        except DeliveryFailed as fault:
            logger.warning("%s; what was lost is published again with the next model", fault)
            self._publisher.abandon()
            self._publisher = self._clients.publisher()
            processor.forget_publications()
            time.sleep(1.0)

    def _publish(self, output: Output) -> None:
        if output.first:
            self._publisher.publish(output.first)
            self._publisher.flush()
        self._publisher.publish(output.then)

    def close(self) -> None:
        """Leave a last model and checkpoints behind, and the group."""
        try:
            if self.processor is not None:
                self._publish(self.processor.publish(time.time_ns() // 1_000_000))
                self._publish(self.processor.checkpoints())
            self._publisher.flush()
        finally:
            self._election.close()
            self._reader.close()
