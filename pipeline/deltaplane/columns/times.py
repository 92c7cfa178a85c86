"""Calendar times as numbers: hour, weekday and day of the year as points on a circle, and days elapsed.

A time is milliseconds since 1970-01-01 UTC. A zone is a fixed offset from UTC in minutes: laws change daylight saving
time, and with rules that change the features would not be a pure function of a row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from deltaplane.arrays import Floats, Int64s
from deltaplane.columns.cells import number_of
from deltaplane.maps.portable import RESULT_BITS, cosines_and_sines

__all__ = [
    "PARTS",
    "SPAN_MILLISECONDS",
    "local_milliseconds",
    "milliseconds_of",
    "names_of",
    "time_text",
    "write_parts",
]


PARTS = ("hour", "weekday", "day of year", "days")
"""The parts of a time: sine and cosine of each of the first three, and days since 1970-01-01 with their fraction."""

_DAY = 86_400_000
_EPOCH = date(1970, 1, 1).toordinal()
SPAN_MILLISECONDS = (date.min.toordinal() - _EPOCH + 1) * _DAY, (date.max.toordinal() - _EPOCH - 1) * _DAY
"""The first and the last time, in milliseconds, so that every time is a day of the calendar in every zone."""
_OUTSIDE = "is a time outside the years 1 to 9999"
_TICKS = {"us": 1000, "ns": 10**6, "ps": 10**9, "fs": 10**12, "as": 10**15}
"""NumPy's units that are finer than a millisecond, and the number of each in a millisecond."""

_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,30}))?)?"
    r" ?(?:([Zz]|UTC)|([+-])(\d{2})(?::?(\d{2}))?)?)?",
    re.ASCII,
)


def names_of(parts: Sequence[str]) -> tuple[str, ...]:
    """The names of the features of some of :data:`PARTS`."""
    names: list[str] = []
    for part in parts:
        names += ["days"] if part == "days" else [f"{part} sine", f"{part} cosine"]
    return tuple(names)


def milliseconds_of(cell: Any, zone_minutes: int) -> float:
    """Milliseconds since 1970 of a time: ISO 8601, seconds since 1970, or a date or time of Python or NumPy.

    A date or time without a zone is in the zone ``zone_minutes`` ahead of UTC. Raises ValueError, whose text is the end
    of a sentence, if the cell is no time, or if it is outside the years 1 to 9999.
    """
    behind = zone_minutes * 60_000
    if isinstance(cell, str) and (match := _ISO.fullmatch(cell)):
        milliseconds = _of_iso(match, behind)
    elif isinstance(cell, np.datetime64):
        milliseconds = _of_ticks(cell) - behind
    elif isinstance(cell, datetime):
        since = cell.replace(tzinfo=UTC) if cell.tzinfo is None else cell
        elapsed = since - datetime(1970, 1, 1, tzinfo=UTC)
        milliseconds = (elapsed.days * 86_400 + elapsed.seconds) * 1000 + round(Fraction(elapsed.microseconds, 1000))
        milliseconds -= behind if cell.tzinfo is None else 0
    elif isinstance(cell, date):
        milliseconds = (cell.toordinal() - _EPOCH) * _DAY - behind
    else:
        milliseconds = _of_seconds(cell)
    if not SPAN_MILLISECONDS[0] <= milliseconds <= SPAN_MILLISECONDS[1]:
        raise ValueError(_OUTSIDE)
    return float(milliseconds)


def time_text(cell: date | np.datetime64) -> str:
    """The ISO 8601 text of a date or time of Python or NumPy; :func:`milliseconds_of` reads it as the cell itself.

    Raises ValueError, whose text is the end of a sentence, if a time with a zone is outside the calendar in UTC.
    """
    if isinstance(cell, np.datetime64):
        return str(cell if np.datetime_data(cell)[0] in _TICKS else cell.astype("datetime64[ms]"))
    if not isinstance(cell, datetime):
        return cell.isoformat()
    try:
        moment = cell if cell.tzinfo is None else cell.astimezone(UTC)
    except OverflowError:
        raise ValueError(_OUTSIDE) from None
    return datetime.isoformat(moment)  # Python's method, since that of pandas adds nanoseconds.


