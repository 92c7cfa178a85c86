"""Rows of cells between a record, the store and a message: as lists, as texts in JSON, and as columns of many rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from deltaplane.columns.encoder import Cells
from deltaplane.columns.rules import NumberRule
from deltaplane.stream.definition import StreamDefinition

__all__ = ["RowColumns", "as_texts", "from_texts"]

_EXACT = 2**53


class RowColumns:
    """The columns of a stream: ``names``, and which of them are read as numbers whatever their cells are."""

    def __init__(self, definition: StreamDefinition, names: Iterable[str]) -> None:
        rules = definition.columns
        self._columns = [(name, rules is None or isinstance(rules.rule_of(name), NumberRule)) for name in names]

    def table(self, columns: Iterable[Sequence[Any]]) -> dict[str, Cells]:
        """Column to its cells, of ``columns`` that each have the cells of all rows, at least one."""
        return {
            name: _numbers(cells) if is_number else list(cells)
            for (name, is_number), cells in zip(self._columns, columns, strict=True)
        }


def _numbers(cells: Sequence[Any]) -> Cells:
    """The cells of a column of numbers; as an array where all are numbers that float64 has, which is read faster."""
    kinds = set(map(type, cells))
    if kinds == {float}:
        return np.array(cells)
    if kinds <= {float, int}:
        try:
            numbers = np.array(cells, dtype=np.float64)
        except OverflowError:
            return list(cells)
        if np.abs(numbers).max() < _EXACT:
            return numbers
    return list(cells)


def as_texts(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Each row of cells, of which none is a list or an object, as a list in JSON."""
    if not rows:
        return []
    try:
        # One call for all. No text of JSON has a line feed within, since it is escaped there.
        texts = _encoder.encode_lines(rows)
    except (UnicodeEncodeError, TypeError):
        return [json.dumps(row) for row in rows]
    # It writes null for what is infinite or no number.
    if b"null" in texts and any(type(cell) is float and not math.isfinite(cell) for row in rows for cell in row):
        return [json.dumps(row) for row in rows]
    return texts.decode().split("\n")[:-1]


def from_texts(texts: Sequence[str]) -> list[list[Any]]:
    """The rows that :func:`as_texts` has written."""
    joined = f"[{','.join(texts)}]"
    rows: list[list[Any]]
    try:
        rows = msgspec.json.decode(joined)
    except msgspec.MsgspecError:
        rows = json.loads(joined)
    return rows


_encoder = msgspec.json.Encoder()
