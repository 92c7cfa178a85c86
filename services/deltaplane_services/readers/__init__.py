"""Data files as blocks of rows: CSV, Parquet, LIBSVM, ARFF, KEEL and JSON Lines, packed or not, from a path or a pipe.

Order of the modules: bounds, values (``rows``), single cells (``cells``, ``times``), bytes and lines (``live``,
``sources``, ``lines``), columns and rows of text tables (``layout``, ``screen``, ``columns``, ``rowwise``, ``table``),
the formats, and ``reader``, which chooses among them. ``rechunk`` regroups what they yield, ``shuffle`` mixes it.
"""

from __future__ import annotations

from deltaplane_services.readers.ahead import ReadAhead
from deltaplane_services.readers.cures import cure_of
from deltaplane_services.readers.live import LivePipe, is_live
from deltaplane_services.readers.reader import RowReader, open_rows
from deltaplane_services.readers.rechunk import rechunk
from deltaplane_services.readers.row_blocks import FORMATS, Decide, ReaderError, ReaderOptions, RefusedRow, RowBlock
from deltaplane_services.readers.shuffle import shuffled

__all__ = [
    "FORMATS",
    "Decide",
    "LivePipe",
    "ReadAhead",
    "ReaderError",
    "ReaderOptions",
    "RefusedRow",
    "RowBlock",
    "RowReader",
    "cure_of",
    "is_live",
    "open_rows",
    "rechunk",
    "shuffled",
]
