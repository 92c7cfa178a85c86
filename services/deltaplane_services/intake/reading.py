"""Records of users' topics read as items: an event, a label, or that an event is gone, each with the id it is of.

What cannot be read, or is nothing that the stream admits, is refused with the reason, and nothing else is lost by it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Int64s
from deltaplane.columns.cells import shown, text_of
from deltaplane.columns.encoder import Cells
from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_by_name
from deltaplane_services.definition_file.intake_table import IntakeDefinition, LabelsDefinition, Path
from deltaplane_services.intake.formats import decoders_of
from deltaplane_services.intake.formats.change import BadRecord, Change
from deltaplane_services.intake.formats.json_objects import columns_of_many
from deltaplane_services.intake.paths import at_path, columns_at
from deltaplane_services.intake.row_cells import RowColumns, as_texts
from deltaplane_services.processors.letters import Refused
from deltaplane_services.processors.messages import Record
from deltaplane_services.processors.refused_records import dead_letter
from deltaplane_services.readers import ReaderError, ReaderOptions
from deltaplane_services.readers.time_rule import SECONDS_OR_ISO, TimeRule, declared_rule
from deltaplane_services.readers.time_units import TimeUnit
from deltaplane_services.readers.time_zone import LocalZone

__all__ = ["LETTER_BYTES", "Item", "Place", "ReadRecords", "RecordReader"]

LETTER_BYTES = 900_000
"""Bytes of a refused record that its dead letter repeats. A topic has a megabyte for a record if nothing else is said,
and key, headers and reason need the rest."""

Place = tuple[str, int]
"""A log of a user's: topic and partition."""

_BAD_ID, _BAD_LABEL, _BAD_RECORD, _BAD_VALUE = "bad id", "bad label", "bad record", "bad value"
_MOST_LABELS = 10_000
_BOGUS_TIME, _UNKNOWN_CLASS = "bogus time", "unknown class"


class Item(NamedTuple):
    """What one record says of an id.

    ``cells`` are those of the columns as a list in JSON, None of a label and of an event that is gone. ``time`` is the
    event time in milliseconds; of a label, and of what is gone, that of the log.
    """

    place: Place
    offset: int
    id: str
    cells: str | None
    time: int
    label: str | None
    gone: bool = False
    of_label: bool = False


@dataclass(frozen=True)
class ReadRecords:
    """Some records of one or several logs, read.

    - ``homes``: int64[n], the partition of samples that each of n ``items`` belongs to.
    - ``offsets``, ``log_times``: int64[m] of all m records of each log, in order; no log time is beyond the clock.
    - ``refused``: what was refused, with its log's place.
    """

    items: Sequence[Item] = ()
    homes: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    offsets: Mapping[Place, Int64s] = field(default_factory=dict)
    log_times: Mapping[Place, Int64s] = field(default_factory=dict)
    refused: Sequence[Refused] = ()


_item: Callable[[Any], Item] = partial(tuple.__new__, Item)
"""The item of its values, as ``Item._make`` is, without a call of Python's for each."""

_TOPIC, _PLACE, _OFFSET = itemgetter(0), itemgetter(slice(2)), itemgetter(2)
"""Fields of a record."""


@dataclass
class _Events:
    """Events, column by column: the place of each among the items, its record, its log time, and what it says.

    ``largest``: the bytes of the largest record.
    """

    at: list[int] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    log_times: list[int] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    largest: int = 0


class _Good(NamedTuple):
    """Events of which all but the cells is known to be good, column by column; ``at`` is each one's place of items."""

    at: Sequence[int]
    records: Sequence[Record]
    ids: Sequence[str]
    times: Sequence[int]
    labels: Sequence[str | None]
    cells: Sequence[Sequence[Any]]


