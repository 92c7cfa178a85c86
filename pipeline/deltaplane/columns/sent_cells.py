"""Cells as messages carry them: null, a boolean, a number or a text, which a rule reads exactly as the cell itself.

A cell without such a form (a list, or a time in a column without a time rule) is refused here, before it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.columns.cells import plain_cell, shown
from deltaplane.columns.encoder import Cells, CodedCells, Encoder, coded
from deltaplane.columns.rules import ColumnRule, TimeRule
from deltaplane.columns.times import time_text
from deltaplane.errors import RowsRefused

__all__ = ["FIRST_NUMBER", "SentCell", "SentColumn", "sent_column", "sent_row"]

SentCell: TypeAlias = bool | int | float | str | None

FIRST_NUMBER = 3
"""The code of the first number of a column, after the codes of missing, false and true."""

_LONG = 2**63
_EXACT = 2**53
_PLAIN = (type(None), bool, float, str)


def _sent_cell(cell: Any, rule: ColumnRule) -> SentCell:
    """A cell as a message carries it. Raises ValueError if it has no such form; the text is the end of a sentence."""
    plain = plain_cell(cell)
    if type(plain) in _PLAIN:
        sent: SentCell = plain
    elif isinstance(plain, bool | int):
        sent = plain if -_LONG <= plain < _LONG else str(plain)
    elif isinstance(plain, Decimal):
        sent = str(plain)
    elif isinstance(plain, date | np.datetime64) and isinstance(rule, TimeRule):
        sent = time_text(plain)
    else:
        raise ValueError("is neither a number nor a text, nor true or false, nor None")
    if isinstance(sent, str):
        try:
            sent.encode()
        except UnicodeEncodeError:
            raise ValueError("is no Unicode text (half of a surrogate pair)") from None
    return sent


def sent_row(row: Mapping[str, Any], columns: Encoder) -> dict[str, SentCell]:
    """Column to cell of one row, without cells that are None or NaN.

    Raises :class:`RowsRefused` if a column has no rule, or if a cell cannot be sent.
    """
    sent: dict[str, SentCell] = {}
    for name, cell in row.items():
        rule = columns.rule_of(name)
        if rule is None:
            raise RowsRefused(f"row: {columns.without_rule(name)}")
        try:
            if (one := _sent_cell(cell, rule)) is not None:
                sent[name] = one
        except ValueError as fault:
            raise RowsRefused(f"row: column {name!r} {fault}: {shown(cell)}; {rule.cure()}") from None
    return sent


@dataclass(frozen=True, eq=False)
class SentColumn:
    """A column of n rows: the distinct ``numbers`` float64[k] and ``texts``, and the ``codes`` of the rows.

    ``codes`` int64[n]: 0 is missing, 1 false, 2 true, followed by the numbers and then the texts. If they are None, row
    i has number i, and NaN is missing.
    """

    numbers: Floats
    texts: list[str]
    codes: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None

    @property
    def code_bytes(self) -> int:
        """The bytes of a code: 1, 2 or 4."""
        last = FIRST_NUMBER + len(self.numbers) + len(self.texts) - 1
        return 1 if last < 2**8 else 2 if last < 2**16 else 4


def sent_column(cells: Cells, rule: ColumnRule) -> SentColumn:
    """A column as a batch carries it. Raises :class:`RowsRefused` if a cell cannot be sent."""
    if isinstance(cells, np.ndarray) and cells.ndim == 1 and cells.dtype.kind in "fiu":
        numbers = cells.astype(np.float64)
        # Not all larger integers are float64, so they are sent as texts.
        if cells.dtype.kind == "f" or not len(cells) or float(np.abs(numbers).max()) < _EXACT:
            return SentColumn(numbers, [])
    given = cells if isinstance(cells, CodedCells) else coded(list(cells))
    # Distinct cells that no row has are not sent.
    met, codes = np.unique(given.codes, return_inverse=True)
    different = [given.cells[at] for at in met.tolist()]
    places, kinds = np.zeros(len(different), dtype=np.int64), np.zeros(len(different), dtype=np.int64)
    numbers_of: list[float] = []
    texts: list[str] = []
    for at, cell in enumerate(different):
        try:
            sent = _sent_cell(cell, rule)
        except ValueError as fault:
            row = int(np.flatnonzero(codes == at)[0])
            reason = f"column {rule.column!r} {fault}: {shown(cell)}; {rule.cure()}"
            raise RowsRefused(f"row {row}: {reason}", {row: reason}) from None
        if isinstance(sent, bool):
            places[at] = 1 + sent
        elif isinstance(sent, float) or (isinstance(sent, int) and abs(sent) <= _EXACT):
            places[at], kinds[at] = len(numbers_of), 1
            numbers_of.append(float(sent))
        elif sent is not None:
            places[at], kinds[at] = len(texts), 2
            texts.append(str(sent))
    places += np.array([0, FIRST_NUMBER, FIRST_NUMBER + len(numbers_of)], dtype=np.int64)[kinds]
    column = SentColumn(np.array(numbers_of, dtype=np.float64), texts, places[codes])
    as_numbers = not texts and not np.isin(places, (1, 2)).any()
    if as_numbers and 8 * len(codes) <= 8 * len(numbers_of) + column.code_bytes * len(codes):
        return SentColumn(np.array([np.nan, np.nan, np.nan, *numbers_of])[places[codes]], [])
    return column
