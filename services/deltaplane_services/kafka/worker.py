"""The worker's loop on Kafka: samples and retirements in by consumer group, deltas out by log order.

The group only decides who *should* own a partition; who *does* is decided by claims in the deltas topic, so a member
that was paused past its session and wakes up can publish what it likes: nobody accepts it. Every failed delivery,
every lost partition and every claim of somebody else's is answered in one way: claim again, and let the log say what
was accepted. If that is exactly what this process has in memory, it goes on with that; otherwise it rebuilds.

The group's callbacks only take note. Claims and rebuilds are made between polls, one source at a time, so that a
failure among them never leaves the client with an assignment of its own making, and the group is not kept waiting.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from deltaplane.definition import StreamDefinition
from deltaplane.delta import Source, SourceState
from deltaplane.errors import DeltaGap, DeltaplaneError
from deltaplane_services.arenas import give_back_what_is_free
from deltaplane_services.kafka.at_work import SourceAtWork
from deltaplane_services.kafka.clocks import ClockWarnings
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import (
    DeliveryFailed,
    LogReader,
    LogUnavailable,
    Publisher,
    is_passing,
    known_lags,
    raise_if_error,
    record_of,
)
from deltaplane_services.kafka.member import Member
from deltaplane_services.kafka.membership import ANYBODY, Party, refuse_fatal
from deltaplane_services.kafka.unpacking import does_not_unpack, once, stand_in
from deltaplane_services.metrics_export import WorkerMetrics
from deltaplane_services.processors.records import CHECKPOINTS, DELTAS, RETIREMENTS, SAMPLES, Output, Record
from deltaplane_services.processors.recovery import accepted_state, newest_checkpoint
from deltaplane_services.processors.worker import WorkerProcessor

logger = logging.getLogger(__name__)
RECOVERIES_IN_A_ROW = 30
"""Failures without a calm minute between them, after which a worker gives up and exits: about ten minutes."""

CALM_SECONDS = 60.0
SHORTEST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0
"""Between one attempt and the next; each pause is twice the one before."""

REVOCATION_FLUSH_SECONDS = 3.0
"""The whole group waits for a member that gives partitions up. What has not arrived by then, the next owner makes."""

SLEPT_SECONDS = 2.0
"""A poll that took so much longer than it should was no poll: the process was frozen, and may own nothing any more."""

BYTES_AT_ONCE = 2 * 2**20
"""About so many bytes are taken from the log at once: waiting for more only makes deltas later, and takes memory."""


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
    party: Party = ANYBODY


class Worker:
    """One worker process: ``step`` is one turn of its loop. All of Kafka is touched from the thread that calls it.

    A partition that the group has assigned is either being worked on, or waits to be claimed. The state of one that was
    taken away is kept until the group has said who gets it.
    """

    def __init__(
        self,
        definition: StreamDefinition,
        site: str,
        name: str,
        clients: WorkerClients,
        watch: WorkerMetrics | None = None,
    ) -> None:
        self.definition = definition
        self._watch = watch or WorkerMetrics(definition, site)
        self._clocks = ClockWarnings(definition)
        # Whether the consumer stands before a batch that does not unpack.
        self._go_on = False
        self._site, self._name, self._clients = site, name, clients
        self._lives = 0
        self._sources: dict[int, SourceAtWork] = {}
        self._waiting: list[int] = []
        self._kept: dict[int, SourceAtWork] = {}
        self._failures, self._failed_at, self._try_at = 0, float("-inf"), 0.0
        self._gaps: dict[tuple[str, int], tuple[int, int]] = {}
        # Bytes of a record lately; large until known otherwise.
        self._record_bytes = BYTES_AT_ONCE / 16
        self._models: ModelFollower | None = None
        self._connect()
        self._member = Member(
            clients.consumer,
            [self._topic(SAMPLES), self._topic(RETIREMENTS)],
            assigned=self._assigned,
            revoked=self._revoked,
            lost=self._lost,
        )
        self._member.join()

    def _connect(self) -> None:
        self._site_publisher, self._publisher = self._clients.site_publisher(), self._clients.central_publisher()
        self._site_log, self._log = self._clients.site_reader(), self._clients.central_reader()

    def _topic(self, topic: str) -> str:
        return f"{self.definition.name}.{topic}"

    # What the group says: called by the client in the course of a poll -----------------------------------------------

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        # Nothing is read before its source has been claimed; and without this call the client would begin anywhere.
        consumer.assign([])
        of = {
            topic: {place.partition for place in places if place.topic == self._topic(topic)}
            for topic in (SAMPLES, RETIREMENTS)
        }
        self._waiting = sorted(of[SAMPLES] & of[RETIREMENTS])
        self._keep_only(self._waiting)
        logger.info("assigned partitions %s", self._waiting)
        if torn := sorted(of[SAMPLES] ^ of[RETIREMENTS]):
            logger.error(
                "partitions %s: the group gave samples and retirements to different workers; left alone. Both topics"
                " need the same number of partitions, and every worker the range assignor",
                torn,
            )

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Give partitions up: what was published is left to arrive, so that the next owner finds it."""
        del consumer
        self._give_up(places)
        try:
            self._publisher.flush(REVOCATION_FLUSH_SECONDS)
        except DeliveryFailed as fault:
            logger.warning("on revocation: %s; the next owner goes on from what has arrived", fault)

    def _lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Another worker may own these partitions already; what is still unsent would be dropped by every reader."""
        del consumer
        logger.warning("the group gave this worker up: it was silent for longer than its session")
        self._give_up(places)

    def _give_up(self, places: Sequence[TopicPartition]) -> None:
        partitions = {place.partition for place in places}
        self._set_aside(partitions)
        self._waiting = [partition for partition in self._waiting if partition not in partitions]

    def _set_aside(self, partitions: Iterable[int]) -> None:
        """Stop work on some sources. Their states are kept: whether they still hold, the next claim finds out."""
        for partition in partitions:
            if partition in self._sources:
                self._kept[partition] = self._sources.pop(partition)

    def _keep_only(self, partitions: Sequence[int]) -> None:
        """Let go of the states of sources that others have now, and of the memory of their windows."""
        others = self._kept.keys() - set(partitions)
        for partition in others:
            del self._kept[partition]
        if others:
            give_back_what_is_free()

    # Taking a source over --------------------------------------------------------------------------------------------

    def _take(self, partition: int) -> None:
        """Claim a source and put it to work where the log says that it stands."""
        kept = self._kept.get(partition)
        if kept is not None:
            _, before = self._claim(kept.processor)
            del self._kept[partition]
            if (before.owner, before.sequence) == (kept.processor.writer, kept.next_tile):
                # Nobody else's delta was accepted since, and all of its own were: the state in memory is the state.
                logger.info("claimed %s again as %s, its state still holds", kept.processor.source, before.owner)
                self._work_on(partition, kept)
                return
        self._lives += 1
        processor = WorkerProcessor(self.definition, Source(self._site, partition), f"{self._name}.{self._lives}")
        claim, before = self._claim(processor)
        accepted = accepted_state(self.definition, before, [claim], claim.offset)
        resume = processor.restore(accepted, claim.offset)
        processor.skip_to(
            max(resume.samples, self._site_log.bounds(SAMPLES, partition)[0]),
            max(resume.retirements, self._site_log.bounds(RETIREMENTS, partition)[0]),
        )
        logger.info(
            "claimed %s as %s at tile %d, reading samples from %d, retirements from %d",
            processor.source,
            processor.writer,
            accepted.sequence,
            *processor.position,
        )
        rebuild_to = accepted.samples_position, accepted.retirements_position
        self._work_on(partition, SourceAtWork(processor, accepted.sequence, rebuild_to))

    def _claim(self, processor: WorkerProcessor) -> tuple[Record, SourceState]:
        """Append a claim: that record, and the accepted state of the source just before it."""
        claim, source = processor.claim(), processor.source
        offset = self._publisher.publish_and_wait(claim)
        _, end = self._log.bounds(CHECKPOINTS, 0)
        written = list(self._log.read(CHECKPOINTS, 0, 0, end))
        low, high = self._log.bounds(DELTAS, claim.partition)
        checkpoint, start = newest_checkpoint(self.definition, source, written, high)
        if 0 < start < low:
            raise DeltaGap(
                f"source {source}: its newest checkpoint goes on at offset {start} of deltas-{claim.partition}, the log"
                f" begins at {low}; retention has eaten deltas that no checkpoint holds: run a merger, and raise it"
            )
        deltas = self._log.read(DELTAS, claim.partition, start, offset)
        before = accepted_state(self.definition, checkpoint, deltas, offset)
        return Record(DELTAS, claim.partition, offset, 0, claim.key, claim.value), before

    def _work_on(self, partition: int, source: SourceAtWork) -> None:
        self._show_model([source])
        self._sources[partition] = source
        self._waiting.remove(partition)
        self._read_on()

    # Work ------------------------------------------------------------------------------------------------------------

    def step(self, most: int, timeout_seconds: float) -> None:
        """Poll once, process what came.

        What may pass (a broker away, a delivery that failed) is waited out. Raises it where it has not passed in ten
        minutes, :class:`DeltaGap` where the log has lost what is needed, :class:`MembershipLost`, :class:`NotAllowed`.
        """
        try:
            try:
                self._turn(most, timeout_seconds)
            except (DeliveryFailed, LogUnavailable) as fault:
                self._recover(fault)
        except KafkaException as fault:
            refuse_fatal(fault.args, self._clients.party)
            self._recover(LogUnavailable(f"kafka: {fault}"))

    def _turn(self, most: int, timeout_seconds: float) -> None:
        began = time.monotonic()
        may_take = bool(self._waiting) and began >= self._try_at
        most = max(1, min(most, int(BYTES_AT_ONCE / self._record_bytes)))
        messages = self._member.consume(most, 0.0 if may_take else timeout_seconds)
        # Looked at before anything can fail: that the group has shut this member out is said once, and never again.
        batches = self._sorted(messages)
        self._see_models()
        if time.monotonic() - began > timeout_seconds + SLEPT_SECONDS:
            logger.warning("this process slept for %.1f s; polling again first", time.monotonic() - began)
            self._read_on()
            return
        for partition, source in list(self._sources.items()):
            samples, retirements = batches.get(partition, ([], []))
            if self._is_torn(source, samples, retirements):
                continue
            output = source.processor.process(samples, retirements)
            self._watch.delta(source.processor, source.next_tile, samples, output)
            # Counted BEFORE it is published: a state whose delta may not have arrived must not be taken to hold.
            source.next_tile += len(output.then)
            self._publish(output)
            if source.hold(samples, retirements):
                self._read_on()
        self._publisher.check()
        if self._go_on:
            self._go_on = False
            self._read_on()
        if may_take and self._waiting:
            # One at a time, and a poll in between: the group may have thought better of it.
            self._take(self._waiting[0])

    def _sorted(self, messages: Sequence[Message]) -> dict[int, tuple[list[Record], list[Record]]]:
        """Partition to its (samples, retirements) of one poll; those of partitions not worked on are left out."""
        batches: dict[int, tuple[list[Record], list[Record]]] = {}
        refuse_fatal((message.error() for message in messages), self._clients.party)
        size = 0
        for message in once(messages):
            error = message.error()
            if error is not None and is_passing(message):
                continue
            record = record_of(message, self.definition.name)
            if error is not None and does_not_unpack(message):
                place = self._site_log.batch_ends.behind(message)
                logger.warning("%s: offsets %d to %d do not unpack", place.topic, record.offset, place.offset - 1)
                record, self._go_on = stand_in(record), True
            elif error is not None:
                raise_if_error(message, self._clients.party)
            size += len(record.value or b"")
            if record.partition in self._sources:
                batches.setdefault(record.partition, ([], []))[record.topic == RETIREMENTS].append(record)
        if messages:
            self._record_bytes = max(1.0, size / len(messages))
        return batches

    def _is_torn(self, source: SourceAtWork, samples: Sequence[Record], retirements: Sequence[Record]) -> bool:
        """Whether records are missing before or among those that came; if so, they are asked for again.

        A poll may hold records that were fetched for an earlier assignment. A gap that is still there when it is asked
        for again is one of the log (retention, or another producer's transactions), and no loss.
        """
        for topic, expected, records in (
            (SAMPLES, source.processor.position[0], samples),
            (RETIREMENTS, source.processor.position[1], retirements),
        ):
            next_offset = expected
            for record in records:
                gap = (next_offset, record.offset)
                if record.offset > next_offset and self._gaps.get((topic, record.partition)) != gap:
                    logger.info("%s-%d: expected offset %d, got %d; asking again", topic, record.partition, *gap)
                    self._gaps[topic, record.partition] = gap
                    self._read_on()
                    return True
                next_offset = max(next_offset, record.offset + 1)
        return False

    def _read_on(self) -> None:
        """Read every source that is worked on from its position; assigning anew drops what was fetched ahead."""
        # Outside its group a worker has no sources, and the client is busy getting back into it.
        if self._member.joined:
            self._member.client.assign([place for source in self._sources.values() for place in self._places(source)])

    def _places(self, source: SourceAtWork) -> list[TopicPartition]:
        partition, (samples, retirements) = source.processor.source.partition, source.processor.position
        places = [
            TopicPartition(self._topic(topic), partition, position)
            for topic, position in ((RETIREMENTS, retirements), (SAMPLES, samples))
            if topic not in source.held_back
        ]
        return [self._site_log.batch_ends.from_there(place) for place in places]

    def _publish(self, output: Output) -> None:
        if output.first:
            # Dead letters and receipts are safe BEFORE the delta that passes over their causes.
            self._site_publisher.publish(output.first)
            self._site_publisher.flush()
        self._publisher.publish(output.then)

    def _recover(self, fault: DeltaplaneError) -> None:
        """Claim every source again after a pause, with new clients; give up after too many failures in a row.

        A publisher that has failed stays failed; and a reader may hold on for minutes to what it once was told of a
        topic, among it that a partition does not exist.
        """
        now, calm = time.monotonic(), time.monotonic() - self._failed_at > CALM_SECONDS
        self._failures, self._failed_at = 1 if calm else self._failures + 1, now
        if self._failures > RECOVERIES_IN_A_ROW:
            raise fault
        pause = min(SHORTEST_PAUSE_SECONDS * 2 ** (self._failures - 1), LONGEST_PAUSE_SECONDS)
        self._try_at = now + pause
        left = f"failure {self._failures} of {RECOVERIES_IN_A_ROW}"
        logger.warning("%s; claiming again in %.1f s (%s)", fault, pause, left)
        self._site_publisher.abandon()
        self._publisher.abandon()
        self._close_readers()
        self._connect()
        self._wait_for_claim(list(self._sources))

    def _wait_for_claim(self, partitions: Iterable[int]) -> None:
        """Stop work on some sources until they have been claimed again."""
        self._waiting = sorted({*self._waiting, *(lost := list(partitions))})
        self._set_aside(lost)
        self._read_on()

    # Models ----------------------------------------------------------------------------------------------------------

    def _see_models(self) -> None:
        """Show the newest model to every source, and claim again what somebody else has claimed since."""
        if self._models is None:
            reader = self._clients.central_reader()
            try:
                self._models = ModelFollower(reader, self.definition, self._watch.refused_model)
            except BaseException:
                reader.close()
                raise
            found = [] if self._models.model is None else [self._models.model]
        else:
            found = self._models.poll(500, 0.0)
        for newer in found:
            self._watch.model(newer)
        model = self._models.model
        if model is None or not found:
            return
        self._show_model(self._sources.values())
        stolen = [partition for partition, source in self._sources.items() if source.processor.fenced]
        if stolen:
            logger.warning("partitions %s: another writer has claimed them after this one; claiming again", stolen)
            self._wait_for_claim(stolen)

    def _show_model(self, sources: Iterable[SourceAtWork]) -> None:
        """Show some sources the newest model, if there is one, and when it was appended to its topic."""
        if self._models is not None and self._models.model is not None and self._models.newest is not None:
            for source in sources:
                source.processor.see_model(self._models.model, self._models.newest.log_time)

    # End -------------------------------------------------------------------------------------------------------------

    @property
    def sources(self) -> dict[int, WorkerProcessor]:
        """Partition to the state of each source that is worked on."""
        return {partition: source.processor for partition, source in self._sources.items()}

    @property
    def ready(self) -> bool:
        """Whether every source that this worker owns has been claimed and rebuilt."""
        return not self._waiting and all(source.processor.serving for source in self._sources.values())

    def tell(self) -> None:
        """Tell the metrics where every source stands; after every turn."""
        self._watch.turn(self.sources, self._waiting, joined=self._member.joined)
        self._clocks.tell(self.sources.values())
        places = [place for source in self._sources.values() for place in self._places(source)]
        self._watch.lags(known_lags(self._member.client, places, self.definition.name))

    def commit_positions(self) -> None:
        """Tell the group how far each source is: for lag metrics only, correctness never looks at it."""
        places = [place for source in self._sources.values() for place in self._places(source)]
        if places:
            try:
                self._member.client.commit(offsets=places, asynchronous=True)
            except KafkaException as fault:
                logger.info("positions were not committed (%s); only lag metrics miss them", fault)

    def close(self) -> None:
        """Finish: what was published arrives, and the group is left."""
        self._watch.ends()
        try:
            self._publisher.flush()
        except DeliveryFailed as fault:
            logger.warning("at the end: %s; the next owner goes on from what has arrived", fault)
        finally:
            self._member.close()
            self._close_readers()

    def _close_readers(self) -> None:
        for reader in (self._log, self._site_log, self._models):
            if reader is not None:
                reader.close()
        self._models = None
