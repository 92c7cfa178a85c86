"""Times in a declared form, such as ``%d/%m/%Y %H:%M``: the directives of ``strptime``, with one fixed meaning each.

The names of months and days are English whatever the machine's language, digits are ASCII, and the table below has the
texts that a directive accepts. If all texts of a column have the same length, and their directives are digits, the
whole column is read at once, by columns of bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np

from deltaplane.arrays import Int64s, UInt8s
from deltaplane_services.readers.cells import clip
from deltaplane_services.readers.row_blocks import ReaderError
from deltaplane_services.readers.time_zone import DAY, LocalZone

__all__ = ["TimeFormat"]

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DIRECTIVES = {
    "Y": r"\d{4}",
    "y": r"\d{2}",
    "m": r"\d{1,2}",
    "d": r"\d{1,2}",
    "j": r"\d{1,3}",
    "H": r"\d{1,2}",
    "I": r"\d{1,2}",
    "M": r"\d{1,2}",
    "S": r"\d{1,2}",
    "f": r"\d{1,30}",
    "p": r"[ap]\.?m\.?",
    "b": "|".join(name[:3] for name in _MONTHS),
    "B": "|".join(_MONTHS),
    "a": "|".join(name[:3] for name in _DAYS),
    "A": "|".join(_DAYS),
    "z": r"z|[+-]\d{2}(?::?\d{2})?",
    "Z": r"[a-z]{1,6}",
}
_LONG_FOR = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y"}
_WIDTHS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "f": 0}
"""The bytes of each directive with which whole columns can be read; the fraction takes the bytes that are left."""

_DIGITS = frozenset("YymdjHIMSf")
_UTC = ("Z", "UTC", "GMT")
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class _Parts:
    """The pieces of a format in texts of one length: directive to its bytes, and (position, code) of other bytes."""

    digits: dict[str, slice]
    literals: tuple[tuple[int, int], ...]


class TimeFormat:
    """One form of times. A text without an offset is local time of ``zone``; UTC if that is None.

    Raises ReaderError for a form that does not determine a day, or has an unknown directive.
    """

    def __init__(self, form: str, zone: LocalZone | None = None) -> None:
        self.form = form
        self._zone = zone
        for short, long in _LONG_FOR.items():
            form = form.replace(f"%{short}", long)
        self._pieces = re.findall(r"%.|\s+|[^%\s]|%", form.strip(), re.DOTALL)
        self._given = [piece[1] for piece in self._pieces if len(piece) == 2 and piece[0] == "%" and piece != "%%"]
        self._check(form)
        beside = zip(["", *self._pieces], self._pieces, [*self._pieces[1:], ""], strict=False)
        self._pattern = re.compile("".join(_pattern_of(*pieces) for pieces in beside), re.ASCII | re.IGNORECASE)

    def _check(self, form: str) -> None:
        unknown = [piece for piece in self._pieces if piece.startswith("%") and piece[1:] not in (*_DIRECTIVES, "%")]
        given = self._given
        month = {"m", "b", "B"}.intersection(given)
        if unknown:
            known = " ".join(f"%{name}" for name in (*_DIRECTIVES, *_LONG_FOR, "%"))
            fault = f"`{unknown[0]}` is no directive; known are {known}"
        elif twice := [name for name in given if given.count(name) > 1]:
            fault = f"`%{twice[0]}` is there twice"
        elif not {"Y", "y"}.intersection(given):
            fault = "it has no year (`%Y`)"
        elif len(month) > 1 or ("j" in given and (month or "d" in given)):
            fault = "it says the month twice"
        elif "d" in given and not month:
            fault = "it has a day and no month (`%m`)"
        elif ("I" in given) != ("p" in given) or {"H", "I"} <= set(given):
            fault = "`%I` and `%p` (AM, PM) go together, and without `%H`"
        else:
            return
        raise ReaderError(f"The time format {clip(form, 60)!r} cannot be used: {fault}. Change `--time-format`.")

    def read(self, text: str) -> int:
        """The milliseconds since the epoch, UTC, of a cell. Raises ValueError with the reason to refuse the row."""
        match = self._pattern.fullmatch(text)
        if match is None:
            raise ValueError(f"the time {clip(text, 40)!r} is not of the form {clip(self.form, 60)!r}")
        part = {name: value for name, value in match.groupdict().items() if value is not None}
        try:
            days = _day_of(part)
        except ValueError:
            raise ValueError(f"the time {clip(text, 40)!r} names a day that does not exist") from None
        hour, minute, second = (int(part.get(name, 0)) for name in "HMS")
        if "I" in part:
            hour = int(part["I"]) % 12 + (12 if part["p"][0] in "pP" else 0) if 1 <= int(part["I"]) <= 12 else 99
        fraction = Fraction(int(part.get("f", 0)) * 1000, 10 ** len(part.get("f", "")))
        end_of_day = hour == 24 and "I" not in part and not minute and not second and not fraction
        if not (hour <= 23 or end_of_day) or minute > 59 or second > 59:
            raise ValueError(f"the time {clip(text, 40)!r} names an hour, minute or second that does not exist")
        # The milliseconds without the fraction are even, so that a tie of the fraction is rounded to the even sum.
        local = days * DAY + ((hour * 60 + minute) * 60 + second) * 1000 + round(fraction)
        try:
            return self._to_utc(local, part.get("z"), part.get("Z"))
        except ValueError as fault:
            raise ValueError(f"the time {clip(text, 40)!r} {fault}") from None

    def _to_utc(self, local: int, offset: str | None, abbreviation: str | None) -> int:
        if offset is not None:
            if offset in "zZ":
                return local
            digits = offset[1:].replace(":", "").ljust(4, "0")
            if digits[:2] > "23" or digits[2:] > "59":
                raise ValueError("names an offset that does not exist")
            ahead = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000
            return local + (ahead if offset[0] == "-" else -ahead)
        if abbreviation is not None and abbreviation.upper() in _UTC:
            return local
        if self._zone is not None:
            return self._zone.to_utc(local, None if abbreviation is None else abbreviation.upper())
        if abbreviation is not None:
            raise ValueError(f"is in {abbreviation}, a name that several zones have; say which with --time-zone")
        return local

    def read_each(self, column: Any) -> Int64s | None:
        """The times int64[n] of an Arrow column of n strings; None if cells must be read one by one."""
        import pyarrow as pa

        joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if joined.type != pa.string() or not len(joined) or joined.null_count or not _WIDTHS.keys() >= {*self._given}:
            return None
        ends = np.frombuffer(joined.buffers()[1], dtype=np.int32)[joined.offset : joined.offset + len(joined) + 1]
        width = int(ends[1] - ends[0])
        parts = self._parts(width)
        if parts is None or not (np.diff(ends) == width).all():
            return None
        data = np.frombuffer(joined.buffers()[2], dtype=np.uint8)
        local = _local_times(data[ends[0] : ends[-1]].reshape(len(joined), width), parts)
        return local if local is None or self._zone is None else self._zone.to_utc_each(local)

    def _parts(self, width: int) -> _Parts | None:
        """The pieces in texts of so many bytes; None if the form cannot have that length."""
        sizes = [_WIDTHS[piece[1]] if piece[1:] in _WIDTHS else 1 for piece in self._pieces]
        left = width - sum(sizes)
        if not ("f" not in self._given and left == 0) and not ("f" in self._given and 1 <= left <= 9):
            return None
        digits, literals, at = {}, [], 0
        for piece, size in zip(self._pieces, sizes, strict=True):
            end = at + (size or left)
            if piece[1:] in _WIDTHS:
                digits[piece[1]] = slice(at, end)
            else:
                literals.append((at, ord(" " if piece.isspace() else piece[-1])))
            at = end
        return _Parts(digits, tuple(literals)) if all(code < 128 for _, code in literals) else None


def _pattern_of(before: str, piece: str, behind: str) -> str:
    if piece.isspace():
        return r"\s+"
    if not piece.startswith("%") or piece == "%%":
        return re.escape(piece[-1])
    # If digits follow digits, only their number separates them.
    alone = not any(other[1:] in _DIGITS and len(other) == 2 for other in (before, behind))
    pattern = _DIRECTIVES[piece[1]] if alone else _DIRECTIVES[piece[1]].replace("{1,2}", "{2}").replace("{1,3}", "{3}")
    return f"(?P<{piece[1]}>{pattern})"


def _day_of(part: dict[str, str]) -> int:
    """The days since the epoch. Raises ValueError for a day that the calendar does not have."""
    year = int(part["Y"]) if "Y" in part else int(part["y"]) + (2000 if int(part["y"]) < 69 else 1900)
    if "j" in part:
        day = date(year, 1, 1).toordinal() + int(part["j"]) - 1
        if date.fromordinal(day).year != year:
            raise ValueError
        return day - _EPOCH
    name = part.get("b", part.get("B", "")).lower()
    month = next(at for at, known in enumerate(_MONTHS, 1) if known.startswith(name)) if name else part.get("m", 1)
    return date(year, int(month), int(part.get("d", 1))).toordinal() - _EPOCH


def _local_times(text: UInt8s, parts: _Parts) -> Int64s | None:
    """The local milliseconds int64[n] since the epoch of n texts uint8[n, width]; None if some are no times."""
    if any((text[:, at] != code).any() for at, code in parts.literals):
        return None
    numbers: dict[str, Int64s] = {}
    for name, place in parts.digits.items():
        digits = text[:, place] - np.uint8(ord("0"))
        if (digits > 9).any():
            return None
        numbers[name] = digits.astype(np.int64) @ 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    years = numbers["Y"] if "Y" in numbers else numbers["y"] + np.where(numbers["y"] < 69, 2000, 1900)
    one, none = np.ones_like(years), np.zeros_like(years)
    month, day, hour = numbers.get("m", one), numbers.get("d", one), numbers.get("H", none)
    minute, second = numbers.get("M", none), numbers.get("S", none)
    if not ((years >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (hour <= 23)).all():
        return None
    months = ((years - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    if not ((days.astype("datetime64[M]") == months) & (minute <= 59) & (second <= 59)).all():
        return None
    times: Int64s = days.astype(np.int64) * DAY + ((hour * 60 + minute) * 60 + second) * 1000
    if "f" not in numbers:
        return times
    figures = parts.digits["f"].stop - parts.digits["f"].start
    thousandths = numbers["f"] * 10 ** max(0, 3 - figures)
    whole, rest = np.divmod(thousandths, 10 ** max(0, figures - 3))
    half = 2 * rest - 10 ** max(0, figures - 3)
    times += whole + ((half > 0) | ((half == 0) & (whole % 2 == 1)))
    return times
