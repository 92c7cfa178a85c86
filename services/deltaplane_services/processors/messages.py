"""The records that pass between a runner and a processor, and the dead letters that processors make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from deltaplane import limits
from deltaplane.exact.statistics import Dimensions
from deltaplane.log.delta import Claim, Delta, Source, SourceOrder
from deltaplane.log.model import Model
from deltaplane.log.records import DeadLetter
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Refusal, Samples
from deltaplane.wire import read_claim_or_delta, read_model, read_samples, write_dead_letter
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
    "MORE_RECORDS",
    "MORE_ROWS",
    "PREDICTIONS",
    "QUERIES",
    "RECEIPTS",
    "RETIREMENTS",
    "SAMPLES",
    "SHOWN_ID",
    "TOPICS",
    "UNREADABLE",
    "Content",
    "Encoding",
    "Headers",
    "Outgoing",
    "Output",
    "Record",
    "answer_key",
    "dead_letter",
    "origin_key",
    "read_change",
    "read_published_model",
    "read_published_samples",
    "receipt_key",
    "refused_rows",
    "shared_letter",
    "shortened",
    "source_key",
]

SHOWN_ID = 40
"""The most characters of an id that the reason of a refused row repeats."""

MORE_ROWS = "more rows"
"""The kind of a dead letter for several rows of a batch."""


UNREADABLE = "deltaplane-headers-unreadable"
"""The header of an answer, or a dead letter, instead of those of its record: they cannot be read, or are too large."""

MORE_RECORDS = "more records"
"""The kind of the dead letter for all that has none of its own; it is written again whenever its count grows."""


class Encoding:
    """The bytes of a message, encoded when they are first asked for; within one process nobody may ever ask.

    ``write`` must return the same bytes whenever it is called. What it encodes takes ``source_bytes`` of memory.
    """

    __slots__ = ("_source_bytes", "_value", "_write")

    def __init__(self, write: Callable[[], bytes], source_bytes: int) -> None:
        self._write = write
        self._source_bytes = source_bytes
        self._value: bytes | None = None

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


class Record(NamedTuple):
    """One record of a log.

    - ``topic``: without the stream's prefix.
    - ``log_time``: when it was appended, in milliseconds since the epoch.
    - ``decoded``: what decoding ``value`` would give, if a broker in the same process has passed it on; else None.
    - ``headers``: those of a query, and of a record of a user's topic; they are not read from other records.
    - ``announced``: the announcement of its writer's definition beside the record; None if there is none.
    """

    topic: str
    partition: int
    offset: int
    log_time: int
    key: bytes | None
    content: Content
    decoded: object = None
    headers: Headers = ()
    announced: bytes | None = None

    @property
    def value(self) -> bytes | None:
        """The record's bytes."""
        return _bytes_of(self.content)

    @property
    def nbytes(self) -> int:
        """The memory that its content takes, in bytes."""
        return self.content.nbytes if isinstance(self.content, Encoding) else len(self.content or b"")


class Outgoing(NamedTuple):
    """A record to be published; ``decoded`` is what ``value`` encodes, for readers in the same process."""

    topic: str
    partition: int
    key: bytes | None
    content: Content
    decoded: object = None
    headers: Headers = ()

    @property
    def value(self) -> bytes | None:
        """The record's bytes. Raises :class:`WireError` and :class:`LimitExceeded` if it cannot be encoded."""
        return _bytes_of(self.content)


@dataclass(frozen=True)
class Output:
    """The records that a processor publishes: all of ``first`` must be acknowledged BEFORE ``then`` is sent."""

    first: tuple[Outgoing, ...] = ()
    then: tuple[Outgoing, ...] = field(default=())


def read_change(record: Record, dimensions: Dimensions) -> Claim | Delta | SourceOrder:
    """The change in a record of the deltas topic, with statistics of such dimensions. Raises :class:`WireError`."""
    if isinstance(record.decoded, Delta):
        return record.decoded
    return read_claim_or_delta(record.value, dimensions)


def read_published_model(record: Record) -> Model:
    """The model in a record of the models topic. Raises :class:`WireError`."""
    return record.decoded if isinstance(record.decoded, Model) else read_model(record.value)


