"""Times that are numbers: their units, and how the first rows of a file show the unit.

The time of a row is most likely between 1990 and 2100, and no number means such a day in two of these units, so that
the first rows show the unit. If they do not, the file is refused until the unit is declared: seconds taken for
milliseconds would silently empty every window.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane_services.readers.cells import clip, read_number
from deltaplane_services.readers.row_blocks import TIME_UNITS, ReaderError
from deltaplane_services.readers.time_text import LONGEST, TIME_MISSING, milliseconds_of_ticks, within_range
from deltaplane_services.readers.time_zone import DAY, LocalZone

__all__ = ["COMPACT", "EARLIEST", "EXACT", "LATEST", "NoTime", "TimeUnit", "told_by_rows"]

EARLIEST, LATEST = 631_152_000_000, 4_102_444_800_000
"""1990 and 2100, in milliseconds since the epoch; the time of a row is likely to lie between them."""

EXACT = {"s": 2.0**53 / 1000, "ms": 2.0**53, "us": 4.2e15, "days": 3e6}
"""Unit to the bound below which a column may be converted as float64 and gives the same milliseconds as its cells."""

COMPACT = {"%Y%m%d": 10**6, "%Y%m%d%H%M": 10**2, "%Y%m%d%H%M%S": 1}
"""Form of a date written as one number to the factor that extends it to seconds."""

_TICKS = {"us": 1000, "ns": 1_000_000}
_DAYS_BEFORE_EPOCH = 25_569
"""The day 0 of spreadsheets is 30 December 1899, for all days after February 1900."""

_DIGITS = re.compile(r"[+-]?[0-9]{1,25}")
_WORDS = dict(
    zip(TIME_UNITS, ("seconds", "milliseconds", "microseconds", "nanoseconds", "days of a spreadsheet"), strict=True)
)
_CLEAR_SHARE = 0.9
_SOME_SHARE = 0.25
_SOME_ROWS = 10
"""So many different numbers are no date, or far from nought, by chance."""


@dataclass(frozen=True)
class TimeUnit:
    """A unit of :data:`TIME_UNITS`; days are local days of ``zone``.

    ``told``: the unit was recognised from the first rows, so that numbers that are no likely times in it are refused.
    """

    name: str
    zone: LocalZone | None = None
    told: bool = False

    @property
    def words(self) -> str:
        """What the numbers count, in words."""
        return _WORDS[self.name] if self.name == "days" else f"{_WORDS[self.name]} since 1970"

    def read(self, text: str) -> int:
        """The milliseconds since the epoch, UTC, of a number.

        Raises :class:`NoTime`, with the reason to refuse the row, for a number that is no time, and ValueError for a
        text that is no number.
        """
        if _DIGITS.fullmatch(text) and self.name != "days":
            milliseconds = self._of_whole(int(text))
        else:
            number = read_number(text)
            if math.isnan(number):
                raise NoTime(TIME_MISSING)
            if math.isinf(number):
                raise NoTime(f"the time {clip(text, 40)!r} is not finite")
            milliseconds = self._of_float(number)
        try:
            within_range(milliseconds, text)
            if self.name == "days" and self.zone is not None:
                milliseconds = self.zone.to_utc(milliseconds)
        except ValueError as fault:
            reason = str(fault)
            raise NoTime(reason if reason.startswith("the time") else f"the time {clip(text, 40)!r} {fault}") from None
        if self.told and not EARLIEST - DAY <= milliseconds <= LATEST + DAY:
            raise NoTime(
                f"the time {clip(text, 40)!r} is no time between 1990 and 2100 in {self.words}, which those of the"
                f" first rows are in; if it is one, say so with --time-unit {self.name}"
            )
        return milliseconds

    def _of_whole(self, number: int) -> int:
        if self.name == "s":
            return number * 1000
        ticks = _TICKS.get(self.name, 1)
        whole, rest = divmod(number, ticks)
        return whole + (2 * rest > ticks or (2 * rest == ticks and whole % 2 == 1))

    def _of_float(self, number: float) -> int:
        # Such a float64 is beyond the range already, and its product may be infinite.
        if abs(number) >= LONGEST * 10**6:
            return LONGEST
        if self.name == "days":
            return round((number - _DAYS_BEFORE_EPOCH) * float(DAY))
        if self.name == "s":
            return round(number * 1000) if abs(number) < LONGEST else LONGEST
        return self._of_whole(int(number)) if number.is_integer() else round(number / _TICKS.get(self.name, 1))

    def of_numbers(self, numbers: Floats) -> Int64s | None:
        """The milliseconds int64[n] of numbers float64[n]; None if they must be read one by one."""
        if self.name not in EXACT or not np.all(np.abs(numbers) < EXACT[self.name]):
            return None
        if self.name == "days":
            local = np.rint((numbers - _DAYS_BEFORE_EPOCH) * float(DAY)).astype(np.int64)
            times = local if self.zone is None else self.zone.to_utc_each(local)
            return None if times is None else self._likely(times)
        if self.name == "s":
            return np.rint(numbers * 1000).astype(np.int64)
        return self._likely(np.rint(numbers / _TICKS.get(self.name, 1)).astype(np.int64))

    def of_whole_numbers(self, numbers: Int64s) -> Int64s | None:
        """The milliseconds int64[n] of numbers int64[n]; None if they must be read one by one."""
        if self.name in ("s", "days"):
            return self.of_numbers(numbers.astype(np.float64)) if np.all(np.abs(numbers) < 2**53) else None
        return self._likely(milliseconds_of_ticks(numbers, _TICKS.get(self.name, 1)))

    def _likely(self, times: Int64s) -> Int64s | None:
        if self.told and not np.all((times >= EARLIEST - DAY) & (times <= LATEST + DAY)):
            return None
        return times

    def of_text(self, column: Any) -> Int64s | None:
        """The milliseconds int64[n] of an Arrow column of n strings; None if they must be read one by one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            if self.name in _TICKS and pc.all(pc.match_substring_regex(column, "^-?[0-9]{1,18}$")).as_py():
                return self.of_whole_numbers(pc.cast(column, pa.int64()).to_numpy())
            return self.of_numbers(pc.cast(column, pa.float64()).to_numpy())
        except pa.ArrowInvalid:
            return None


