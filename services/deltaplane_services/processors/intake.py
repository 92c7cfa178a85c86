"""What a worker takes in: records decoded and admitted; what is refused becomes a dead letter and a count.

Messages of single samples are gathered and read by position, batches one by one; all rows of a step are then admitted
as one batch, in the order of the log.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane import limits
from deltaplane.errors import DefinitionMismatch, WireError
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
from deltaplane.wire import NamedSamples, read_retirement, single_samples
from deltaplane_services.processors.announced import OtherDefinitions
from deltaplane_services.processors.letters import LetterBudget, Refused
from deltaplane_services.processors.messages import (
    RETIREMENTS,
    SAMPLES,
    Outgoing,
    Record,
    dead_letter,
    read_published_samples,
    refused_rows,
)

__all__ = ["NO_ROWS", "Batch", "EventClock", "Intake", "refused_rows_of"]

NO_ROWS = "no rows kept"
"""The kind of a retirement that cannot be, since the stream keeps no rows. It is answered, too: ``unknown``."""

_WHY_NOT = (
    "the stream keeps no rows (window.keep_rows = false), so none can be taken out; where rows must be unlearned,"
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
    """How the event times of a source compare with the log: what is observed, and decides nothing.

    ``newest``: the largest event time admitted, ``log_time``: when the newest record with samples was appended, both in
    milliseconds and None before there is one. ``like_seconds``: rows whose times look like seconds since the epoch.
    """

    newest: int | None = None
    log_time: int | None = None
    like_seconds: int = 0

    @property
    def ahead_milliseconds(self) -> int | None:
        """How far the newest event time is ahead of the log; negative where it is behind, None before there is one."""
        return None if self.newest is None or self.log_time is None else self.newest - self.log_time


class Intake:
    """The gate of one source, whose records lie in ``partition``.

    ``labels``: where classes are open, those that it has admitted, in order. ``rounding_error`` float64[d]: the largest
    distance between admitted values and the grid so far. ``budget`` gives out its dead letters.
    """

    def __init__(self, definition: StreamDefinition, partition: int) -> None:
        self.definition = definition
        self.partition = partition
        self.labels: dict[str, None] = {}
        self.budget = LetterBudget()
        self.rounding_error = np.zeros(len(definition.features))
        self.clock = EventClock()
        self._others = OtherDefinitions(definition)
        self._singles = single_samples(len(definition.features), definition.data_fingerprint)
        self._named = NamedSamples(definition.columns, definition.data_fingerprint)

    def take(self, samples: Sequence[Record], retirements: Sequence[Record]) -> Batch:
        """Decode and admit; everything that is refused becomes a dead letter and a count, and nothing else is lost."""
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
        """The retirements of records, in order. One that lies wrong never acts: its row, if any, is elsewhere."""
        definition, asked = self.definition, []
        for record in records:
            try:
                one = read_retirement(
                    record.value, len(definition.features), definition.data_fingerprint, record.offset
                )
            except (WireError, DefinitionMismatch) as fault:
                refused.append(self._undecoded(record, fault, counts))
                continue
            if refused_for_its_place(one.id, self.partition, definition):
                reason = f"retirement of {one.id!r}: {why_misplaced(one.id, self.partition, definition)}"
                refused.append(_refused(record, WRONG_PARTITION, reason, counts))
            else:
                asked.append(one)
                if not definition.ladder.keep_rows:
                    refused.append(_refused(record, NO_ROWS, f"retirement of {one.id!r}: {_WHY_NOT}", counts))
        return asked

    def _count_misplaced(self, ids: Sequence[str], topic: str, counts: Counter[str]) -> None:
        """Count what was taken in although it lies wrong, in a stream that was begun before places were checked."""
        if ids and self.definition.partitions > 1 and not self.definition.checks_places:
            wrong = int(np.count_nonzero(misplaced(ids, self.partition, self.definition)))
            if wrong:
                counts[f"{topic} misplaced"] += wrong

    def _look_at_the_clock(self, rows: Samples, admitted: AdmittedSamples) -> None:
        clock = self.clock
        if len(rows):
            clock.log_time = int(rows.log_times[-1])
            # Asked row by row only where a row may be meant: most batches have none of so long ago.
            if self.definition.ladder.timed and int(rows.event_times.min()) < limits.PLAUSIBLE_AGE_MILLISECONDS:
                clock.like_seconds += int(np.count_nonzero(look_like_seconds(rows.event_times, rows.log_times)))
        if len(admitted):
            newest = int(admitted.event_times.max())
            clock.newest = newest if clock.newest is None else max(clock.newest, newest)

    def _decoded(self, records: Sequence[Record], refused: list[Refused], counts: Counter[str]) -> list[Samples]:
        """The rows of records of samples, in order."""
        singles, named, parts = self._singles, self._named, list[Samples]()
        by_name = self.definition.columns is not None
        for record in records:
            # Single samples wait for others of their form; of the two forms never both wait.
            if record.meaning is None and singles.take(record.value, record.offset, record.log_time):
                if by_name and len(named):
                    parts.append(named.samples())
                continue
            if len(singles):
                parts.append(singles.samples())
            try:
                if record.meaning is None and named.take(record.value, record.offset, record.log_time):
                    continue
                if len(named):
                    parts.append(named.samples())
                parts.append(read_published_samples(record, self.definition))
            except (WireError, DefinitionMismatch) as fault:
                refused.append(self._undecoded(record, fault, counts))
        parts.extend(one.samples() for one in (singles, named) if len(one))
        return parts

    def _undecoded(self, record: Record, fault: WireError | DefinitionMismatch, counts: Counter[str]) -> Refused:
        kind, reason = self._others.kind_and_reason(record, fault)
        return _refused(record, kind, reason, counts)


def _refused(record: Record, kind: str, reason: str, counts: Counter[str]) -> Refused:
    counts[f"refused {kind}"] += 1
    return Refused(record, {kind: 1}, lambda: [dead_letter(record, kind, reason, limits.DEAD_LETTER_BYTES)])


def refused_rows_of(records: Sequence[Record], refusals: Sequence[Refusal], when: str = "") -> list[Refused]:
    """Refused rows, by the record that brought them; ``when``: see :func:`refused_rows`."""
    if not refusals:
        return []
    record_at = {record.offset: record for record in records}
    by_record = itertools.groupby(refusals, lambda refusal: refusal.offset)
    return [_rows_of(record_at[offset], list(ours), when) for offset, ours in by_record]


def _rows_of(record: Record, refusals: Sequence[Refusal], when: str) -> Refused:
    return Refused(record, Counter(one.kind for one in refusals), lambda: refused_rows(record, refusals, when))


def _joined(parts: Sequence[Samples], features: int) -> Samples:
    """Several decoded messages as one batch, in order."""
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
