"""The text of one cell: numbers, what stands for a missing one, labels, and the excerpt of a refused row.

These are the rules that decide. The fast path over whole columns (:mod:`.columns`) may accept only what they accept,
with the same values; whatever it does not accept comes here.
"""

from __future__ import annotations

import math
import re

from deltaplane_services.readers.bounds import REFUSED_TEXT

__all__ = ["MISSING", "canonical_label", "clip", "excerpt", "printable", "read_number"]

MISSING = ("", "?", "NA", "N/A", "n/a", "<NA>", "NULL", "null", "None")
"""Cells that stand for a missing number, besides NaN in any spelling."""

_MISSING = frozenset(MISSING)
_NAN_WITH_PAYLOAD = re.compile(r"[+-]?nan\(\w*\)", re.ASCII | re.IGNORECASE)


def read_number(text: str) -> float:
    """The float64 nearest to a decimal number, NaN for a missing one; an infinity passes, for the core to refuse.

    Raises ValueError for anything else. Python's ``float`` takes more than a data file should hold: ``1_000`` and
    digits of other scripts are text here.
    """
    text = text.strip()
    if text in _MISSING:
        return math.nan
    if text.isascii() and "_" not in text:
        try:
            return float(text)
        except ValueError:
            if _NAN_WITH_PAYLOAD.fullmatch(text):
                return math.nan
    raise ValueError(text)


_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")


def canonical_label(value: float | str) -> str:
    """A numeric label in one spelling: ``1`` for 1, 1.0 and +1.

    Raises ValueError for text that is no number, and for NaN, which names no class.
    """
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return str(int(value))
    number = read_number(value) if isinstance(value, str) else value
    if math.isnan(number):
        raise ValueError(value)
    return str(int(number)) if abs(number) < 2**53 and number == int(number) else repr(float(number))


def clip(text: str, length: int = REFUSED_TEXT) -> str:
    """The beginning of ``text``, at most ``length`` characters long, an ellipsis standing for the rest."""
    return text if len(text) <= length else text[: length - 1] + "…"


def excerpt(raw: bytes) -> str:
    """How a row of text begins, fit for a terminal."""
    return printable(raw[: 4 * REFUSED_TEXT].decode("utf-8", errors="backslashreplace").rstrip("\r\n"))


def printable(text: str) -> str:
    """The beginning of ``text`` with what cannot be printed (line ends, control characters) written as escapes."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return clip(text)
