"""The fastest path, for tables whose features are whole numbers: it works on all bytes of a piece of text at once.

A parser reads cell after cell, although most cells of such tables are a digit or two. Here, a few operations over all
bytes compute the number that ends with each byte, and each cell takes the number that ends with its last byte. Only
simple cells are read: up to eight digits, with or without a minus. All others are left to the other paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Flags, Floats, Integers, Positions, UInt8s
from deltaplane_services.readers.layout import Layout
from deltaplane_services.readers.lines import count_newlines

__all__ = ["WholeNumberParser", "WholeNumbers"]

_BYTES_AT_ONCE = 2**19
"""Bytes of text that are read at once. With fewer, results would stay in the cache, and reading alone would be a little
faster. But another thread works on earlier rows meanwhile, and each operation may wait for the interpreter's lock, so
that few operations on many bytes are better."""

_NEWLINE, _MINUS, _ZERO = b"\n-0"


@dataclass(frozen=True, slots=True, eq=False)
class WholeNumbers:
    """The ``features`` float64[n, d] of a block, and position of a text column to its n cells, as they are written."""

    features: Floats
    texts: dict[int, list[str]]


class WholeNumberParser:
    """A parser from blocks of whole lines to numbers, for one layout and delimiter; the lines must hold no quotes."""

    def __init__(self, layout: Layout, delimiter: str) -> None:
        self._delimiter = ord(delimiter)
        self._columns = len(layout.names)
        self._number_of_features = len(layout.features)
        self._texts = layout.texts
        first, last = layout.features[0], layout.features[-1]
        adjoin = layout.features == tuple(range(first, last + 1))
        self._features = slice(first, last + 1) if adjoin else np.array(layout.features)
        # Column to the number of its feature; -1 if it is none.
        self._place = np.full(self._columns, -1)
        self._place[self._features] = np.arange(self._number_of_features)
        self._is_possible = not delimiter.isdigit() and not layout.codes

    def parse(self, data: bytes) -> WholeNumbers | None:
        """All rows of the lines, or None if a row or a feature needs a closer look."""
        if not (self._is_possible and data.isascii() and data.endswith(b"\n")):
            return None
        features = np.empty((count_newlines(data), self._number_of_features))
        texts: dict[int, list[str]] = {position: [] for position in self._texts}
        row = at = 0
        while at < len(data):
            end = data.rfind(b"\n", at, at + _BYTES_AT_ONCE) + 1 or data.index(b"\n", at) + 1
            lines = b"\n" + data[at:end]  # Then every cell has a separator before it.
            last = self._parse_lines(lines, features[row:])
            if last is None:
                return None
            for position in self._texts:
                last_before = last[:, position - 1] if position else np.append(-1, last[:-1, -1])
                texts[position] += _texts(lines, last_before + 2, last[:, position] + 1)
            row, at = row + len(last), end
        return WholeNumbers(features, texts)

    def _parse_lines(self, lines: bytes, features: Floats) -> Positions | None:
        """The position of the last byte of each cell, intp[n, columns], for n lines; None if they cannot be read.

        The first n rows of ``features`` float64[·, d] are filled.
        """
        characters = np.frombuffer(lines, dtype=np.uint8)
        ends_line = characters == _NEWLINE
        separates = ends_line | (characters == self._delimiter)
        every_last = np.flatnonzero(separates[1:])
        rows = np.count_nonzero(ends_line[1:])
        if len(every_last) != rows * self._columns:
            return None
        last = every_last.reshape(rows, self._columns)
        if not ends_line[last[:, -1] + 1].all():
            return None
        digits = characters - np.uint8(_ZERO)
        is_digit = digits <= 9
        digits *= is_digit
        numbers, too_long = _numbers_ending_at(digits, is_digit)
        # Bytes that show that a cell is not a number: another character, a digit too many, or an empty cell.
        is_odd = ~(separates | is_digit) | too_long
        is_odd[:-1] |= separates[:-1] & separates[1:]
        features[:rows] = numbers.take(last)[:, self._features]
        odd = np.flatnonzero(is_odd)
        row, column = np.divmod(np.searchsorted(every_last, odd), self._columns)
        place = self._place[column]
        of_feature = place >= 0
        row, place, odd = row[of_feature], place[of_feature], odd[of_feature]
        if not ((characters[odd] == _MINUS) & separates[odd - 1] & is_digit[odd + 1]).all():
            return None
        features[row, place] *= -1.0
        return last


def _numbers_ending_at(digits: UInt8s, is_digit: Flags) -> tuple[Integers, Flags]:
    """(the number of up to eight digits that ends with each byte, bool[n]: which have more than eight digits).

    ``digits`` is uint8[n], with 0 for a byte that is no digit. Numbers are joined from halves: of one digit each, then
    of two, then of four. The number of a byte that is no digit is undefined.
    """
    too_long = np.zeros_like(is_digit)
    twos = digits.copy()
    twos[1:] += 10 * digits[:-1]
    two = is_digit[1:] & is_digit[:-1]  # Whether there are two digits from here on.
    fours = twos.astype(np.int16)
    fours[2:] += np.multiply(twos[:-2] * two[:-1], 100, dtype=np.int16)
    four = two[2:] & two[:-2]
    if not (four[1:] & is_digit[:-4]).any():
        return fours, too_long
    eights = fours.astype(np.int32)
    eights[4:] += np.multiply(fours[:-4] * four[:-1], 10_000, dtype=np.int32)
    eight = four[4:] & four[:-4]
    too_long[8:] = eight[1:] & is_digit[:-8]
    return eights, too_long


def _texts(lines: bytes, starts: Positions, stops: Positions) -> list[str]:
    """The cells between ``starts`` and ``stops`` of ASCII text, none of which holds a newline.

    They are copied as lines, which are then split at once.
    """
    sizes = stops - starts + 1
    ends = np.cumsum(sizes)
    copied = np.frombuffer(lines, dtype=np.uint8)[np.arange(ends[-1]) + np.repeat(starts + sizes - ends, sizes)]
    copied[ends - 1] = _NEWLINE
    return str(copied.tobytes(), "ascii").split("\n")[:-1]
