"""A producer that believes nothing: it knows at which offset each record must come to lie, and compares.

Nobody else writes to these topics, and an idempotent producer neither loses nor repeats nor reorders, so where a record
will lie is known before it is acknowledged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.processors.messages import Outgoing

END_SECONDS = 120.0
"""How long a record may be under way before it counts as lost."""

Place = tuple[str, int]
"""A topic, without the stream's prefix, and a partition."""


class CheckedProducer:
    """Sends to topics of a stream that held nothing before. Each topic has a client of its own.

    So samples and retirements race each other to the brokers, and one may be held up alone. ``ends`` are the offsets
    that the next records will get.
    """

    def __init__(self, settings: ServiceSettings, topics: Sequence[str]) -> None:
        self.ends: Counter[Place] = Counter()
        self.sent: Counter[Place] = Counter()
        self.acknowledged: Counter[Place] = Counter()
        self.rows_acknowledged = 0
        self.faults: list[str] = []
        self._name = settings.definition.name
        properties = {
            **settings.producer_properties("site"),
            "message.timeout.ms": int(1000 * END_SECONDS),
            "log_level": 0,
        }
        self._producers = {topic: Producer(dict(properties)) for topic in topics}

    def send(self, record: Outgoing, rows: int = 0) -> int:
        """Send a record that holds so many rows; the offset that it will get."""
        place = (record.topic, record.partition)
        expected = self.ends[place]
        self.ends[place] += 1
        self.sent[place] += 1
        producer = self._producers[record.topic]
        while True:
            try:
                producer.produce(
                    f"{self._name}.{record.topic}",
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    on_delivery=partial(self._delivered, place, expected, rows),
                )
            except BufferError:
                producer.poll(0.05)
            else:
                return expected

    def _delivered(self, place: Place, expected: int, rows: int, error: KafkaError | None, message: Message) -> None:
        # No offset comes with the acknowledgement of a record that a broker had already when it was sent again.
        if error is not None or message.offset() not in (expected, None):
            self.faults.append(f"producer: {place} at {expected}: {error or message.offset()}")
        self.acknowledged[place] += 1
        self.rows_acknowledged += rows

    def poll(self) -> None:
        """Serve acknowledgements."""
        for producer in self._producers.values():
            producer.poll(0)

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        for topic, producer in self._producers.items():
            if left := producer.flush(END_SECONDS):
                self.faults.append(f"producer: {left} records of {topic} were never acknowledged")
