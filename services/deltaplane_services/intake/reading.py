"""Records of users' topics read as items: an event, a label, or that an event is gone, each with the id it is of.

What cannot be read, or is nothing that the stream admits, is refused with the reason, and nothing else is lost by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Int64s
from deltaplane.columns.cells import shown, text_of
from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_by_name
from deltaplane_services.definition_file.intake_table import IntakeDefinition, LabelsDefinition, Path
from deltaplane_services.intake.formats import decoders_of
from deltaplane_services.intake.formats.change import BadRecord, Change
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


class _Event(NamedTuple):
    """An event of which all but the cells is known to be good; ``at``: the place of its item."""

    at: int
    place: Place
    record: Record
    id: str
    time: int
    label: str | None
    cells: list[Any]


class _Fault(Exception):
    """Why a record is refused: the kind, and the reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


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
        self._parents = _by_parent([path for _, path in intake.fields])
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
        items: list[Item | None] = []
        faults: list[tuple[Record, _Fault]] = []
        logs: dict[Place, tuple[Place, list[int], list[int]]] = {}
        events: list[_Event] = []
        labels = self._intake.labels
        for record in records:
            log_time = min(record.log_time, now)
            place = record.topic, record.partition
            if (log := logs.get(place)) is None:
                log = logs[place] = (place, [], [])
            log[1].append(record.offset)
            log[2].append(log_time)
            try:
                change = self._decode[record.topic](record.key, record.value)
                if change is None:
                    continue
                if labels is not None and record.topic == labels.topic:
                    items.append(self._label_item(labels, log[0], record.offset, change, log_time))
                elif change.gone:
                    gone = _id_of(change, self._intake.id)
                    items.append(Item(log[0], record.offset, gone, None, log_time, None, gone=True))
                else:
                    events.append(self._event(len(items), log[0], record, change, log_time))
                    items.append(None)
            except BadRecord as fault:
                faults.append((record, _Fault(_BAD_RECORD, str(fault))))
            except _Fault as fault:
                faults.append((record, fault))
        faults += self._put_cells(events, items)
        kept = [item for item in items if item is not None]
        return ReadRecords(
            kept,
            self._definition.partitions_of([item.id for item in kept]),
            {place: np.array(offsets, dtype=np.int64) for place, offsets, _ in logs.values()},
            {place: np.array(times, dtype=np.int64) for place, _, times in logs.values()},
            [_refused(record, fault) for record, fault in faults],
        )

    def _put_cells(self, events: Sequence[_Event], items: list[Item | None]) -> list[tuple[Record, _Fault]]:
        """Put the items of events into their places, and return the faults of those whose cells cannot be read.

        All are looked at together, column by column.
        """
        if not events:
            return []
        table = self._columns.table([one.cells for one in events])
        _, reasons = features_by_name(self._definition, table)
        read = [one for row, one in enumerate(events) if row not in reasons] if reasons else events
        for one, text in zip(read, as_texts([one.cells for one in read]), strict=True):
            items[one.at] = Item(one.place, one.record.offset, one.id, text, one.time, one.label)
        return [(events[row].record, _Fault(_BAD_VALUE, reason)) for row, reason in reasons.items()]

    def _event(self, at: int, place: Place, record: Record, change: Change, log_time: int) -> _Event:
        intake, row = self._intake, change.row
        sample_id = _id_of(change, intake.id)
        time = log_time if intake.time is None else self._time_of(_at(row, intake.time), log_time)
        label = None if intake.label is None else self._label_of(_at(row, intake.label), intake.label)
        cells = self._cells_of(row)
        # A text is not longer than the record that it is in.
        if len(record.value or b"") > limits.TEXT_BYTES:
            for column, cell in enumerate(cells):
                if type(cell) is str and len(cell) > limits.TEXT_BYTES:
                    many = f"{len(cell):,} characters, and may have {limits.TEXT_BYTES:,}"
                    raise _Fault(_BAD_VALUE, f"column {intake.fields[column][0]!r} has a text of {many}")
        return _Event(at, place, record, sample_id, time, label, cells)

    def _cells_of(self, row: Any) -> list[Any]:
        """What lies at the paths of the columns, in order; None where nothing does."""
        cells: list[Any] = [None] * len(self._intake.fields)
        for path, members in self._parents:
            parent = _at(row, path)
            if type(parent) is dict:
                for column, name in members:
                    cells[column] = parent.get(name)
            elif parent is not None:
                for column, name in members:
                    cells[column] = _at(parent, (name,))
        return cells

    def _label_item(self, labels: LabelsDefinition, place: Place, offset: int, change: Change, log_time: int) -> Item:
        sample_id = _id_of(change, labels.id)
        if change.gone:
            if labels.otherwise is None:
                raise _Fault(_BAD_LABEL, "a label is gone, and no intake.labels.otherwise says what its event is then")
            return Item(place, offset, sample_id, None, log_time, labels.otherwise, of_label=True)
        label = labels.value
        if labels.label is not None:
            label = self._label_of(_at(change.row, labels.label), labels.label)
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


def _by_parent(paths: Sequence[Path]) -> list[tuple[Path, list[tuple[int, str]]]]:
    """(where several things lie, the place of each among the paths and its name there)."""
    parents: dict[Path, list[tuple[int, str]]] = {}
    for column, path in enumerate(paths):
        parents.setdefault(path[:-1], []).append((column, path[-1]))
    return list(parents.items())


def _at(row: Any, path: Path) -> Any:
    """What lies at a path; None if nothing does."""
    if len(path) == 2 and type(row) is dict and type(within := row.get(path[0])) is dict:
        # As most paths are, which is a third faster.
        return within.get(path[1])
    for name in path:
        if type(row) is dict:
            row = row.get(name)
        elif isinstance(row, list) and name.isdecimal() and int(name) < len(row):
            row = row[int(name)]
        else:
            return None
    return row


def _id_of(change: Change, path: Path) -> str:
    """The id of a change; a key that names a row has the members of the row's primary key alone, side by side."""
    cell = _at(change.row, path)
    if type(cell) is str and 0 < len(cell) <= limits.ID_BYTES and cell.isascii():
        return cell
    if cell is None and change.of_key:
        cell = _at(change.row, path[-1:])
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