class _Fault(Exception):
    """Why a record is refused: the kind, and the reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass
class _Found:
    """What is found in records: items, None for those that are still to be put there or refused, and why they are.

    ``logs``: the offsets and the log times of all records of each log, in order.
    """

    items: list[Item | None] = field(default_factory=list)
    faults: list[tuple[Record, _Fault]] = field(default_factory=list)
    logs: dict[Place, tuple[list[int], list[int]]] = field(default_factory=dict)


class RecordReader:
    """Reads the records of an intake; ``registry`` has properties of the client of a schema registry, if there is one.

    Raises :class:`DefinitionError` for a form of times or of records that cannot be used.
    """

    def __init__(
        self, definition: StreamDefinition, intake: IntakeDefinition, registry: Mapping[str, Any] | None = None
    ) -> None:
        self._definition = definition
        self._intake = intake
        try:
            self._times = _time_rule(intake)
        except ReaderError as fault:
            raise DefinitionError(f"intake.time: {fault}") from None
        numbers_are = "s" if intake.time_unit is None else intake.time_unit
        self._unit = None if intake.time_format else {"s": 1000, "ms": 1}.get(numbers_are)
        parts = [path for path in (intake.time, intake.label) if path is not None]
        paths = [intake.id, *parts, *(path for _, path in intake.fields)]
        self._paths = columns_at(paths)
        self._of_many = columns_of_many(paths) if intake.form.name == "json" else None
        self._columns = RowColumns(definition, [name for name, _ in intake.fields])
        self._bounded = definition.nested_windows.timed or (
            intake.labels is not None and intake.labels.after_milliseconds is not None
        )
        self._decode = decoders_of(intake, registry or {})
        # Labels that were found to be known, as they are written.
        self._labels: dict[str, str] = {}

    def read(self, records: Sequence[Record], now: int) -> ReadRecords:
        """The items of some records, of any of the topics; ``now`` is the clock, in milliseconds since the epoch.

        A record that claims to be appended later than ``now`` is taken to be appended now. Raises
        :class:`RegistryUnavailable`: then all of them are to be read again.
        """
        found = _Found()
        for topic, of_topic in itertools.groupby(records, _TOPIC):
            run = list(of_topic)
            if topic != self._intake.topic or not self._read_together(run, now, found):
                self._read_each(run, now, found)
        kept = [item for item in found.items if item is not None]
        return ReadRecords(
            kept,
            self._definition.partitions_of([item.id for item in kept]),
            {place: np.array(offsets, dtype=np.int64) for place, (offsets, _) in found.logs.items()},
            {place: np.array(times, dtype=np.int64) for place, (_, times) in found.logs.items()},
            [_refused(record, fault) for record, fault in found.faults],
        )

    def _read_together(self, records: Sequence[Record], now: int, found: _Found) -> bool:
        """Whether records of the topic of events are such as most are; then what they say has gone where it belongs."""
        if self._of_many is None:
            return False
        values: list[Any] = [record.content for record in records]
        columns = self._of_many(values)
        if columns is None or max(map(len, values)) > limits.TEXT_BYTES:
            return False
        log_times = [min(record.log_time, now) for record in records]
        events = range(len(found.items), len(found.items) + len(records))
        good = self._plain_events(events, records, log_times, columns)
        if good is None:
            return False
        heard = iter(log_times)
        for place, of_log in itertools.groupby(records, _PLACE):
            offsets, times = found.logs.setdefault(place, ([], []))
            new = list(map(_OFFSET, of_log))
            offsets += new
            times += itertools.islice(heard, len(new))
        found.items += itertools.repeat(None, len(records))
        self._put_cells(good, found)
        return True

    def _read_each(self, records: Sequence[Record], now: int, found: _Found) -> None:
        """Read records of one topic one by one, and the events among them as far as can be together."""
        labels, topic, items, faults = self._intake.labels, records[0].topic, found.items, found.faults
        decode, is_label = self._decode[topic], labels is not None and topic == labels.topic
        events = _Events()
        # Most records come one behind the other from one log.
        partition = -1
        for record in records:
            if record.partition != partition:
                partition = record.partition
                place = topic, partition
                offsets, log_times = found.logs.setdefault(place, ([], []))
            log_time = min(record.log_time, now)
            offsets.append(record.offset)
            log_times.append(log_time)
            value = record.value
            try:
                change = decode(record.key, value)
                if change is None:
                    continue
                if is_label and labels is not None:
                    items.append(self._label_item(labels, place, record.offset, change, log_time))
                elif change.gone:
                    gone = _id_of(change, self._intake.id)
                    items.append(Item(place, record.offset, gone, None, log_time, None, gone=True))
                else:
                    events.at.append(len(items))
                    events.records.append(record)
                    events.log_times.append(log_time)
                    events.changes.append(change)
                    if value is not None and len(value) > events.largest:
                        events.largest = len(value)
                    items.append(None)
            except BadRecord as fault:
                faults.append((record, _Fault(_BAD_RECORD, str(fault))))
            except _Fault as fault:
                faults.append((record, fault))
        if events.at:
            self._put_events(events, found)

    def _put_events(self, events: _Events, found: _Found) -> None:
        """Put the items of events into their places, and the faults of those that are refused to the others."""
        good = None
        if events.largest <= limits.TEXT_BYTES:
            columns = self._paths([change.row for change in events.changes])
            good = self._plain_events(events.at, events.records, events.log_times, columns)
        self._put_cells(good or self._events(events, found.faults), found)

    def _put_cells(self, good: _Good, found: _Found) -> None:
        """Put the items of events into their places, and the faults of those that the stream does not admit.

        All are looked at together, column by column.
        """
        if not good.at:
            return
        reasons = self._unfit(self._columns.table(good.cells))
        texts = as_texts(list(zip(*good.cells, strict=True)))
        places, offsets, no = map(_PLACE, good.records), map(_OFFSET, good.records), itertools.repeat(object=False)
        made = zip(places, offsets, good.ids, texts, good.times, good.labels, no, no)  # noqa: B905 - two have no end.
        for at, item in zip(good.at, map(_item, made), strict=True):
            found.items[at] = item
        for row, reason in sorted(reasons.items()):
            found.items[good.at[row]] = None
            found.faults.append((good.records[row], _Fault(_BAD_VALUE, reason)))

    def _unfit(self, table: Mapping[str, Cells]) -> dict[int, str]:
        """Why some rows of a table are none that a worker admits.

        It would refuse them, too; but a batch of rows is not the record of a user's, which alone can be sent again.
        """
        definition = self._definition
        features, read = features_by_name(definition, table)
        reasons = dict(read)
        features, _ = definition.filled(features)
        _, fits = definition.grid.quantize(features)
        for row in np.flatnonzero(~fits).tolist():
            if row not in reasons:
                reasons[row] = definition.grid.fault(features[row], definition.features)
        return reasons

    def _plain_events(
        self, at: Sequence[int], records: Sequence[Record], log_times: Sequence[int], columns: Sequence[Sequence[Any]]
    ) -> _Good | None:
        """Events, if all of them are such as most are, which is seen column by column; None if one is not.

        ``columns``: what lies at the paths. None of the records is larger than a text may be.
        """
        intake, others = self._intake, iter(columns)
        ids = next(others)
        times = log_times if intake.time is None else self._plain_times(next(others), log_times)
        labels: Sequence[Any] = [None] * len(ids)
        if intake.label is not None:
            known, labels = self._labels, next(others)
            if set(map(type, labels)) != {str} or not known.keys() >= set(labels):
                return None
            labels = [known[label] for label in labels]
        if times is None or set(map(type, ids)) != {str}:
            return None
        if not all(ids) or not "".join(ids).isascii() or len(max(ids, key=len)) > limits.ID_BYTES:
            return None
        return _Good(at, records, ids, times, labels, list(others))

    def _plain_times(self, cells: Sequence[Any], log_times: Sequence[int]) -> Sequence[int] | None:
        """The event times, if all are whole numbers that need no rounding, and none is bogus."""
        unit = self._unit
        if unit is None or set(map(type, cells)) != {int}:
            return None
        if max(map(abs, cells)) * unit >= limits.EVENT_TIME_MILLISECONDS:
            return None
        times = [cell * unit for cell in cells] if unit != 1 else cells
        if self._bounded:
            ahead = np.array(times, dtype=np.int64) - np.array(log_times, dtype=np.int64)
            if int(ahead.max()) > self._definition.max_skew_milliseconds:
                return None
        return times

    def _events(self, events: _Events, faults: list[tuple[Record, _Fault]]) -> _Good:
        """The good ones of the events, looked at one by one; ``faults`` gets those of the others."""
        rows = []
        for at, record, log_time, change in zip(
            events.at, events.records, events.log_times, events.changes, strict=True
        ):
            try:
                rows.append((at, record, *self._event(record, change, log_time)))
            except _Fault as fault:
                faults.append((record, fault))
        if not rows:
            return _Good((), (), (), (), (), ())
        at, of, ids, times, labels, cells = zip(*rows, strict=True)
        return _Good(at, of, ids, times, labels, list(zip(*cells, strict=True)))

    def _event(self, record: Record, change: Change, log_time: int) -> tuple[str, int, str | None, list[Any]]:
        """(id, time, label, cells) of an event. Raises :class:`_Fault`."""
        intake, row = self._intake, change.row
        sample_id = _id_of(change, intake.id)
        time = log_time if intake.time is None else self._time_of(at_path(row, intake.time), log_time)
        label = None if intake.label is None else self._label_of(at_path(row, intake.label), intake.label)
        cells = [at_path(row, path) for _, path in intake.fields]
        # A text is not longer than the record that it is in.
        if len(record.value or b"") > limits.TEXT_BYTES:
            for column, cell in enumerate(cells):
                if type(cell) is str and len(cell) > limits.TEXT_BYTES:
                    many = f"{len(cell):,} characters, and may have {limits.TEXT_BYTES:,}"
                    raise _Fault(_BAD_VALUE, f"column {intake.fields[column][0]!r} has a text of {many}")
        return sample_id, time, label, cells

    def _label_item(self, labels: LabelsDefinition, place: Place, offset: int, change: Change, log_time: int) -> Item:
        sample_id = _id_of(change, labels.id)
        if change.gone:
            if labels.otherwise is None:
                raise _Fault(_BAD_LABEL, "a label is gone, and no intake.labels.otherwise says what its event is then")
            return Item(place, offset, sample_id, None, log_time, labels.otherwise, of_label=True)
        label = labels.value
        if labels.label is not None:
            label = self._label_of(at_path(change.row, labels.label), labels.label)
        return Item(place, offset, sample_id, None, log_time, label, of_label=True)

    def _label_of(self, cell: Any, path: Path) -> str:
        if type(cell) is str and (known := self._labels.get(cell)) is not None:
            return known
        if cell is None:
            raise _Fault(_BAD_LABEL, f"expected a label at {_dotted(path)}, got none")
        try:
            label = text_of(cell, limits.LABEL_BYTES)
        except ValueError as fault:
            raise _Fault(_BAD_LABEL, f"the label at {_dotted(path)} {fault}: {shown(cell)}") from None
        if not label:
            raise _Fault(_BAD_LABEL, f"expected a label at {_dotted(path)}, got an empty text")
        if self._definition.classes.class_of(label) is None:
            known = ", ".join(self._definition.classes.names)
            raise _Fault(_UNKNOWN_CLASS, f"expected the label {shown(label)} to be one of {known}")
        if type(cell) is str and len(self._labels) < _MOST_LABELS:
            self._labels[cell] = label
        return label

    def _time_of(self, cell: Any, log_time: int) -> int:
        if type(cell) is int and self._unit is not None:
            # Whole numbers of these units need no rounding, and are what most records have.
            return self._bound(cell * self._unit, cell, log_time)
        path = _dotted(self._intake.time or ())
        if isinstance(cell, bool) or not isinstance(cell, str | int | float):
            raise _Fault(_BAD_VALUE, f"expected the event time at {path}, got {shown(cell)}")
        try:
            time = self._times.read(cell if isinstance(cell, str) else repr(cell))
        except ValueError as fault:
            raise _Fault(_BAD_VALUE, f"the event time at {path}: {fault}; see intake.time_unit, time_format") from None
        return self._bound(time, cell, log_time)

    def _bound(self, time: int, cell: Any, log_time: int) -> int:
        """The event time, unless it is farther ahead of the log than may be, or beyond any calendar."""
        if abs(time) < limits.EVENT_TIME_MILLISECONDS:
            ahead = time - log_time
            if not self._bounded or ahead <= self._definition.max_skew_milliseconds:
                return time
            what = f"is {ahead / 86_400_000:,.1f} days ahead of the log, more than max_skew"
        else:
            what = "is beyond any calendar"
        # Numbers are seconds if nothing else is declared.
        hint = "" if self._intake.time_unit else "; numbers that are no seconds need intake.time_unit"
        raise _Fault(_BOGUS_TIME, f"the event time {shown(cell)} at {_dotted(self._intake.time or ())} {what}{hint}")


def _time_rule(intake: IntakeDefinition) -> TimeRule:
    options = ReaderOptions(
        time=None if intake.time is None else ".".join(intake.time),
        time_unit=intake.time_unit,
        time_format=intake.time_format,
        time_zone=intake.time_zone,
    )
    if (declared := declared_rule(options)) is not None:
        return declared
    return SECONDS_OR_ISO if intake.time_zone is None else TimeRule(TimeUnit("s"), None, LocalZone(intake.time_zone))


def _id_of(change: Change, path: Path) -> str:
    """The id of a change; a key that names a row has the members of the row's primary key alone, side by side."""
    cell = at_path(change.row, path)
    if type(cell) is str and 0 < len(cell) <= limits.ID_BYTES and cell.isascii():
        return cell
    if cell is None and change.of_key:
        cell = at_path(change.row, path[-1:])
    if isinstance(cell, bool) or not isinstance(cell, str | int) or cell == "":
        raise _Fault(_BAD_ID, f"expected an id, a text or a whole number, at {_dotted(path)}, got {shown(cell)}")
    try:
        return text_of(cell, limits.ID_BYTES)
    except ValueError as fault:
        raise _Fault(_BAD_ID, f"the id at {_dotted(path)} {fault}: {shown(cell)}") from None


def _dotted(path: Path) -> str:
    return repr(".".join(path))


def _refused(record: Record, fault: _Fault) -> Refused:
    kind, reason = fault.kind, str(fault)
    if record.key is not None:
        # Of a key that is as large as a record may be, and of the value, one letter could not hold both.
        record = record._replace(key=record.key[: limits.DEAD_LETTER_BYTES])
    letters: Callable[[], list[Any]] = lambda: [dead_letter(record, kind, reason, LETTER_BYTES)]  # noqa: E731
    return Refused(record, {kind: 1}, letters)
