"""Kafka as an ordered log that is read by offset. Confluent's client is used from one thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from deltaplane import limits
from deltaplane_services.kafka import silence
from deltaplane_services.kafka.announcing import announced_by, announced_in
from deltaplane_services.kafka.log_errors import (
    REQUEST_TIMEOUT_SECONDS,
    SETTLING_SECONDS,
    UNKNOWN,
    LogUnavailable,
    is_end,
    is_of_group,
    is_passing,
    patience,
    raise_if_error,
    text_of,
)
from deltaplane_services.kafka.membership import Principal, is_refusal
from deltaplane_services.kafka.silence import Listening, Silence
from deltaplane_services.kafka.unpacking import BatchEnds, does_not_unpack, not_read, once, stand_in
from deltaplane_services.processors.messages import Headers, Record

__all__ = [
    "ALONE_SECONDS",
    "ATTEMPT_SECONDS",
    "LOOK_SECONDS",
    "RETRY_SECONDS",
    "LogReader",
    "end_behind",
    "in_batches",
    "known_lags",
    "record_of",
]

logger = logging.getLogger(__name__)
RETRY_SECONDS = 0.25
ATTEMPT_SECONDS = 5.0
"""How long one question may take. The client asks the leader that it knows, even if that broker has died and another
one leads, and waits for it as long as it is allowed to."""

LOOK_SECONDS = 1.0
"""Seconds between two checks whether a client that delivers nothing has gone silent."""

ALONE_SECONDS = 30.0
"""How long a client that has lost all brokers may deliver nothing before it is replaced. Replacing it does no harm if
there is nothing to deliver, or if the brokers are still away."""


def record_of(message: Message, prefix: str, headers: Callable[[Message], Headers] | None = None) -> Record:
    """The record of a message without an error, as processors take it.

    ``prefix`` is the stream's name; empty if the topic is to keep its whole name. ``headers`` reads those of a message;
    without it the record has none.
    """
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None, "a message without an error has a topic"
    assert partition is not None, "and a partition"
    assert offset is not None, "and an offset"
    beside = () if headers is None else headers(message)
    return Record(
        topic.removeprefix(f"{prefix}.") if prefix else topic,
        partition,
        offset,
        message.timestamp()[1],
        _bytes(message.key()),
        _bytes(message.value()),
        beside,
        announced_by(message) if headers is None else announced_in(beside),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


class LogReader:
    """Reads partitions by offset, without a consumer group; ``prefix`` is the stream's name, empty for whole names.

    ``headers`` reads those of a message; without it records have none.

    Its client is replaced if it does not answer a question, or delivers nothing after it has lost all brokers. For such
    a client has been seen to report for minutes that all brokers were away, or that a partition did not exist, while
    other clients were served. (Since 2.10, librdkafka drops brokers that metadata do not name, and a broker that has
    just started may name none: its issue 5301.)
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        prefix: str,
        headers: Callable[[Message], Headers] | None = None,
    ) -> None:
        # A group id is required by the client and never used: nothing is committed, nothing is subscribed to.
        group = f"{prefix or 'deltaplane'}.readers"
        own = {"group.id": group, "enable.auto.commit": False, "enable.partition.eof": True}
        self.batch_ends = BatchEnds({**properties, **own})
        self._say = properties.get("error_cb")
        self._properties = {**properties, **own, "error_cb": self._note}
        self._consumer = Consumer(self._properties)
        self._prefix, self._before, self._headers = prefix, f"{prefix}." if prefix else "", headers
        self._party = Principal.of(properties)
        self._begun: dict[tuple[str, int], int] = {}
        self._listening, self._looked_at = Listening(time.monotonic()), time.monotonic()
        self._alone_since: float | None = None

    def _note(self, error: KafkaError) -> None:
        """Note that the client has lost all brokers; called by it, from the thread that polls it."""
        if error.name() == "_ALL_BROKERS_DOWN" and self._alone_since is None:
            self._alone_since = time.monotonic()
        if callable(self._say):
            self._say(error)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """(the first offset that a partition still has, the offset that its next record will get).

        A broker that is away for a moment is waited for. Raises :class:`LogUnavailable` if there is no answer, and
        :class:`NotAllowed` if the brokers do not allow the question.
        """
        place = TopicPartition(f"{self._before}{topic}", partition)
        began = time.monotonic()
        while True:
            left = max(0.1, began + REQUEST_TIMEOUT_SECONDS - time.monotonic())
            try:
                low, high = self._consumer.get_watermark_offsets(
                    place, timeout=min(left, ATTEMPT_SECONDS), cached=False
                )
            except KafkaException as fault:
                self._refuse(fault, place.topic)
                # The old client would go on asking the leader that it knows.
                self._renew()
                if time.monotonic() >= began + patience(fault):
                    raise LogUnavailable(
                        f"{place.topic}-{partition}: {text_of(fault)}; is the topic there, and the broker?"
                    ) from fault
                time.sleep(RETRY_SECONDS)
            else:
                return low, high

    def bounds_at(self, place: TopicPartition) -> tuple[int, int]:
        """The :meth:`bounds` of the log in which a place lies."""
        return self.bounds(self.topic_of(place), place.partition)

    def known_behind(self, place: TopicPartition) -> int | None:
        """The offset behind the batch at a place, if clients are known to go silent there."""
        return self.batch_ends.known_behind(place)

    def behind_silence(self, place: TopicPartition, end: int) -> TopicPartition | None:
        """The first place behind the batch at a place where a client went silent; None if a new client can read it."""
        return self.batch_ends.behind_silence(place, end)

    def has_ended(self, topic: str, partition: int) -> bool:
        """Whether the end of a partition has been reached since it is followed."""
        return self._listening.has_ended((f"{self._before}{topic}", partition))

    def topic_of(self, place: TopicPartition) -> str:
        """The topic of a place without the stream's prefix."""
        return place.topic.removeprefix(self._before)

    def _renew(self) -> None:
        """Replace the client by a new one, which goes on where the old one was."""
        self._go_on_with_a_new_client(self._positions())

    def _positions(self) -> list[TopicPartition]:
        places = self._consumer.position(self._consumer.assignment())
        for place in places:
            if place.offset < 0:  # Nothing has come from there yet.
                place.offset = self._begun[place.topic, place.partition]
        return places

    def _go_on_with_a_new_client(self, places: Sequence[TopicPartition]) -> None:
        self._consumer.close()
        self._consumer, self._alone_since = Consumer(self._properties), None
        self._assign(places)

    def _assign(self, places: Sequence[TopicPartition]) -> None:
        self._begun = {(place.topic, place.partition): place.offset for place in places}
        self._consumer.assign(list(places))

    def _refuse(self, fault: KafkaException, topic: str) -> None:
        """Raise :class:`NotAllowed` if a missing right is behind a fault: a topic one may not see looks missing."""
        error: object = fault.args[0] if fault.args else None
        if isinstance(error, KafkaError) and error.code() in UNKNOWN:
            try:
                error = self._consumer.list_topics(topic, timeout=SETTLING_SECONDS).topics[topic].error
            except KafkaException:
                return
        if is_refusal(error):
            raise self._party.not_allowed("Read", f"topic {topic}", error)

    def read(self, topic: str, partition: int, start: int = 0, stop: int = limits.POSITION) -> Iterator[Record]:
        """The records from ``start`` (or the beginning, if that is later) to before ``stop`` (or the end).

        Raises :class:`LogUnavailable` if nothing comes for too long.
        """
        low, high = self.bounds(topic, partition)
        start, stop = max(start, low), min(stop, high)
        if start >= stop:
            return
        name = f"{self._before}{topic}"
        self._assign([self.batch_ends.from_there(TopicPartition(name, partition, start))])
        until, reached = time.monotonic() + silence.READING_SECONDS, start
        try:
            while True:
                place = TopicPartition(name, partition, reached)
                if time.monotonic() > until or self.batch_ends.known_behind(place) is not None:
                    yield self._passed_over(place, high)
                    until, reached = time.monotonic() + silence.READING_SECONDS, self._begun[name, partition]
                for message in self._heard(500, 0.05):
                    offset = message.offset()
                    assert offset is not None, "a record, the end of a partition and a bad batch have an offset"
                    # The end comes as an event: compaction may leave a gap before it, which no record shows.
                    if offset >= stop or is_end(message):
                        return
                    yield self._record(message, self._assign)
                    if offset + 1 >= stop:
                        return
                    until, reached = time.monotonic() + silence.READING_SECONDS, offset + 1
        finally:
            self._consumer.unassign()

    def _passed_over(self, place: TopicPartition, end: int) -> Record:
        """The stand-in record of a batch at which the client has gone silent; reading goes on behind the batch.

        Raises :class:`LogUnavailable` if nothing comes for another reason.
        """
        behind = self.batch_ends.behind_silence(place, end)
        self._renew()
        if behind is None:
            raise LogUnavailable(
                f"{place.topic}-{place.partition}: nothing came for {silence.READING_SECONDS:g} s from offset"
                f" {place.offset} on, and the log goes on to {end}; is the broker there?"
            )
        self._assign([behind])
        return not_read(self.topic_of(place), place)

    def _heard(self, most: int, timeout_seconds: float) -> Iterator[Message]:
        """The messages of one poll: records, ends, and batches that do not unpack.

        Errors that pass by themselves are left out, and others are raised.
        """
        messages = self._consumer.consume(most, timeout=timeout_seconds)
        if any(message.error() is None or is_end(message) for message in messages):
            self._alone_since = None
        if not any(map(Message.error, messages)):
            # Almost always: records alone, which need no looking at.
            yield from messages
            return
        for message in once(messages):
            if is_end(message) or does_not_unpack(message):
                yield message
            elif not is_passing(message) and not is_of_group(message):
                raise_if_error(message, self._party)
                yield message

    def _records(self, messages: Sequence[Message]) -> list[Record]:
        """The records of messages without an error."""
        return [record_of(message, self._prefix, self._headers) for message in messages]

    def _record(self, message: Message, go_on: Callable[[list[TopicPartition]], object]) -> Record:
        """The record of a message; the stand-in record if it says that a batch does not unpack.

        Then ``go_on`` is called with the place behind the batch.
        """
        if not does_not_unpack(message):
            return record_of(message, self._prefix, self._headers)
        go_on([self.batch_ends.behind(message)])
        return stand_in(record_of(message, self._prefix))

    def follow(self, places: Sequence[tuple[str, int, int]]) -> None:
        """Have :meth:`poll` deliver records from these places (topic, partition, first offset) on."""
        self._listening = Listening(time.monotonic())
        self._assign(
            [
                TopicPartition(f"{self._before}{topic}", partition, OFFSET_BEGINNING if start <= 0 else start)
                for topic, partition, start in places
            ]
        )

    def poll(self, most: int, timeout_seconds: float) -> list[Record]:
        """At most ``most`` records that have come since; none while a broker is away.

        If the client goes silent at a batch, the batch's stand-in record comes; finding that out takes about a minute.
        """
        if self._alone_since is not None and time.monotonic() - self._alone_since > ALONE_SECONDS:
            logger.info("nothing has come since all brokers were away; going on with a new client")
            self._renew()
        messages, now = list(self._heard(most, timeout_seconds)), time.monotonic()
        clean = not any(map(Message.error, messages))
        if clean:
            for topic, partition in set(
                zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
            ):
                assert topic is not None, "a record has a topic"
                assert partition is not None, "and a partition"
                self._listening.heard((topic, partition), now)
            records = self._records(messages)
        else:
            self._listening.hear(messages, now)
            records = [self._record(message, self._seek) for message in messages if not is_end(message)]
        # After a batch that does not unpack, the client's position is not known until something has come behind it.
        if now - self._looked_at >= LOOK_SECONDS and not any(does_not_unpack(message) for message in messages):
            records += self._passed_silence(now)
        return records

    def _passed_silence(self, now: float) -> list[Record]:
        """The stand-in records of the batches at which the client has gone silent."""
        self._looked_at, places = now, self._positions()
        found = self._listening.find(places, self, now)
        if found.silence is Silence.NONE:
            return []
        behind = {(place.topic, place.partition): place.offset for _, place in found.passed}
        for place in places:
            place.offset = behind.get((place.topic, place.partition), place.offset)
        self._go_on_with_a_new_client(places)
        return [not_read(self.topic_of(at), at) for at, _ in found.passed]

    def _seek(self, places: list[TopicPartition]) -> None:
        for place in places:
            self._consumer.seek(place)

    def lags(self) -> dict[tuple[str, int], int]:
        """(topic, partition) to the number of records still to come, as far as the client knows without asking.

        If nothing has come from a partition yet, they are counted from where it is followed, of which 0 is the least.
        """
        places = self._positions()
        for place in places:
            place.offset = max(0, place.offset)
        return known_lags(self._consumer, places, self._prefix)

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def in_batches(records: Iterable[Record], most: int = 500) -> Iterator[list[Record]]:
    """The records in lists of ``most``, the last of which may be shorter."""
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        if len(batch) == most:
            yield batch
            batch = []
    if batch:
        yield batch


