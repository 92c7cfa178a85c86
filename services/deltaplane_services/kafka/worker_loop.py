"""The worker's loop on Kafka: samples and retirements in by consumer group, deltas out by log order.

The group decides only who *should* own a partition. Claims in the deltas topic decide who *does*: if a member wakes up
after its session has ended, nobody accepts what it publishes. A failed delivery, a lost partition and a claim by
another worker all have the same answer: claim again, and read from the log what was accepted. If that is exactly the
state in memory, the worker goes on with it; otherwise it rebuilds.

The callbacks of the group only take note. Claims and rebuilds are made between polls, one source at a time, so that a
failure among them never leaves the client with an assignment that the group did not make, and the group does not wait.
If one source cannot be served, the others still are: it is set aside, and tried again (set_aside.py).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from deltaplane.errors import DeltaplaneError, LogReplaced, SourceRemoved
from deltaplane.log.delta import Source
from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.kafka.arrivals import Arrivals, sorted_poll
from deltaplane_services.kafka.assigned_source import AssignedSource
from deltaplane_services.kafka.claiming import Claims
from deltaplane_services.kafka.clocks import ClockWarnings
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import end_behind, known_lags
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.kafka.member import Member
from deltaplane_services.kafka.membership import MembershipLost, NotAllowed
from deltaplane_services.kafka.publishing import DeliveryFailed, Publishers
from deltaplane_services.kafka.recoveries import Recoveries
from deltaplane_services.kafka.service_clients import WorkerClients
from deltaplane_services.kafka.service_loop import ServiceLoop
from deltaplane_services.kafka.set_aside import SetAside
from deltaplane_services.kafka.silence import Silence
from deltaplane_services.kafka.source_topics import SourceTopics
from deltaplane_services.kafka.topic_watch import ANSWER_SECONDS
from deltaplane_services.observe.metrics import WorkerMetrics
from deltaplane_services.processors.messages import DELTAS, RETIREMENTS, SAMPLES, Record
from deltaplane_services.processors.worker_processor import WorkerProcessor
from deltaplane_services.system.arenas import trim_memory

__all__ = ["BYTES_AT_ONCE", "REVOCATION_FLUSH_SECONDS", "SLEPT_SECONDS", "Worker"]

logger = logging.getLogger(__name__)
REVOCATION_FLUSH_SECONDS = 3.0
"""How long a member that gives up partitions waits for its deliveries, while the whole group waits for it. Deltas that
have not arrived by then are made again by the next owner."""
SLEPT_SECONDS = 2.0
"""If a poll took so much longer than it should, the process was frozen, and may no longer own anything."""
BYTES_AT_ONCE = 2 * 2**20
"""Bytes that are taken from the log at once, approximately; more would only delay deltas and take memory."""


class Worker(ServiceLoop):
    """One worker process: ``step`` is one turn of its loop.

    A partition that the group has assigned is either worked on, or waits to be claimed; if it cannot be served, it
    waits set aside. The state of a partition that was taken away is kept until the group has assigned it again. After a
    failure every source is claimed again; failures in a row are waited out for four minutes or more (see Recoveries).
    """

    going_on = "claiming again"
    left_unsent = "the next owner goes on from what has arrived"
    _watch: WorkerMetrics

    def __init__(
        self,
        definition: StreamDefinition,
        site: str,
        name: str,
        clients: WorkerClients,
        watch: WorkerMetrics | None = None,
    ) -> None:
        self.definition = definition
        super().__init__(
            watch or WorkerMetrics(definition, site),
            Recoveries.of_worker(clients.party),
            lambda: Publishers(clients.site.publisher(), clients.central.publisher()),
        )
        self._clocks = ClockWarnings(definition)
        self._site, self._name, self._clients = site, name, clients
        self._lives = 0
        self._sources: dict[int, AssignedSource] = {}
        self._waiting: list[int] = []
        self._kept: dict[int, AssignedSource] = {}
        self._aside = SetAside[int]()
        self._central_watch = clients.central.watch()
        watches = clients.site.watch(), self._central_watch
        self._topics = SourceTopics(definition, watches, (SAMPLES, RETIREMENTS, DELTAS))
        # Whether the client must be told anew where to read before the next poll; partition to tiles in the model.
        self._must_read_on, self._sequences = False, dict[int, int]()
        # Average bytes of a record in the last poll that brought any; a large guess before that.
        self._record_bytes = BYTES_AT_ONCE / 16
        self._models: ModelFollower | None = None
        self._open_readers()
        self._member = Member(
            clients.consumer,
            [self._topic(SAMPLES), self._topic(RETIREMENTS)],
            assigned=self._assigned,
            revoked=self._revoked,
            lost=self._lost,
        )
        self._member.join()

    def _open_readers(self) -> None:
        self._site_log, self._log = self._clients.site.reader(), self._clients.central.reader()
        self._site_log.batch_ends.watch = self._log.batch_ends.watch = self._watch
        self._claims = Claims(self.definition, self._publishers.then, self._log, self._site_log)

    def _topic(self, topic: str) -> str:
        return f"{self.definition.name}.{topic}"

    # What the group says: called by the client in the course of a poll -----------------------------------------------

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        # Nothing is read before its source is claimed. Without this call the client would begin at offsets of its own.
        consumer.assign([])
        of = {
            topic: {place.partition for place in places if place.topic == self._topic(topic)}
            for topic in (SAMPLES, RETIREMENTS)
        }
        # Partitions that were added to the topics of a running stream do not belong to it.
        self._waiting = sorted(of[SAMPLES] & of[RETIREMENTS] & set(range(self.definition.partitions)))
        self._keep_only(self._waiting)
        self._aside.keep_only(self._waiting)
        logger.info("assigned partitions %s", self._waiting)
        if torn := sorted(of[SAMPLES] ^ of[RETIREMENTS]):
            logger.error(
                "partitions %s: the group gave samples and retirements to different workers; left alone. Both topics"
                " need the same number of partitions, and every worker the range assignor",
                torn,
            )

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Give partitions up, and wait a little for published records to arrive, so that the next owner has them."""
        del consumer
        self._give_up(places)
        try:
            self._publishers.then.flush(REVOCATION_FLUSH_SECONDS)
        except DeliveryFailed as fault:
            logger.warning("on revocation: %s; the next owner goes on from what has arrived", fault)

    def _lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Give partitions up without waiting: others may own them already, and readers drop what is still unsent."""
        del consumer
        logger.warning("this worker has lost its partitions: it was silent for longer than its session, or joins anew")
        self._give_up(places)

    def _give_up(self, places: Sequence[TopicPartition]) -> None:
        partitions = {place.partition for place in places}
        self._stop_work_on(partitions)
        self._waiting = [partition for partition in self._waiting if partition not in partitions]

    def _stop_work_on(self, partitions: Iterable[int]) -> None:
        """Stop work on some sources, and keep their states; the next claim shows whether these are still valid."""
        for partition in partitions:
            if partition in self._sources:
                self._kept[partition] = self._sources.pop(partition)

    def _keep_only(self, partitions: Sequence[int]) -> None:
        """Drop the kept states of all sources but these, and give their memory back."""
        others = self._kept.keys() - set(partitions)
        for partition in others:
            del self._kept[partition]
        if others:
            trim_memory()

    # Taking a source over --------------------------------------------------------------------------------------------

    def _take(self, partition: int) -> None:
        """Claim a source, and work on it from the state that the log gives."""
        kept = self._kept.get(partition)
        if kept is not None:
            _, before = self._claims.claim(kept.processor, self._model)
            del self._kept[partition]
            if (before.owner, before.sequence) == (kept.processor.writer, kept.next_tile):
                # All of its own deltas were accepted, and no others since: the state in memory is the accepted one.
                logger.info("claimed %s again as %s, its state still holds", kept.processor.source, before.owner)
                self._work_on(partition, kept)
                return
        self._lives += 1
        self._topics.look(ANSWER_SECONDS)
        source, writer = Source(self._site, partition), f"{self._name}.{self._lives}"
        processor = WorkerProcessor(self.definition, source, writer, self._topics.ids)
        self._work_on(partition, self._claims.take(processor, self._model))

    def _work_on(self, partition: int, source: AssignedSource) -> None:
        self._show_model([source])
        self._sources[partition] = source
        self._waiting.remove(partition)
        self._aside.take(partition, time.monotonic())
        self._read_on()

    def _put_aside(self, partition: int, fault: Exception) -> None:
        """Leave a source alone for a while, and drop its state, which may be wrong."""
        self._sources.pop(partition, None)
        self._kept.pop(partition, None)
        self._waiting = sorted({*self._waiting, partition})
        removed, passing = isinstance(fault, SourceRemoved), isinstance(fault, LogUnavailable)
        again = partition in self._aside.reasons
        pause = self._aside.put(partition, str(fault), time.monotonic(), passing=passing, removed=removed)
        log = logger.info if removed or again else logger.error
        source = Source(self._site, partition)
        log("source %s is set aside, the others go on; next try in %.0f s: %s", source, pause, fault)
        self._read_on()
        trim_memory()

    # Work ------------------------------------------------------------------------------------------------------------

    def _turn(self, most: int, timeout_seconds: float) -> None:
        began = time.monotonic()
        if self._must_read_on:
            self._assign()
        due = next((p for p in self._waiting if self._aside.may_try(p, began)), None)
        may_take = due is not None and began >= self._recoveries.try_at
        most = max(1, min(most, int(BYTES_AT_ONCE / self._record_bytes)))
        messages = self._member.consume(most, 0.0 if may_take else timeout_seconds)
        # Messages are sorted before anything else can fail: the error that the group has shut this member out, which
        # is among them, comes only once.
        poll = sorted_poll(messages, self.definition.name, self._site_log.batch_ends, self._clients.party)
        self._record_bytes = poll.record_bytes or self._record_bytes
        self._see_models()
        self._watch_topics()
        if time.monotonic() - began > timeout_seconds + SLEPT_SECONDS:
            logger.warning("this process slept for %.1f s; polling again first", time.monotonic() - began)
            self._read_on()
            return
        for partition, source in list(self._sources.items()):
            with self._alone(partition):
                self._work(source, poll.of.get(partition) or Arrivals())
        self._publishers.then.check()
        if poll.go_on:
            self._read_on()
        if may_take and due is not None and due in self._waiting:
            # One source is claimed at a time, with a poll in between, since the group may change the assignment.
            with self._alone(due):
                self._take(due)

    @contextlib.contextmanager
    def _alone(self, partition: int) -> Iterator[None]:
        """Set a source aside for an error of its own within the block; errors that concern the whole process pass."""
        try:
            yield
        except (DeliveryFailed, MembershipLost, NotAllowed, KafkaException):
            raise
        except DeltaplaneError as fault:
            self._put_aside(partition, fault)
        except Exception as fault:
            logger.exception("source %s/%d: this should not have happened; please report it", self._site, partition)
            self._put_aside(partition, fault)

    def _work(self, source: AssignedSource, came: Arrivals) -> None:
        """Process what came for a source, and publish its output. Raises errors of the source."""
        if came.fault is not None:
            raise came.fault
        silence = source.pass_over(self._places(source), came, self._site_log)
        if silence is Silence.OF_THE_CLIENT:
            # With its client a worker loses all sources, this one too. Whoever gets it reads again what came.
            self._member.join_anew()
            return
        if silence is Silence.AT_A_BATCH:
            self._read_on()
        samples, retirements = came.records[SAMPLES], came.records[RETIREMENTS]
        if any(not source.readings[topic].hear(of, self._end(source, topic, of)) for topic, of in came.records.items()):
            logger.info("%s: the first record lies beyond what was asked for; asking again", source.processor.source)
            self._read_on()
            return
        for output in source.processor.steps(samples, retirements):
            self._watch.delta(source.processor, source.next_tile, samples, output)
            # Deltas are counted BEFORE they are published: otherwise, if publishing fails, the state in memory would
            # be taken for the accepted one, although it is ahead of it.
            source.next_tile += len(output.then)
            self._publish(output)
        if came.ends:
            source.processor.read_to(came.ends.get(SAMPLES, 0), came.ends.get(RETIREMENTS, 0))
        if source.hold(samples, retirements):
            self._read_on()

    def _end(self, source: AssignedSource, topic: str, came: Sequence[Record]) -> int | None:
        """The end of a log of which some records came; None if the client does not know it."""
        place = TopicPartition(self._topic(topic), source.processor.source.partition)
        return end_behind(self._member.client, place, came, ANSWER_SECONDS)

    def _watch_topics(self) -> None:
        """Set every source aside if a topic was made anew."""
        replaced = self._topics.look()
        if replaced and not self._sources and not self._waiting:
            # While topics are away, the group assigns nothing, and a client would ask again only after minutes.
            self._member.join_anew()
        for partition in list(self._sources) if replaced else ():
            self._put_aside(partition, LogReplaced(f"{', '.join(replaced)}: deleted and made again while in use"))
            self._aside.try_now(partition)

    def _read_on(self) -> None:
        """Have every source read from its position, from the next poll on."""
        self._must_read_on = True

    def _assign(self) -> None:
        """Tell the client from where to read every source; this drops what it has fetched ahead."""
        self._must_read_on = False
        # Outside its group a worker has no sources, and the client is joining again.
        if not self._member.joined:
            return
        places = []
        for source in self._sources.values():
            for topic, place in self._places(source).items():
                source.readings[topic].ask(place.offset)
                places.append(place)
        self._member.client.assign(places)

    def _places(self, source: AssignedSource) -> dict[str, TopicPartition]:
        """Topic to the place to read on from, without the topics that are held back."""
        partition, (samples, retirements) = source.processor.source.partition, source.processor.position
        return {
            topic: self._site_log.batch_ends.from_there(TopicPartition(self._topic(topic), partition, position))
            for topic, position in ((RETIREMENTS, retirements), (SAMPLES, samples))
            if topic not in source.held_back
        }

    def _all_places(self) -> list[TopicPartition]:
        """The places to read on from of every source."""
        return [place for source in self._sources.values() for place in self._places(source).values()]

    def _go_on(self, pause_seconds: float) -> None:
        """Have every source claimed again, with new readers, after a pause during which the group is still polled.

        Old readers may remember for minutes what they were once told of a topic, even that a partition does not exist.
        """
        del pause_seconds
        self._close_readers()
        self._open_readers()
        self._wait_for_claim(list(self._sources))

    def _wait_for_claim(self, partitions: Iterable[int]) -> None:
        """Stop work on some sources until they have been claimed again."""
        self._waiting = sorted({*self._waiting, *(lost := list(partitions))})
        self._stop_work_on(lost)
        self._read_on()

    # Models ----------------------------------------------------------------------------------------------------------

    @property
    def _model(self) -> Model | None:
        """The newest model; None if there is none, or the models topic is not followed at the moment."""
        return None if self._models is None or self._models.stale is not None else self._models.model

    def _see_models(self) -> None:
        """Show the newest model to every source, and claim those again that another writer has claimed since."""
        if self._models is None:
            (reader := self._clients.central.reader()).batch_ends.watch = self._watch
            try:
                self._models = ModelFollower(reader, self.definition, self._watch.refused_model, self._central_watch)
            except BaseException:
                reader.close()
                raise
            found = [] if self._models.model is None else [self._models.model]
        else:
            found = self._models.poll(500, 0.0)
            # A forged model is to be counted, even if a merger has answered it before this worker read either.
            for older, log_time in zip(found[:-1], self._models.log_times[:-1], strict=True):
                for source in self._sources.values():
                    source.processor.see_model(older, log_time, newest=True)
        if not found:
            return
        for newer in found:
            self._watch.model(newer)
        self._show_model(self._sources.values())
        self._see_orders(found[-1])
        stolen = [partition for partition, source in self._sources.items() if source.processor.fenced]
        if stolen:
            logger.warning("partitions %s: another writer has claimed them after this one; claiming again", stolen)
            self._wait_for_claim(stolen)

    def _show_model(self, sources: Iterable[AssignedSource]) -> None:
        """Show some sources the newest model, if there is one."""
        if self._models is not None and self._models.model is not None and self._models.newest is not None:
            for source in sources:
                source.processor.see_model(self._models.model, self._models.newest.log_time, newest=True)

    def _see_orders(self, model: Model) -> None:
        """Try a source that is set aside at once if a model shows a change of its deltas, such as an order."""
        before = self._sequences
        self._sequences = {at.source.partition: at.sequence for at in model.positions if at.source.site == self._site}
        for partition, sequence in self._sequences.items():
            if before.get(partition, sequence) != sequence:
                self._aside.try_now(partition)

    # End -------------------------------------------------------------------------------------------------------------

    @property
    def sources(self) -> dict[int, WorkerProcessor]:
        """Partition to the processor of each source that is worked on."""
        return {partition: source.processor for partition, source in self._sources.items()}

    @property
    def ready(self) -> bool:
        """Whether every source that this worker owns has been claimed and rebuilt."""
        return not self._waiting and all(source.processor.serving for source in self._sources.values())

    def tell(self) -> None:
        """Give the metrics the state of every source; called after every turn."""
        self._watch.turn(
            self.sources,
            set(self._waiting) - self._aside.reasons.keys(),
            joined=self._member.joined,
            aside=self._aside.reasons,
            removed=self._aside.removed,
            topics=self._topics.faults(),
        )
        self._clocks.tell(self.sources.values())
        self._watch.look_at_lags(lambda: known_lags(self._member.client, self._all_places(), self.definition.name))

    def commit_positions(self) -> None:
        """Commit the position of each source to the group, for lag metrics only; nothing else uses it."""
        if places := self._all_places():
            try:
                self._member.client.commit(offsets=places, asynchronous=True)
            except KafkaException as fault:
                logger.info("positions were not committed (%s); only lag metrics miss them", fault)

    def _leave(self) -> None:
        self._member.close()
        self._close_readers()

    def _close_readers(self) -> None:
        for reader in (self._log, self._site_log, self._models):
            if reader is not None:
                reader.close()
        self._models = None
