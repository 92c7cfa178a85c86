"""The intake of a worker: records are decoded and admitted, and what is refused becomes a dead letter and a count.

Messages of single samples are gathered and decoded together, batches one by one. Then all rows of a step are admitted
as one batch, in the order of the log.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane import limits
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.event_times import look_like_seconds
from deltaplane.stream.sample import (
    WRONG_PARTITION,
    AdmittedSamples,
    Refusal,
    Retirement,
    Samples,
    admit,
    misplaced,
    refused_for_its_place,
    why_misplaced,
)
from deltaplane_services.processors.announced import OtherDefinitions
from deltaplane_services.processors.codec import Codec, Undecodable, codec_of
from deltaplane_services.processors.letters import LetterBudget, Refused
from deltaplane_services.processors.messages import (
    RETIREMENTS,
    SAMPLES,
    Outgoing,
    Record,
)
from deltaplane_services.processors.refused_records import dead_letter, refused_rows

__all__ = ["NO_ROWS", "Batch", "EventClock", "Intake", "refused_rows_of"]

NO_ROWS = "no rows kept"
"""The kind of a retirement on a stream that keeps no rows; its receipt says ``unknown``."""

_WHY_NOT = (
    "the stream keeps no rows (window.keep_rows = false), so none can be taken out; if rows must be unlearned,"
    " declare keep_rows = true under another stream name"
)


@dataclass
class Batch:
    """The decoded input of one step, and what was refused of it."""

    samples: AdmittedSamples
    retirements: list[Retirement]
    letters: list[Outgoing]
    counts: Counter[str]


@dataclass
class EventClock:
    """A comparison of the event times of a source with the times of its log; it is shown, and decides nothing.

    ``newest`` is the largest event time admitted, and ``log_time`` is when the newest record with samples was appended.
    Both are in milliseconds, and None before there is one. ``like_seconds`` counts rows whose event times look like
    seconds since the epoch.
    """

    newest: int | None = None
    log_time: int | None = None
    like_seconds: int = 0

    @property
    def ahead_milliseconds(self) -> int | None:
        """How far the newest event time is ahead of the log, negative if it is behind; None before there is a row."""
        return None if self.newest is None or self.log_time is None else self.newest - self.log_time


class Intake:
    """Admits the messages in the records of one source, which lie in ``partition``; ``codec`` reads them.

    ``labels`` are those that it has admitted so far, in order, if classes are open. ``rounding_error`` float64[d] is
    the largest distance so far between an admitted value and the grid, in the features' own units. ``budget`` decides
    which refused records get dead letters of their own.
    """

    def __init__(self, definition: StreamDefinition, partition: int, codec: Codec | None = None) -> None:
        self.definition = definition
        self.partition = partition
        self.labels: dict[str, None] = {}
        self.budget = LetterBudget()
        self.rounding_error = np.zeros(len(definition.features))
        self.clock = EventClock()
        self._others = OtherDefinitions(definition)
        self._codec = codec or codec_of(definition)

    def take(self, samples: Sequence[Record], retirements: Sequence[Record]) -> Batch:
        """The admitted samples and retirements of some records, with dead letters and counts of all that is refused."""
        counts: Counter[str] = Counter()
        refused: list[Refused] = []
        parts = self._decoded(samples, refused, counts)
        rows = _joined(parts, len(self.definition.features))
        admitted, refusals = admit(rows, self.definition, self.labels, partition=self.partition)
        self._look_at_the_clock(rows, admitted)
        self.labels.update(dict.fromkeys(admitted.new_labels))
        counts.update(f"refused {refusal.kind}" for refusal in refusals)
        letters = self.budget.letters(SAMPLES, [*refused, *refused_rows_of(samples, refusals)], counts)
        if admitted.missing:
            counts["values filled in"] += admitted.missing
        self.rounding_error = np.maximum(self.rounding_error, admitted.rounding)
        refused = []
        asked = self._asked(retirements, refused, counts)
        letters += self.budget.letters(RETIREMENTS, refused, counts)
        self._count_misplaced(admitted.ids, SAMPLES, counts)
        self._count_misplaced([retirement.id for retirement in asked], RETIREMENTS, counts)
        return Batch(admitted, asked, letters, counts)

    def _asked(self, records: Sequence[Record], refused: list[Refused], counts: Counter[str]) -> list[Retirement]:
        """The retirements in some records, in order.

        A retirement in another partition than its id's is refused: its row, if there is one, is in that partition.
        """
        definition, asked = self.definition, []
        for record in records:
            one = self._codec.retirement(record)
            if isinstance(one, Undecodable):
                refused.append(self._undecoded(one, counts))
                continue
            if refused_for_its_place(one.id, self.partition, definition):
                reason = f"retirement of {one.id!r}: {why_misplaced(one.id, self.partition, definition)}"
                refused.append(_refused(record, WRONG_PARTITION, reason, counts))
            else:
                asked.append(one)
                if not definition.nested_windows.keep_rows:
                    refused.append(_refused(record, NO_ROWS, f"retirement of {one.id!r}: {_WHY_NOT}", counts))
        return asked

    def _count_misplaced(self, ids: Sequence[str], topic: str, counts: Counter[str]) -> None:
        """Count the ids that are in another partition than theirs, if the definition is too old to refuse them."""
        if ids and self.definition.partitions > 1 and not self.definition.checks_places:
            wrong = int(np.count_nonzero(misplaced(ids, self.partition, self.definition)))
            if wrong:
                counts[f"{topic} misplaced"] += wrong

    def _look_at_the_clock(self, rows: Samples, admitted: AdmittedSamples) -> None:
        clock = self.clock
        if len(rows):
            clock.log_time = int(rows.log_times[-1])
            # Rows are checked one by one only if the oldest is from so long ago, which is rare.
            if self.definition.nested_windows.timed and int(rows.event_times.min()) < limits.PLAUSIBLE_AGE_MILLISECONDS:
                clock.like_seconds += int(np.count_nonzero(look_like_seconds(rows.event_times, rows.log_times)))
        if len(admitted):
            newest = int(admitted.event_times.max())
            clock.newest = newest if clock.newest is None else max(clock.newest, newest)

    def _decoded(self, records: Sequence[Record], refused: list[Refused], counts: Counter[str]) -> list[Samples]:
        """The rows of records of samples, in order; ``refused`` and ``counts`` get what cannot be decoded."""
        parts = list[Samples]()
        for one in self._codec.samples(records):
            if isinstance(one, Undecodable):
                refused.append(self._undecoded(one, counts))
            else:
                parts.append(one)
        return parts

    def _undecoded(self, one: Undecodable, counts: Counter[str]) -> Refused:
        kind, reason = self._others.kind_and_reason(one.record, one.fault)
        return _refused(one.record, kind, reason, counts)


def _refused(record: Record, kind: str, reason: str, counts: Counter[str]) -> Refused:
    counts[f"refused {kind}"] += 1
    return Refused(record, {kind: 1}, lambda: [dead_letter(record, kind, reason, limits.DEAD_LETTER_BYTES)])


def refused_rows_of(records: Sequence[Record], refusals: Sequence[Refusal], when: str = "") -> list[Refused]:
    """The refused rows of some records, grouped by record; for ``when`` see :func:`refused_rows`."""
    if not refusals:
        return []
    record_at = {record.offset: record for record in records}
    by_record = itertools.groupby(refusals, lambda refusal: refusal.offset)
    return [_rows_of(record_at[offset], list(ours), when) for offset, ours in by_record]


def _rows_of(record: Record, refusals: Sequence[Refusal], when: str) -> Refused:
    return Refused(record, Counter(one.kind for one in refusals), lambda: refused_rows(record, refusals, when))


def _joined(parts: Sequence[Samples], features: int) -> Samples:
    """The rows of several decoded messages as one batch, in order; empty, of d = ``features``, if there are none."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        empty = np.zeros(0, dtype=np.int64)
        return Samples([], empty, (), empty.astype(np.int32), np.zeros((0, features)), empty, empty, empty)
    table = tuple(dict.fromkeys(label for part in parts for label in part.label_table))
    place = {label: code for code, label in enumerate(table)}
    begins = itertools.accumulate(map(len, parts), initial=0)
    unread = {at + row: why for part, at in zip(parts, begins, strict=False) for row, why in part.unread.items()}
    codes = [np.array([place[label] for label in part.label_table], dtype=np.int32)[part.label_codes] for part in parts]
    return Samples(
        ids=[sample_id for part in parts for sample_id in part.ids],
        event_times=np.concatenate([part.event_times for part in parts]),
        label_table=table,
        label_codes=np.concatenate(codes),
        features=np.concatenate([part.features for part in parts]),
        offsets=np.concatenate([part.offsets for part in parts]),
        rows=np.concatenate([part.rows for part in parts]),
        log_times=np.concatenate([part.log_times for part in parts]),
        unread=unread,
    )
