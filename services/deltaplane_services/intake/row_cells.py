"""Rows of cells between a record, the store and a message: as lists, as texts in JSON, and as columns of many rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

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

    def table(self, rows: Sequence[Sequence[Any]]) -> dict[str, Cells]:
        """Column to the cells of some rows, at least one."""
        columns = zip(*rows, strict=True)
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
    """Each row of cells, of which none is a list or an object, as a list in JSON; all have as many."""
    if not rows or not rows[0]:
        return ["[]"] * len(rows)
    # One call for all is several times as fast. No text of JSON has a line feed within, since it is escaped there.
    cells = _in_lines(list(itertools.chain.from_iterable(rows)))[1:-1].split(",\n")
    width = len(rows[0])
    assert len(cells) == width * len(rows), "no cell is a list or an object"
    return [f"[{','.join(cells[at : at + width])}]" for at in range(0, len(cells), width)]


def from_texts(texts: Sequence[str]) -> list[list[Any]]:
    """The rows that :func:`as_texts` has written."""
    rows: list[list[Any]] = json.loads(f"[{','.join(texts)}]")
    return rows


_in_lines = json.JSONEncoder(separators=(",\n", ":")).encode