class NoTime(ValueError):
    """The reason why a number is no time."""


def told_by_rows(numbers: Sequence[float], column: str, where: str) -> str:
    """The unit, or the form of :data:`COMPACT`, of the finite numbers in the first rows.

    Raises ReaderError if they do not show it.
    """
    every = np.array(numbers)
    share = {name: float(np.mean(_likely_in(name, every))) for name in (*TIME_UNITS, *COMPACT)}
    best = max(share, key=share.__getitem__)
    whole = bool(np.all(every == np.floor(every)))
    first = f"{numbers[0]:.15g}"
    if share[best] >= _CLEAR_SHARE:
        # Ticks of 100 ns since the year 1, as .NET has them, are nanoseconds of 1990, too.
        if best == "ns" and np.median(every) < 662_380_416e9:
            raise _untold(column, where, f"{first} may be nanoseconds of 1990, or ticks of 100 nanoseconds")
        if best == "s" and (form := _also_a_date(every)):
            raise _untold(column, where, f"{first} may be seconds since 1970, or a date (--time-format {form})")
        return best
    if whole and np.all((every >= 1990) & (every <= 2100)):
        raise _untold(column, where, f"{first} may be a year (--time-format %Y)")
    if whole and np.all((every // 100 >= 1990) & (every // 100 <= 2100) & (every % 100 >= 1) & (every % 100 <= 12)):
        raise _untold(column, where, f"{first} may be a month of a year (--time-format %Y%m)")
    others = max(share[name] for name in ("ms", "us", "ns"))
    if _is_far_from_nought(every):
        raise _untold(column, where, f"{first} may be days, hours or minutes, or be counted from another day than 1970")
    if np.mean(np.abs(every) <= LATEST / 1000) >= 0.5 and others < _SOME_SHARE:
        return "s"
    raise _untold(column, where, f"in no unit are nearly all of the first rows between 1990 and 2100: {first}, …")


def _is_far_from_nought(every: Floats) -> bool:
    """Whether numbers that are no likely times do not count from nought either: they begin far above their span."""
    lowest = float(every.min())
    return len(np.unique(every)) >= _SOME_ROWS and lowest > max(1000.0, 10.0 * (float(every.max()) - lowest))


def _also_a_date(every: Floats) -> str:
    """The form in which all of some numbers, of ten digits, are dates to the hour or minute; empty if there is none."""
    if len(np.unique(every)) < _SOME_ROWS or not np.all((every == np.floor(every)) & (every >= 0)):
        return ""
    for form, days, most in (("%Y%m%d%H", every // 100, 23), ("%y%m%d%H%M", every // 10**4, 59)):
        last, month, day = every % 100, days // 100 % 100, days % 100
        likely = (last <= most) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        if form == "%Y%m%d%H":
            likely &= (days >= 1990_01_01) & (days <= 2100_12_31)
        else:
            likely &= every // 100 % 100 <= 23
        if np.all(likely):
            return form
    return ""


def _untold(column: str, where: str, why: str) -> ReaderError:
    return ReaderError(
        f"What the times in the column `{column}` of {where} count cannot be told: {why}. Declare it with "
        f"`--time-unit` ({', '.join(TIME_UNITS)}), or its form with `--time-format`."
    )


def _likely_in(name: str, every: Floats) -> Flags:
    """bool[n]: which numbers float64[n] are between 1990 and 2100 in a unit, or as a date in digits."""
    if name in COMPACT:
        dates = np.floor(every / (10**6 / COMPACT[name]))
        month, day = np.floor(dates / 100) % 100, dates % 100
        likely = (dates >= 1990_01_01) & (dates <= 2100_12_31) & (every == np.floor(every))
        found: Flags = likely & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        return found
    with np.errstate(over="ignore"):  # What overflows is infinite, and no time.
        if name == "days":
            milliseconds = (every - _DAYS_BEFORE_EPOCH) * DAY
        else:
            milliseconds = every * {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}[name]
    likely_times: Flags = (milliseconds >= EARLIEST) & (milliseconds <= LATEST)
    return likely_times
