"""Event times in another unit than milliseconds, found by the time at which their record was appended to the log.

A time in seconds is read as a time in January 1970, and one in microseconds as a time in the far future. Nothing is
converted: a guess that is right for a thousand rows may be wrong for the next. The finding is only added to the reason
if a row is refused or late anyway, or counted, since real times of 1970 are valid.
"""

from __future__ import annotations

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Int64s

__all__ = ["likely_unit", "look_like_seconds", "unit_in_words"]

_NEAR = limits.PLAUSIBLE_AGE_MILLISECONDS


def likely_unit(event_time: int, log_time: int) -> str | None:
    """The unit that an event time seems to be in, or None if it seems to be in milliseconds.

    ``event_time`` and ``log_time`` are declared to be milliseconds. If the event time is more than ten years from the
    log's time, but within ten years if read in another unit, that is the unit. A log time near 1970 is artificial (of a
    replay), and gives None.
    """
    if log_time < _NEAR or abs(event_time - log_time) <= _NEAR:
        return None
    meant = {
        "seconds": event_time * 1000,
        "microseconds": event_time // 1000,
        "nanoseconds": event_time // 1_000_000,
    }
    return next((unit for unit, time in meant.items() if abs(time - log_time) <= _NEAR), None)


def unit_in_words(event_time: int, log_time: int) -> str:
    """The end of a reason that names the likely unit, or an empty text if the time seems to be in milliseconds."""
    unit = likely_unit(event_time, log_time)
    return "" if unit is None else f"; it looks like {unit} since the epoch, expected milliseconds"


def look_like_seconds(event_times: Int64s, log_times: Int64s) -> Flags:
    """bool[n]: whether :func:`likely_unit` takes each event time for seconds."""
    then = np.clip(log_times, 0, 2 * limits.EVENT_TIME_MILLISECONDS)
    inside = (event_times >= -((_NEAR - then) // 1000)) & (event_times <= (then + _NEAR) // 1000)
    return np.asarray(inside & (then >= _NEAR) & (event_times < then - _NEAR))
