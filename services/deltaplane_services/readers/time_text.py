"""Event times: seconds since the epoch or ISO 8601 text, to whole milliseconds since the epoch (UTC).

One rule whatever the format of the file: the nearest millisecond, a tie to the even one. Digits alone are always
seconds, so ``19960507`` is a day in August 1970, not in May 1996; a date needs its hyphens.
"""

from __future__ import annotations

import math
import re
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np

from deltaplane.arrays import Floats, Int64s
from deltaplane_services.readers.cells import MISSING, clip, read_number

__all__ = [
    "EXACT_SECONDS",
    "LONGEST",
    "TIME_MISSING",
    "milliseconds_of_ticks",
    "read_time",
    "times_of_seconds",
    "times_of_text",
]

TIME_MISSING = "the time is missing"

LONGEST = 2**63
"""Milliseconds must be below this in magnitude to fit int64."""

EXACT_SECONDS = 2.0**53 / 1000
"""Below this, float64 seconds times 1000 equal the integer product, so columns may be converted as floats."""

_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_YEAR = (date.min.toordinal() - _EPOCH) * 86_400_000

_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[Tt ](\d{2})(?::?(\d{2})(?::?(\d{2})(?:[.,](\d{1,30}))?)?)?"
    r" ?(?:([Zz]|UTC)|([+-])(\d{2})(?::?(\d{2}))?)?)?",
    re.ASCII,
)
_WHOLE_SECONDS = re.compile(r"[+-]?[0-9]{1,25}")


def read_time(text: str) -> int:
    """Milliseconds since the epoch of a cell; raises ValueError with the reason to give for the row."""
    text = text.strip()
    if text in MISSING:
        raise ValueError(TIME_MISSING)
    if _WHOLE_SECONDS.fullmatch(text):
        return _within_range(int(text) * 1000, text)
    try:
        seconds = read_number(text)
    except ValueError:
        return _read_iso(text)
    return _milliseconds(seconds, text)


def _milliseconds(seconds: float, text: str) -> int:
    if math.isnan(seconds):
        raise ValueError(TIME_MISSING)
    if math.isinf(seconds):
        raise ValueError(f"the time {clip(text, 40)!r} is not finite")
    # A float64 this large is past the range already, and its product might not be finite.
    return _within_range(round(seconds * 1000) if abs(seconds) < LONGEST else LONGEST, text)


def _within_range(milliseconds: int, text: str) -> int:
    if not -LONGEST <= milliseconds < LONGEST:
        raise ValueError(f"the time {clip(text, 40)!r} is outside the range of 64-bit milliseconds")
    return milliseconds


def _read_iso(text: str) -> int:
    match = _ISO.fullmatch(text)
    if match is None:
        raise ValueError(f"the time {clip(text, 40)!r} is neither seconds since the epoch nor ISO 8601")
    year, month, day, hour, minute, second, fraction, _utc, sign, ahead_hours, ahead_minutes = match.groups(default="")
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    offset = int(ahead_hours or 0) * 60 + int(ahead_minutes or 0)
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        raise ValueError(f"the time {text!r} names a day that does not exist") from None
    if hours > 23 or minutes > 59 or seconds > 59 or int(ahead_hours or 0) > 23 or int(ahead_minutes or 0) > 59:
        raise ValueError(f"the time {text!r} names an hour, minute, second or offset that does not exist")
    minutes_since_epoch = (days * 24 + hours) * 60 + minutes + (offset if sign == "-" else -offset)
    milliseconds = (minutes_since_epoch * 60 + seconds) * 1000
    # The milliseconds so far are even, so a tie of the fraction goes to the even sum.
    return milliseconds + round(Fraction(int(fraction or 0) * 1000, 10 ** len(fraction)))


def times_of_text(column: Any) -> Int64s | None:
    """int64[n] milliseconds of a whole Arrow column of strings, or None where a cell must be looked at by itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        seconds: Floats = pc.cast(column, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return _iso_times(column)
    return times_of_seconds(seconds)


def times_of_seconds(seconds: Floats) -> Int64s | None:
    """int64[n] milliseconds of float64[n] seconds, or None where a cell must be looked at by itself."""
    if not np.all(np.abs(seconds) < EXACT_SECONDS):
        return None
    return np.rint(seconds * 1000).astype(np.int64)


def _iso_times(column: Any) -> Int64s | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    for kind in (pa.timestamp("ms"), pa.timestamp("ms", "UTC")):
        try:
            milliseconds: Int64s = pc.cast(column, kind).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            continue
        # Arrow knows a year 0; the calendar that decides does not.
        return milliseconds if np.all(milliseconds >= _FIRST_YEAR) else None
    return None


def milliseconds_of_ticks(ticks: Int64s, ticks_per_millisecond: int) -> Int64s:
    """int64[n] milliseconds of int64[n] ticks since the epoch."""
    whole, rest = np.divmod(ticks, ticks_per_millisecond)
    up = (2 * rest > ticks_per_millisecond) | ((2 * rest == ticks_per_millisecond) & (whole % 2 == 1))
    milliseconds: Int64s = whole + up
    return milliseconds
