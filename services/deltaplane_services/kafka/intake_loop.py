"""The intake's loop on Kafka: a user's own topics in, samples and retirements out.

Each process reads all partitions of the users' topics, since their keys are not ours, and an id's event and its label
may lie anywhere. Of what it reads it takes the ids of its own partitions of samples, which a consumer group shares out.

What it publishes is acknowledged before its store goes on, and the last record of a step says how far it had come. So
whoever takes a partition over finds that in the samples log, and neither a lost store nor a crash loses anything. One
that was frozen, and sends what it had ready after another has taken over, is noticed: the owner follows its partition
of samples, and sends again what such a record names.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from deltaplane.errors import DeltaplaneError, LogReplaced
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.intake_table import IntakeDefinition
from deltaplane_services.intake.formats.change import RegistryUnavailable
from deltaplane_services.intake.joining import IntakeProcessor
from deltaplane_services.intake.positions import last_position, sent_by
from deltaplane_services.intake.reading import Place, RecordReader
from deltaplane_services.intake.waiting_rows import StoreFault, WaitingRows
from deltaplane_services.kafka.log import LogReader, record_of
from deltaplane_services.kafka.log_errors import LogUnavailable, is_end, is_passing, raise_if_error
from deltaplane_services.kafka.member import Member
from deltaplane_services.kafka.membership import Principal
from deltaplane_services.kafka.publishing import DeliveryFailed, Publisher, Publishers
from deltaplane_services.kafka.recoveries import Recoveries
from deltaplane_services.kafka.scorer_loop import headers_of
from deltaplane_services.kafka.service_clients import ClusterClients
from deltaplane_services.kafka.service_loop import ServiceLoop
from deltaplane_services.kafka.topic_watch import ANSWER_SECONDS
from deltaplane_services.kafka.unpacking import does_not_unpack
from deltaplane_services.observe.metrics import IntakeMetrics
from deltaplane_services.processors.messages import QUERIES, SAMPLES, Output, Record

__all__ = ["ASK_SECONDS", "ATTEMPTS", "COMMIT_SECONDS", "IntakeClients", "IntakeService", "RecordsGone"]

logger = logging.getLogger(__name__)

COMMIT_SECONDS = 1.0
"""Seconds between two commits of the stores. What was read since is read again after a crash, and not sent again."""

ASK_SECONDS = 0.5
"""Seconds between two questions to a schema registry that does not answer."""

ATTEMPTS = 5
"""How often brokers are asked for the users' topics at the start."""

_LOOK_BACK = 100
"""Records of samples that are looked through for the last one of an intake, ten times as many each time."""


class RecordsGone(DeltaplaneError):
    """A log of a user's that no longer has records which were not read yet."""


@dataclass(frozen=True)
class IntakeClients:
    """Functions that make the clients of an intake, all on the site's cluster.

    ``consumer`` makes the member of its group, and ``party`` says who that is to the brokers. The reader of ``site``
    reads topics of the stream, with headers, and its watch looks after the users' topics; ``users_reader`` reads these,
    by their whole names. ``rows`` opens the store of a partition. ``registry``: properties of the client of a schema
    registry. ``query_publisher`` publishes on the central cluster.
    """

    consumer: Callable[[], Consumer]
    party: Principal
    site: ClusterClients
    users_reader: Callable[[], LogReader]
    rows: Callable[[int], WaitingRows]
    query_publisher: Callable[[], Publisher]
    registry: Mapping[str, Any]


@dataclass
class _AtWork:
    """A partition at work: its processor, where its samples are followed on, and records of others to answer."""

    processor: IntakeProcessor
    followed: int
    of_others: list[Record] = field(default_factory=list)


