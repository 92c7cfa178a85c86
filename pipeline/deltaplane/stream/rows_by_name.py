"""Rows with named cells, in any form that Python has for them, as the features that a stream learns from.

The forms are one dictionary, a list of them, a dictionary of columns, a data frame and an Arrow table. With
``[columns]`` the encoder of the definition makes features of the cells. Without it, the columns are the features, in
any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.columns.cells import number_of, plain_cell, shown
from deltaplane.columns.encoder import Cells, CodedCells, Encoder
from deltaplane.columns.rules import NumberRule
from deltaplane.columns.tables_given import columns_of
from deltaplane.errors import TableMismatch
from deltaplane.stream.definition import StreamDefinition

__all__ = ["features_by_name", "features_of", "is_by_name", "table_by_name"]


def features_of(definition: StreamDefinition, rows: Any) -> tuple[Any, Mapping[int, str]]:
    """Rows as :func:`deltaplane.log.answers.answer` takes them, and why some of them have no features, by their index.

    ``rows`` have names for their cells, or are numbers in the order of the features, which are left as they are.
    Raises what :func:`features_by_name` raises.
    """
    return features_by_name(definition, rows) if is_by_name(rows) else (rows, {})


def is_by_name(rows: Any) -> bool:
    """Whether rows have names for their cells. All other rows are numbers in the order of the features."""
    if isinstance(rows, Mapping) or hasattr(rows, "column_names") or hasattr(rows, "columns"):
        return True
    return _is_records(rows)


def _is_records(rows: Any) -> bool:
    return isinstance(rows, list | tuple) and len(rows) > 0 and all(isinstance(row, Mapping) for row in rows)


def _is_one_row(rows: Any) -> bool:
    """Whether rows are a dictionary that is one row: empty, or with a value that is no list, array or series."""
    return isinstance(rows, Mapping) and not (rows and all(map(_is_column, rows.values())))


def _is_column(cells: Any) -> bool:
    return isinstance(cells, list | tuple | np.ndarray) or hasattr(cells, "to_numpy") or hasattr(cells, "to_pylist")


def table_by_name(definition: StreamDefinition, rows: Any) -> tuple[Mapping[str, Cells], dict[int, str]]:
    """The columns of rows for which :func:`is_by_name` is true, and reasons for the rows with an unknown column.

    The reasons are by the index of the row. A table may have more columns than the stream; they are ignored. A
    dictionary of a row may not, since a misspelt column would count as missing. Raises :class:`TableMismatch` if a
    table lacks a column, and :class:`RowsRefused` if ``rows`` are not a table.
    """
    names = definition.features if definition.columns is None else definition.columns.columns
    records = [rows] if _is_one_row(rows) else rows
    if not _is_records(records):
        table = columns_of(rows)
        if absent := [name for name in names if name not in table]:
            raise TableMismatch(
                f"the table has no column {absent[0]!r}, which stream {definition.name!r} reads; it has"
                f" {', '.join(map(str, list(table)[:12]))}. Rows without names are an array of features"
            )
        return table, {}
    known, strange = frozenset(names), dict[int, str]()
    for row, record in enumerate(records):
        if unknown := [str(name) for name in record if name not in known]:
            strange[row] = _named_encoder(definition).without_rule(unknown[0])
    return {name: [record.get(name) for record in records] for name in names}, strange


def _named_encoder(definition: StreamDefinition) -> Encoder:
    return definition.columns or Encoder(tuple(NumberRule(name, "fill") for name in definition.features))


def features_by_name(definition: StreamDefinition, rows: Any) -> tuple[Floats, Mapping[int, str]]:
    """The features float64[n, d] of rows for which :func:`is_by_name` is true, and the reason for each unreadable row.

    The features of such a row are NaN. Without ``[columns]`` a missing number is NaN, too; the definition says whether
    it is filled in or refused. Raises what :func:`table_by_name` raises.
    """
    table, reasons = table_by_name(definition, rows)
    if definition.columns is not None:
        encoded = definition.columns.encode(table)
        features, read = encoded.features, encoded.reasons
    else:
        features, read = _numbers(definition, table)
    refused = {**read, **reasons}
    features[list(refused)] = np.nan
    return features, refused


def _numbers(definition: StreamDefinition, table: Mapping[str, Cells]) -> tuple[Floats, dict[int, str]]:
    lengths = sorted({len(table[name]) for name in definition.features})
    if len(lengths) > 1:
        raise TableMismatch(f"the table has columns of {lengths[0]} and of {lengths[-1]} cells; give as many in each")
    columns, reasons = np.empty((lengths[0], len(definition.features))), dict[int, str]()
    for at, name in enumerate(definition.features):
        cells = table[name]
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiu":
            columns[:, at] = cells
            continue
        for row, cell in enumerate(cells.tolist() if isinstance(cells, np.ndarray) else _listed(cells)):
            plain = plain_cell(cell)
            try:
                columns[row, at] = np.nan if plain is None else number_of(plain)
            except ValueError as fault:
                reasons.setdefault(row, f"column {name!r} {fault}: {shown(plain)}; give a number")
    return columns, reasons


def _listed(cells: Cells) -> Sequence[Any]:
    return [cells.cells[code] for code in cells.codes.tolist()] if isinstance(cells, CodedCells) else list(cells)