def end_behind(
    consumer: Consumer, place: TopicPartition, records: Sequence[Record], timeout_seconds: float
) -> int | None:
    """The offset behind the last record of a log of which ``records`` came; None if the client does not know it.

    The client is told the end with the records it fetches. But a broker looks where the log ends before it reads, so a
    log that grows meanwhile seems to end before the newest of them. If one lies beyond, the broker is asked. Raises
    :class:`LogUnavailable` if it does not answer in time.
    """
    _, end = consumer.get_watermark_offsets(place, cached=True)
    if end < 0:
        return None
    # If the last record is not the one with the largest offset, they do not ascend, whatever the end.
    if records and records[-1].offset >= end:
        try:
            _, end = consumer.get_watermark_offsets(place, timeout=timeout_seconds)
        except KafkaException as fault:
            raise LogUnavailable(f"{place.topic}-{place.partition}: its end cannot be had: {fault}") from fault
    return end


def known_lags(consumer: Consumer, places: Iterable[TopicPartition], prefix: str) -> dict[tuple[str, int], int]:
    """(topic, partition) to the number of records behind a place, as far as the consumer knows without asking."""
    lags = {}
    for place in places:
        _, end = consumer.get_watermark_offsets(place, cached=True)
        if place.offset >= 0 and end >= 0:
            name = place.topic.removeprefix(f"{prefix}.") if prefix else place.topic
            lags[name, place.partition] = max(0, end - place.offset)
    return lags
