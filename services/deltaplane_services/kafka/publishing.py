"""Publishing to an ordered log: what is acknowledged, and at which offset.

A delivery that fails is never retried here: what was published behind it may have arrived, so the only safe answer is
the caller's (claim again, rebuild). Confluent's client is used from one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.announcing import Announcements
from deltaplane_services.kafka.log_errors import (
    REQUEST_TIMEOUT_SECONDS,
)
from deltaplane_services.kafka.membership import Party, is_refusal
from deltaplane_services.processors.messages import Outgoing, Output

__all__ = [
    "MOST_UNACKNOWLEDGED",
    "MOST_UNACKNOWLEDGED_SAMPLES",
    "Answered",
    "Delivered",
    "DeliveryFailed",
    "Publisher",
    "Publishers",
    "nobody",
]

Delivered = Callable[[str, float], None]

MOST_UNACKNOWLEDGED = 256
MOST_UNACKNOWLEDGED_SAMPLES = 10_000
"""Of a producer of samples, which are many and small: with fewer it would wait for a round trip to the broker most of
the time. Bytes have a bound of their own in the client."""


class Answered(Protocol):
    """Is told of a record whether its topic admits one so large."""

    def __call__(self, record: Outgoing, *, fits: bool) -> None:
        """Called from the thread that publishes."""


def nobody(topic: str, seconds: float) -> None:
    """Of each acknowledged record, the topic and the seconds since it was handed over: where nobody wants to know."""


class DeliveryFailed(DeltaplaneError):
    """A record was not acknowledged; whether it arrived is not known."""


class Publisher:
    """An idempotent producer that remembers the first delivery that failed and refuses to go on after it.

    It waits for acknowledgements once more than ``most_unacknowledged`` records are without one. ``announcement`` goes
    along with records that others judge by their definition.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        prefix: str,
        on_delivered: Delivered = nobody,
        most_unacknowledged: int = MOST_UNACKNOWLEDGED,
        announcement: bytes = b"",
    ) -> None:
        self._producer = Producer(dict(properties))
        self._on_delivered = on_delivered
        self._prefix = prefix
        self._most_unacknowledged = most_unacknowledged
        self._party = Party.of(properties)
        self._failure: DeltaplaneError | None = None
        self._names: dict[str, str] = {}
        self._announcements = Announcements(announcement)

    def publish(self, records: Iterable[Outgoing], answered: Answered | None = None) -> None:
        """Hand records over in order.

        Raises :class:`DeliveryFailed` if any delivery so far has failed, :class:`NotAllowed` if the brokers refuse it.
        Where ``answered`` is given, it is told whether each record fits its topic, and one that does not is no failure.
        """
        for record in records:
            self._produce(record, answered)
        if len(self._producer) > self._most_unacknowledged:
            self.flush()
        self.check()

    def _produce(self, record: Outgoing, answered: Answered | None) -> None:
        topic = self._names.get(record.topic)
        if topic is None:
            topic = self._names.setdefault(record.topic, f"{self._prefix}.{record.topic}")
        on_delivery = self._delivered if answered is None else partial(self._delivered_or_large, record, answered)
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
                    headers=[*record.headers, *self._announcements.beside(record.topic, record.partition)],
                )
            except BufferError:
                # The local queue is full: the network is the limit, so wait for it.
                self._producer.poll(0.1)
                self.check()
            except KafkaException as fault:
                if answered is None or not _is_too_large(fault.args[0]):
                    raise DeliveryFailed(f"publish to {topic}-{record.partition}: {fault}") from fault
                answered(record, fits=False)
                return
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
            if self._on_delivered is nobody:
                return
            latency, topic = message.latency(), message.topic()
            if latency is not None and topic is not None:
                self._on_delivered(topic, latency)
        elif self._failure is None or is_refusal(error):
            self._failure = self._fault(error, f"{message.topic()}", f"{message.partition()}")

    def _fault(self, error: object, topic: str, partition: str) -> DeltaplaneError:
        if is_refusal(error):
            return self._party.may_not("Write", f"topic {topic}", error)
        return DeliveryFailed(f"publish to {topic}-{partition}: {error}")

    def publish_and_wait(self, record: Outgoing) -> int:
        """Publish one record and return its offset, once every in-sync replica has it.

        Raises :class:`DeliveryFailed` and :class:`NotAllowed`.
        """
        place: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._delivered(error, message)
            offset = message.offset()
            if error is None and offset is not None:
                place.append(offset)

        topic = f"{self._prefix}.{record.topic}"
        try:
            self._producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                on_delivery=delivered,
                headers=self._announcements.always(),
            )
        except (BufferError, KafkaException) as fault:
            raise DeliveryFailed(f"publish to {topic}-{record.partition}: {fault}") from fault
        self.flush()
        if not place:
            raise DeliveryFailed(f"publish to {topic}-{record.partition}: no acknowledgement")
        return place[0]

    def check(self) -> None:
        """Serve delivery reports. Raises what has failed of the deliveries so far, as :meth:`publish` does."""
        self._producer.poll(0)
        if self._failure is not None:
            raise self._failure

    def flush(self, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        """Wait until everything is acknowledged. Raises :class:`DeliveryFailed` if it is not in time."""
        left = self._producer.flush(timeout_seconds)
        if left and self._failure is None:
            self._failure = DeliveryFailed(
                f"publish: {left} records were not acknowledged within {timeout_seconds:g} s"
            )
        self.check()

    def abandon(self) -> None:
        """Throw away what has not been sent, without waiting."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._producer.poll(0)


@dataclass(frozen=True)
class Publishers:
    """Where the output of a service goes: ``first``, what must be safe before the rest, and ``then``, the rest.

    Both may be one publisher.
    """

    first: Publisher
    then: Publisher

    @classmethod
    def of_one(cls, publisher: Publisher) -> Publishers:
        """One publisher for both."""
        return cls(publisher, publisher)

    def publish(self, output: Output) -> None:
        """Publish ``output.first``, wait until all of it is acknowledged, and publish ``output.then``.

        Dead letters and receipts are safe before a delta, a checkpoint or a commit passes over their causes. Raises
        what :meth:`Publisher.publish` does.
        """
        if output.first:
            self.first.publish(output.first)
            self.first.flush()
        self.then.publish(output.then)

    def abandon(self) -> None:
        """Throw away what has not been sent, without waiting."""
        for publisher in {self.first, self.then}:
            publisher.abandon()


def _is_too_large(error: object) -> bool:
    return isinstance(error, KafkaError) and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
