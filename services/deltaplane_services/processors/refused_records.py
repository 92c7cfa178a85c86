"""The dead letters of records that cannot be used, and of rows within them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from deltaplane import limits
from deltaplane.log.records import DeadLetter
from deltaplane.stream.sample import Refusal
from deltaplane_services.processors.codec import outgoing
from deltaplane_services.processors.messages import UNREADABLE, Headers, Outgoing, Record, origin_key
from deltaplane_services.processors.topics import DEAD_LETTERS

__all__ = [
    "MORE_RECORDS",
    "MORE_ROWS",
    "SHOWN_ID",
    "dead_letter",
    "refused_rows",
    "shared_letter",
    "shortened",
]

SHOWN_ID = 40
"""The most characters of an id that the reason of a refused row repeats."""

MORE_ROWS = "more rows"
"""The kind of a dead letter for several rows of a batch."""

MORE_RECORDS = "more records"
"""The kind of the dead letter for all that has none of its own; it is written again whenever its count grows."""


def dead_letter(record: Record, kind: str, reason: str, limit_bytes: int, row: int | None = None) -> Outgoing:
    """The dead letter of a record, or of one ``row`` of it; it repeats ``limit_bytes`` of key and value at most."""
    letter = _letter(record, kind, shortened(reason), limit_bytes, row)
    key = origin_key(record.topic, record.partition, record.offset, row)
    headers = () if row is not None else record.headers
    if _size(headers) > limits.LETTER_HEADER_BYTES:
        headers = ((UNREADABLE, None),)
    return outgoing(DEAD_LETTERS, record.partition, key, letter, headers)


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
    return [*letters, outgoing(DEAD_LETTERS, record.partition, key, letter)]


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
    return outgoing(DEAD_LETTERS, last.partition, key, letter)
