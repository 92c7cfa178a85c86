"""What a cell says, whatever it is written as: one number, one text or one truth, the same from a file as from Python.

Each function that reads takes a cell that is not missing, and raises ValueError with what is wrong with it as the end
of a sentence that begins with the cell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np

__all__ = [
    "BLANKS",
    "MISSING",
    "MISSING_IF_SEEN",
    "MissingWords",
    "is_nothing",
    "number_of",
    "plain_cell",
    "shown",
    "text_of",
    "truth_of",
]

BLANKS = " \t\r\n\f\v"
"""What is cut off both ends of a text. No other character is: which are blank would change with Unicode."""

MISSING = ("", "?", "NA", "N/A", "n/a", "<NA>", "#N/A", "NULL", "null", "None", "NaN", "nan")
"""Texts that stand for a missing value where a definition does not say which do."""

MISSING_IF_SEEN = ("<null>",)
"""Texts that stand for a missing value, too, where they are among the first rows; rules then say so.

The list above is what definitions of before mean that say nothing, so it stays as it is.
"""

_TRUTHS = {"true": 1.0, "yes": 1.0, "y": 1.0, "t": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "n": 0.0, "f": 0.0, "0": 0.0}
_NUMBERS = int | float | Decimal
_NOT_A_NUMBER = re.compile(r"[+-]?nan", re.IGNORECASE)
_SHOWN = 40


class MissingWords:
    """Texts that stand for a missing value, and the numbers among them, however these are written."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)
        numbers = set()
        for word in self._words:
            with suppress(ValueError):
                numbers.add(number_of(word))
        self.numbers = np.array(sorted(one for one in numbers if math.isfinite(one)))

    def __contains__(self, cell: Any) -> bool:
        """Whether a plain cell stands for a missing value."""
        if isinstance(cell, str):
            return cell in self._words
        is_number = isinstance(cell, _NUMBERS) and not isinstance(cell, bool)
        return is_number and len(self.numbers) > 0 and text_of(cell, 2**20) in self._words


def plain_cell(cell: Any) -> Any:
    """A cell as Python has it: a text without blanks at its ends, a number of NumPy as one of Python; None for NaN."""
    if type(cell) is str:
        return cell.strip(BLANKS)
    if isinstance(cell, np.datetime64):
        return None if np.isnat(cell) else cell
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, str):
        return str(cell).strip(BLANKS)
    return None if is_nothing(cell) else cell


def is_nothing(cell: Any) -> bool:
    """Whether a cell says of itself that there is no value: None, NaN, or what pandas has for them."""
    # Only what is not a number differs from itself; a decimal one may refuse to be compared.
    not_a_number = cell.is_nan() if isinstance(cell, Decimal) else isinstance(cell, float) and cell != cell  # noqa: PLR0124
    return cell is None or not_a_number or type(cell).__name__ in {"NAType", "NaTType"}


def shown(cell: Any) -> str:
    """A cell in a message: how it begins."""
    # Of a long text no more than is shown is looked at.
    text = repr(cell[: _SHOWN + 1] if isinstance(cell, str) else cell)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def number_of(cell: Any) -> float:
    """The float64 nearest to a finite number, or to the decimal number in a text; NaN where the text says so.

    A text may not have what a data file should not hold: ``1_000``, digits of other scripts, thousands separators.
    """
    if isinstance(cell, str):
        if not cell.isascii() or "_" in cell:
            raise ValueError("is no number")
        if _NOT_A_NUMBER.fullmatch(cell):
            return math.nan
        try:
            number = float(cell)
        except ValueError:
            raise ValueError("is no number") from None
    elif isinstance(cell, bool) or not isinstance(cell, _NUMBERS):
        raise ValueError("is no number")  # noqa: TRY004 - a fault of the data, whatever its type.
    else:
        try:
            number = float(cell)
        except OverflowError:
            raise ValueError("is a number beyond 1.8e308") from None
    if math.isinf(number):
        raise ValueError("is infinite")
    return number


def truth_of(cell: Any) -> float:
    """1.0 or 0.0 for true or false, yes or no, y or n, t or f, 1 or 0, in any case."""
    if isinstance(cell, _NUMBERS) and cell in (0, 1):
        return float(cell)
    truth = _TRUTHS.get(cell.lower()) if isinstance(cell, str) else None
    if truth is None:
        raise ValueError("is neither true nor false (yes or no, y or n, t or f, 1 or 0)")
    return truth


def text_of(cell: Any, limit_bytes: int) -> str:
    """The text of a cell of at most so many bytes in UTF-8: a whole number has no point, be it an integer or a float.

    So a code is the same level from a file that has 5411, and from a table in Python that made 5411.0 of it.
    """
    if isinstance(cell, str):
        text = cell
    elif isinstance(cell, bool):
        text = "true" if cell else "false"
    elif isinstance(cell, float):
        text = str(int(cell)) if cell.is_integer() else repr(cell)
    elif isinstance(cell, int | Decimal):
        text = str(cell)
    else:
        raise ValueError("is no text")  # noqa: TRY004 - a fault of the data.
    # A character has up to four bytes: texts that are short enough at a glance are not encoded for it.
    if 4 * len(text) > limit_bytes or not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise ValueError("is no Unicode text (half of a surrogate pair)") from None
        if size > limit_bytes:
            raise ValueError(f"is a text of {size} bytes, and may have {limit_bytes}")
    return text
