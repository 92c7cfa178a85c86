"""The scorer's loop on Kafka: queries in by consumer group, predictions out, each keyed by its query's place.

A query whose prediction was published but not committed is answered again under the same key: at least once, and a
reader of the compacted topic sees one answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from deltaplane.definition import StreamDefinition
from deltaplane.errors import WireError
from deltaplane.wire import read_model
from deltaplane_services.kafka.log import (
    REQUEST_TIMEOUT_SECONDS,
    LogReader,
    Publisher,
    is_passing,
    raise_if_error,
    record_of,
)
from deltaplane_services.processors.records import MODELS, QUERIES
from deltaplane_services.processors.scorer import ScorerProcessor

logger = logging.getLogger(__name__)


def _from_committed(consumer: Consumer, places: list[TopicPartition]) -> None:
    """Go on behind the last query that was answered; at the beginning where none was."""
    committed = consumer.committed(places, timeout=REQUEST_TIMEOUT_SECONDS)
    for place in committed:
        if place.offset < 0:
            place.offset = OFFSET_BEGINNING
    consumer.assign(committed)


@dataclass(frozen=True)
class ScorerClients:
    """Makes the clients of a scorer, all on the central cluster."""

    consumer: Callable[[], Consumer]
    publisher: Callable[[], Publisher]
    reader: Callable[[], LogReader]


class ScorerService:
    """One scorer process: ``step`` is one turn of its loop. Queries wait in their topic until there is a plane."""

    def __init__(self, definition: StreamDefinition, clients: ScorerClients) -> None:
        self.processor = ScorerProcessor(definition)
        self._definition = definition
        self._publisher = clients.publisher()
        self._models = clients.reader()
        _, end = self._models.bounds(MODELS, 0)
        self._models.follow([(MODELS, 0, end - 1)])
        self._consumer = clients.consumer()
        self._subscribed = False

    def step(self, most: int, timeout_seconds: float) -> None:
        """Poll once: a newer model first, then queries, then the commit of what was answered."""
        for record in self._models.poll(most, 0.0 if self.processor.ready else timeout_seconds)[-1:]:
            try:
                model = read_model(record.value)
            except WireError as fault:
                logger.warning("models-0 at offset %d: %s", record.offset, fault)
            else:
                if model.stream_fingerprint == self._definition.stream_fingerprint:
                    self.processor.see_model(model)
        if not self.processor.ready:
            return
        if not self._subscribed:
            self._consumer.subscribe([f"{self._definition.name}.{QUERIES}"], on_assign=_from_committed)
            self._subscribed = True
        messages = [m for m in self._consumer.consume(most, timeout=timeout_seconds) if not is_passing(m)]
        if not messages:
            return
        for message in messages:
            raise_if_error(message)
        output = self.processor.process([record_of(message, self._definition.name) for message in messages])
        self._publisher.publish((*output.first, *output.then))
        self._publisher.flush()
        last = {(m.topic(), m.partition()): m.offset() for m in messages}
        answered = [
            TopicPartition(t, p, o + 1)
            for (t, p), o in last.items()
            if t is not None and p is not None and o is not None
        ]
        self._consumer.commit(offsets=answered, asynchronous=False)

    def close(self) -> None:
        """Finish and leave."""
        try:
            self._publisher.flush()
        finally:
            self._consumer.close()
            self._models.close()
