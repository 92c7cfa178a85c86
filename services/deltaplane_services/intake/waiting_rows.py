"""The store of one partition: each event and each label that came, and how far the users' logs were read for them.

It is a file of SQLite, so that memory does not grow with what waits. Rows and positions are written in one
transaction: after a crash the store is what it was at some earlier positions, and the logs are read on from there. The
logs are the truth. A store that is lost, damaged, or of another definition is begun anew, and rebuilt from them.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from deltaplane.errors import DeltaplaneError
from deltaplane_services.intake.reading import Place

__all__ = ["MOST_STORES", "Facts", "StoreFault", "WaitingRow", "WaitingRows", "counted", "opened"]

MOST_STORES = 8
"""Files that may lie side by side for a partition: a process that was frozen may still hold one of them."""

_CACHE_KIBIBYTES = 32_768
"""Memory that one store keeps pages in: those of the index of a million ids. Ids come in no order."""

_PAGES_BEFORE_CHECKPOINT = 10_000
"""Pages that are written one behind the other before they go to their places: 40 megabytes. With a tenth of that, most
of the time went into writing the same pages of the index again and again."""

_SCHEMA = """
CREATE TABLE rows (
    id TEXT PRIMARY KEY, cells TEXT, time INTEGER, gone INTEGER NOT NULL, silent INTEGER NOT NULL, due INTEGER,
    event_time INTEGER, event_partition INTEGER, event_offset INTEGER,
    label TEXT, label_time INTEGER, label_partition INTEGER, label_offset INTEGER, wake INTEGER
);
CREATE INDEX waking ON rows (wake) WHERE wake IS NOT NULL;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class StoreFault(DeltaplaneError):
    """A store that cannot be read or written; it is begun anew, and rebuilt from the logs."""


class WaitingRow(NamedTuple):
    """What is known of one id, as the store has it.

    - ``cells``: the event's cells as a list in JSON; None while only a label is known, or if the event is gone.
    - ``time``: the event time; ``gone``: 1 if the event was deleted; ``silent``: 1 once silence has become its label.
    - ``due``: when silence becomes its label; the earliest that any version of the event said.
    - ``event_time``, ``event_partition``, ``event_offset``: the version of the event, in the order of which the last
      counts: the time of its log, which never goes back within a partition, the partition, and the offset. None without
      an event; ``label_time``, … are those of the label.
    - ``wake``: when it has to be looked at again, in milliseconds; None never.
    """

    id: str
    cells: str | None = None
    time: int = 0
    gone: int = 0
    silent: int = 0
    due: int | None = None
    event_time: int | None = None
    event_partition: int | None = None
    event_offset: int | None = None
    label: str | None = None
    label_time: int | None = None
    label_partition: int | None = None
    label_offset: int | None = None
    wake: int | None = None

    @property
    def waits(self) -> bool:
        """Whether it is an event without a label."""
        return self.cells is not None and self.label is None and not self.silent

    @property
    def is_label(self) -> bool:
        """Whether it is a label without an event."""
        return self.event_time is None and self.label is not None


_COLUMNS = ", ".join(WaitingRow._fields)
_PARTS = (
    *(("cells",), ("due",), ("event_time", "event_partition", "event_offset")),
    *(("label", "label_time", "label_partition", "label_offset"), ("wake",)),
)
"""Columns that are there or not, and those of each part together."""
_ASKED_AT_ONCE = 500
"""Ids of one question: SQLite has a bound for what a statement may be given."""
_ANY_NUMBER = 2**63 - 1
_WAKING = f"SELECT {_COLUMNS} FROM rows WHERE wake <= ? ORDER BY wake, id LIMIT ?"  # noqa: S608