def read_published_samples(record: Record, definition: StreamDefinition) -> Samples:
    """The rows in a record of the samples topic. Raises :class:`WireError` and :class:`DefinitionMismatch`."""
    if isinstance(record.decoded, Samples):
        return record.decoded.at(record.offset, record.log_time)
    features, fingerprint = len(definition.features), definition.data_fingerprint
    return read_samples(record.value, features, fingerprint, record.offset, record.log_time, columns=definition.columns)


def source_key(source: Source) -> bytes:
    """The key of deltas, claims, orders and checkpoints of one source."""
    return str(source).encode()


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


def dead_letter(record: Record, kind: str, reason: str, limit_bytes: int, row: int | None = None) -> Outgoing:
    """The dead letter of a record, or of one ``row`` of it; it repeats ``limit_bytes`` of key and value at most."""
    letter = _letter(record, kind, shortened(reason), limit_bytes, row)
    key = origin_key(record.topic, record.partition, record.offset, row)
    headers = () if row is not None else record.headers
    if _size(headers) > limits.LETTER_HEADER_BYTES:
        headers = ((UNREADABLE, None),)
    return Outgoing(DEAD_LETTERS, record.partition, key, write_dead_letter(letter), letter, headers)


def _size(headers: Headers) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)


def _letter(record: Record, kind: str, reason: str, limit_bytes: int, row: int | None = None) -> DeadLetter:
    return DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        row=row,
        kind=kind,
        reason=reason,
        key=None if record.key is None else record.key[:limit_bytes],
        value=None if record.value is None else record.value[:limit_bytes],
        size=len(record.value or b""),
    )


def shortened(reason: str) -> str:
    """A reason, cut off if it is longer than :data:`limits.REASON_CHARACTERS`."""
    return reason if len(reason) <= limits.REASON_CHARACTERS else f"{reason[: limits.REASON_CHARACTERS]}…"


def _cut(text: str, most_bytes: int) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= most_bytes else data[: most_bytes - 3].decode("utf-8", "ignore") + "…"


def refused_rows(record: Record, refusals: Sequence[Refusal], when: str = "") -> list[Outgoing]:
    """The dead letters of the refused rows of one record, in order.

    The first :data:`limits.LETTER_ROWS` rows have a letter each, and one more letter counts the others: a batch of a
    few megabytes may have 100,000 rows. Rows that are refused in a later step of the work have another ``when``, which
    goes into the key of that letter. The record alone decides which rows are refused in which step, however the log is
    read.
    """
    first, others = refusals[: limits.LETTER_ROWS], Counter(one.kind for one in refusals[limits.LETTER_ROWS :])
    letters = [_refused_row(record, refusal) for refusal in first]
    if not others:
        return letters
    listed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(others.items()))
    reason = f"{others.total():,} more rows of this batch: {listed}; the first {len(first):,} have a letter each"
    letter = replace(_letter(record, MORE_ROWS, reason, limits.ROW_BYTES), rest=dict(others))
    key = origin_key(record.topic, record.partition, record.offset) + f"-more{when}".encode()
    return [*letters, Outgoing(DEAD_LETTERS, record.partition, key, write_dead_letter(letter), letter)]


def _refused_row(record: Record, refusal: Refusal) -> Outgoing:
    """The dead letter of one refused row of a record, which takes less than a kilobyte."""
    # A long id is cut off, so that the reason behind it fits.
    sample_id = refusal.id if len(refusal.id) <= SHOWN_ID else f"{refusal.id[:SHOWN_ID]}…"
    reason = _cut(f"sample {sample_id!r}: {refusal.reason}", limits.ROW_REASON_BYTES)
    return dead_letter(record, refusal.kind, reason, limits.ROW_BYTES, refusal.row)


def shared_letter(last: Record, where: str, kinds: Mapping[str, int]) -> Outgoing:
    """The dead letter for all that was refused of a log, up to ``last``, and has no letter of its own.

    ``where`` names the log, and ``kinds`` leads from kind to number.
    """
    listed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    reason = (
        f"{sum(kinds.values()):,} more, up to this record: {listed}; more than {limits.LETTER_ROWS:,} came at once, and"
        " only so many have a letter each, and one more a second"
    )
    letter = replace(_letter(last, MORE_RECORDS, reason, limits.ROW_BYTES), rest=dict(kinds))
    key = f"{where.replace(' ', '-')}-{last.partition}-more".encode()
    return Outgoing(DEAD_LETTERS, last.partition, key, write_dead_letter(letter), letter)
