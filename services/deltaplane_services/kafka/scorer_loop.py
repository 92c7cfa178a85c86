"""The scorer's loop on Kafka: queries in by consumer group, predictions out, each keyed by its query's place.

If the prediction of a query was published but the query not committed, it is answered again under the same key. So each
query is answered at least once, and a reader of predictions by key sees one answer.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from deltaplane.errors import DeltaplaneError
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import ATTEMPT_SECONDS, known_lags, record_of
from deltaplane_services.kafka.log_errors import is_passing, raise_if_error
from deltaplane_services.kafka.member import Member
from deltaplane_services.kafka.publishing import Publishers
from deltaplane_services.kafka.recoveries import Recoveries
from deltaplane_services.kafka.service_clients import ServiceClients
from deltaplane_services.kafka.service_loop import ServiceLoop
from deltaplane_services.kafka.silence import Found, Listening, Silence
from deltaplane_services.kafka.unpacking import does_not_unpack, not_read, once, stand_in
from deltaplane_services.observe.metrics import ScorerMetrics
from deltaplane_services.processors.messages import QUERIES, UNREADABLE, Headers, Record
from deltaplane_services.processors.scorer_processor import ScorerProcessor

__all__ = ["ScorerService", "headers_of"]

logger = logging.getLogger(__name__)


class ScorerService(ServiceLoop):
    """One scorer process: ``step`` is one turn of its loop. Queries wait in their topic until there is a plane.

    After a failure it joins its group again, and goes on from the last commit.
    """

    going_on = "going on behind what was committed"
    _watch: ScorerMetrics

    def __init__(
        self, definition: StreamDefinition, clients: ServiceClients, watch: ScorerMetrics | None = None
    ) -> None:
        super().__init__(
            watch or ScorerMetrics(definition),
            Recoveries(clients.party),
            lambda: Publishers.of_one(clients.central.publisher()),
        )
        self.processor = ScorerProcessor(definition)
        self._definition = definition
        self._clients = clients
        self._topics = clients.central.watch()
        models, self._queries = clients.central.reader(), clients.central.reader()
        models.batch_ends.watch = self._queries.batch_ends.watch = self._watch
        self._models = ModelFollower(models, definition, self._watch.refused_model, self._topics)
        self.processor.model = self._models.model
        self._listening = Listening(time.monotonic())
        self._begun: dict[tuple[str, int], int] = {}
        self._member = Member(clients.consumer, [f"{definition.name}.{QUERIES}"], assigned=self._assigned)
        self._queries_id, self._queries_anew = "", False
        self._not_placed: KafkaException | DeltaplaneError | None = None

    def _go_on(self, pause_seconds: float) -> None:
        time.sleep(pause_seconds)
        if self._member.asked:
            self._member.join_anew()

    @property
    def _outage(self) -> str | None:
        """What keeps every scorer from its work, in words: silent brokers, or missing topics; None if nothing."""
        if self._topics.silence is not None:
            return f"no broker answers: {self._topics.silence}"
        if self._topics.missing:
            return f"missing: {', '.join(sorted(self._topics.missing))}; make the topics with: deltaplane topics create"
        return None

    def _turn(self, most: int, timeout_seconds: float) -> None:
        """Take a newer model, then answer queries, then commit them."""
        self._models.poll(most, 0.0 if self.processor.ready else timeout_seconds)
        # The follower knows the newest model; on a topic that was made anew its version may be lower.
        self.processor.model = self._models.model
        if not self.processor.ready:
            return
        self._look_at_queries()
        if not self._member.asked:
            self._member.join()
        came = self._member.consume(most, timeout_seconds)
        if self._not_placed is not None:
            fault, self._not_placed = self._not_placed, None
            raise fault
        messages = [message for message in came if not is_passing(message)]
        silent = self._silent(came)
        queries = [self._record(message) for message in once(messages)]
        queries += [not_read(QUERIES, place) for place, _ in silent.passed]
        if queries:
            output = self.processor.process(queries)
            self._watch.answered(output)
            self._publish(output)
            self._publishers.then.flush()
            self._commit(messages, [behind for _, behind in silent.passed])
        if silent.silence is not Silence.NONE:
            # A client that has met such a batch delivers nothing more; a new one goes on from the commit.
            self._member.join_anew()

    def _silent(self, messages: list[Message]) -> Found:
        """The silence found if no queries have come for long though their log goes on."""
        client, now = self._member.client, time.monotonic()
        self._listening.hear(messages, now)
        places = client.position(client.assignment()) if self._member.joined else []
        for place in places:
            if place.offset < 0:  # Nothing has come from there yet.
                place.offset = self._begun.get((place.topic, place.partition), place.offset)
        return self._listening.find(places, self._queries, now)

    def _look_at_queries(self) -> None:
        """If the queries topic was made anew, go on at its beginning: the commit is that of the topic before."""
        found = self._topics.ids.get(f"{self._definition.name}.{QUERIES}", "")
        if found and found != self._queries_id:
            known, self._queries_id = self._queries_id, found
            if known:
                logger.warning("the queries topic was deleted and made again; going on at its beginning")
                self._queries_anew = True
                self._member.join_anew()

    def _record(self, message: Message) -> Record:
        """The query of a message; for a batch that does not unpack, a stand-in that cannot be answered."""
        if not does_not_unpack(message):
            raise_if_error(message, self._clients.party)
            return record_of(message, self._definition.name)._replace(headers=headers_of(message))
        self._member.client.seek(self._queries.batch_ends.behind(message))
        return stand_in(record_of(message, self._definition.name))

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Find the places to go on at. The client would turn an error raised here into another, so it is kept."""
        try:
            self._place(consumer, places)
        except (KafkaException, DeltaplaneError) as fault:
            self._not_placed = fault

    def _place(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Go on behind the last query that was answered, or at the beginning of the log if none was."""
        committed = consumer.committed(places, timeout=ATTEMPT_SECONDS)
        for place in committed:
            low, high = self._queries.bounds(QUERIES, place.partition)
            if low <= place.offset <= high and not self._queries_anew:
                continue
            if place.offset >= 0:
                logger.warning(
                    "%s-%d: queries were answered up to offset %d, the log has %d to %d; going on at its beginning",
                    place.topic,
                    place.partition,
                    place.offset,
                    low,
                    high,
                )
            place.offset = low
        self._queries_anew = False
        self._begun = {(place.topic, place.partition): place.offset for place in committed}
        self._listening = Listening(time.monotonic())
        consumer.assign(committed)

    def _commit(self, messages: list[Message], behind: list[TopicPartition]) -> None:
        """Commit the queries that were answered, and the places behind batches that no client reads."""
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            record = record_of(message, "")
            ends[record.topic, record.partition] = record.offset + 1
        ends |= {(place.topic, place.partition): place.offset for place in behind}
        try:
            self._member.client.commit(
                offsets=[TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()],
                asynchronous=False,
            )
        except KafkaException as fault:
            # The group is moving its partitions, or the broker is away. These queries will be answered again.
            logger.info("answered queries were not committed (%s)", fault)

    def tell(self) -> None:
        """Give the metrics the state of this scorer; called after every turn."""
        client = self._member.client
        places = client.assignment()
        self.processor.keep_watches({place.partition for place in places})
        self._watch.turn(self.processor, outage=self._outage, stale=self._models.stale)
        self._watch.look_at_lags(lambda: known_lags(client, client.position(places), self._definition.name))

    def _leave(self) -> None:
        self._member.close()
        self._models.close()  # This closes the watch over the topics, too.
        self._queries.close()


def headers_of(message: Message) -> Headers:
    """The headers of a query. If a name is no text, the client returns none of them, and one header says so."""
    try:
        found: Any = message.headers() or ()
    except (UnicodeDecodeError, SystemError):
        return ((UNREADABLE, None),)
    return tuple(found)
