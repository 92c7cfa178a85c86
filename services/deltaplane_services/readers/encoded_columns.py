"""Columns that are encoded by rules: the cells of a file become the features of a stream.

The encoder decides what a cell means. The reader knows how the file writes numbers (a decimal comma, a sign before
each), so that a column of numbers is read in its form first. The path by columns and the path by rows give the encoder
the same cells, so that a row has the same features on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from deltaplane.columns.cells import Word
from deltaplane.columns.encoder import Cells, CodedCells, Encoded, Encoder
from deltaplane.columns.rules import NumberRule
from deltaplane_services.readers.layout import Layout
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions

__all__ = ["FirstCells", "RowEncoder", "are_numbers", "cells_of", "encoded_layout", "first_cells", "looked_at"]

FirstCells: TypeAlias = tuple[Mapping[str, Cells], Sequence[str]]
"""(column to the cells of the first rows, the labels of these rows)."""


class RowEncoder:
    """Encodes rows and columns of a layout that has an encoder."""

    def __init__(self, layout: Layout) -> None:
        assert layout.encoder is not None, "a layout of encoded columns has an encoder"
        self._encoder = layout.encoder
        self._position = {layout.names[position]: position for position in layout.features}
        # The columns of numbers that are not written as Python writes them.
        self._forms = {
            rule.column: form.read
            for rule in self._encoder.rules
            if isinstance(rule, NumberRule)
            and not (form := layout.form_of(self._position[rule.column])).is_as_python_writes
        }

    def of_rows(self, rows: Sequence[Sequence[str]]) -> Encoded:
        """The features of n rows, each of which has the cells of all columns of the file."""
        table: dict[str, Cells] = {}
        for name in self._encoder.columns:
            position = self._position[name]
            cells: Sequence[Any] = [row[position] for row in rows]
            table[name] = self._in_form(name, cells)
        return self._encoder.encode(table)

    def of_columns(self, table: Any) -> Encoded:
        """The features of an Arrow table of texts, whose columns are named by their positions."""
        cells = {name: self._of_column(name, table.column(str(self._position[name]))) for name in self._encoder.columns}
        return self._encoder.encode(cells)

    def _of_column(self, name: str, column: Any) -> Cells:
        encoded = column.combine_chunks().dictionary_encode()
        different = self._in_form(name, encoded.dictionary.to_pylist())
        return CodedCells(different, encoded.indices.to_numpy().astype("intp"))

    def _in_form(self, name: str, cells: Sequence[Any]) -> Sequence[Any]:
        read = self._forms.get(name)
        return cells if read is None else [_read(read, cell) for cell in cells]


def _read(read: Callable[[str], float], cell: str) -> float | str:
    """The number in a cell; a text that is none in this form is a word, for the encoder to refuse as a number."""
    with suppress(ValueError):
        return read(cell)
    return Word(cell.strip())


def are_numbers(layout: Layout, rows: Sequence[Sequence[str]]) -> bool:
    """Whether all features of the rows can be read as numbers, and none is missing."""
    for position in layout.features:
        codes, read = layout.codes.get(position), layout.form_of(position).read
        for cell in {row[position] for row in rows}:
            try:
                number = read(cell) if codes is None else codes[cell.strip()]
            except (KeyError, ValueError):
                return False
            if number != number:  # noqa: PLR0124 - only what is not a number differs from itself.
                return False
    return True


def encoded_layout(layout: Layout, options: ReaderOptions, look: Callable[[], FirstCells | None]) -> Layout:
    """The layout with the declared encoder, or the one decided from the first rows; unchanged if there is neither.

    ``look`` returns the first cells to decide on, or None if all are numbers; it is not called if rules are declared.
    Raises :class:`DefinitionError` if there is nothing to decide on, and ReaderError if the rules do not fit the file.
    """
    if options.encoder is not None:
        return _with_encoder(layout, options.encoder)
    if options.decide is None or (first := look()) is None:
        return layout
    return _with_encoder(layout, options.decide(*first))


def first_cells(layout: Layout, rows: Sequence[Sequence[str]], *, fill_in: bool) -> FirstCells | None:
    """The first cells to decide rules on; None if there are no rows, or all features are numbers and stay as they are.

    ``fill_in``: columns of numbers are to have rules, too.
    """
    if not rows or (not fill_in and are_numbers(layout, rows)):
        return None
    assert layout.label is not None, "rules are decided on by labels"
    return cells_of(layout, rows, layout.features), [layout.labels(row[layout.label]) for row in rows]


def cells_of(layout: Layout, rows: Sequence[Sequence[str]], positions: Iterable[int]) -> dict[str, Cells]:
    """Cells of rows of text by column, numbers that are not written as Python has them being read already."""
    table: dict[str, Cells] = {}
    for position in positions:
        form = layout.form_of(position)
        cells: list[Any] = [row[position] for row in rows]
        table[layout.names[position]] = cells if form.is_as_python_writes else [_read(form.read, one) for one in cells]
    return table


def looked_at(layout: Layout) -> list[int]:
    """Positions of the columns that are looked at, in the order of the file."""
    return sorted({*layout.features} if layout.label is None else {*layout.features, layout.label})


def _with_encoder(layout: Layout, encoder: Encoder) -> Layout:
    absent = [name for name in encoder.columns if name not in layout.names]
    if absent:
        raise ReaderError(f"The file has no column `{absent[0]}`, which [columns] has a rule for.")
    positions = tuple(layout.names.index(name) for name in encoder.columns)
    if both := [layout.names[position] for position in positions if position in layout.texts]:
        raise ReaderError(f"The column `{both[0]}` has a rule in [columns], and is named as label, id or time as well.")
    return replace(layout, features=positions, encoder=encoder, codes={})
