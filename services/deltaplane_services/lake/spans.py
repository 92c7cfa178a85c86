"""A large Parquet file in spans of row groups, which processes sum side by side; the file's sum is that of its spans.

Where a file is cut follows from the file alone, and so do the facts of it that a history keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deltaplane_services.lake.file_sums import SummedFile
from deltaplane_services.readers import format_of_name

__all__ = ["ROWS_OF_A_SPAN", "Span", "crc_of_joined", "joined", "spans_of"]

Span = tuple[int, int]
"""(the first row group, the one behind the last)."""

ROWS_OF_A_SPAN = 2**20
"""The fewest rows of a span, but for the last of a file: they take longer than starting on them does."""

_BYTES_OF_A_SMALL_FILE = 2**24
"""A file of no more bytes is not looked into."""

_POLYNOMIAL = 0xEDB88320
"""That of CRC-32, the lowest power in the highest bit."""


def spans_of(path: Path, name: str) -> Sequence[Span | None]:
    """The spans of a file in order; None alone where it is taken as a whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if format_of_name(name) != "parquet" or path.stat().st_size <= _BYTES_OF_A_SMALL_FILE:
            return [None]
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError, ValueError):
        return [None]  # What is wrong with it is said where it is read.
    spans, begin, rows = list[Span | None](), 0, 0
    for group in range(metadata.num_row_groups):
        rows += metadata.row_group(group).num_rows
        if rows >= ROWS_OF_A_SPAN:
            spans.append((begin, group + 1))
            begin, rows = group + 1, 0
    if begin < metadata.num_row_groups:
        spans.append((begin, metadata.num_row_groups))
    return spans if len(spans) > 1 else [None]


def joined(spans: Sequence[SummedFile]) -> SummedFile:
    """What the spans of a file add up to, given in order."""
    total = spans[0]
    for span in spans[1:]:
        total = replace(
            total,
            partial=total.partial + span.partial,
            ids=crc_of_joined(total.ids, span.ids, span.id_bytes),
            id_bytes=total.id_bytes + span.id_bytes,
        )
    return replace(total, hashes=np.concatenate([span.hashes for span in spans]))


def crc_of_joined(first: int, second: int, second_length: int) -> int:
    """The CRC-32 of two texts one after the other, of their own ones and the length of the second in bytes."""
    power, square = 1 << 31, 1 << 23  # 1, and x to the power of a byte's bits.
    while second_length:
        if second_length & 1:
            power = _product(power, square)
        square, second_length = _product(square, square), second_length >> 1
    return _product(power, first) ^ second


def _product(one: int, other: int) -> int:
    """The product of two polynomials modulo that of CRC-32."""
    product = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            product ^= other
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product
