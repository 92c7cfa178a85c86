"""The text of one cell: numbers, what stands for a missing one, labels, and the excerpt of a refused row.

These are the rules that decide. The fast path over whole columns (:mod:`.columns`) may accept only what they accept,
with the same values; whatever it does not accept comes here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from deltaplane_services.readers.bounds import REFUSED_TEXT

__all__ = [
    "AFFIXES",
    "AS_NUMBERS",
    "MISSING",
    "PLAIN",
    "LabelSpelling",
    "NumberForm",
    "canonical_label",
    "clip",
    "excerpt",
    "number_as_label",
    "printable",
    "read_number",
]

MISSING = ("", "?", "NA", "N/A", "n/a", "<NA>", "NULL", "null", "<null>", "None")
"""Cells that stand for a missing number or label, unless others are declared; NaN in any spelling always does."""

_MISSING = frozenset(MISSING)
_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_NAN_WITH_PAYLOAD = re.compile(r"[+-]?nan\(\w*\)", re.ASCII | re.IGNORECASE)


AFFIXES = "$€£¥%"
"""Signs that may stand before or behind every number of a column."""

_FORTRAN = re.compile(r"[+-]?[0-9]*\.[0-9]*[dD][+-][0-9]+")
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"


@dataclass(frozen=True, slots=True)
class NumberForm:
    """How the numbers of a column are written: the decimal sign, what separates thousands, a sign on each of them, and
    the texts that stand for a missing one.
    """

    decimal: str = "."
    thousands: str = ""
    affix: str = ""
    missing: frozenset[str] = _MISSING

    @property
    def is_plain(self) -> bool:
        """Whether a number is what ``float`` takes for one."""
        return self.decimal == "." and not self.thousands and not self.affix and not self.numbers_may_be_missing

    @property
    def is_as_python_writes(self) -> bool:
        """Whether a number that is not missing is written as Python writes it."""
        return self.decimal == "." and not self.thousands and not self.affix

    @property
    def numbers_may_be_missing(self) -> bool:
        """Whether a text that is a number stands for a missing one."""
        return any(_is_float(text) for text in self.missing)

    def read(self, text: str) -> float:
        """The number in a cell, NaN where it is missing. Raises ValueError where it is written in another way."""
        text = text.strip()
        if text in self.missing:
            return math.nan
        number = self._without_affix(text) if self.affix else text
        if self.thousands or self.decimal != ".":
            number = self._in_plain_form(number)
        if number.isascii() and "_" not in number:
            try:
                return float(number)
            except ValueError:
                if _NAN_WITH_PAYLOAD.fullmatch(number):
                    return math.nan
                if _FORTRAN.fullmatch(number):
                    return float(number.replace("D", "e").replace("d", "e"))
        raise ValueError(text)

    def _without_affix(self, text: str) -> str:
        sign = text[:1] if text[:1] in ("+", "-") else ""
        rest = text[len(sign) :]
        if rest.startswith(self.affix):
            rest = rest[len(self.affix) :]
        elif rest.endswith(self.affix):
            rest = rest[: -len(self.affix)]
        else:
            raise ValueError(text)
        return sign + rest.strip()

    def _in_plain_form(self, text: str) -> str:
        decimal, thousands = re.escape(self.decimal), re.escape(self.thousands)
        grouped = rf"[0-9]{{1,3}}(?:{thousands}[0-9]{{3}})+|" if self.thousands else ""
        shape = rf"[+-]?(?:(?:{grouped}[0-9]+)(?:{decimal}[0-9]*)?|{decimal}[0-9]+){_EXPONENT}"
        if re.fullmatch(shape, text) is None:
            # What has neither sign is written alike everywhere: inf, nan.
            if self.decimal in text or "." in text or (self.thousands and self.thousands in text):
                raise ValueError(text)
            return text
        return text.replace(self.thousands, "").replace(self.decimal, ".")


def _is_float(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


PLAIN = NumberForm()


def read_number(text: str) -> float:
    """The float64 nearest to a decimal number, NaN for a missing one; an infinity passes, for the core to refuse.

    Raises ValueError for anything else. Python's ``float`` takes more than a data file should hold: ``1_000`` and
    digits of other scripts are text here.
    """
    return PLAIN.read(text)


_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_DECIMAL = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]{0,299})(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


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


@dataclass(frozen=True, slots=True)
class LabelSpelling:
    """What a text names as a label: one class for ``1``, ``1.0`` and ``+1``, none for what stands for a missing one.

    A text with leading zeros is a code and stays as it is. ``declared`` labels are names as they are written, and give
    theirs to every other spelling of the same number. With ``as_written`` numbers are texts like any other.
    """

    missing: frozenset[str] = _MISSING
    declared: frozenset[str] = frozenset()
    as_written: bool = False

    def __call__(self, text: str) -> str:
        """The label, ``""`` where it is missing."""
        text = text.strip()
        if text in self.declared and text:
            return text
        if text in self.missing or _NAN.fullmatch(text):
            return ""
        name = text if self.as_written else number_as_label(text)
        if name in self.declared:
            return name
        return next((label for label in sorted(self.declared) if number_as_label(label) == name), name)

    def declaring(self, labels: Collection[str]) -> LabelSpelling:
        """The same with more declared labels."""
        return LabelSpelling(self.missing, self.declared.union(labels), self.as_written)


AS_NUMBERS = LabelSpelling()


def number_as_label(text: str) -> str:
    """The one spelling of a decimal number, and any other text as it is."""
    return canonical_label(text) if _DECIMAL.fullmatch(text) else text


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
