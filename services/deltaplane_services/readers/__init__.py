"""Data files of each of the declared formats as blocks of rows, packed or not, from a path or a pipe.

Where to begin: ``row_blocks`` has the values that readers yield, and their options; ``bounds`` has the limits. Bytes
and lines come from ``byte_sources``, ``live`` and ``lines``; single cells are read by ``cells`` and the modules of
times. Text tables are read by ``table``, by columns (``columns``, ``screen``) or row by row (``row_by_row_path``). Each
format has a module, and ``reader`` chooses among them. ``rechunk`` regroups blocks, and ``shuffle`` mixes rows.
"""

from __future__ import annotations

from deltaplane_services.readers.ahead import ReadAhead
from deltaplane_services.readers.cells import MISSING
from deltaplane_services.readers.coded_texts import codes_of
from deltaplane_services.readers.cures import cure_of
from deltaplane_services.readers.live import LivePipe, is_live
from deltaplane_services.readers.reader import RowReader, format_of_name, open_rows
from deltaplane_services.readers.rechunk import rechunk
from deltaplane_services.readers.row_blocks import (
    Decide,
    Looked,
    ReaderError,
    ReaderOptions,
    RefusedRow,
    RowBlock,
)
from deltaplane_services.readers.shuffle import shuffled

__all__ = [
    "MISSING",
    "Decide",
    "LivePipe",
    "Looked",
    "ReadAhead",
    "ReaderError",
    "ReaderOptions",
    "RefusedRow",
    "RowBlock",
    "RowReader",
    "codes_of",
    "cure_of",
    "format_of_name",
    "is_live",
    "open_rows",
    "rechunk",
    "shuffled",
]
