"""Publishing to an ordered log, with acknowledgements and offsets.

A delivery that has failed is never retried here: records published after it may have arrived, so that only the caller
can recover (claim again, rebuild). Confluent's client is used from one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.announcing import Announcements, Headers
from deltaplane_services.kafka.letter_headers import headers_beside
from deltaplane_services.kafka.log_errors import (
    REQUEST_TIMEOUT_SECONDS,
)
from deltaplane_services.kafka.membership import Principal, is_refusal
from deltaplane_services.processors.messages import Outgoing, Output

__all__ = [
    "MOST_UNACKNOWLEDGED",
    "MOST_UNACKNOWLEDGED_SAMPLES",
    "Answered",
    "Delivered",
    "DeliveryFailed",
    "Publisher",
    "Publishers",
    "ignore_delivery",
]

Delivered = Callable[[str, float], None]

MOST_UNACKNOWLEDGED = 256
MOST_UNACKNOWLEDGED_SAMPLES = 10_000
"""The most unacknowledged records of a producer of samples, which are many and small: with fewer it would mostly wait
for the broker. The client bounds their bytes."""


class Answered(Protocol):
    """A function that is called with each record, and whether its topic admits one so large."""

    def __call__(self, record: Outgoing, *, fits: bool) -> None:
        """Take note of the answer; called from the thread that publishes."""


def ignore_delivery(topic: str, seconds: float) -> None:
    """Ignore an acknowledgement: the topic of a record, and the seconds since it was handed over."""


class DeliveryFailed(DeltaplaneError):
    """A record that was not acknowledged; whether it has arrived is not known."""


class Publisher:
    """An idempotent producer that refuses to go on after the first delivery that has failed.

    ``prefix`` is the stream's name, empty if records name whole topics. ``on_delivered`` is called with each
    acknowledged record's topic, and the seconds that it took. The producer waits for acknowledgements once more than
    ``most_unacknowledged`` are missing. ``announcement`` is that of the writer's definition, sent as a header of some
    records.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        prefix: str,
        on_delivered: Delivered = ignore_delivery,
        most_unacknowledged: int = MOST_UNACKNOWLEDGED,
        announcement: bytes = b"",
    ) -> None:
        self._producer = Producer(dict(properties))
        self._on_delivered = on_delivered
        self._before = f"{prefix}." if prefix else ""
        self._most_unacknowledged = most_unacknowledged
        self._party = Principal.of(properties)
        self._failure: DeltaplaneError | None = None
        self._names: dict[str, str] = {}
        self._announcements = Announcements(announcement)

    def publish(self, records: Iterable[Outgoing], answered: Answered | None = None) -> None:
        """Hand records over to the client, in order.

        ``answered``, if given, is called with each record and whether it fits its topic; then a record that does not
        fit is no failure. Raises :class:`DeliveryFailed` if any delivery so far has failed, and :class:`NotAllowed` if
        the brokers did not allow one.
        """
        for record in records:
            self._produce(record, answered)
        if len(self._producer) > self._most_unacknowledged:
            self.flush()
        self.check()

    def _produce(self, record: Outgoing, answered: Answered | None) -> None:
        topic = self._names.get(record.topic)
        if topic is None:
            topic = self._names.setdefault(record.topic, f"{self._before}{record.topic}")
        on_delivery = self._delivered if answered is None else partial(self._delivered_or_large, record, answered)
        headers = [
            *record.headers,
            *headers_beside(record, self._before),
            *self._announcements.beside(record.topic, record.partition),
        ]
        try:
            self._hand_over(topic, record, on_delivery, headers)
        except KafkaException as fault:
            if answered is None or not _is_too_large(fault.args[0]):
                raise DeliveryFailed(f"publish to {topic}-{record.partition}: {fault}") from fault
            answered(record, fits=False)

    def _hand_over(self, topic: str, record: Outgoing, on_delivery: Callable[..., None], headers: Headers) -> None:
        """Hand a record over to the client, once its queue has room.

        Raises :class:`KafkaException` if the client refuses it, and as :meth:`publish` does if a delivery has failed.
        """
        while True:
            if self._failure is not None:
                raise DeliveryFailed(self._failure)
            try:
                self._producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    on_delivery=on_delivery,
                    headers=headers,
                )
            except BufferError:
                # The local queue is full, since the network is slower: wait for it.
                self._producer.poll(0.1)
                self.check()
            else:
                return

    def _delivered_or_large(
        self, record: Outgoing, answered: Answered, error: KafkaError | None, message: Message
    ) -> None:
        if error is None or _is_too_large(error):
            answered(record, fits=error is None)
        if error is None or not _is_too_large(error):
            self._delivered(error, message)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            if self._on_delivered is ignore_delivery:
                return
            latency, topic = message.latency(), message.topic()
            if latency is not None and topic is not None:
                self._on_delivered(topic, latency)
        elif self._failure is None or is_refusal(error):
            self._failure = self._fault(error, f"{message.topic()}", f"{message.partition()}")

    def _fault(self, error: object, topic: str, partition: str) -> DeltaplaneError:
        if is_refusal(error):
            return self._party.not_allowed("Write", f"topic {topic}", error)
        return DeliveryFailed(f"publish to {topic}-{partition}: {error}")

    def publish_and_wait(self, record: Outgoing) -> int:
        """The offset of a record that is published, once every in-sync replica has it.

        Raises :class:`DeliveryFailed` and :class:`NotAllowed`.
        """
        return self.publish_all_and_wait([record])[0]

    def publish_all_and_wait(self, records: Sequence[Outgoing]) -> list[int]:
        """The offset of each of some records that are published, once every in-sync replica has all of them.

        They travel together, so that thousands take hardly longer than one. Raises :class:`DeliveryFailed` and
        :class:`NotAllowed`; then some of them may have arrived.
        """
        offsets: dict[int, int] = {}

        def delivered(at: int, error: KafkaError | None, message: Message) -> None:
            self._delivered(error, message)
            offset = message.offset()
            if error is None and offset is not None:
                offsets[at] = offset

        announced: set[tuple[str, int]] = set()
        for at, record in enumerate(records):
            # The first of each partition has the announcement beside it.
            place = record.topic, record.partition
            headers = [] if place in announced else self._announcements.always()
            announced.add(place)
            topic = f"{self._before}{record.topic}"
            self.check()
            try:
                self._hand_over(topic, record, partial(delivered, at), headers)
            except KafkaException as fault:
                raise DeliveryFailed(f"publish to {topic}-{record.partition}: {fault}") from fault
        self.flush()
        if len(offsets) < len(records):
            lacking = next(record for at, record in enumerate(records) if at not in offsets)
            raise DeliveryFailed(
                f"publish to {self._before}{lacking.topic}-{lacking.partition}: no acknowledgement of"
                f" {len(records) - len(offsets):,} of {len(records):,} records"
            )
        return [offsets[at] for at in range(len(records))]

    def check(self) -> None:
        """Process the delivery reports that have come. Raises as :meth:`publish` does if a delivery has failed."""
        self._producer.poll(0)
        if self._failure is not None:
            raise self._failure

    def flush(self, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        """Wait until everything is acknowledged. Raises as :meth:`publish` does, also if it takes too long."""
        left = self._producer.flush(timeout_seconds)
        if left and self._failure is None:
            self._failure = DeliveryFailed(
                f"publish: {left} records were not acknowledged within {timeout_seconds:g} s"
            )
        self.check()

    def abandon(self) -> None:
        """Discard all records that have not been acknowledged, without waiting."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._producer.poll(0)


@dataclass(frozen=True)
class Publishers:
    """The publishers of a service's output: ``first`` for what must be acknowledged before the rest, ``then`` for it.

    Both may be the same publisher.
    """

    first: Publisher
    then: Publisher

    @classmethod
    def of_one(cls, publisher: Publisher) -> Publishers:
        """Publishers of which both are the same."""
        return cls(publisher, publisher)

    def publish(self, output: Output) -> None:
        """Publish ``output.first``, wait until all of it is acknowledged, and publish ``output.then``.

        So dead letters and receipts are acknowledged before a delta, a checkpoint or a commit goes on behind their
        causes. Raises as :meth:`Publisher.publish` does.
        """
        if output.first:
            self.first.publish(output.first)
            self.first.flush()
        self.then.publish(output.then)

    def abandon(self) -> None:
        """Discard all records that have not been acknowledged, without waiting."""
        for publisher in {self.first, self.then}:
            publisher.abandon()


def _is_too_large(error: object) -> bool:
    return isinstance(error, KafkaError) and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
