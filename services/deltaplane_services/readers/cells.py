"""The meaning of one cell's text: numbers, missing values, labels; and the excerpt of a refused row.

The rules here decide. The fast path over whole columns (:mod:`.columns`) may accept only what they accept, with the
same values, and leaves all other cells to them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from deltaplane.arrays import Floats
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
"""Texts that stand for a missing number or label, unless others are declared; NaN in any spelling always does."""

_MISSING = frozenset(MISSING)
_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_NAN_WITH_PAYLOAD = re.compile(r"[+-]?nan\(\w*\)", re.ASCII | re.IGNORECASE)


AFFIXES = "$€£¥%"
"""Signs of which one may stand before or behind every number of a column."""

_FORTRAN = re.compile(r"[+-]?[0-9]*\.[0-9]*[dD][+-][0-9]+")
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"


@dataclass(frozen=True, slots=True)
class NumberForm:
    """How the numbers of a column are written.

    ``decimal`` is the decimal sign, ``thousands`` separates thousands, ``affix`` is a sign on each number, and
    ``missing`` are the texts that stand for a missing one; a number among these does so however it is written.
    """

    decimal: str = "."
    thousands: str = ""
    affix: str = ""
    missing: frozenset[str] = _MISSING
    missing_numbers: frozenset[float] = field(init=False)

    def __post_init__(self) -> None:
        numbers = set()
        for text in self.missing:
            # A mark may be given as the column has it, or as Python writes it.
            for read in (self._number, _plain_number):
                with suppress(ValueError):
                    numbers.add(read(text))
                    break
        object.__setattr__(self, "missing_numbers", frozenset(one for one in numbers if not math.isnan(one)))

    @property
    def is_plain(self) -> bool:
        """Whether exactly the texts that ``float`` takes for numbers are numbers."""
        return self.decimal == "." and not self.thousands and not self.affix and not self.numbers_may_be_missing

    @property
    def is_as_python_writes(self) -> bool:
        """Whether numbers that are not missing are written as Python writes them."""
        return self.decimal == "." and not self.thousands and not self.affix

    @property
    def numbers_may_be_missing(self) -> bool:
        """Whether one of the texts for a missing number is itself a number, such as -999."""
        return bool(self.missing_numbers)

    def read(self, text: str) -> float:
        """The number in a cell; NaN if it is missing. Raises ValueError if it is not written in this form."""
        text = text.strip()
        if text in self.missing:
            return math.nan
        number = self._number(text)
        return math.nan if number in self.missing_numbers else number

    def without_missing(self, numbers: Floats) -> Floats:
        """Numbers float64[n, …] with NaN for those that stand for a missing one; the same array if there are none."""
        if not self.missing_numbers:
            return numbers
        missing = np.isin(numbers, np.array(sorted(self.missing_numbers)))
        return np.where(missing, np.nan, numbers) if missing.any() else numbers

    def _number(self, text: str) -> float:
        number = self._without_affix(text) if self.affix else text
        if self.thousands or self.decimal != ".":
            number = self._in_plain_form(number)
        return _plain_number(number)

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
            # Texts with neither sign, such as inf and nan, are written alike everywhere.
            if self.decimal in text or "." in text or (self.thousands and self.thousands in text):
                raise ValueError(text)
            return text
        return text.replace(self.thousands, "").replace(self.decimal, ".")


def _plain_number(text: str) -> float:
    """The number in a text that has it as Python or Fortran writes it. Raises ValueError for another."""
    if text.isascii() and "_" not in text:
        try:
            return float(text)
        except ValueError:
            if _NAN_WITH_PAYLOAD.fullmatch(text):
                return math.nan
            if _FORTRAN.fullmatch(text):
                return float(text.replace("D", "e").replace("d", "e"))
    raise ValueError(text)


PLAIN = NumberForm()


def read_number(text: str) -> float:
    """The float64 nearest to a decimal number, or NaN for a missing one.

    Infinities are returned, for the core to refuse. Raises ValueError for anything else. Python's ``float`` accepts
    more than a data file should hold: ``1_000`` and digits of other scripts are no numbers here.
    """
    return PLAIN.read(text)


_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_DECIMAL = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]{0,299})(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def canonical_label(value: float | str) -> str:
    """The one spelling of a numeric label: ``1`` for 1, 1.0 and +1.

    Raises ValueError for a text that is no number, and for NaN, which names no class.
    """
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return str(int(value))
    number = read_number(value) if isinstance(value, str) else value
    if math.isnan(number):
        raise ValueError(value)
    return str(int(number)) if abs(number) < 2**53 and number == int(number) else repr(float(number))


@dataclass(frozen=True, slots=True)
class LabelSpelling:
    """A function from a text to the label that it names; ``1``, ``1.0`` and ``+1`` name one class.

    A text with leading zeros is a code, and stays as it is. ``declared`` labels are spelled as declared, and so is
    every other spelling of the same number. ``as_written``: numbers are texts like any other. ``missing`` are the texts
    of a missing label.
    """

    missing: frozenset[str] = _MISSING
    declared: frozenset[str] = frozenset()
    as_written: bool = False
    _missing_names: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        spelled = self.missing if self.as_written else map(number_as_label, self.missing)
        object.__setattr__(self, "_missing_names", frozenset(spelled))

    def __call__(self, text: str) -> str:
        """The label; ``""`` if it is missing."""
        text = text.strip()
        if text in self.declared and text:
            return text
        if text in self.missing or _NAN.fullmatch(text):
            return ""
        name = text if self.as_written else number_as_label(text)
        if name in self._missing_names:
            return ""
        if name in self.declared:
            return name
        return next((label for label in sorted(self.declared) if number_as_label(label) == name), name)

    def declaring(self, labels: Collection[str]) -> LabelSpelling:
        """The same spelling with more declared labels."""
        return LabelSpelling(self.missing, self.declared.union(labels), self.as_written)


def number_as_label(text: str) -> str:
    """The one spelling of a decimal number; any other text as it is."""
    return canonical_label(text) if _DECIMAL.fullmatch(text) else text


AS_NUMBERS = LabelSpelling()


def clip(text: str, length: int = REFUSED_TEXT) -> str:
    """The beginning of ``text`` in at most ``length`` characters, with an ellipsis if there is more."""
    return text if len(text) <= length else text[: length - 1] + "…"


def excerpt(raw: bytes) -> str:
    """The beginning of a row of text, made printable."""
    return printable(raw[: 4 * REFUSED_TEXT].decode("utf-8", errors="backslashreplace").rstrip("\r\n"))


def printable(text: str) -> str:
    """The beginning of ``text``, with escapes for characters that cannot be printed (line ends, control characters)."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return clip(text)
