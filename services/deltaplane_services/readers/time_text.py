"""Event times in ISO 8601, and the rules that all forms of times share: whole milliseconds since the epoch, UTC.

Whatever the format of the file, a time is rounded to the nearest millisecond, and a tie to the even one. Times that are
numbers are read by :mod:`.time_units`, as :mod:`.time_rule` decides.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.columns.times import local_milliseconds
from deltaplane_services.readers.cells import clip
from deltaplane_services.readers.time_zone import LocalZone

__all__ = ["LONGEST", "NEITHER", "TIME_MISSING", "iso_times", "milliseconds_of_ticks", "read_iso", "within_range"]

TIME_MISSING = "the time is missing"

LONGEST = 2**63
"""The bound of milliseconds: those that fit int64 are from -LONGEST to below LONGEST."""

_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_YEAR = (date.min.toordinal() - _EPOCH) * 86_400_000

_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[Tt ](\d{2})(?::?(\d{2})(?::?(\d{2})(?:[.,](\d{1,30}))?)?)?"
    r" ?(?:([Zz]|UTC|GMT)|([+-])(\d{2})(?::?(\d{2}))?)?)?",
    re.ASCII,
)
_BASIC_ISO = re.compile(
    r"(\d{4})(\d{2})(\d{2})[Tt](\d{2})(?:(\d{2})(?:(\d{2})(?:[.,](\d{1,30}))?)?)?"
    r"(?:([Zz])|([+-])(\d{2})(?::?(\d{2}))?)?",
    re.ASCII,
)
NEITHER = "is neither seconds since the epoch nor ISO 8601; declare its form with --time-format"


def within_range(milliseconds: int, text: str) -> int:
    """The milliseconds. Raises ValueError, with the reason to refuse the row, if they do not fit int64."""
    if not -LONGEST <= milliseconds < LONGEST:
        raise ValueError(f"the time {clip(text, 40)!r} is outside the range of 64-bit milliseconds")
    return milliseconds


def read_iso(text: str, zone: LocalZone | None = None) -> int:
    """The milliseconds since the epoch of a text in ISO 8601, with hyphens and colons or without them.

    A text without an offset is local time of ``zone``; UTC if that is None. Raises ValueError with the reason to refuse
    the row.
    """
    match = _ISO.fullmatch(text) or _BASIC_ISO.fullmatch(text)
    if match is None:
        raise ValueError(f"the time {clip(text, 40)!r} {NEITHER}")
    try:
        local, ahead_minutes = local_milliseconds(match, ends_at_24=True)
        if ahead_minutes is None and zone is not None:
            return zone.to_utc(local)
    except ValueError as fault:
        raise ValueError(f"the time {text!r} {fault}") from None
    return local - (ahead_minutes or 0) * 60_000


def iso_times(column: Any, zone: LocalZone | None = None) -> Int64s | None:
    """The times int64[n] of an Arrow column of n strings, in milliseconds; None if cells must be read one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for kind in (pa.timestamp("ms"), pa.timestamp("ms", "UTC")):
        try:
            milliseconds: Int64s = pc.cast(column, kind).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            continue
        # Arrow has a year 0, and Python's calendar, which decides, has none.
        if not np.all(milliseconds >= _FIRST_YEAR):
            return None
        return zone.to_utc_each(milliseconds) if zone is not None and kind.tz is None else milliseconds
    return None


def milliseconds_of_ticks(ticks: Int64s, ticks_per_millisecond: int) -> Int64s:
    """The milliseconds int64[n] of ticks int64[n] since the epoch, rounded to the nearest, ties to even."""
    whole, rest = np.divmod(ticks, ticks_per_millisecond)
    up = (2 * rest > ticks_per_millisecond) | ((2 * rest == ticks_per_millisecond) & (whole % 2 == 1))
    milliseconds: Int64s = whole + up
    return milliseconds
