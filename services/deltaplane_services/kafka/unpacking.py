"""Getting past a batch of the log that does not unpack.

Brokers weigh a batch as it is compressed, and look no further. So anyone who may write can publish a few kilobytes that
unpack to gigabytes; a client that unpacks no more than it may receive (librdkafka does so for zstd, not for gzip, lz4
and snappy: see SECURITY.md) says so, and then stands before that batch for ever: whatever offset inside of it is asked
for, the batch comes. Its records have offsets and no contents. Here the end of the batch is found, so that a reader can
go on behind it, and one record that nobody can read is put in its place, so that it is refused, counted and
dead-lettered as any other, and every reading of the log finds the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from deltaplane_services.kafka import silence
from deltaplane_services.kafka.silence import SilenceWatch, behind_silence
from deltaplane_services.processors.messages import Record

__all__ = [
    "MOST_REMEMBERED",
    "NOT_READ",
    "PATIENCE_SECONDS",
    "STAND_IN",
    "BatchEnds",
    "Place",
    "does_not_unpack",
    "not_read",
    "once",
    "stand_in",
]

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 30.0
STAND_IN = b"(a batch that does not unpack, or is too large unpacked)"
"""The value of the record that is put in the place of such a batch."""

NOT_READ = b"(a batch that no client can read)"
"""The value of the record that is put in the place of a batch at which clients go silent."""

MOST_REMEMBERED = 1000
"""Batches of one partition, the last, at which clients are known to go silent."""

Place = tuple[str, int]


def does_not_unpack(message: Message) -> bool:
    """Whether a message says that the batch which begins at its offset does not unpack."""
    error = message.error()
    return error is not None and error.name() in {"_BAD_COMPRESSION", "_BAD_MSG"}


def stand_in(record: Record) -> Record:
    """The record that is put in the place of a batch, made of the message that says so."""
    return record._replace(log_time=0, key=None, content=STAND_IN)


def not_read(topic: str, place: TopicPartition) -> Record:
    """The record that is put in the place of a batch at which clients go silent; ``topic`` is without the prefix."""
    return Record(topic, place.partition, place.offset, 0, None, NOT_READ)


def once(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages without repetitions: a client that stands before such a batch says so again and again."""
    before: dict[tuple[str | None, int | None], int | None] = {}
    for message in messages:
        place = message.topic(), message.partition()
        if does_not_unpack(message):
            if before.get(place) == message.offset():
                continue
            before[place] = message.offset()
        yield message


class BatchEnds:
    """Finds the ends of such batches, and remembers the last of each partition. ``properties``: of a consumer.

    ``watch`` is told of batches at which clients go silent.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        self.watch: SilenceWatch | None = None
        self._properties = {**properties, "enable.partition.eof": True}
        self._last: dict[Place, range] = {}
        self._silent: dict[Place, dict[int, int]] = {}

    def behind(self, message: Message) -> TopicPartition:
        """The first place behind the batch of a message. Raises KafkaException where no broker answers."""
        topic, partition, begin = message.topic(), message.partition(), message.offset()
        assert topic is not None, "a batch has a topic"
        assert partition is not None, "and a partition"
        assert begin is not None, "and an offset"
        if begin not in self._last.get((topic, partition), ()):
            self._last[topic, partition] = range(begin, self._end(topic, partition, begin))
        return TopicPartition(topic, partition, self._last[topic, partition].stop)

    def behind_silence(self, place: TopicPartition, end: int) -> TopicPartition | None:
        """The first place behind the batch at a place, at which a client went silent; None where a new client reads it.

        ``end``: the end of the log.
        """
        behind = self.known_behind(place)
        if behind is None:
            behind = self._looked_for(place, end)
        if behind is None:
            return None
        known = self._silent.setdefault((place.topic, place.partition), {})
        known[place.offset] = behind
        if len(known) > MOST_REMEMBERED:
            del known[next(iter(known))]
        self._last[place.topic, place.partition] = range(place.offset, behind)
        return TopicPartition(place.topic, place.partition, behind)

    def _looked_for(self, place: TopicPartition, end: int) -> int | None:
        """Tell whoever watches that nothing comes, look for the end of the batch, and tell what was found."""
        why = (
            f"{place.topic}-{place.partition}: nothing has come from offset {place.offset} on for"
            f" {silence.SILENCE_SECONDS:g} s, though the log goes on to {end}"
        )
        logger.warning("%s; looking for a batch that no client reads", why)

        def alive() -> None:
            if self.watch is not None:
                self.watch.silent(why)

        behind = behind_silence(self._properties, place, end, alive)
        if self.watch is not None:
            self.watch.silent(None)
            if behind is not None:
                self.watch.passed_over(place.topic)
        return behind

    def known_behind(self, place: TopicPartition) -> int | None:
        """The offset behind the batch at a place, if clients are known to go silent there."""
        return self._silent.get((place.topic, place.partition), {}).get(place.offset)

    def from_there(self, place: TopicPartition) -> TopicPartition:
        """A place to read from; behind the batch where it lies inside of one.

        Whoever asks for the beginning of a batch has not had the record that stands in its place, or threw it away.
        """
        passed = self._last.get((place.topic, place.partition), range(0))[1:]
        return TopicPartition(place.topic, place.partition, passed.stop) if place.offset in passed else place

    def _end(self, topic: str, partition: int, begin: int) -> int:
        """By doubling steps, then by halves. Most batches that are sent to do harm have one record."""
        inside, step = begin, 1
        with Consumer(self._properties) as probe:
            while _is_inside(probe, TopicPartition(topic, partition, inside + step), begin):
                inside, step = inside + step, 2 * step
            outside = inside + step
            while outside - inside > 1:
                middle = (inside + outside) // 2
                if _is_inside(probe, TopicPartition(topic, partition, middle), begin):
                    inside = middle
                else:
                    outside = middle
        return outside


def _is_inside(probe: Consumer, place: TopicPartition, begin: int) -> bool:
    """Whether a place lies in the batch that begins at an offset: asking for it brings the same error."""
    probe.assign([place])
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        for message in probe.consume(1, timeout=0.05):
            error = message.error()
            if does_not_unpack(message):
                return message.offset() == begin
            # A record, the end of the partition, or beyond it.
            if error is None or error.name() in {"_PARTITION_EOF", "_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}:
                return False
    raise KafkaException(
        KafkaError(
            KafkaError._TIMED_OUT,  # noqa: SLF001 - public all the same.
            f"{place.topic}-{place.partition}: nothing came for {PATIENCE_SECONDS:g} s at offset {place.offset}",
        )
    )
