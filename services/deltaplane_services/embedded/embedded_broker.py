"""The embedded broker: Kafka's ordered logs, offsets, compaction and retention, in process and without a clock.

It has what the runner and the processors need, and for them behaves as Kafka does: offsets grow by one, are never
reused, and survive compaction and trimming, and a fetch below the beginning of a log is refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

from deltaplane.errors import DeltaplaneError
from deltaplane_services.processors.messages import TOPICS, Content, Headers, Outgoing, Record

__all__ = ["COMPACT_ABOVE", "COMPACT_ABOVE_BYTES", "EmbeddedBroker", "OffsetOutOfRange"]

COMPACT_ABOVE = 64
"""Records that a compacted log may hold beyond twice the number of its keys, before it is compacted again."""

COMPACT_ABOVE_BYTES = 2**22
"""Bytes that a compacted log may take beyond twice its bytes after the last compaction, before the next."""


class OffsetOutOfRange(DeltaplaneError):
    """A fetch from an offset that a log no longer has, or does not have yet."""


class _Log:
    """One partition of one topic: the records from offset ``begin`` to before ``end`` that it still has."""

    def __init__(self, topic: str, partition: int, *, compacted: bool) -> None:
        self.topic = topic
        self.partition = partition
        self.begin = 0
        self.end = 0
        self.nbytes = 0
        self._compacted = compacted
        self._records: list[Record] = []
        self._keys: set[bytes | None] = set()
        self._compacted_bytes = 0

    def append(self, key: bytes | None, content: Content, log_time: int, headers: Headers) -> int:
        record = Record(self.topic, self.partition, self.end, log_time, key, content, headers)
        self._records.append(record)
        self.end += 1
        self.nbytes += record.nbytes
        if self._compacted:
            self._keys.add(key)
            too_many = len(self._records) > 2 * len(self._keys) + COMPACT_ABOVE
            if too_many or self.nbytes > 2 * self._compacted_bytes + COMPACT_ABOVE_BYTES:
                self._compact()
        return self.end - 1

    def _compact(self) -> None:
        newest = {record.key: record for record in self._records}
        self._records = sorted(newest.values(), key=attrgetter("offset"))
        self._count_bytes()
        self._compacted_bytes = self.nbytes

    def _count_bytes(self) -> None:
        """Count the bytes anew, since a record takes more memory once it has been encoded."""
        self.nbytes = sum(record.nbytes for record in self._records)

    def fetch(self, offset: int, most: int) -> list[Record]:
        if offset == self.end:
            return []
        if not self.begin <= offset < self.end:
            raise OffsetOutOfRange(
                f"{self.topic}-{self.partition}: offset {offset} was asked for, the log has {self.begin} to {self.end};"
                " retention has passed it, or it was never written"
            )
        first = self._place(offset)
        return self._records[first : first + most]

    def _place(self, offset: int) -> int:
        """The place among the records of the first one at an offset or beyond."""
        return bisect_left(self._records, offset, key=attrgetter("offset")) if self._compacted else offset - self.begin

    def take_over(self, begin: int, end: int, records: Sequence[Record]) -> None:
        offsets = [record.offset for record in records]
        grow = all(earlier < later for earlier, later in pairwise((begin - 1, *offsets, end)))
        if self.end or not 0 <= begin <= end or not grow or (not self._compacted and len(offsets) != end - begin):
            raise ValueError(f"{self.topic}-{self.partition}: records that are no log from {begin} to {end}")
        self.begin, self.end, self._records = begin, end, list(records)
        self._keys = {record.key for record in records} if self._compacted else set()
        self._count_bytes()

    def trim(self, before: int) -> None:
        before = min(before, self.end)
        if before <= self.begin:
            return
        del self._records[: self._place(before)]
        self.begin = before
        self._count_bytes()
        if self._compacted:
            self._keys = {record.key for record in self._records}


class EmbeddedBroker:
    """All topics of one stream with one site.

    With ``keep_messages``, records hold messages as they were given, which are encoded only if somebody asks for bytes.
    ``of_users``: topics that are none of the stream's, and their numbers of partitions.
    """

    def __init__(
        self, partitions: int, *, keep_messages: bool = False, of_users: Mapping[str, int] | None = None
    ) -> None:
        self.partitions = partitions
        self._keep_messages = keep_messages
        self._logs = {
            (topic, partition): _Log(topic, partition, compacted=settings.compacted)
            for topic, settings in TOPICS.items()
            for partition in range(1 if settings.single else partitions)
        }
        self.of_users = [(topic, at) for topic, number in (of_users or {}).items() for at in range(number)]
        self._logs |= {place: _Log(*place, compacted=False) for place in self.of_users}

    def append(self, outgoing: Outgoing, log_time: int) -> int:
        """The offset of a record that is appended at ``log_time``, in milliseconds since the epoch."""
        content = outgoing.content if self._keep_messages else outgoing.value
        return self._logs[outgoing.topic, outgoing.partition].append(outgoing.key, content, log_time, outgoing.headers)

    def append_all(self, records: Iterable[Outgoing], log_time: int) -> None:
        """Append several records in order."""
        for record in records:
            self.append(record, log_time)

    def fetch(self, topic: str, partition: int, offset: int, most: int = 2**31) -> list[Record]:
        """At most ``most`` records from ``offset`` on. Raises :class:`OffsetOutOfRange` if the log lacks the offset."""
        return self._logs[topic, partition].fetch(offset, most)

    def fetch_topic(self, topic: str) -> list[Record]:
        """Every record that a topic still has, partition by partition."""
        logs = [log for (name, _), log in self._logs.items() if name == topic]
        return [record for log in logs for record in log.fetch(log.begin, 2**31)]

    def begin(self, topic: str, partition: int) -> int:
        """The first offset that can still be fetched."""
        return self._logs[topic, partition].begin

    def end(self, topic: str, partition: int) -> int:
        """The offset that the next record will get."""
        return self._logs[topic, partition].end

    def nbytes(self, topic: str, partition: int) -> int:
        """The memory that the records of a log take, in bytes."""
        return self._logs[topic, partition].nbytes

    def partitions_of(self, topic: str) -> range:
        """The partitions that a topic has."""
        return range(1 if TOPICS[topic].single else self.partitions)

    def take_over(self, topic: str, partition: int, begin: int, end: int, records: Sequence[Record]) -> None:
        """Fill an empty log with the records of another one.

        Raises KeyError if there is no such log, and ValueError if it is not empty, or if the records cannot be those of
        a log from ``begin`` to ``end``.
        """
        self._logs[topic, partition].take_over(begin, end, records)

    def trim(self, topic: str, partition: int, before: int) -> None:
        """Delete every record below an offset, as retention does."""
        self._logs[topic, partition].trim(before)
