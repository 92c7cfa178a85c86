"""The value of a cell in any form: one number, one text or one boolean, the same from a file as from Python.

Each function that reads a cell takes one that is not missing, and raises ValueError if it cannot be read. The error
text is the end of a sentence that begins with the cell, such as "is infinite".
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
    "MISSING_AMONG_NUMBERS",
    "MISSING_IF_SEEN",
    "NOT_A_NUMBER",
    "TRUTHS",
    "MissingWords",
    "Word",
    "is_nothing",
    "number_of",
    "plain_cell",
    "shown",
    "text_of",
    "truth_of",
]

BLANKS = " \t\r\n\f\v"
"""The characters that are removed from both ends of a text. Others are not, since Unicode's blanks may change."""

MISSING = ("", "?", "NA", "N/A", "n/a", "<NA>", "#N/A", "NULL", "null", "None", "NaN", "nan")
"""Texts that stand for a missing value if a definition does not name any."""

MISSING_IF_SEEN = ("<null>",)
"""Texts that are proposed to stand for a missing value, too, if they are among the first rows.

They are not in ``MISSING``, since that is the default of definitions that exist already.
"""

TRUTHS = {"true": 1.0, "yes": 1.0, "y": 1.0, "t": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "n": 0.0, "f": 0.0, "0": 0.0}
"""Words of truth, in lower case."""

MISSING_AMONG_NUMBERS = frozenset(
    (
        *("-", "--", "---", ".", "..", "...", "*", "**", "?", "??", "???", "_", "\\n"),
        *("na", "n.a.", "n.a", "n/a", "nd", "n.d.", "none", "nil", "null", "nan", "nat", "missing"),
        *("(null)", "(none)", "(empty)", "(blank)", "(missing)", "[null]", "<null>", "<none>", "<missing>"),
        *("#n/a", "#n/a n/a", "#na", "#null!", "#div/0!", "#value!", "#ref!", "#num!", "#name?"),
        *("-1.#ind", "1.#ind", "-1.#qnan", "1.#qnan"),
    )
)
"""Texts, in lower case, that are proposed to stand for a missing value, too, if a column of numbers or times has them.

Among texts they may be a level like any other.
"""

_NUMBERS = int | float | Decimal
NOT_A_NUMBER = re.compile(r"[+-]?nan", re.IGNORECASE)
"""The spellings of NaN, which is missing wherever a number could be."""

_SHOWN = 40


class Word(str):
    """A text without blanks at its ends that is no number, although Python could read it as one.

    A reader that knows how a file writes numbers makes them of cells that are written otherwise.
    """

    __slots__ = ()


class MissingWords:
    """Texts that stand for a missing value, and their ``numbers``, float64, if some of them are numbers."""

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
    """A cell as a plain Python value: texts without blanks at their ends, NumPy numbers as Python's, NaN as None."""
    if type(cell) is str:
        return cell.strip(BLANKS)
    if type(cell) is Word:
        return cell
    if isinstance(cell, np.datetime64):
        return None if np.isnat(cell) else cell
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, str):
        return str(cell).strip(BLANKS)
    return None if is_nothing(cell) else cell


def is_nothing(cell: Any) -> bool:
    """Whether a cell has no value: None, NaN, or NA or NaT of pandas."""
    # NaN alone differs from itself. A Decimal NaN may raise an error when it is compared.
    not_a_number = cell.is_nan() if isinstance(cell, Decimal) else isinstance(cell, float) and cell != cell  # noqa: PLR0124
    return cell is None or not_a_number or type(cell).__name__ in {"NAType", "NaTType"}


def shown(cell: Any) -> str:
    """The beginning of a cell, for messages."""
    # Only the part of a long text that is shown is converted.
    text = repr(cell[: _SHOWN + 1] if isinstance(cell, str) else cell)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def number_of(cell: Any) -> float:
    """The float64 nearest to a finite number, or to the decimal number in a text; NaN if the text is ``nan``.

    Raises ValueError for other cells, and for texts such as ``1_000``, digits of other scripts, and thousands
    separators.
    """
    if isinstance(cell, str):
        if not cell.isascii() or "_" in cell or type(cell) is Word:
            raise ValueError("is no number")
        if NOT_A_NUMBER.fullmatch(cell):
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
    """1.0 for true, yes, y, t or 1, and 0.0 for false, no, n, f or 0, in upper or lower case.

    Raises ValueError for any other cell.
    """
    if isinstance(cell, _NUMBERS) and cell in (0, 1):
        return float(cell)
    truth = TRUTHS.get(cell.lower()) if isinstance(cell, str) else None
    if truth is None:
        raise ValueError("is neither true nor false (yes or no, y or n, t or f, 1 or 0)")
    return truth


def text_of(cell: Any, limit_bytes: int) -> str:
    """The text of a cell; a whole number is written without a point, as an integer and as a float.

    So a code is the same level from a file that has 5411, and from a Python table that has 5411.0. Raises ValueError if
    the cell is not a text, a boolean or a number, or if the text has more than ``limit_bytes`` in UTF-8.
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
    # A character has up to four bytes, so short ASCII texts are not encoded to be measured.
    if 4 * len(text) > limit_bytes or not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise ValueError("is no Unicode text (half of a surrogate pair)") from None
        if size > limit_bytes:
            raise ValueError(f"is a text of {size} bytes, and may have {limit_bytes}")
    return text
