"""Records of users' topics read as items: an event, a label, or that an event is gone, each with the id it is of.

What cannot be read, or is nothing that the stream admits, is refused with the reason, and nothing else is lost by it.
"""

from __future__ import annotations

import json
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
from deltaplane_services.processors.letters import Refused
from deltaplane_services.processors.messages import Record, dead_letter
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
        self._cells = [_getter(path) for _, path in intake.fields]
        self._bounded = definition.nested_windows.timed or (
            intake.labels is not None and intake.labels.after_milliseconds is not None
        )
        self._decode = decoders_of(intake, registry or {})

    def read(self, records: Sequence[Record], now: int) -> ReadRecords:
        """The items of some records, of any of the topics; ``now`` is the clock, in milliseconds since the epoch.

        A record that claims to be appended later than ``now`` is taken to be appended now. Raises
        :class:`RegistryUnavailable`: then all of them are to be read again.
        """
        items: list[Item] = []
        faults: list[tuple[Record, _Fault]] = []
        places: dict[Place, list[tuple[int, int]]] = {}
        events: list[tuple[int, Record, list[Any]]] = []
        for record in records:
            log_time = min(record.log_time, now)
            places.setdefault((record.topic, record.partition), []).append((record.offset, log_time))
            try:
                change = self._decode[record.topic](record.key, record.value)
                if change is None:
                    continue
                item, cells = self._item(record, change, log_time)
            except BadRecord as fault:
                faults.append((record, _Fault(_BAD_RECORD, str(fault))))
            except _Fault as fault:
                faults.append((record, fault))
            else:
                if cells is not None:
                    events.append((len(items), record, cells))
                items.append(item)
        faults += self._unread(events, items)
        kept = [item for item in items if item.id]
        by_log = {place: np.array(found, dtype=np.int64).T for place, found in places.items()}
        return ReadRecords(
            kept,
            self._definition.partitions_of([item.id for item in kept]),
            {place: offsets for place, (offsets, _) in by_log.items()},
            {place: times for place, (_, times) in by_log.items()},
            [_refused(record, fault) for record, fault in faults],
        )

    def _unread(
        self, events: Sequence[tuple[int, Record, list[Any]]], items: list[Item]
    ) -> list[tuple[Record, _Fault]]:
        """Put the cells into the items of events, together; the faults of those whose cells cannot be read.

        Items that are refused lose their ids.
        """
        if not events:
            return []
        columns = zip(*(cells for _, _, cells in events), strict=True)
        table = {name: _column(cells) for (name, _), cells in zip(self._intake.fields, columns, strict=True)}
        _, reasons = features_by_name(self._definition, table)
        for row, (at, _, cells) in enumerate(events):
            if row in reasons:
                items[at] = items[at]._replace(id="")
            else:
                items[at] = items[at]._replace(cells=_as_text(cells))
        return [(events[row][1], _Fault(_BAD_VALUE, reason)) for row, reason in reasons.items()]

    def _item(self, record: Record, change: Change, log_time: int) -> tuple[Item, list[Any] | None]:
        intake, place = self._intake, (record.topic, record.partition)
        labels = intake.labels
        if labels is not None and record.topic == labels.topic:
            return self._label_item(labels, place, record.offset, change, log_time), None
        sample_id = _id_of(change, intake.id)
        if change.gone:
            return Item(place, record.offset, sample_id, None, log_time, None, gone=True), None
        time = log_time if intake.time is None else self._time_of(_at(change.row, intake.time), log_time)
        label = None if intake.label is None else self._label_of(_at(change.row, intake.label), intake.label)
        row = change.row
        cells = [cell_of(row) for cell_of in self._cells]
        for at, cell in enumerate(cells):
            if type(cell) is str and len(cell) > limits.TEXT_BYTES:
                many = f"{len(cell):,} characters, and may have {limits.TEXT_BYTES:,}"
                raise _Fault(_BAD_VALUE, f"column {intake.fields[at][0]!r} has a text of {many}")
        return Item(place, record.offset, sample_id, "", time, label), cells

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
        return label

    def _time_of(self, cell: Any, log_time: int) -> int:
        path = _dotted(self._intake.time or ())
        if isinstance(cell, bool) or not isinstance(cell, str | int | float):
            raise _Fault(_BAD_VALUE, f"expected the event time at {path}, got {shown(cell)}")
        if type(cell) is int and self._unit is not None:
            # Whole numbers of these units need no rounding, and are what most records have.
            return self._bound(cell * self._unit, cell, log_time)
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


def _column(cells: Sequence[Any]) -> Any:
    """The cells of a column; as an array where all are numbers with a point, which is read faster."""
    return np.array(cells) if all(type(cell) is float for cell in cells) else list(cells)


def _getter(path: Path) -> Callable[[Any], Any]:
    """A function that gives what lies at a path; None if nothing does."""
    if len(path) == 2:
        outer, inner = path

        def of_two(row: Any) -> Any:
            within = row.get(outer) if type(row) is dict else None
            return within.get(inner) if type(within) is dict else _at(row, path)

        return of_two
    return lambda row: _at(row, path)


_as_text = json.JSONEncoder(separators=(",", ":")).encode


def _at(row: Any, path: Path) -> Any:
    """What lies at a path; None if nothing does."""
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
