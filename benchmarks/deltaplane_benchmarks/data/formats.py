"""The formats the archives hold, bytes in and arrays out: tables, KEEL's files, IDX images, grey pictures.

Nothing here guesses: a value that is not where the format says is a :class:`DataDamaged` that names the place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats, Texts, UInt8s
from deltaplane_benchmarks.data.archives import DataDamaged

__all__ = ["IDX_UNSIGNED_BYTES", "PGM_HEADER", "Table", "headed", "headless", "idx", "keel", "numeric_csv", "pgm"]

IDX_UNSIGNED_BYTES = 0x08
PGM_HEADER = re.compile(rb"P5\s+(?:#[^\n]*\n\s*)*(\d+)\s+(\d+)\s+(\d+)\s")


@dataclass(frozen=True)
class Table:
    """Columns of text by name, all of one length."""

    columns: Mapping[str, Texts]

    def take(self, name: str) -> Texts:
        """One column. Raises :class:`DataDamaged` where there is none of that name."""
        if name not in self.columns:
            raise DataDamaged(f"table: expected a column {name!r}, got {list(self.columns)}")
        return self.columns[name]

    def numbers(self, names: Sequence[str]) -> Floats:
        """Some columns as float64[n, d]."""
        return np.column_stack([_numbers(name, self.take(name)) for name in names])

    def ordinal(self, name: str, order: Sequence[str]) -> Floats:
        """One column of words as their places in ``order``, 0, 1, 2, …: float64[n]."""
        column = self.take(name)
        places = {word: place for place, word in enumerate(order)}
        unknown = sorted(set(column.tolist()) - set(places))
        if unknown:
            raise DataDamaged(f"column {name!r}: expected one of {list(order)}, got {unknown[:5]}")
        return np.array([places[word] for word in column.tolist()], dtype=np.float64)


def _numbers(name: str, column: Texts) -> Floats:
    try:
        return column.astype(np.float64)
    except ValueError as fault:
        raise DataDamaged(f"column {name!r}: expected numbers, {fault}") from None


def headed(data: bytes) -> Table:
    """Comma-separated text whose first line names the columns."""
    lines = data.decode("latin-1").splitlines()
    return _table(lines[0].split(",") if lines else [], lines[1:])


def headless(data: bytes, names: Sequence[str]) -> Table:
    """Comma-separated text without a header, columns named by ``names``."""
    return _table(names, data.decode("latin-1").splitlines())


def keel(data: bytes) -> Table:
    """A KEEL file: a header of ``@attribute NAME …`` lines, ``@data``, then comma-separated rows."""
    lines = data.decode("latin-1").splitlines()
    names = [line.split()[1] for line in lines if line.lower().startswith("@attribute")]
    return _table(names, [line for line in lines if not line.lstrip().startswith("@")])


def _table(names: Sequence[str], lines: Sequence[str]) -> Table:
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]
    wrong = next((at for at, row in enumerate(rows) if len(row) != len(names)), None)
    if wrong is not None or not rows:
        got = "no rows" if wrong is None else f"{len(rows[wrong])} in row {wrong + 1}"
        raise DataDamaged(f"table: expected {len(names)} values in each row, got {got}")
    return Table({name.strip(): np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


def numeric_csv(data: bytes) -> tuple[list[str], Floats]:
    """A large table of nothing but numbers under a header: column names and float64[n, columns]."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(pa.BufferReader(data))
        return table.column_names, np.column_stack([column.to_numpy().astype(np.float64) for column in table.columns])
    except (pa.ArrowInvalid, ValueError) as fault:
        raise DataDamaged(f"table: expected numbers under a header, {fault}") from None


def idx(data: bytes) -> UInt8s:
    """An IDX file of unsigned bytes: a magic number, one size a dimension, then the bytes."""
    header = 4 + 4 * data[3] if len(data) > 3 else 4
    if len(data) < header or data[:2] != b"\0\0" or data[2] != IDX_UNSIGNED_BYTES:
        raise DataDamaged(f"idx: expected a file of unsigned bytes, got one that starts with {data[:4]!r}")
    sizes = [int.from_bytes(data[at : at + 4], "big") for at in range(4, header, 4)]
    body = np.frombuffer(data, dtype=np.uint8, offset=header)
    if len(body) != int(np.prod(sizes)):
        raise DataDamaged(f"idx: expected {sizes} bytes after the header, got {len(body)}")
    return body.reshape(sizes)


def pgm(data: bytes) -> UInt8s:
    """A grey picture (binary PGM of one byte a pixel): uint8[height, width].

    A file that was once treated as text, each line feed turned into two bytes, is turned back; see :func:`_undone`.
    """
    text = data.startswith(b"P5\r\n")
    plain = data.replace(b"\r\n", b"\n") if text else data
    found = PGM_HEADER.match(plain)
    if found is None or int(found[3]) > 255:
        raise DataDamaged(f"pgm: expected a binary grey picture of one byte a pixel, got {data[:16]!r}")
    width, height = int(found[1]), int(found[2])
    body = plain[found.end() :]
    if text and len(body) == width * height - 1:
        return _undone(data, found.group().count(b"\n"), (height, width))
    if len(body) != width * height:
        raise DataDamaged(f"pgm: expected {width} x {height} pixels, got {len(body)}")
    return np.frombuffer(body, dtype=np.uint8).reshape(height, width)


def _undone(data: bytes, header_lines: int, shape: tuple[int, int]) -> UInt8s:
    """A picture of which just one pair of bytes that looks like a line end is two pixels: the smoothest that can be.

    A wrong choice shifts the pixels between two pairs by one place, which tears edges at every line.
    """
    parts = data.split(b"\r\n")[header_lines:]
    candidates = [
        np.frombuffer(b"\n".join(parts[:at]) + b"\r\n" + b"\n".join(parts[at:]), dtype=np.uint8).reshape(shape)
        for at in range(1, len(parts))
    ]
    return min(candidates, key=lambda picture: int(np.abs(np.diff(picture.astype(np.int64), axis=0)).sum()))
