"""The records that pass between a runner and a processor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from deltaplane.log.delta import Source
from deltaplane_services.processors.topics import (
    CHECKPOINTS,
    DEAD_LETTERS,
    DELTAS,
    MODELS,
    PREDICTIONS,
    QUERIES,
    RECEIPTS,
    RETIREMENTS,
    SAMPLES,
    TOPICS,
)

__all__ = [
    "CHECKPOINTS",
    "DEAD_LETTERS",
    "DELTAS",
    "MODELS",
    "PREDICTIONS",
    "QUERIES",
    "RECEIPTS",
    "RETIREMENTS",
    "SAMPLES",
    "TOPICS",
    "UNREADABLE",
    "Content",
    "Encoding",
    "Headers",
    "Outgoing",
    "Output",
    "Record",
    "answer_key",
    "origin_key",
    "receipt_key",
    "source_key",
    "source_of_key",
]

UNREADABLE = "deltaplane-headers-unreadable"
"""The header of an answer, or a dead letter, instead of those of its record: they cannot be read, or are too large."""


class Encoding:
    """A message, and its bytes once they are first asked for; within one process nobody may ever ask.

    ``write`` must return the same bytes whenever it is called. The message takes ``source_bytes`` of memory.
    """

    __slots__ = ("_source_bytes", "_value", "_write", "message")

    def __init__(self, message: object, write: Callable[[], bytes], source_bytes: int) -> None:
        self.message = message
        self._write = write
        self._source_bytes = source_bytes
        self._value: bytes | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoding) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    @property
    def nbytes(self) -> int:
        """The memory that it takes, in bytes: what is encoded, and the encoded bytes if they have been made."""
        return self._source_bytes + len(self._value or b"")

    @property
    def value(self) -> bytes:
        """The bytes. Raises what ``write`` raises."""
        if self._value is None:
            self._value = self._write()
        return self._value


Content = bytes | Encoding | None
Headers = tuple[tuple[str, bytes | None], ...]


def _bytes_of(content: Content) -> bytes | None:
    return content.value if isinstance(content, Encoding) else content


def _message_of(content: Content) -> object:
    return content.message if isinstance(content, Encoding) else None


class Record(NamedTuple):
    """One record of a log.

    - ``topic``: without the stream's prefix.
    - ``log_time``: when it was appended, in milliseconds since the epoch.
    - ``content``: its bytes, or the message itself if a broker in the same process has passed it on.
    - ``headers``: those of a query, and of a record of a user's topic; they are not read from other records.
    - ``announced``: the announcement of its writer's definition beside the record; None if there is none.
    """

    topic: str
    partition: int
    offset: int
    log_time: int
    key: bytes | None
    content: Content
    headers: Headers = ()
    announced: bytes | None = None

    @property
    def value(self) -> bytes | None:
        """The record's bytes."""
        return _bytes_of(self.content)

    @property
    def message(self) -> object:
        """What decoding the bytes would give, if the record holds a message and no bytes; else None."""
        return _message_of(self.content)

    @property
    def nbytes(self) -> int:
        """The memory that its content takes, in bytes."""
        return self.content.nbytes if isinstance(self.content, Encoding) else len(self.content or b"")


class Outgoing(NamedTuple):
    """A record to be published: bytes, or a message for readers in the same process."""

    topic: str
    partition: int
    key: bytes | None
    content: Content
    headers: Headers = ()

    @property
    def value(self) -> bytes | None:
        """The record's bytes. Raises :class:`WireError` and :class:`LimitExceeded` if it cannot be encoded."""
        return _bytes_of(self.content)

    @property
    def message(self) -> object:
        """The message that it holds; None if it holds bytes alone."""
        return _message_of(self.content)

    @property
    def encoded(self) -> Outgoing:
        """The same record as bytes alone. Raises what ``value`` raises."""
        return self._replace(content=self.value)


@dataclass(frozen=True)
class Output:
    """The records that a processor publishes: all of ``first`` must be acknowledged BEFORE ``then`` is sent."""

    first: tuple[Outgoing, ...] = ()
    then: tuple[Outgoing, ...] = field(default=())


def source_key(source: Source) -> bytes:
    """The key of deltas, claims, orders and checkpoints of one source."""
    return str(source).encode()


def source_of_key(key: bytes | None) -> Source:
    """The source that such a key names. Raises ValueError if it names none."""
    site, _, partition = (key or b"").decode().rpartition("/")
    return Source(site, int(partition))


def origin_key(topic: str, partition: int, offset: int, row: int | None = None) -> bytes:
    """The key of a dead letter: the place of its cause. So a letter that is written again replaces the first one."""
    return f"{topic}-{partition}-{offset}{'' if row is None else f'-{row}'}".encode()


def answer_key(stream: str, query: Record) -> bytes:
    """The key of the answer to a query: ``STREAM.TOPIC-PARTITION-OFFSET`` of the query, which its publisher was told.

    The stream's name is in it, since answers of several streams may be gathered in one table.
    """
    return f"{stream}.".encode() + origin_key(query.topic, query.partition, query.offset)


def receipt_key(partition: int, offset: int, writer: str, sequence: int) -> bytes:
    """The key of a receipt, made of the place of the retirement, and of the writer and the sequence of its tile.

    So a worker that has lost the source does not overwrite the receipt of its new owner.
    """
    return origin_key(RETIREMENTS, partition, offset) + f"-{sequence}-{writer}".encode()
