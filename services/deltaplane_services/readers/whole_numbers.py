"""The fastest path, for tables whose features are whole numbers: all bytes of a piece of text at once.

A parser takes cell after cell, and most cells of such tables are a digit or two. Here every byte learns which number
ends with it, by a few operations over all bytes, and each cell takes the number of its last byte. Only what needs no
closer look is read: up to eight digits, and a minus before them. All else is left to the other paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Flags, Floats, Integers, Positions, UInt8s
from deltaplane_services.readers.layout import Layout
from deltaplane_services.readers.lines import count_newlines

__all__ = ["WholeNumberParser", "WholeNumbers"]

_BYTES_AT_ONCE = 2**19
"""What is worked out about less would stay in the cache, and be a little faster alone. But this happens while another
thread works on earlier rows, and there should be few operations, each of which may wait for the interpreter's lock."""

_NEWLINE, _MINUS, _ZERO = b"\n-0"


@dataclass(frozen=True, slots=True, eq=False)
class WholeNumbers:
    """A block's ``features``, float64[n, d], and by position the n cells of its text columns, as they are written."""

    features: Floats
    texts: dict[int, list[str]]


class WholeNumberParser:
    """Blocks of whole lines to numbers, for one layout and delimiter. The lines must hold no quotes."""

    def __init__(self, layout: Layout, delimiter: str) -> None:
        self._delimiter = ord(delimiter)
        self._columns = len(layout.names)
        self._number_of_features = len(layout.features)
        self._texts = [position for position in (layout.label, layout.id, layout.time) if position is not None]
        first, last = layout.features[0], layout.features[-1]
        adjoin = layout.features == tuple(range(first, last + 1))
        self._features = slice(first, last + 1) if adjoin else np.array(layout.features)
        # Which feature a column is: -1 for none.
        self._place = np.full(self._columns, -1)
        self._place[self._features] = np.arange(self._number_of_features)
        self._can_be_told_apart = not delimiter.isdigit() and not layout.codes

    def parse(self, data: bytes) -> WholeNumbers | None:
        """All rows of the lines, or None where a row or a feature is anything else than expected."""
        if not (self._can_be_told_apart and data.isascii() and data.endswith(b"\n")):
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
        """Fill as many rows of float64[·, d] as there are lines, n. Where the last byte of each cell is, intp[n,
        columns]; None where they cannot be read.
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
        # Where a cell is not the number that ends with it: another character, too many digits, no character at all.
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
    """The number of up to eight digits that ends with each digit, and bool[n] where there are more digits before these.

    ``digits`` is uint8[n], 0 where a byte is no digit. Numbers are joined from two halves: of one digit each, of two,
    of four. What ends with a byte that is no digit means nothing.
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
    """The cells between places of ASCII text, of which none holds a newline: copied out as lines, and cut at once."""
    sizes = stops - starts + 1
    ends = np.cumsum(sizes)
    copied = np.frombuffer(lines, dtype=np.uint8)[np.arange(ends[-1]) + np.repeat(starts + sizes - ends, sizes)]
    copied[ends - 1] = _NEWLINE
    return str(copied.tobytes(), "ascii").split("\n")[:-1]
