"""Tables written part by part: CSV or Parquet, by the end of the file's name."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from deltaplane.errors import DefinitionError

__all__ = ["KINDS_OF_FILE", "check_kind", "table_writer"]

KINDS_OF_FILE = (".csv", ".parquet")
"""The endings that the name of a file of predictions may have."""


def check_kind(path: Path | None, what: str) -> None:
    """Raise :class:`DefinitionError` for a name without one of these endings; ``what`` is the option that gave it."""
    if path is not None and path.suffix not in KINDS_OF_FILE:
        raise DefinitionError(f"{what}: expected a file that ends in .csv or .parquet, got {str(path)!r}")


def table_writer(kind: str, file: IO[bytes], schema: Any) -> Any:
    """A writer of Arrow tables with a schema to a file of this kind; the caller must close it.

    A CSV file has its header at once, with names as they are. The tables are written one after the other.
    """
    if kind == ".csv":
        from pyarrow import csv

        file.write(f"{','.join(schema.names)}\n".encode())
        return csv.CSVWriter(file, schema, write_options=csv.WriteOptions(include_header=False, quoting_style="needed"))
    from pyarrow import parquet

    return parquet.ParquetWriter(file, schema)
