"""How much of a file a reader may hold at once, each bound with its reason and the relations between them asserted."""

from __future__ import annotations

from deltaplane import limits

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_ROWS",
    "LEAF_ROWS",
    "LINE_BYTES",
    "MATRIX_BYTES",
    "RECORD_BYTES",
    "REFUSED_TEXT",
    "SAMPLE_ROWS",
    "SNIFF_BYTES",
    "UNPACKING_BYTES",
    "rows_of_a_block",
]

BLOCK_BYTES = 2**20
"""Bytes of text read at once. Longer blocks were no faster when measured, and every reader holds a few of them."""

LINE_BYTES = 2**20
"""A line of text above this is refused: the widest stream at full precision takes a tenth of it."""

RECORD_BYTES = 2**20
"""A quoted record that runs over several lines is refused above this, so that a quote nobody closes ends."""

BLOCK_ROWS = 8192
"""Rows of a block where rows, not bytes, are counted, and refused rows that any one block carries."""

MATRIX_BYTES = 16 * 2**20
"""Bytes of one block's feature matrix where the text may be much shorter than its rows (LIBSVM) or is none
(Parquet).
"""

LEAF_ROWS = 128
"""A LIBSVM block that is not regular is halved down to about this many lines, and these are read line by line."""

REFUSED_TEXT = 120
"""Characters of a refused row that are repeated to the user."""

SNIFF_BYTES = 2**16
"""Bytes from which the format of an unnamed file is told."""

SAMPLE_ROWS = 100
"""Rows that are looked at to tell how a CSV file is written."""

UNPACKING_BYTES = 2**28
"""Bytes that an xz file may need for its dictionary; the highest level of the tool takes a quarter of it."""

assert BLOCK_BYTES <= LINE_BYTES, "only the first line of a block may be too long: the line cutter relies on it"
assert LEAF_ROWS <= MATRIX_BYTES // (8 * limits.FEATURES), "lines that were read one by one must fit one block"
assert MATRIX_BYTES >= 8 * limits.FEATURES, "one row of the widest stream must fit a block"


def rows_of_a_block(number_of_features: int) -> int:
    """Rows of a block of that many features which keep its matrix within :data:`MATRIX_BYTES`, at least one."""
    return max(1, min(BLOCK_ROWS, MATRIX_BYTES // (8 * max(1, number_of_features))))
