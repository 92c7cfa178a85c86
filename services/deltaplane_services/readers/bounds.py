"""The bounds on what a reader holds of a file at once, with reasons; the relations between them are asserted."""

from __future__ import annotations

from deltaplane import limits

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_ROWS",
    "LEAF_ROWS",
    "LINE_BYTES",
    "MATRIX_BYTES",
    "MOST_NUMERIC_CLASSES",
    "RECORD_BYTES",
    "REFUSED_TEXT",
    "SAMPLE_ROWS",
    "SNIFF_BYTES",
    "UNPACKING_BYTES",
    "rows_of_a_block",
]

BLOCK_BYTES = 2**20
"""Bytes of text that are read at once. Longer blocks were no faster when measured, and every reader holds a few."""

LINE_BYTES = 2**20
"""The longest line in bytes; longer ones are refused. The widest stream at full precision takes a tenth of it."""

RECORD_BYTES = 2**20
"""The longest quoted record over several lines in bytes; longer ones are refused, so that an unclosed quote ends."""

BLOCK_ROWS = 8192
"""The most rows of a block if rows, not bytes, are counted, and the most refused rows of any block."""

MATRIX_BYTES = 16 * 2**20
"""The most bytes of one block's feature matrix, if its text may be much shorter (LIBSVM) or is none (Parquet)."""

LEAF_ROWS = 128
"""Lines down to which a LIBSVM block that is not regular is halved; so few are read one by one."""

REFUSED_TEXT = 120
"""The most characters of a refused row that are shown."""

SNIFF_BYTES = 2**16
"""Bytes that are read to recognise the format of a file."""

SAMPLE_ROWS = 100
"""Rows that are read to recognise how a CSV file is written."""

MOST_NUMERIC_CLASSES = 50
"""The most different numbers among labels of the first rows that are classes in any case; more may be measurements."""

UNPACKING_BYTES = 2**28
"""The most bytes that an xz file may need for its dictionary; the tool's highest level takes a quarter of it."""

assert BLOCK_BYTES <= LINE_BYTES, "only the first line of a block may be too long: the line cutter relies on it"
assert LEAF_ROWS <= MATRIX_BYTES // (8 * limits.FEATURES), "lines that were read one by one must fit one block"
assert MATRIX_BYTES >= 8 * limits.FEATURES, "one row of the widest stream must fit a block"


def rows_of_a_block(number_of_features: int) -> int:
    """The most rows with which a block of so many features stays within :data:`MATRIX_BYTES`; at least one."""
    return max(1, min(BLOCK_ROWS, MATRIX_BYTES // (8 * max(1, number_of_features))))
