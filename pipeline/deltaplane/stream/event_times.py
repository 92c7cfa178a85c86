"""Event times that are given in another unit than milliseconds, told by when their record was appended to the log.

A time in seconds is read as one in January 1970, a time in microseconds as one in a far future. Nothing is converted:
a guess that is right for a thousand rows is wrong for the next. What is found is only said, where a row is refused or
late all the same, or counted: genuine times of 1970 are as good as any others.
"""

from __future__ import annotations

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Int64s

__all__ = ["likely_unit", "look_like_seconds", "unit_in_words"]

_NEAR = limits.PLAUSIBLE_AGE_MILLISECONDS


def likely_unit(event_time: int, log_time: int) -> str | None:
    """The unit that an event time seems to be in, if it is not milliseconds; both are said to be milliseconds.

    It is one that brings the time to within ten years of the log's, from which it is farther as it stands. Where the
    log's own time is near 1970 it is made up (of a replay), and says nothing.
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
    """The end of a reason that says so; nothing where the time seems to be in milliseconds."""
    unit = likely_unit(event_time, log_time)
    return "" if unit is None else f"; it looks like {unit} since the epoch, expected milliseconds"


def look_like_seconds(event_times: Int64s, log_times: Int64s) -> Flags:
    """bool[n]: event times that :func:`likely_unit` takes for seconds."""
    then = np.clip(log_times, 0, 2 * limits.EVENT_TIME_MILLISECONDS)
    inside = (event_times >= -((_NEAR - then) // 1000)) & (event_times <= (then + _NEAR) // 1000)
    return np.asarray(inside & (then >= _NEAR) & (event_times < then - _NEAR))
