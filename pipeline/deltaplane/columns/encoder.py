"""The encoder: from rows of a table with mixed columns to rows of numbers, by a rule for each column.

It is a pure function of one row: alone, in a block, or in another order, a row has the same features, bit for bit. If
a rule cannot read a cell, the row of the cell is refused, and no other.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.arrays import Flags, Floats, Positions
from deltaplane.columns.cells import BLANKS, MISSING, MissingWords, is_nothing, plain_cell, shown
from deltaplane.columns.rules import ColumnRule, NumberRule, utf8_bytes
from deltaplane.errors import DefinitionError, TableMismatch

__all__ = [
    "VERSION",
    "Cells",
    "CodedCells",
    "Encoded",
    "Encoder",
    "RefusedCell",
    "chosen_cells",
    "coded",
    "read_column",
]


_KNOWN = (str, int, float, Decimal, date, np.generic)
"""The types of cells that rules can read; a datetime is a date."""

_TOLD_APART = {str, bool, int, type(None)}
"""The types of which two cells that are equal are the same cell."""

_ALIKE, _COMPARED = 3, 32

VERSION = 1
"""The version of the meaning of rules: it must change if an encoder would give other features for some row."""


@dataclass(frozen=True)
class CodedCells:
    """A column as its distinct cells and codes: row i has ``cells[codes[i]]``. See :func:`coded`."""

    cells: Sequence[Any]
    codes: Positions

    def __len__(self) -> int:
        return len(self.codes)


Cells = Sequence[Any] | npt.NDArray[Any] | CodedCells
"""A column: its cells in the order of the rows, None or NaN for a missing one."""


@dataclass(frozen=True)
class RefusedCell:
    """A row that cannot be encoded: its index in the table, the first column that is at fault, and the reason."""

    row: int
    column: str
    reason: str


@dataclass(frozen=True, eq=False)
class Encoded:
    """Encoded rows: ``features`` float64[n, d], ``fits`` bool[n], and a reason for each row that does not fit.

    The features of a row that does not fit are NaN.
    """

    features: Floats
    fits: Flags
    refused: tuple[RefusedCell, ...]

    @property
    def reasons(self) -> dict[int, str]:
        """Index of each refused row to the reason."""
        return {one.row: one.reason for one in self.refused}


@functools.lru_cache(maxsize=1000)
def _nearest(name: str, columns: tuple[str, ...]) -> str | None:
    """The column whose name is most similar to ``name``, or None if none is. Cached, since rows repeat misspelt names.

    Names come from outside, so a name is compared with few columns only, all of about its length.
    """
    alike = [column for column in columns if abs(len(column) - len(name)) <= _ALIKE]
    return next(iter(difflib.get_close_matches(name, alike[:_COMPARED], n=1)), None)


@dataclass(frozen=True)
class Encoder:
    """Rules for the columns of a table, in order. ``missing``: the texts that stand for a missing value in any column.

    Raises :class:`DefinitionError` if there are too many columns, features or texts, if two columns or features have
    one name, or if a name or text is too long.
    """

    rules: tuple[ColumnRule, ...]
    missing: tuple[str, ...] = MISSING

    def __post_init__(self) -> None:
        if not 1 <= len(self.rules) <= limits.COLUMNS:
            raise DefinitionError(f"columns.rules: expected 1 to {limits.COLUMNS} columns, got {len(self.rules)}")
        if len(self.missing) > limits.MISSING_WORDS or len(set(self.missing)) < len(self.missing):
            raise DefinitionError(
                f"columns.missing: expected up to {limits.MISSING_WORDS} texts that differ, got {len(self.missing)}"
            )
        for word in self.missing:
            if utf8_bytes(word, "columns.missing") > limits.LEVEL_BYTES or word != word.strip(BLANKS):
                raise DefinitionError(
                    f"columns.missing: expected texts of at most {limits.LEVEL_BYTES} bytes without blanks at their"
                    f" ends, got {word!r:.100}"
                )
        self._check_names()

    def _check_names(self) -> None:
        if len(self.features) > limits.FEATURES:
            widest = max(self.rules, key=lambda rule: len(rule.features))
            raise DefinitionError(
                f"columns: expected at most {limits.FEATURES} features after encoding, got {len(self.features)}, of"
                f" which column {widest.column!r} has {len(widest.features)}; declare fewer levels or buckets, or leave"
                " columns out"
            )
        for names, what in ((self.columns, "column"), (self.features, "feature")):
            known: set[str] = set()
            for name in names:
                if name in known:
                    raise DefinitionError(f"columns: two would have the {what} {name!r}; rename or leave out a column")
                if utf8_bytes(name, "columns") > limits.FEATURE_NAME_BYTES:
                    raise DefinitionError(
                        f"columns: the {what} {name[:60]!r}… would have a name of more than"
                        f" {limits.FEATURE_NAME_BYTES} bytes; rename the column, or leave the level out"
                    )
                known.add(name)

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, in order."""
        return tuple(rule.column for rule in self.rules)

    @functools.cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the d features."""
        return tuple(name for rule in self.rules for name in rule.features)

    @property
    def identity(self) -> dict[str, Any]:
        """All settings that decide the features of a row, as plain JSON values, for fingerprints."""
        rules = [{"column": one.column, "kind": one.KIND, "missing": one.missing, **one.settings} for one in self.rules]
        return {"version": VERSION, "missing": list(self.missing), "rules": rules}

    def encode(self, table: Mapping[str, Cells], unread: Mapping[int, RefusedCell] | None = None) -> Encoded:
        """The encoded rows of a table; columns without a rule are ignored.

        ``unread``: rows that are refused for another reason already. Raises :class:`TableMismatch` if a column is
        absent, or if columns have different numbers of cells.
        """
        rows = self._check_table(table)
        features, refused = np.zeros((rows, len(self.features))), dict(unread or {})
        at = 0
        for rule in self.rules:
            numbers, missing, faults = read_column(rule, table[rule.column], self._words)
            if rule.missing == "refuse":
                for row in np.flatnonzero(missing).tolist():
                    faults.setdefault(row, "is missing; leave such rows out, or fill them in: columns.rules, missing")
            for row, reason in faults.items():
                refused.setdefault(row, RefusedCell(row, rule.column, f"column {rule.column!r} {reason}"))
            numbers = np.where(missing, rule.filled, numbers)
            own = len(rule.own_features)
            rule.write(numbers, features[:, at : at + own])
            at += own
            if rule.missing == "indicator":
                features[:, at] = missing
                at += 1
        fits = np.ones(rows, dtype=np.bool_)
        if refused:
            fits[list(refused)] = False
            features[~fits] = np.nan
        return Encoded(features, fits, tuple(refused[row] for row in sorted(refused)))

    def encode_records(self, records: Sequence[Mapping[str, Any]]) -> Encoded:
        """The encoded rows of records, each from column to cell.

        A column that a record lacks is missing there. A record with a column that has no rule is refused.
        """
        known, strange = self._rules_by_column, {}
        for row, record in enumerate(records):
            if unknown := [name for name in record if name not in known]:
                strange[row] = RefusedCell(row, str(unknown[0]), self.without_rule(str(unknown[0])))
        columns = {name: [record.get(name) for record in records] for name in self.columns}
        return self.encode(columns, strange)

    @functools.cached_property
    def _rules_by_column(self) -> Mapping[str, ColumnRule]:
        return {rule.column: rule for rule in self.rules}

    def rule_of(self, name: str) -> ColumnRule | None:
        """The rule of a column, or None if it has none."""
        return self._rules_by_column.get(name)

    def without_rule(self, name: str) -> str:
        """The reason for refusing a column without a rule, with the name that was probably meant."""
        near = _nearest(name, self.columns) if len(name) <= limits.FEATURE_NAME_BYTES else None
        hint = "leave it out" if near is None else f"did you mean {near!r}?"
        return f"column {name!r:.100} has no rule in columns.rules; {hint}"

    @functools.cached_property
    def _words(self) -> MissingWords:
        return MissingWords(self.missing)

    def _check_table(self, table: Mapping[str, Cells]) -> int:
        absent = [name for name in self.columns if name not in table]
        if absent:
            near = difflib.get_close_matches(absent[0], list(map(str, table)), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(map(str, list(table)[:12]))}"
            raise TableMismatch(f"the table has no column {absent[0]!r}, which columns.rules has a rule for{hint}")
        lengths = {name: len(table[name]) for name in self.columns}
        rows = lengths[self.columns[0]]
        for name, length in lengths.items():
            if length != rows:
                raise TableMismatch(
                    f"the table has {rows} cells in column {self.columns[0]!r} and {length} in {name!r}; give as many"
                    " in each"
                )
        return rows


def coded(cells: Iterable[Any]) -> CodedCells:
    """A column of cells of any types as distinct cells and codes. 1, 1.0 and True are distinct here."""
    cells = cells if isinstance(cells, list | tuple) else list(cells)
    if len(kinds := set(map(type, cells))) == 1 and kinds < _TOLD_APART:
        # Most columns are of one type, and a dictionary of their cells is three times as fast.
        of_one_type = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
        return CodedCells(list(of_one_type), np.array(list(map(of_one_type.__getitem__, cells)), dtype=np.intp))
    places: dict[Any, int] = {}
    codes = [places.setdefault(cell if type(cell) is str else _told_apart(cell), len(places)) for cell in cells]
    different = [place if type(place) is str else place[1] for place in places]
    return CodedCells(different, np.array(codes, dtype=np.intp))


def chosen_cells(cells: Cells, rows: Positions) -> Cells:
    """Some cells of a column, by their indices intp[k]."""
    if isinstance(cells, CodedCells):
        return CodedCells(cells.cells, cells.codes[rows])
    return cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows.tolist()]


@dataclass(frozen=True)
class _Strange:
    """A cell of a type that no rule can read, such as a list."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _told_apart(cell: Any) -> tuple[type, Any, str]:
    if (kind := type(cell)) is bool or kind is int or cell is None:
        return (kind, cell, "")
    if is_nothing(cell):
        return (type(None), None, "")
    if not isinstance(cell, _KNOWN):
        return (_Strange, _Strange(shown(cell)), "")
    # The text tells -0.0 from 0.0, and Decimal("1.0") from Decimal("1.00"), which compare as equal.
    return (type(cell), cell, str(cell) if isinstance(cell, float | Decimal) else "")


