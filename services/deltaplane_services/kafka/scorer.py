"""The scorer's loop on Kafka: queries in by consumer group, predictions out, each keyed by its query's place.

A query whose prediction was published but not committed is answered again under the same key: at least once, and who
reads the predictions by key sees one answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from deltaplane.definition import StreamDefinition
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import (
    REQUEST_TIMEOUT_SECONDS,
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
from deltaplane_services.metrics_export import ScorerMetrics
from deltaplane_services.processors.records import QUERIES, Headers, Record
from deltaplane_services.processors.scorer import ScorerProcessor

logger = logging.getLogger(__name__)


UNREADABLE = "deltaplane-headers-unreadable"
"""The header of an answer to a query whose own headers are no texts."""

FAILURES_IN_A_ROW = 10
"""Failed turns without a success between them, after which a scorer gives up and exits."""


@dataclass(frozen=True)
class ScorerClients:
    """Makes the clients of a scorer, all on the central cluster."""

    consumer: Callable[[], Consumer]
    publisher: Callable[[], Publisher]
    reader: Callable[[], LogReader]
    party: Party = ANYBODY


class ScorerService:
    """One scorer process: ``step`` is one turn of its loop. Queries wait in their topic until there is a plane."""

    def __init__(
        self, definition: StreamDefinition, clients: ScorerClients, watch: ScorerMetrics | None = None
    ) -> None:
        self._watch = watch or ScorerMetrics(definition)
        self.processor = ScorerProcessor(definition)
        self._definition = definition
        self._clients = clients
        self._publisher = clients.publisher()
        self._models = ModelFollower(clients.reader(), definition, self._watch.refused_model)
        if self._models.model is not None:
            self.processor.see_model(self._models.model)
        self._queries = clients.reader()
        self._member = Member(clients.consumer, [f"{definition.name}.{QUERIES}"], assigned=self._assigned)
        self._failures = 0

    def step(self, most: int, timeout_seconds: float) -> None:
        """Poll once. What may pass is answered by joining the group anew, and going on behind the last commit."""
        try:
            self._turn(most, timeout_seconds)
        except (DeliveryFailed, LogUnavailable, KafkaException) as fault:
            refuse_fatal(fault.args, self._clients.party)
            self._failures += 1
            if self._failures > FAILURES_IN_A_ROW:
                raise LogUnavailable(f"kafka: {fault}") from fault
            logger.warning("%s; going on (%d of %d)", fault, self._failures, FAILURES_IN_A_ROW)
            self._publisher.abandon()
            self._publisher = self._clients.publisher()
            time.sleep(min(0.2 * 2**self._failures, 5.0))
            if self._member.asked:
                self._member.join_anew()
        else:
            self._failures = 0

    def _turn(self, most: int, timeout_seconds: float) -> None:
        """A newer model first, then queries, then the commit of what was answered."""
        for model in self._models.poll(most, 0.0 if self.processor.ready else timeout_seconds)[-1:]:
            self.processor.see_model(model)
        if not self.processor.ready:
            return
        if not self._member.asked:
            self._member.join()
        messages = [m for m in self._member.consume(most, timeout_seconds) if not is_passing(m)]
        if not messages:
            return
        output = self.processor.process([self._record(message) for message in once(messages)])
        self._watch.answered(output)
        self._publisher.publish((*output.first, *output.then))
        self._publisher.flush()
        self._commit(messages)

    def _record(self, message: Message) -> Record:
        """A query. What stands in the place of a batch that does not unpack is one that cannot be answered."""
        if not does_not_unpack(message):
            raise_if_error(message, self._clients.party)
            return record_of(message, self._definition.name)._replace(headers=_headers(message))
        self._member.client.seek(self._queries.batch_ends.behind(message))
        return stand_in(record_of(message, self._definition.name))

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Go on behind the last query that was answered; at the beginning of what there is where none was."""
        committed = consumer.committed(places, timeout=REQUEST_TIMEOUT_SECONDS)
        for place in committed:
            low, high = self._queries.bounds(QUERIES, place.partition)
            if low <= place.offset <= high:
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
        consumer.assign(committed)

    def _commit(self, messages: list[Message]) -> None:
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            record = record_of(message, "")
            ends[record.topic, record.partition] = record.offset + 1
        try:
            self._member.client.commit(
                offsets=[TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()],
                asynchronous=False,
            )
        except KafkaException as fault:
            # The group is moving its partitions, or the broker is away. Whoever goes on answers these queries again.
            logger.info("answered queries were not committed (%s)", fault)

    def tell(self) -> None:
        """Tell the metrics where this scorer stands; after every turn."""
        self._watch.turn(self.processor)
        client = self._member.client
        self._watch.lags(known_lags(client, client.position(client.assignment()), self._definition.name))

    def close(self) -> None:
        """Finish and leave."""
        self._watch.ends()
        try:
            self._publisher.flush()
        finally:
            self._member.close()
            self._models.close()
            self._queries.close()


def _headers(message: Message) -> Headers:
    """The headers of a query. Where a name is no text, the client makes nothing of any of them, and one says so."""
    try:
        found: Any = message.headers() or ()
    except (UnicodeDecodeError, SystemError):
        return ((UNREADABLE, None),)
    return tuple(found)
