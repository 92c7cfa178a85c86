"""The columns of tables in Python: data frames, Arrow tables, dictionaries, records.

Each form is recognised by its attributes, so neither pandas nor Arrow must be installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deltaplane.columns.encoder import Cells
from deltaplane.errors import RowsRefused

__all__ = ["columns_of"]


def columns_of(table: Any) -> dict[str, Cells]:
    """Column to cells of a data frame, an Arrow table, a dictionary of columns, a list of dictionaries, or rows [n, d].

    The columns of rows without names are ``x0``, ``x1`` and so on. A column that a dictionary lacks is missing there.
    Raises :class:`RowsRefused` for anything else, and for a data frame with two columns of one name.
    """
    if isinstance(table, Mapping):
        return {str(name): _cells(cells) for name, cells in table.items()}
    if hasattr(table, "column_names") and hasattr(table, "column"):
        return {str(name): _of_arrow(table.column(at)) for at, name in enumerate(table.column_names)}
    if hasattr(table, "columns") and hasattr(table, "dtypes"):
        # A data frame may have two columns of one name, which the dictionary returned cannot have.
        names = [str(name) for name in table.columns]
        if len(set(names)) < len(names):
            raise RowsRefused(f"columns: expected names that differ, got {names[:20]}; rename some")
        return {name: _of_series(table.iloc[:, at]) for at, name in enumerate(names)}
    if isinstance(table, Sequence) and len(table) and all(isinstance(record, Mapping) for record in table):
        names = list(dict.fromkeys(str(name) for record in table for name in record))
        return {name: [record.get(name) for record in table] for name in names}
    rows = np.asarray(table)
    if rows.ndim != 2:
        raise RowsRefused(
            f"columns: expected a data frame, an Arrow table, a dictionary of columns, a list of dictionaries or rows"
            f" [n, d], got {type(table).__name__} of shape {rows.shape}"
        )
    return {f"x{at}": rows[:, at] for at in range(rows.shape[1])}


def _cells(cells: Any) -> Cells:
    if hasattr(cells, "to_pylist"):
        return _of_arrow(cells)
    if hasattr(cells, "dtype") and hasattr(cells, "to_numpy"):
        return _of_series(cells)
    return cells if isinstance(cells, np.ndarray) else list(cells)


def _of_arrow(column: Any) -> Cells:
    """The cells of an Arrow array: a NumPy array if they are numbers and none is missing, else a list."""
    kind = str(column.type)
    if column.null_count == 0 and kind in {"double", "float", "int8", "int16", "int32", "int64", "uint8", "uint16"}:
        return np.asarray(column.to_numpy())
    return list(column.to_pylist())


def _of_series(series: Any) -> Cells:
    """The cells of a pandas series: a NumPy array of numbers, booleans or times without a zone, else a list."""
    kind = getattr(series.dtype, "kind", "O")
    if isinstance(series.dtype, np.dtype) and kind in "fiubM":
        return np.asarray(series.to_numpy())
    return list(series.astype(object))
