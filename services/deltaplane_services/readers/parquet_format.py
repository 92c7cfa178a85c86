"""Parquet: typed columns, read in batches through a bounded buffer.

Numbers, booleans (0 and 1) and decimals can be features. Labels and ids may be of any plain type and are written in one
spelling: ``1`` for 1 and for 1.0, ``true``, ``1996-05-07``. Times may be timestamps of any unit, dates, numbers (seconds
since the epoch) or ISO 8601 text. A pipe is copied to a temporary file first: the format is read from its end.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from deltaplane_services.readers.bounds import BLOCK_BYTES, MATRIX_BYTES, rows_of_a_block
from deltaplane_services.readers.cells import canonical_label, clip
from deltaplane_services.readers.layout import Layout, choose_columns
from deltaplane_services.readers.rows import ReaderError, ReaderOptions, RowBlock
from deltaplane_services.readers.screen import reasons_to_refuse, without_refused
from deltaplane_services.readers.sources import ByteSource
from deltaplane_services.readers.times import (
    milliseconds_of_seconds,
    milliseconds_of_ticks,
    read_time,
    times_of_text,
)

MAGIC = b"PAR1"
_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SHOWN_CELLS = 12


def open_parquet(source: ByteSource, options: ReaderOptions) -> tuple[tuple[str, ...], Iterator[RowBlock]]:
    """Names of the features, and the row blocks; raises ReaderError where the columns and options do not go together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if source.peek(len(MAGIC)) != MAGIC:
        raise ReaderError(
            f"{source.name} is not a Parquet file: it should start with `PAR1` and starts with {source.peek(4)!r}. "
            "If it is another kind of file, name it with `--format`."
        )
    stream, owned = _seekable(source)
    try:
        columns = len(pq.read_schema(stream).names)
        stream.seek(0)
        file = pq.ParquetFile(stream, pre_buffer=False, buffer_size=_buffer_bytes(columns))
    except (pa.ArrowException, OSError) as error:
        if owned: stream.close()
        raise ReaderError(f"{source.name} is not a whole Parquet file: {error}. Fetch or write it again.") from error
