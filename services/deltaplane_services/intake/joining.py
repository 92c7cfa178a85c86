"""The intake as a processor: items of users' topics in, samples, retirements and dead letters of a partition out.

What is known of an id is the newest of its events and the newest of its labels. Which is the newest follows from the
records alone: the time of their log, their partition, their offset. So the state after reading to some positions is one
state, in whatever order, and however often, the logs were read. What must have been sent follows from the state:

- an event with a label is a sample;
- an event whose silence has lasted to the clock is a sample with the label that silence means;
- an event that is gone is a retirement.

A label that comes later, or is another one, gives the sample again, under its id, and that replaces it. The clock is
the largest log time up to the positions: nobody's clock is asked.

Samples are sent at least once, and as samples are a set by id, that is exact. The last record of each step says how far
its writer had come. Whoever goes on from there first reads to these positions without sending anything.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_by_name
from deltaplane.stream.sample import Retirement, Samples
from deltaplane_services.definition_file.intake_table import IntakeDefinition
from deltaplane_services.intake.positions import Sent, sent_by
from deltaplane_services.intake.reading import Item, Place, ReadRecords
from deltaplane_services.intake.row_cells import RowColumns, from_texts
from deltaplane_services.intake.waiting_rows import WaitingRow, WaitingRows, counted
from deltaplane_services.processors.codec import Undecodable, codec_of
from deltaplane_services.processors.letters import LetterBudget
from deltaplane_services.processors.messages import Outgoing, Output, Record
from deltaplane_services.readers import codes_of

__all__ = ["MESSAGE_BYTES", "MESSAGE_ROWS", "REASON", "IntakeProcessor"]

MESSAGE_ROWS = 500
"""Rows of one message of samples, and rows whose silence is judged at once."""

MESSAGE_BYTES = 2**20
"""Bytes of the cells of one message, as JSON text: what a single record may have, so that a message of one row fits."""

REASON = "deleted at its source"
"""The reason of retirements."""

_SELDOM = 10
"""Where no more than one of so many ids is known, rows are written before it is asked which ids are."""

_row: Callable[[Any], WaitingRow] = partial(tuple.__new__, WaitingRow)
"""The row of its values, as ``WaitingRow._make`` is, without a call of Python's for each."""

_Changed: TypeAlias = tuple[WaitingRow, str | None]
"""A row, and the label that its sample is to be sent with; None for a retirement."""


