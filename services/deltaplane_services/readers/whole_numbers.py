"""The fastest path, for tables whose features are whole numbers: all bytes of a piece of text at once.

A parser takes cell after cell, and most cells of such tables are a digit or two. Here every byte learns which number
ends with it, by a few operations over all bytes, and each cell takes the number of its last byte. Only what needs no
closer look is read: up to eight digits, and a minus before them. All else is left to the other paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltaplane_services.readers.layout import Layout
from deltaplane_services.readers.lines import count_newlines

_BYTES_AT_ONCE = 2**17
"""So that all that is worked out about a piece of text stays in the cache: larger and smaller ones were slower."""

_NEWLINE, _MINUS, _ZERO = b"\n-0"

_KIND_OF_DIGITS: dict[int, type[np.integer]] = {2: np.uint8, 4: np.int16, 8: np.int32}

_Bytes = npt.NDArray[np.uint8]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class WholeNumbers:
    """A block's ``features``, float64[n, d], and by position the n cells of its text columns, as they are written."""

    features: npt.NDArray[np.float64]
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
            text = lines.decode("ascii")
            for position, cells in texts.items():
                last_before = last[:, position - 1] if position else np.append(-1, last[:-1, -1])
                spans = zip((last_before + 2).tolist(), (last[:, position] + 1).tolist(), strict=True)
                cells += [text[start:stop] for start, stop in spans]
            row, at = row + len(last), end
        return WholeNumbers(features, texts)

    def _parse_lines(self, lines: bytes, features: npt.NDArray[np.float64]) -> npt.NDArray[np.intp] | None:
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
        features[:rows] = numbers.take(last[:, self._features])
        odd = np.flatnonzero(is_odd)
        row, column = np.divmod(np.searchsorted(every_last, odd), self._columns)
        place = self._place[column]
        of_feature = place >= 0
        row, place, odd = row[of_feature], place[of_feature], odd[of_feature]
        if not ((characters[odd] == _MINUS) & separates[odd - 1] & is_digit[odd + 1]).all():
            return None
        features[row, place] *= -1.0
        return last


def _numbers_ending_at(digits: _Bytes, is_digit: _Bools) -> tuple[npt.NDArray[np.integer], _Bools]:
    """The number of up to eight digits that ends with each byte, and bool[n] where there are more digits before these.

    ``digits`` is uint8[n], 0 where a byte is no digit. Numbers are joined from two halves: of one digit each, of two,
    of four, as long as there are longer ones.
    """
    numbers: npt.NDArray[np.integer] = digits
    full = is_digit  # Whether as many digits end with a byte as ``numbers`` may have.
    half = 1
    while True:
        goes_on = np.zeros_like(is_digit)
        np.logical_and(full[half:], is_digit[:-half], out=goes_on[half:])
        if half > 4 or not goes_on.any():
            return numbers, goes_on
        upper_half = numbers[:-half] * goes_on[half:]
        numbers = numbers.astype(_KIND_OF_DIGITS[2 * half])
        numbers[half:] += np.multiply(upper_half, 10**half, dtype=numbers.dtype)
        full = np.concatenate((full[:half], full[half:] & full[:-half]))
        half *= 2