@dataclass
class Facts:
    """What a store says beside its rows.

    - ``positions``: for each log the offset to read on from.
    - ``latest``: the largest log time of each, in milliseconds.
    - ``counts``: events that wait, labels without events, and rows.
    """

    positions: dict[Place, int] = field(default_factory=dict)
    latest: dict[Place, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class WaitingRows:
    """The rows of one partition in a file, or in memory. What was not committed is as if it had not happened.

    Raises :class:`StoreFault` if the file is none of SQLite, or is damaged. ``identity`` is that of the definition; a
    store of another one is emptied.
    """

    def __init__(self, path: str = ":memory:", identity: str = "", lock: IO[bytes] | None = None) -> None:
        self._lock = lock
        with _faults(path):
            self._file = sqlite3.connect(path, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            # After a power cut the last transactions may be missing, never a part of one: the logs still have them.
            self._file.execute("PRAGMA synchronous = NORMAL")
            self._file.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
            self._file.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_BEFORE_CHECKPOINT}")
            self._path = path
            if not self._file.execute("SELECT 1 FROM sqlite_master WHERE name = 'facts'").fetchone():
                self._file.executescript(_SCHEMA)
            if self._fact("identity", "") != identity:
                self._file.executescript("DROP TABLE rows; DROP TABLE facts;" + _SCHEMA)
                self._write_fact("identity", identity)
            self._begun = False
            self.facts = self._read_facts()

    def get(self, ids: Iterable[str]) -> dict[str, WaitingRow]:
        """The rows of these ids, of those that there are."""
        return self._found(list(ids), _ANY_NUMBER)

    def _found(self, asked: Sequence[str], last: int) -> dict[str, WaitingRow]:
        """The rows of these ids that have a number up to ``last``."""
        found = dict[str, WaitingRow]()
        with _faults(self._path):
            for start in range(0, len(asked), _ASKED_AT_ONCE):
                part = asked[start : start + _ASKED_AT_ONCE]
                rows = map(WaitingRow._make, self._file.execute(_get(len(part)), (*part, last)))
                found |= {row.id: row for row in rows}
        return found

    def waking(self, until: int, most: int) -> list[WaitingRow]:
        """At most ``most`` rows that have to be looked at by a time in milliseconds, the earliest first."""
        with _faults(self._path):
            found = self._file.execute(_WAKING, (until, most))
            return list(map(WaitingRow._make, found))

    def put(self, rows: Iterable[WaitingRow]) -> None:
        """Write some rows, each in the place of the one that has its id."""
        self._begin()
        with _faults(self._path):
            for shape, alike in _by_shape(rows).items():
                statement, values = _statement(shape, "REPLACE")
                self._file.executemany(statement, map(values, alike))

    def put_new(self, rows: Sequence[WaitingRow]) -> dict[str, WaitingRow]:
        """Write some rows of different ids, but for those whose id is known; the rows of these, as they are.

        That spares the question which ids are known, where hardly any is.
        """
        self._begin()
        with _faults(self._path):
            # A row that comes later, or is written anew, has a larger number.
            (last,) = self._file.execute("SELECT max(rowid) FROM rows").fetchone()
            before = self._file.total_changes
            for shape, alike in _by_shape(rows).items():
                statement, values = _statement(shape, "IGNORE")
                self._file.executemany(statement, map(values, alike))
            if self._file.total_changes - before == len(rows):
                return {}
        return self._found([row.id for row in rows], last or 0)

    def silence(self, rows: Iterable[WaitingRow]) -> None:
        """Write of rows that are there only whether silence is their label, and when to look at them again."""
        self._begin()
        with _faults(self._path):
            self._file.executemany(
                "UPDATE rows SET silent = ?, wake = ? WHERE id = ?", [(one.silent, one.wake, one.id) for one in rows]
            )

    def delete(self, ids: Sequence[str]) -> None:
        """Forget some rows."""
        self._begin()
        with _faults(self._path):
            self._file.executemany("DELETE FROM rows WHERE id = ?", [(one,) for one in ids])

    def commit(self) -> None:
        """Write rows and facts for good, together."""
        self._begin()
        facts = self.facts
        with _faults(self._path):
            for name, by_place in (("positions", facts.positions), ("latest", facts.latest)):
                self._write_fact(name, [[*place, value] for place, value in by_place.items()])
            self._write_fact("counts", facts.counts)
            self._file.execute("COMMIT")
        self._begun = False

    def close(self) -> None:
        """Close the file; what was not committed is gone."""
        self._file.close()
        if self._lock is not None:
            self._lock.close()

    def _begin(self) -> None:
        if not self._begun:
            with _faults(self._path):
                self._file.execute("BEGIN IMMEDIATE")
            self._begun = True

    def _fact(self, name: str, default: Any) -> Any:
        found = self._file.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return default if found is None else json.loads(found[0])

    def _write_fact(self, name: str, value: Any) -> None:
        self._file.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def _read_facts(self) -> Facts:
        positions, latest = ({(t, p): value for t, p, value in self._fact(n, [])} for n in ("positions", "latest"))
        return Facts(positions, latest, self._fact("counts", {}))


def opened(directory: Path, name: str, identity: str) -> WaitingRows:
    """The store of that name in a directory, which is made if it is not there.

    A file that another process holds is left to it, and another one is taken. A damaged one is deleted. Raises
    :class:`StoreFault` if the directory cannot be used, or too many files are held.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for number in range(MOST_STORES):
            path = directory / f"{name}{f'-{number}' if number else ''}.sqlite3"
            lock = path.with_suffix(".lock").open("ab")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            try:
                return WaitingRows(str(path), identity, lock)
            except StoreFault:
                for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
                    each.unlink(missing_ok=True)
                return WaitingRows(str(path), identity, lock)
    except OSError as fault:
        raise StoreFault(f"{directory}: {fault}; give a directory that can be written, state_directory") from fault
    raise StoreFault(f"{directory}: {MOST_STORES} processes hold stores of {name}; end those that hang")


@contextlib.contextmanager
def _faults(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as fault:
        raise StoreFault(f"{path}: {fault}; is the disk full, or the file damaged?") from fault


@functools.cache
def _get(count: int) -> str:
    """The question for so many ids, and the largest number that their rows may have.

    Each id is given by itself: SQLite's own reader of JSON cuts a text at U+0000. The plus has rows found by their ids.
    """
    return f"SELECT {_COLUMNS} FROM rows WHERE id IN ({', '.join('?' * count)}) AND +rowid <= ?"  # noqa: S608


_Shape: TypeAlias = tuple[bool, ...]
"""Which of :data:`_PARTS` a row lacks."""


def _by_shape(rows: Iterable[WaitingRow]) -> Mapping[_Shape, list[WaitingRow]]:
    alike: dict[_Shape, list[WaitingRow]] = {}
    for row in rows:
        shape = row.cells is None, row.due is None, row.event_time is None, row.label_time is None, row.wake is None
        alike.setdefault(shape, []).append(row)
    return alike


@functools.cache
def _statement(shape: _Shape, known: str) -> tuple[str, Callable[[WaitingRow], tuple[Any, ...]]]:
    """The statement that writes rows of a shape, and what it takes of each row; ``known``: what to do where one is.

    What is not there is not handed over: each None takes a tenth of the time of all that a row takes.
    """
    absent = {name for lacks, part in zip(shape, _PARTS, strict=True) if lacks for name in part}
    there = [at for at, name in enumerate(WaitingRow._fields) if name not in absent]
    names, marks = ", ".join(WaitingRow._fields[at] for at in there), ", ".join("?" * len(there))
    return f"INSERT OR {known} INTO rows ({names}) VALUES ({marks})", itemgetter(*there)  # noqa: S608


def counted(facts: Facts) -> Mapping[str, int]:
    """The counts of a store, zero where there is none."""
    return {name: facts.counts.get(name, 0) for name in ("waiting", "labels", "rows")}