def _of_ticks(cell: np.datetime64) -> int:
    ticks = _TICKS.get(np.datetime_data(cell)[0])
    if ticks is None:
        return int(cell.astype("datetime64[ms]").astype(np.int64))
    return round(Fraction(int(cell.astype(np.int64)) * np.datetime_data(cell)[1], ticks))


def _of_seconds(cell: Any) -> int:
    # A Decimal is read as its text in a file or a message would be: as the nearest float64.
    exact = cell if isinstance(cell, int) and not isinstance(cell, bool) else None
    try:
        seconds = number_of(cell)
    except ValueError:
        seconds = float("nan")
    if not abs(seconds) < 2.0**62:
        raise ValueError("is no time: neither ISO 8601 nor seconds since 1970")
    return round(Fraction(seconds if exact is None else exact) * 1000)


def _of_iso(match: re.Match[str], behind: int) -> int:
    local, ahead_minutes = local_milliseconds(match)
    return local - (behind if ahead_minutes is None else ahead_minutes * 60_000)


def local_milliseconds(match: re.Match[str], *, ends_at_24: bool = False) -> tuple[int, int | None]:
    """Milliseconds since 1970 in the local time of an ISO 8601 text, and its minutes ahead of UTC, None if not given.

    ``match`` has the groups year, month, day, hour, minute, second, fraction, a word for UTC, and the sign, hours and
    minutes of an offset. ``ends_at_24``: whether 24:00 is allowed as the end of a day. Half a millisecond is rounded to
    even. Raises ValueError, whose text is the end of a sentence, if there is no such day, time or offset.
    """
    year, month, day, hour, minute, second, fraction, utc, sign, ahead_hours, ahead_minutes = match.groups(default="")
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        raise ValueError("names a day that does not exist") from None
    is_end = ends_at_24 and hours == 24 and not minutes and not seconds and not int(fraction or 0)
    exists = (hours <= 23 or is_end) and int(ahead_hours or 0) <= 23
    if not exists or max(minutes, seconds, int(ahead_minutes or 0)) > 59:
        raise ValueError("names an hour, minute, second or offset that does not exist")
    # The milliseconds of whole seconds are even, so a tie of the fraction goes to the even sum.
    part = round(Fraction(int(fraction) * 1000, 10 ** len(fraction))) if fraction else 0
    local = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + part
    if not sign:
        return local, 0 if utc else None
    ahead = int(ahead_hours) * 60 + int(ahead_minutes or 0)
    return local, ahead if sign == "+" else -ahead


def write_parts(milliseconds: Floats, zone_minutes: int, parts: Sequence[str], out: Floats) -> None:
    """Write the features of times float64[n] in milliseconds, in the order of :func:`names_of`, into float64[n, m]."""
    local = milliseconds.astype(np.int64) + zone_minutes * 60_000
    days, at = np.divmod(local, _DAY)
    column = 0
    for part in parts:
        if part == "days":
            out[:, column] = local / float(_DAY)
            column += 1
            continue
        turns = _turns(part, days, at)
        circle = np.empty((len(local), 2), dtype=np.int32)
        cosines_and_sines(turns[:, None], circle)
        out[:, column] = circle[:, 1] * 2.0**-RESULT_BITS
        out[:, column + 1] = circle[:, 0] * 2.0**-RESULT_BITS
        column += 2


def _turns(part: str, days: Int64s, at: Int64s) -> Floats:
    """The position of each time on its circle, float64[n] from 0 to 1. Midnight, Monday and 1 January are 0."""
    if part == "hour":
        return np.asarray(at / float(_DAY))
    if part == "weekday":
        return np.asarray((days + 3) % 7 / 7.0)
    years = days.astype("datetime64[D]").astype("datetime64[Y]")
    first = years.astype("datetime64[D]").astype(np.int64)
    next_first = (years + np.timedelta64(1, "Y")).astype("datetime64[D]").astype(np.int64)
    return np.asarray((days - first) / (next_first - first).astype(np.float64))
