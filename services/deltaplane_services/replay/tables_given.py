"""Tables in memory, written as the bytes of a Parquet file, so that they are read as such a file would be.

A row therefore has the same integers wherever it comes from. Only the type of a column is decided here. The cost is a
packed copy of the table.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from deltaplane.columns.cells import plain_cell, text_of
from deltaplane.errors import DeltaplaneError

__all__ = ["NAME", "TableRefused", "as_parquet"]

NAME = "the table"
_LONGEST = 2**20


class TableRefused(DeltaplaneError):
    """The value is not a table, or holds cells that no file could hold."""


class _Bytes(io.BytesIO):
    """Bytes that error messages call "the table"."""

    name = NAME


def as_parquet(given: Any) -> _Bytes:
    """The bytes of a Parquet file with the columns of ``given``, positioned at the start.

    ``given`` is a data frame of pandas or Polars, an Arrow table, any object with Arrow's C stream interface, a
    dictionary of columns, or an iterable of dictionaries, one for each row. A column that a dictionary lacks is missing
    in that row. Raises :class:`TableRefused` for anything else.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = _Bytes()
    try:
        table = _arrow(given)
        # Numbers with a point hardly repeat: looking for those that do took five times as long as writing them.
        others = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
        pq.write_table(table, out, use_dictionary=others, write_statistics=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TableRefused(f"table: it cannot be read column by column: {str(error)[:300]}") from error
    out.seek(0)
    return out


def _arrow(given: Any) -> Any:
    """``given`` as an Arrow table."""
    import pyarrow as pa

    if isinstance(given, pa.Table):
        return given
    if hasattr(given, "iloc") and hasattr(given, "columns"):
        # By position: a data frame may have two columns with one name, and the reader tells them apart.
        columns = [_column(given.iloc[:, at]) for at in range(len(given.columns))]
        return pa.Table.from_arrays(columns, names=list(map(str, given.columns)))
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    if isinstance(given, Mapping):
        return pa.table({str(name): _column(cells) for name, cells in given.items()})
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return _of_records(given)
    raise _no_table(given)


def _of_records(given: Iterable[Any]) -> Any:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {}
    rows = 0
    for record in given:
        if not isinstance(record, Mapping):
            raise _no_table(given, f" of {type(record).__name__}, {rows + 1} being {str(record)[:60]!r}")
        for name, cell in record.items():
            column = columns.setdefault(str(name), [])
            column += [None] * (rows - len(column))
            column.append(cell)
        rows += 1
    return pa.table({name: _column(cells + [None] * (rows - len(cells))) for name, cells in columns.items()})


def _no_table(given: Any, what: str = "") -> TableRefused:
    return TableRefused(
        "table: expected a path, a data frame, an Arrow table, a dictionary of columns or dictionaries, one a row; got"
        f" {type(given).__name__}{what}"
    )


def _column(cells: Any) -> Any:
    """Cells as an Arrow array: of one type if Arrow finds one, else of strings."""
    import pyarrow as pa

    if isinstance(cells, pa.Array | pa.ChunkedArray):
        return cells
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        column = pa.array(cells, from_pandas=True)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        # Extension types of pandas (periods, intervals) are written as their text.
        if not isinstance(kind, pa.BaseExtensionType):
            return column
    return pa.array([_text(cell) for cell in _one_by_one(cells)], pa.string(), from_pandas=True)


def _one_by_one(cells: Any) -> Sequence[Any]:
    return list(cells.astype(object)) if hasattr(cells, "astype") else list(cells)


def _text(cell: Any) -> str | None:
    """A cell of a column of mixed types as text: numbers as a column rule reads them, other objects by ``str``."""
    plain = plain_cell(cell)
    if plain is None:
        return None
    return text_of(plain, _LONGEST) if isinstance(plain, bool | int | float) else str(plain)