class IntakeService(ServiceLoop):
    """One intake process: ``step`` is one turn of its loop.

    ``accept_gaps``: whether to go on behind records that were deleted before they were read.
    """

    going_on = "taking the partitions over again"
    left_unsent = "it is sent again from what was committed"
    _watch: IntakeMetrics

    def __init__(
        self,
        definition: StreamDefinition,
        intake: IntakeDefinition,
        name: str,
        clients: IntakeClients,
        watch: IntakeMetrics | None = None,
        *,
        accept_gaps: bool = False,
    ) -> None:
        super().__init__(
            watch or IntakeMetrics(definition),
            Recoveries.of_worker(clients.party),
            lambda: Publishers.of_one(clients.site.publisher()),
        )
        self._definition, self._intake, self._name, self._clients = definition, intake, name, clients
        self._accept_gaps = accept_gaps
        self._lives = 0
        self._reader = RecordReader(definition, intake, clients.registry)
        # Records that came while a registry did not answer.
        self._unread: list[Record] = []
        self._topics = clients.site.watch()
        for _ in range(ATTEMPTS):
            self._topics.ask_now(ANSWER_SECONDS)
            # A broker that has just died may be asked first; another one answers.
            if self._topics.missing or set(intake.topics) <= self._topics.partitions.keys():
                break
        self._places = self._known_places()
        self._ids = dict(self._topics.ids)
        self._at_work: dict[int, _AtWork] = {}
        self._waiting: list[int] = []
        self._must_follow, self._committed = False, time.monotonic()
        self._samples = f"{definition.name}.{SAMPLES}"
        self._open_readers()
        self._queries = clients.query_publisher() if intake.queries else None
        self._member = Member(
            clients.consumer, [self._samples], assigned=self._assigned, revoked=self._revoked, lost=self._lost
        )
        self._member.join()

    def _open_readers(self) -> None:
        self._own = self._clients.site.reader()
        self._events = self._clients.users_reader()
        self._labels = None if self._intake.labels is None else self._clients.users_reader()
        for one in (self._own, self._events, self._labels):
            if one is not None:
                one.batch_ends.watch = self._watch

    def _known_places(self) -> list[Place]:
        """Every log of the users' topics. Raises :class:`LogUnavailable` if a topic is not there, or nobody answers."""
        watch = self._topics
        if missing := sorted(watch.missing):
            raise LogUnavailable(f"kafka: topic {missing[0]} of [intake] is not there; check its name, and the broker")
        if absent := [topic for topic in self._intake.topics if topic not in watch.partitions]:
            raise LogUnavailable(
                f"kafka: no broker tells of topic {absent[0]} of [intake]: {watch.silence or 'no answer'}; check that"
                " it may be read: deltaplane topics acls --principal intake=User:NAME prints what to allow"
            )
        return [(topic, at) for topic in self._intake.topics for at in range(watch.partitions[topic])]

    # What the group says: called by the client in the course of a poll -----------------------------------------------

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        consumer.assign([])
        self._drop()
        self._waiting = sorted(place.partition for place in places if place.partition < self._definition.partitions)
        logger.info("assigned partitions %s", self._waiting)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Give partitions up; all that they sent is acknowledged, so that their stores can be committed."""
        del consumer, places
        self._commit()
        self._drop()
        self._waiting = []

    def _lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        del consumer, places
        logger.warning("this intake has lost its partitions: it was silent for longer than its session, or joins anew")
        self._drop()
        self._waiting = []

    def _drop(self) -> None:
        """Stop work on all partitions; what was not committed is read again."""
        for one in self._at_work.values():
            one.processor.close()
        self._at_work = {}

    # Taking a partition over -----------------------------------------------------------------------------------------

    def _take(self, partition: int) -> None:
        """Go on with a partition from what the last record of an intake in its samples says."""
        sent, stale, end = self._last_sent(partition)
        self._lives += 1
        rows = self._clients.rows(partition)
        processor = IntakeProcessor(self._definition, self._intake, partition, rows, f"{self._name}.{self._lives}")
        reader = self._clients.users_reader()
        try:
            bounds = {place: reader.bounds(*place) for place in self._places}
            processor.restore(sent, {place: low for place, (low, _) in bounds.items()})
            for place, (low, high) in bounds.items():
                self._check(processor, place, low, high)
        except BaseException:
            processor.close()
            raise
        finally:
            reader.close()
        self._at_work[partition] = _AtWork(processor, end, stale)
        self._waiting.remove(partition)
        self._must_follow = True
        logger.info("took over partition %d of samples%s", partition, ", rebuilding" if processor.rebuilding else "")

    def _last_sent(self, partition: int) -> tuple[Mapping[Place, int], list[Record], int]:
        """(how far an intake had come, records of one that sent them too late, the end of the samples).

        Records are too late if their writer had not come as far as another one before them. All are in the piece of the
        log that the last position was found in.
        """
        low, high = self._own.bounds(SAMPLES, partition)
        stop, length = high, _LOOK_BACK
        while stop > low:
            start = max(low, stop - length)
            read = self._own.read(SAMPLES, partition, start, stop)
            said = [(record, sent) for record in read if (sent := sent_by(record.headers)) is not None]
            if (found := last_position(said)) is not None:
                positions, stale = found
                return {place: at for place, at in positions.items() if place in self._places}, stale, high
            stop, length = start, length * 10
        return {}, [], high

    def _check(self, processor: IntakeProcessor, place: Place, low: int, high: int) -> None:
        """Raise if a log has lost what was not read yet, or is not the one that was read."""
        at, (topic, number) = processor.position(place), place
        if at > high:
            raise LogReplaced(
                f"{topic}-{number}: it was read up to offset {at}, and ends at {high}; if it was deleted and made"
                " again, begin a stream of another name, since nobody can tell what was read of it"
            )
        if at >= low:
            return
        gone = f"{topic}-{number}: offsets {at} to {low - 1} were deleted before they were read"
        if not self._accept_gaps:
            raise RecordsGone(f"{gone}; keep them longer than an intake may stand still, or go on with --accept-gaps")
        logger.warning("%s; going on behind them", gone)
        processor.skip_to(place, low)

    # Work ------------------------------------------------------------------------------------------------------------

    def _turn(self, most: int, timeout_seconds: float) -> None:
        if self._waiting and time.monotonic() >= self._recoveries.try_at:
            self._take(self._waiting[0])
        if self._must_follow and self._at_work and not self._waiting:
            self._follow()
        self._hear(most)
        self._watch_topics()
        if not self._at_work or self._waiting:
            time.sleep(min(timeout_seconds, 0.05))
            return
        records = self._unread or self._records(most, timeout_seconds)
        try:
            self._work(records)
        except StoreFault as fault:
            raise LogUnavailable(str(fault)) from fault
        except RegistryUnavailable as fault:
            self._wait_for_registry(records, fault, timeout_seconds)
        else:
            self._unread = []
            self._watch.registry_answers()
        if time.monotonic() - self._committed >= COMMIT_SECONDS:
            self._commit()

    def _wait_for_registry(self, records: list[Record], fault: RegistryUnavailable, timeout_seconds: float) -> None:
        """Keep records that cannot be read yet; nothing else is read until they can be."""
        self._unread = records
        if self._watch.registry_is_silent():
            logger.warning("%s", fault)
        time.sleep(max(timeout_seconds, ASK_SECONDS))

    def _work(self, records: Sequence[Record]) -> None:
        """Process what came for each partition, and answer records of others once a partition is rebuilt."""
        read = self._reader.read(records, time.time_ns() // 1_000_000) if records else None
        for one in self._at_work.values():
            rebuilding = one.processor.rebuilding
            for output in () if read is None else one.processor.process(read):
                self._watch.published([*output.first, *output.then])
                self._publish(output)
            if rebuilding and not one.processor.rebuilding:
                logger.info("partition %d of samples is rebuilt", one.processor.partition)
                # What lies behind the place up to which it was rebuilt was passed over.
                self._must_follow = True
            if one.of_others and not one.processor.rebuilding:
                for record in one.of_others:
                    for output in one.processor.again(record):
                        self._publish(output)
                one.of_others = []
        self._publishers.then.check()

    def _records(self, most: int, timeout_seconds: float) -> list[Record]:
        """The next records; labels first, so that events seldom wait for a label that is there already."""
        records: list[Record] = []
        if self._labels is not None and self._intake.labels is not None:
            topic = self._intake.labels.topic
            records = self._labels.poll(most, 0.0)
            places = [place for place in self._places if place[0] == topic]
            if len(records) >= most or not all(self._labels.has_ended(*place) for place in places):
                return records or self._labels.poll(most, timeout_seconds)
        return records + self._events.poll(most, 0.0 if records else timeout_seconds)

    def _hear(self, most: int) -> None:
        """Read what was appended to the samples of this process's partitions, and keep what others have sent."""
        for message in self._member.consume(most, 0.0):
            if is_passing(message) or is_end(message) or does_not_unpack(message):
                continue
            raise_if_error(message, self._clients.party)
            record = record_of(message, self._definition.name)
            one = self._at_work.get(record.partition)
            if one is None or record.offset < one.followed:
                continue
            one.followed = record.offset + 1
            headers = headers_of(message)
            sent = sent_by(headers)
            if sent is not None and sent.writer != one.processor.writer:
                logger.warning(
                    "samples-%d, offset %d: %s sent this after it had lost the partition; sending again what it names",
                    record.partition,
                    record.offset,
                    sent.writer,
                )
                one.of_others.append(record._replace(headers=headers))

    def _follow(self) -> None:
        """Read each log from where the partition that is farthest behind needs it."""
        self._must_follow = False
        # They come again: reading begins anew.
        self._unread = []
        starts = [
            (topic, at, min(one.processor.position((topic, at)) for one in self._at_work.values()))
            for topic, at in self._places
        ]
        events = self._intake.topic
        self._events.follow([start for start in starts if start[0] == events])
        if self._labels is not None:
            self._labels.follow([start for start in starts if start[0] != events])
        if self._member.joined:
            followed = [TopicPartition(self._samples, at, one.followed) for at, one in self._at_work.items()]
            self._member.client.assign(followed)

    def _watch_topics(self) -> None:
        """Read partitions that were added; raises :class:`LogReplaced` if a topic was made anew."""
        self._topics.turn()
        for topic, found in self._topics.ids.items():
            if self._ids.setdefault(topic, found) != found:
                raise LogReplaced(f"{topic}: deleted and made again while it was read; begin a stream of another name")
        counts = self._topics.partitions
        if all(topic in counts for topic in self._intake.topics) and sum(counts.values()) > len(self._places):
            self._places = self._known_places()
            for one in self._at_work.values():
                one.processor.know(dict.fromkeys(self._places, 0))
            self._must_follow = True

    def _publish(self, output: Output) -> None:
        if self._queries is not None and output.then and output.then[0].topic == QUERIES:
            self._queries.publish(output.then)
        else:
            super()._publish(output)

    def _commit(self) -> None:
        """Write the stores for good, once all that was sent is acknowledged. Raises :class:`DeliveryFailed`."""
        self._publishers.then.flush()
        if self._queries is not None:
            self._queries.flush()
        self._committed = time.monotonic()
        for one in self._at_work.values():
            one.processor.commit()

    def _go_on(self, pause_seconds: float) -> None:
        """Take every partition over again, with new readers, after a pause."""
        del pause_seconds
        self._unread = []
        if self._queries is not None:
            self._queries.abandon()
            self._queries = self._clients.query_publisher()
        self._waiting = sorted({*self._waiting, *self._at_work})
        self._drop()
        self._close_readers()
        self._open_readers()

    # End -------------------------------------------------------------------------------------------------------------

    @property
    def processors(self) -> list[IntakeProcessor]:
        """The processors of the partitions at work."""
        return [one.processor for one in self._at_work.values()]

    def tell(self) -> None:
        """Give the metrics the state of this intake; called after every turn."""
        self._watch.turn(self.processors, joined=self._member.joined, waiting=len(self._waiting))
        self._watch.look_at_lags(self._lags)

    def _lags(self) -> Counter[Place]:
        """Place to the number of records that are still to be read."""
        lags = Counter(self._events.lags())
        if self._labels is not None:
            lags.update(self._labels.lags())
        # The client has given these out, and they are still to be read.
        lags.update((record.topic, record.partition) for record in self._unread)
        return lags

    def _finish(self) -> None:
        # Without an acknowledgement the stores stay behind, and what is missing is sent again.
        with contextlib.suppress(DeliveryFailed):
            self._commit()

    def _leave(self) -> None:
        self._member.close()
        self._drop()
        self._close_readers()
        self._topics.close()

    def _close_readers(self) -> None:
        for one in (self._own, self._events, self._labels):
            if one is not None:
                one.close()