class IntakeProcessor:
    """The intake of one partition of samples, of which ``rows`` is the store.

    ``writer`` is a name that no other process has. ``counts`` are those of events, labels and deletions that came, of
    samples and retirements that were sent, and of samples by silence, since this processor began.
    """

    def __init__(
        self, definition: StreamDefinition, intake: IntakeDefinition, partition: int, rows: WaitingRows, writer: str
    ) -> None:
        self.partition = partition
        self.writer = writer
        self.counts: Counter[str] = Counter()
        self._definition = definition
        self._intake = intake
        self._rows = rows
        self._codec = codec_of(definition)
        self._columns = RowColumns(definition, [name for name, _ in intake.fields])
        self._sent: Mapping[Place, int] = {}
        self._letters = LetterBudget()
        # Whether hardly any id of the last step was known.
        self._mostly_new = True
        self._after = None if intake.labels is None else intake.labels.after_milliseconds
        self._otherwise = None if intake.labels is None else intake.labels.otherwise
        # Of the step at hand: whether it only rebuilds, and for each log the offsets and times of what is taken.
        self._silently = False
        self._times: dict[Place, tuple[Int64s, Int64s]] = {}

    # Positions -------------------------------------------------------------------------------------------------------

    def restore(self, sent: Mapping[Place, int], begins: Mapping[Place, int]) -> None:
        """Go on from where the last record of an intake says that all was ``sent``.

        ``begins``: the first offset that each log still has, as :meth:`know` takes it.
        """
        self._sent = dict(sent)
        self.know(begins)

    def know(self, begins: Mapping[Place, int]) -> None:
        """Read logs that are not known yet from these offsets on."""
        for place, begin in begins.items():
            self._rows.facts.positions.setdefault(place, begin)

    def skip_to(self, place: Place, offset: int) -> None:
        """Pass over the records of a log before an offset: they are gone."""
        self._rows.facts.positions[place] = offset

    @property
    def rebuilding(self) -> bool:
        """Whether it still reads what was sent before, and sends nothing."""
        return any(self.position(place) < offset for place, offset in self._sent.items())

    def position(self, place: Place) -> int:
        """The offset of a log from which this partition needs its records."""
        return self._rows.facts.positions.get(place, 0)

    @property
    def positions(self) -> Mapping[Place, int]:
        """The offset of each log from which this partition needs its records."""
        return self._rows.facts.positions

    @property
    def clock(self) -> int:
        """The largest log time up to the positions, in milliseconds; 0 before there is any."""
        return max(self._rows.facts.latest.values(), default=0)

    @property
    def held(self) -> Mapping[str, int]:
        """The numbers of events that wait (``waiting``), of labels without events (``labels``), and of all rows."""
        return counted(self._rows.facts)

    # Steps -----------------------------------------------------------------------------------------------------------

    def process(self, read: ReadRecords) -> Iterator[Output]:
        """What is to be published of the next records of some logs; then :meth:`commit` writes the new state.

        Records before its positions are passed over. While it rebuilds, so are those behind the place up to which it
        does; they have to come again.
        """
        bounds = self._advance(read)
        if not bounds:
            return
        items, log_times = self._taken(read)
        letters = self._refused(read, bounds)
        written, known = self._written(items, log_times)
        self._count(known.values(), -1)
        self._count(written, 1)
        changed: list[_Changed] = [(row, label) for row in written if (label := self._label_of(row)) is not None]
        changed += [(row, None) for row in written if row.gone]
        if known:
            changed = [one for one in changed if self._says_more(*one, known.get(one[0].id))]
        if self._intake.queries and not self._silently:
            before = {row.id: row.cells for row in known.values()}
            asked = [row for row in written if row.cells not in (None, before.get(row.id))]
            yield from self._questions(asked)
        yield from self._published(changed, letters)

    def _published(self, changed: Sequence[_Changed], letters: list[Outgoing]) -> Iterator[Output]:
        """The output of a step: what has changed, and all events whose silence has lasted; the last says how far."""
        while True:
            woken = self._rows.waking(self.clock, MESSAGE_ROWS)
            last = not woken
            if not self._silently:
                yield from self._messages(changed, letters, last=last)
            if last:
                return
            changed, letters = [(row, self._label_of(row)) for row in self._woken(woken)], []

    def commit(self) -> None:
        """Write the state for good, once all of the output was acknowledged."""
        self._rows.commit()

    def close(self) -> None:
        """Close the store; what was not committed is gone."""
        self._rows.close()

    def again(self, record: Record) -> Iterator[Output]:
        """What is to be sent again, since another writer has sent ``record`` after this one had begun.

        That writer did not know that it had lost the partition, and what it sent may be older. To be called once this
        one has been rebuilt.
        """
        sent = sent_by(record.headers)
        if sent is None or sent.writer == self.writer:
            return
        samples = self._codec.rows(record)
        if isinstance(samples, Undecodable):
            return
        rows = [(row, self._label_of(row)) for row in self._rows.get(samples.ids).values()]
        yield from self._messages([(row, label) for row, label in rows if label or row.gone], [], last=True)

    # What came -------------------------------------------------------------------------------------------------------

    def _advance(self, read: ReadRecords) -> dict[Place, tuple[int, int]]:
        """For each log the offsets, from and before, of the records that are taken; positions go on behind them."""
        facts, bounds = self._rows.facts, dict[Place, tuple[int, int]]()
        self._silently, self._times = self.rebuilding, {}
        for place, offsets in read.offsets.items():
            start, stop = self.position(place), int(offsets[-1]) + 1
            if self._silently:
                stop = min(stop, self._sent.get(place, start))
            if stop <= start:
                continue
            first, behind = np.searchsorted(offsets, (start, stop)).tolist()
            bounds[place] = start, stop
            facts.positions[place] = stop
            if first < behind:
                latest = facts.latest.get(place, 0)
                times = np.maximum.accumulate(np.maximum(read.log_times[place][first:behind], latest))
                self._times[place] = offsets[first:behind], times
                facts.latest[place] = int(times[-1])
        return bounds

    def _taken(self, read: ReadRecords) -> tuple[list[Item], list[int]]:
        """The items of this partition within the bounds of the step, and the log time of each."""
        items, log_times = [], []
        times = {place: dict(zip(*map(np.ndarray.tolist, of), strict=True)) for place, of in self._times.items()}
        nothing: dict[int, int] = {}
        for at in np.flatnonzero(read.homes == self.partition).tolist():
            item = read.items[at]
            # What lies outside of the bounds has no time here.
            log_time = times.get(item.place, nothing).get(item.offset)
            if log_time is not None:
                items.append(item)
                log_times.append(log_time)
        if not self._silently:
            self.counts.update("labels" if one.of_label else "deletions" if one.gone else "events" for one in items)
        return items, log_times

    def _refused(self, read: ReadRecords, bounds: Mapping[Place, tuple[int, int]]) -> list[Outgoing]:
        """The dead letters of the logs that are this partition's to complain about: those with its number."""
        mine = []
        for one in read.refused:
            start, stop = bounds.get((one.record.topic, one.record.partition), (0, 0))
            home = one.record.partition % self._definition.partitions
            if home == self.partition and start <= one.record.offset < stop:
                mine.append(one)
        counts: Counter[str] = Counter()
        letters = []
        # Each log has a limit of its own, since its time is.
        for topic, number in dict.fromkeys((one.record.topic, one.record.partition) for one in mine):
            of_log = [one for one in mine if (one.record.topic, one.record.partition) == (topic, number)]
            letters += self._letters.letters(f"{topic} {number}", of_log, counts)
        self.counts.update(refused=len(mine) if not self._silently else 0)
        return [letter._replace(partition=self.partition) for letter in letters]

    def _written(
        self, items: Sequence[Item], log_times: Sequence[int]
    ) -> tuple[Sequence[WaitingRow], Mapping[str, WaitingRow]]:
        """(the rows of these items, which the store has now, those of them that it had before by id)."""
        clock, known = self.clock, None
        fresh = self._fresh(items, log_times, clock) if self._mostly_new else None
        if fresh is not None:
            known = self._rows.put_new(fresh)
            if not known:
                return fresh, known
        if known is None:
            known = self._rows.get({item.id for item in items})
        now: dict[str, WaitingRow] = dict(known)
        for item, log_time in zip(items, log_times, strict=True):
            now[item.id] = self._apply(now.get(item.id), item, log_time)
        written = [self._judge(row, clock) for row in now.values()]
        self._rows.put(written if fresh is None else [row for row in written if row.id in known])
        self._mostly_new = len(known) * _SELDOM <= len(now)
        return written, known

    def _fresh(self, items: Sequence[Item], log_times: Sequence[int], clock: int) -> list[WaitingRow] | None:
        """The rows of items whose ids are taken for new ones, as of each by itself; None if they are not all events."""
        if not items:
            return None
        places, offsets, ids, cells, times, labels, gone, of_label = zip(*items, strict=True)
        if True in of_label or True in gone or len(set(ids)) < len(ids):
            return None
        partitions, zeros, nothing = [place[1] for place in places], itertools.repeat(0), itertools.repeat(None)
        due = nothing if self._after is None else [time + self._after for time in times]
        version = log_times, partitions, offsets
        of_labels = (labels, *version) if self._intake.labels is None else (labels, nothing, nothing, nothing)
        columns = zip(ids, cells, times, zeros, zeros, due, *version, *of_labels, nothing)  # noqa: B905 - some have no end.
        rows = map(_row, columns)
        if self._intake.labels is None and self._intake.keep_milliseconds is None:
            return list(rows)
        return [self._judge(row, clock) for row in rows]

    def _apply(self, row: WaitingRow | None, item: Item, log_time: int) -> WaitingRow:
        """The row with what an item says, if that is newer than what the row has."""
        version = log_time, item.place[1], item.offset
        if row is None:
            if not item.of_label and not item.gone:
                # Most are new, and there is nothing to compare.
                due = None if self._after is None else item.time + self._after
                row = WaitingRow(item.id, item.cells, item.time, 0, 0, due, *version)
                return row if self._intake.labels else WaitingRow._make((*row[:9], item.label, *version, None))
            row = WaitingRow(item.id)
        if item.of_label:
            if row.label_time is not None and version <= (row.label_time, row.label_partition, row.label_offset):
                return row
            return WaitingRow._make((*row[:9], item.label, *version, row.wake))
        due = row.due
        if not item.gone and self._after is not None:
            due = item.time + self._after if due is None else min(due, item.time + self._after)
        if row.event_time is not None and version <= (row.event_time, row.event_partition, row.event_offset):
            return row if due == row.due else row._replace(due=due)
        of_label = (item.label, *version) if self._intake.labels is None else row[9:13]
        event = item.id, item.cells, item.time, int(item.gone), row.silent, due
        return WaitingRow._make((*event, *version, *of_label, None))

    def _judge(self, row: WaitingRow, clock: int) -> WaitingRow:
        """The row with whether silence is its label by now, and when to look at it again."""
        silent = row.silent
        waits = row.cells is not None and row.label is None and not silent
        if waits and row.due is not None and row.due <= clock:
            silent, waits = 1, False
        keep = self._intake.keep_milliseconds
        if waits and row.due is not None:
            wake: int | None = row.due
        elif keep is None:
            wake = None
        elif row.cells is not None:
            wake = row.time + keep
        else:
            wake = max(one for one in (row.event_time, row.label_time) if one is not None) + keep
        if silent == row.silent and wake == row.wake:
            return row
        return WaitingRow._make((*row[:4], silent, *row[5:13], wake))

    def _woken(self, woken: Sequence[WaitingRow]) -> list[WaitingRow]:
        """The rows that silence gives a label now; others whose time has come are forgotten."""
        clock = self.clock
        waited = [row for row in woken if row.waits and row.due is not None and row.due <= clock]
        known = {row.id for row in waited}
        forgotten = [row for row in woken if row.id not in known]
        silent = [self._judge(row, clock) for row in waited]
        self._count(woken, -1)
        self._count(silent, 1)
        self.counts.update("labels forgotten" if row.is_label else "events forgotten" for row in forgotten)
        self._rows.silence(silent)
        self._rows.delete([row.id for row in forgotten])
        return silent

    def _count(self, rows: Collection[WaitingRow], by: int) -> None:
        counts = self._rows.facts.counts
        for name, number in (
            ("rows", len(rows)),
            ("waiting", sum([row.label is None and row.waits for row in rows])),
            ("labels", sum([row.event_time is None and row.is_label for row in rows])),
        ):
            counts[name] = counts.get(name, 0) + by * number

    # What is sent ----------------------------------------------------------------------------------------------------

    def _label_of(self, row: WaitingRow) -> str | None:
        """The label that a row must have been sent with as a sample; None if it must not have been yet."""
        if row.cells is None:
            return None
        return row.label if row.label is not None or not row.silent else self._otherwise

    def _says_more(self, row: WaitingRow, label: str | None, before: WaitingRow | None) -> bool:
        """Whether what is to be sent of a row, a sample or a retirement, is not what must have been sent before."""
        if before is None or label is None or before.gone:
            return before is None or row.gone != before.gone
        return (label, row.time, row.cells) != (self._label_of(before), before.time, before.cells)

    def _messages(self, wanted: Sequence[_Changed], letters: list[Outgoing], *, last: bool) -> Iterator[Output]:
        samples = [(row, label) for row, label in wanted if label is not None]
        asked = [Retirement(row.id, REASON, 0, time=row.event_time) for row, label in wanted if label is None]
        first = letters + [self._codec.retirement_of(self.partition, one) for one in asked]
        self.counts["retirements"] += len(asked)
        self.counts["samples"] += len(samples)
        self.counts["silent"] += sum([row.silent and row.label is None for row, _ in samples])
        parts = list(_in_parts(samples, min(MESSAGE_ROWS, self._codec.most_rows)))
        for number, part in enumerate(parts, start=1):
            sent = Sent(self.writer, dict(self.positions) if last and number == len(parts) else None)
            yield Output(tuple(first), (self._batch(part)._replace(headers=sent.headers()),))
            first = []
        if first:
            yield Output(tuple(first))

    def _questions(self, rows: Sequence[WaitingRow]) -> Iterator[Output]:
        """The queries of events that are new or have changed, each under the id of its event."""
        if not rows:
            return
        cells = from_texts([row.cells for row in rows if row.cells is not None])
        asked: Iterable[Any]
        if self._definition.columns is not None:
            names = [name for name, _ in self._intake.fields]
            asked = (dict(zip(names, of, strict=True)) for of in cells)
        else:
            asked, _ = features_by_name(self._definition, self._columns.table(zip(*cells, strict=True)))
        queries = tuple(self._codec.query_of(row.id, of) for row, of in zip(rows, asked, strict=True))
        self.counts["queries"] += len(queries)
        yield Output((), queries)

    def _batch(self, samples: Sequence[tuple[WaitingRow, str]]) -> Outgoing:
        """The record of some rows, no more than fit one."""
        table = self._columns.table(zip(*from_texts([row.cells for row, _ in samples if row.cells]), strict=True))
        labels, codes = codes_of([label for _, label in samples])
        times = np.array([row.time for row, _ in samples], dtype=np.int64)
        ids = [row.id for row, _ in samples]
        if self._definition.columns is not None:
            rows = Samples.of_record(ids, times, labels, codes, np.zeros((len(ids), 0)))
            return next(self._codec.named_batches(self.partition, rows, table, np.arange(len(ids))))
        features, _ = features_by_name(self._definition, table)
        made = Samples.of_record(ids, times, labels, codes, features)
        return self._codec.sample_batch(self.partition, made).encoded


def _in_parts(samples: Sequence[tuple[WaitingRow, str]], most: int) -> Iterator[Sequence[tuple[WaitingRow, str]]]:
    """The samples of each message, in order: at most so many, and not more than :data:`MESSAGE_BYTES` but for one."""
    start = size = 0
    for at, (row, _) in enumerate(samples):
        length = len(row.cells or "")
        if at > start and (at - start >= most or size + length > MESSAGE_BYTES):
            yield samples[start:at]
            start, size = at, 0
        size += length
    if samples:
        yield samples[start:]
