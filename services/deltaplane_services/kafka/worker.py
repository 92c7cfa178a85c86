"""The worker's loop on Kafka: samples and retirements in by consumer group, deltas out by log order.

The group only decides who *should* own a partition; who *does* is decided by claims in the deltas topic, so a member
that was paused past its session and wakes up can publish what it likes: nobody accepts it. Every failed delivery,
every lost partition and every claim of somebody else's is answered in one way: claim again, rebuild from the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from deltaplane.definition import StreamDefinition
from deltaplane.delta import Source
from deltaplane.errors import WireError
from deltaplane.model import Model
from deltaplane.wire import read_model
from deltaplane_services.kafka.log import (
    REQUEST_TIMEOUT_SECONDS,
    DeliveryFailed,
    LogReader,
    LogUnavailable,
    Publisher,
    is_passing,
    raise_if_error,
    record_of,
)
from deltaplane_services.processors.records import (
    CHECKPOINTS,
    DELTAS,
    MODELS,
    RETIREMENTS,
    SAMPLES,
    Output,
    Record,
)
from deltaplane_services.processors.recovery import accepted_state, newest_checkpoint
from deltaplane_services.processors.worker import WorkerProcessor

logger = logging.getLogger(__name__)
RECOVERIES_IN_A_ROW = 10
"""Failed deliveries without one success between them, after which a worker gives up and exits."""


@dataclass(frozen=True)
class WorkerClients:
    """Makes the clients of a worker: the site's consumer and publisher, the central publisher and reader.

    Publishers are made anew after a failed delivery, since an idempotent producer that has failed stays failed.
    """

    consumer: Callable[[], Consumer]
    site_publisher: Callable[[], Publisher]
    central_publisher: Callable[[], Publisher]
    site_reader: Callable[[], LogReader]
    central_reader: Callable[[], LogReader]


class Worker:
    """One worker process: ``step`` is one turn of its loop. All of Kafka is touched from the thread that calls it."""

    def __init__(self, definition: StreamDefinition, site: str, name: str, clients: WorkerClients) -> None:
        self.definition = definition
        self.sources: dict[int, WorkerProcessor] = {}
        self._site = site
        self._name = name
        self._clients = clients
        self._lives = 0
        self._failures = 0
        self._gaps: dict[tuple[str, int], tuple[int, int]] = {}
        self._newest: Model | None = None
        self._site_publisher = clients.site_publisher()
        self._publisher = clients.central_publisher()
        self._models = clients.central_reader()
        self._log = clients.central_reader()
        self._site_log = clients.site_reader()
        self._consumer = clients.consumer()
        self._follow_models()
        self._consumer.subscribe(
            [self._topic(SAMPLES), self._topic(RETIREMENTS)],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    def _topic(self, topic: str) -> str:
        return f"{self.definition.name}.{topic}"

    # Assignment ------------------------------------------------------------------------------------------------------

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Take over what the group assigned: claim, find the accepted state, and read on from where it says."""
        partitions = sorted({place.partition for place in places})
        logger.info("assigned partitions %s", partitions)
        starts = []
        for partition in partitions:
            starts += self._take(partition)
        wanted = {(place.topic, place.partition) for place in places}
        missing = {(start.topic, start.partition) for start in starts} - wanted
        if missing:
            raise RuntimeError(
                f"the group assigned {sorted(wanted)}: samples and retirements of a partition must go to one worker;"
                " both topics need the same number of partitions, and the range assignor"
            )
        consumer.assign(starts)

    def _take(self, partition: int) -> list[TopicPartition]:
        """Claim a partition; where its samples and retirements are to be read from."""
        self._lives += 1
        source = Source(self._site, partition)
        processor = WorkerProcessor(self.definition, source, f"{self._name}.{self._lives}")
        claimed_at = self._publisher.publish_and_wait(processor.claim())
        _, end = self._log.bounds(CHECKPOINTS, 0)
        checkpoint, offset = newest_checkpoint(self.definition, source, self._log.read(CHECKPOINTS, 0, 0, end))
        deltas = self._log.read(DELTAS, partition, offset, claimed_at + 1)
        resume = processor.restore(accepted_state(self.definition, checkpoint, deltas, claimed_at))
        samples = max(resume.samples, self._site_log.bounds(SAMPLES, partition)[0])
        retirements = max(resume.retirements, self._site_log.bounds(RETIREMENTS, partition)[0])
        processor.skip_to(samples, retirements)
        if self._newest is not None:
            processor.see_model(self._newest)
        self.sources[partition] = processor
        logger.info(
            "claimed %s as %s, reading samples from %d, retirements from %d",
            source,
            processor.writer,
            samples,
            retirements,
        )
        return [
            TopicPartition(self._topic(SAMPLES), partition, samples),
            TopicPartition(self._topic(RETIREMENTS), partition, retirements),
        ]

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Give partitions up: what was published is left to arrive, so that the next owner finds it."""
        del consumer
        self._drop(places)
        try:
            self._publisher.flush()
        except DeliveryFailed as fault:
            logger.warning("on revocation: %s; the next owner rebuilds from what has arrived", fault)

    def _lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Another worker may own these partitions already; what is still unsent would be dropped by every reader."""
        del consumer
        self._drop(places)

    def _drop(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            if self.sources.pop(place.partition, None) is not None:
                logger.info("dropped partition %d", place.partition)

    # Work ------------------------------------------------------------------------------------------------------------

    def step(self, most: int, timeout_seconds: float) -> None:
        """Poll once, process what came. Raises :class:`LogUnavailable` or :class:`DeltaGap` where that cannot go on."""
        messages = self._consumer.consume(most, timeout=timeout_seconds)
        try:
            self._see_models()
            batches = self._sorted(messages)
            for partition, processor in list(self.sources.items()):
                samples, retirements = batches.get(partition, ([], []))
                if self._is_torn(processor, samples, retirements):
                    continue
                self._publish(processor.process(samples, retirements))
            self._publisher.check()
            if messages:
                self._failures = 0
        except DeliveryFailed as fault:
            # What is left of this poll belongs to states that are gone; it is read again.
            self._recover(fault)

    def _sorted(self, messages: Sequence[Message]) -> dict[int, tuple[list[Record], list[Record]]]:
        """Partition to its (samples, retirements) of one poll; those of partitions not owned are left out."""
        batches: dict[int, tuple[list[Record], list[Record]]] = {}
        for message in messages:
            if is_passing(message):
                continue
            raise_if_error(message)
            record = record_of(message, self.definition.name)
            if record.partition in self.sources:
                batches.setdefault(record.partition, ([], []))[record.topic == RETIREMENTS].append(record)
        return batches

    def _is_torn(self, processor: WorkerProcessor, samples: Sequence[Record], retirements: Sequence[Record]) -> bool:
        """Whether records are missing before those that came; if so, they are asked for again.

        A poll that overlaps a rebalance may hold records fetched for an earlier assignment. A gap that is still there
        when it is asked for again is one of the log (retention, or another producer's transactions), and no loss.
        """
        expected = processor.position
        for topic, offset, records in zip((SAMPLES, RETIREMENTS), expected, (samples, retirements), strict=True):
            new = [record.offset for record in records if record.offset >= offset]
            if not new or new[0] == offset or self._gaps.get((topic, processor.source.partition)) == (offset, new[0]):
                continue
            logger.info(
                "%s-%d: expected offset %d, got %d; asking again", topic, processor.source.partition, offset, new[0]
            )
            self._gaps[topic, processor.source.partition] = (offset, new[0])
            self._seek(self._places(processor))
            return True
        return False

    def _places(self, processor: WorkerProcessor) -> list[TopicPartition]:
        samples, retirements = processor.position
        return [
            TopicPartition(self._topic(SAMPLES), processor.source.partition, samples),
            TopicPartition(self._topic(RETIREMENTS), processor.source.partition, retirements),
        ]

    def _seek(self, places: Sequence[TopicPartition]) -> None:
        """Go on reading some partitions elsewhere; assigning anew drops what was fetched ahead."""
        elsewhere = {(place.topic, place.partition): place for place in places}
        everything = [place for processor in self.sources.values() for place in self._places(processor)]
        self._consumer.assign([elsewhere.get((place.topic, place.partition), place) for place in everything])

    def _publish(self, output: Output) -> None:
        if output.first:
            # Dead letters and receipts are safe BEFORE the delta that passes over their causes.
            self._site_publisher.publish(output.first)
            self._site_publisher.flush()
        self._publisher.publish(output.then)

    def _recover(self, fault: DeliveryFailed) -> None:
        """Claim and rebuild every source, with new publishers; give up after too many failures in a row."""
        while True:
            self._failures += 1
            if self._failures > RECOVERIES_IN_A_ROW:
                raise fault
            logger.warning("%s; claiming and rebuilding (%d of %d)", fault, self._failures, RECOVERIES_IN_A_ROW)
            self._site_publisher.abandon()
            self._publisher.abandon()
            self._site_publisher = self._clients.site_publisher()
            self._publisher = self._clients.central_publisher()
            try:
                self._seek([place for partition in sorted(self.sources) for place in self._take(partition)])
            except (DeliveryFailed, LogUnavailable) as again:
                fault = DeliveryFailed(str(again))
                time.sleep(min(0.2 * 2**self._failures, 10.0))
            else:
                return

    # Models ----------------------------------------------------------------------------------------------------------

    def _follow_models(self) -> None:
        _, end = self._models.bounds(MODELS, 0)
        self._models.follow([(MODELS, 0, end - 1)])
        for record in self._models.poll(1, REQUEST_TIMEOUT_SECONDS) if end else []:
            self._take_model(record)

    def _see_models(self) -> None:
        """Show the newest model to every source, and claim again what somebody else has claimed since."""
        records = self._models.poll(500, 0.0)
        if not records or not self._take_model(records[-1]) or self._newest is None:
            return
        for processor in self.sources.values():
            processor.see_model(self._newest)
        stolen = [partition for partition, processor in self.sources.items() if getattr(processor, "fenced", False)]
        for partition in stolen:
            logger.warning("partition %d was claimed by another writer after this one; claiming it again", partition)
            self._seek(self._take(partition))

    def _take_model(self, record: Record) -> bool:
        """Remember a model if it is newer and of this stream."""
        try:
            model = read_model(record.value)
        except WireError as fault:
            logger.warning("models-0 at offset %d: %s", record.offset, fault)
            return False
        if model.stream_fingerprint != self.definition.stream_fingerprint:
            logger.warning(
                "models-0 at offset %d is of stream definition %s", record.offset, model.stream_fingerprint.hex()
            )
            return False
        if self._newest is None or model.version > self._newest.version:
            self._newest = model
            return True
        return False

    # End -------------------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether every source that this worker owns has been rebuilt."""
        return all(processor.serving for processor in self.sources.values())

    def commit_positions(self) -> None:
        """Tell the group how far each source is: for lag metrics only, correctness never looks at it."""
        places = [place for processor in self.sources.values() for place in self._places(processor)]
        if places:
            try:
                self._consumer.commit(offsets=places, asynchronous=True)
            except KafkaException as fault:
                logger.info("positions were not committed (%s); only lag metrics miss them", fault)

    def close(self) -> None:
        """Finish: what was published arrives, and the group is left."""
        try:
            self._publisher.flush()
        finally:
            self._consumer.close()
            for reader in (self._models, self._log, self._site_log):
                reader.close()
