"""Reading on behind a batch of the log that does not unpack.

The problem: brokers limit only the compressed size of a batch. So anyone who may write can publish a few kilobytes that
unpack to gigabytes. A client that unpacks no more than it may receive (librdkafka does so for zstd, not for gzip, lz4
and snappy: see SECURITY.md) reports an error, and then cannot pass that batch: whatever offset inside of it is asked
for, the batch comes again.

How it is solved: the end of the batch is searched for, so that a reader can go on behind it. One stand-in record that
nobody can read takes the place of the batch. It is refused, counted and dead-lettered like any other, so that every
reading of the log gives the same.
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
"""The value of the stand-in record of such a batch."""

NOT_READ = b"(a batch that no client can read)"
"""The value of the stand-in record of a batch at which clients go silent."""

MOST_REMEMBERED = 1000
"""The number of batches at which clients go silent that are remembered for each partition."""

Place = tuple[str, int]


def does_not_unpack(message: Message) -> bool:
    """Whether a message is the error that the batch at its offset does not unpack."""
    error = message.error()
    return error is not None and error.name() in {"_BAD_COMPRESSION", "_BAD_MSG"}


def stand_in(record: Record) -> Record:
    """The stand-in record of a batch that does not unpack, made from the record of the error's message."""
    return record._replace(log_time=0, key=None, content=STAND_IN)


def not_read(topic: str, place: TopicPartition) -> Record:
    """The stand-in record of a batch at which clients go silent; ``topic`` is without the prefix."""
    return Record(topic, place.partition, place.offset, 0, None, NOT_READ)


def once(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages without repeated errors: a client before a batch that does not unpack reports it again and again."""
    before: dict[tuple[str | None, int | None], int | None] = {}
    for message in messages:
        place = message.topic(), message.partition()
        if does_not_unpack(message):
            if before.get(place) == message.offset():
                continue
            before[place] = message.offset()
        yield message


class BatchEnds:
    """The ends of batches that do not unpack, or at which clients go silent; found ones are remembered.

    ``properties`` are those of a consumer. ``watch``, if it is set, is told of batches at which clients go silent.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        self.watch: SilenceWatch | None = None
        self._properties = {**properties, "enable.partition.eof": True}
        self._last: dict[Place, range] = {}
        self._silent: dict[Place, dict[int, int]] = {}

    def behind(self, message: Message) -> TopicPartition:
        """The first place behind the batch of a message. Raises KafkaException if no broker answers."""
        topic, partition, begin = message.topic(), message.partition(), message.offset()
        assert topic is not None, "a batch has a topic"
        assert partition is not None, "and a partition"
        assert begin is not None, "and an offset"
        if begin not in self._last.get((topic, partition), ()):
            self._last[topic, partition] = range(begin, self._end(topic, partition, begin))
        return TopicPartition(topic, partition, self._last[topic, partition].stop)

    def behind_silence(self, place: TopicPartition, end: int) -> TopicPartition | None:
        """The first place behind the batch at a place where a client went silent; None if a new client can read it.

        ``end`` is the end of the log.
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
        """The offset behind the batch at a place, as :func:`behind_silence` finds it; ``watch`` is told meanwhile."""
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
        """The place to read from: ``place``, or the place behind the batch if ``place`` lies inside of one.

        The beginning of a batch is not inside: a reader that asks for it still needs the batch's stand-in record.
        """
        passed = self._last.get((place.topic, place.partition), range(0))[1:]
        return TopicPartition(place.topic, place.partition, passed.stop) if place.offset in passed else place

    def _end(self, topic: str, partition: int, begin: int) -> int:
        """The offset behind a batch, searched for in doubling steps, then by halving; most have one record."""
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
    """Whether a place lies in the batch that begins at offset ``begin``: asking for it brings the same error."""
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