def read_column(rule: ColumnRule, cells: Cells, words: MissingWords) -> tuple[Floats, Flags, dict[int, str]]:
    """The numbers float64[n] of a column, bool[n]: which are missing, and index of each row at fault to what is wrong.

    ``words``: the texts that stand for a missing value. The number of a missing or wrong cell means nothing.
    """
    if isinstance(cells, np.ndarray) and cells.ndim == 1:
        if isinstance(rule, NumberRule) and cells.dtype.kind in "fiu":
            return _read_numbers(rule, cells.astype(np.float64), words)
        cells = list(cells) if cells.dtype.kind == "M" else cells.tolist()
    if not isinstance(cells, CodedCells):
        cells = coded(cells)
    numbers = np.zeros(len(cells.cells))
    missing, wrong = np.zeros(len(cells.cells), dtype=np.bool_), np.zeros(len(cells.cells), dtype=np.bool_)
    faults: dict[int, str] = {}
    for place, cell in enumerate(cells.cells):
        plain = plain_cell(cell)
        if plain is None or plain in words:
            missing[place] = True
            continue
        try:
            numbers[place] = rule.read(plain)
        except ValueError as fault:
            faults[place] = f"{fault}: {shown(plain)}; {rule.cure()}"
            wrong[place] = True
    missing |= np.isnan(numbers)
    if isinstance(rule, NumberRule):
        missing |= np.isin(numbers, words.numbers) & ~wrong
    numbers[missing] = 0.0
    codes = np.asarray(cells.codes)
    rows = np.flatnonzero(wrong[codes]).tolist() if faults else []
    return numbers[codes], missing[codes], {row: faults[int(codes[row])] for row in rows}


def _read_numbers(rule: ColumnRule, numbers: Floats, words: MissingWords) -> tuple[Floats, Flags, dict[int, str]]:
    infinite = np.isinf(numbers)
    missing = np.isnan(numbers) | np.isin(numbers, words.numbers)
    reasons = {
        row: f"is infinite: {shown(float(numbers[row]))}; {rule.cure()}" for row in np.flatnonzero(infinite).tolist()
    }
    return np.where(missing | infinite, 0.0, numbers), missing, reasons
