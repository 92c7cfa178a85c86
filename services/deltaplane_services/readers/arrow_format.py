"""Arrow's own file format, which data frames are saved in under the name of Feather, read as Parquet is.

Its record batches are read one by one. A writer that puts a whole table into one batch has it read at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.parquet_format import Opened, open_typed_columns
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions

__all__ = ["MAGIC", "open_arrow"]

MAGIC = b"ARROW1"
_FIRST_VERSION = b"FEA1"


def open_arrow(source: ByteSource, options: ReaderOptions) -> Opened:
    """(names of the features, row blocks). Raises ReaderError if columns and options do not go together."""
    import pyarrow as pa

    beginning = source.peek(len(MAGIC))
    if beginning.startswith(_FIRST_VERSION):
        raise ReaderError(f"{source.name} is Feather of the first version, which is read no more; write it as Parquet.")
    if beginning != MAGIC:
        raise ReaderError(
            f"{source.name} is not an Arrow file: it should start with {MAGIC!r} and starts with {beginning!r}. "
            "If it is another kind of file, name it with `--format`."
        )
    try:
        file = _ArrowFile(source.seekable_stream())
    except (pa.ArrowException, OSError, ValueError) as error:  # A name that is not UTF-8 is a ValueError.
        raise ReaderError(f"{source.name} is not a whole Arrow file: {error} Fetch or write it again.") from error
    return open_typed_columns(file, source, options)


class _ArrowFile:
    """An Arrow file that is asked as a Parquet file is; a record batch is a row group."""

    def __init__(self, stream: IO[bytes]) -> None:
        import pyarrow as pa

        self._stream = stream
        self.schema_arrow = pa.ipc.open_file(stream).schema
        self.names: Sequence[str] = self.schema_arrow.names
        # Only a batch knows its rows, so of each batch the first column is read.
        reader = pa.ipc.open_file(stream, options=pa.ipc.IpcReadOptions(included_fields=[0]))
        groups = range(reader.num_record_batches)
        self.rows_of_groups: Sequence[int] = [reader.get_batch(group).num_rows for group in groups]

    def batches(
        self,
        rows: int,
        groups: Sequence[int],
        columns: Sequence[str],
        coded: str | None = None,  # noqa: ARG002 - a column comes as it lies.
    ) -> Iterator[Any]:
        """Record batches of at most so many rows, with these columns in this order."""
        import pyarrow as pa

        fields = [self.schema_arrow.get_field_index(name) for name in columns]
        reader = pa.ipc.open_file(self._stream, options=pa.ipc.IpcReadOptions(included_fields=fields))
        for group in groups:
            batch = reader.get_batch(group).select(list(columns))
            # A batch is the bytes of the file as they lie, and places in it may point anywhere.
            batch.validate(full=True)
            for at in range(0, batch.num_rows, rows):
                yield batch.slice(at, rows)
