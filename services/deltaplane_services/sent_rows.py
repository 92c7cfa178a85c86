"""What a producer makes of the values that a program has, and looks at before it sends them: times, labels, cells."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.errors import DefinitionError, RowsRefused
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.event_times import likely_unit
from deltaplane.stream.sample import Samples, admit

__all__ = ["check_admitted", "milliseconds_of", "refused", "text_of", "texts_of", "warn_of_unit"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 3
"""Rows that an error names; all of them are in its ``refusals``."""


def milliseconds_of(times: Any) -> Int64s:
    """int64[n] milliseconds since the epoch, of numbers that are that, or of dates with times; one may be by itself.

    A ``datetime`` must have a zone. Times of NumPy and pandas without one are taken for UTC, as NumPy means them.
    Raises :class:`DefinitionError` for what is no time.
    """
    if isinstance(times, datetime | numbers.Integral):
        times = [times]
    array = times.to_numpy() if hasattr(times, "to_numpy") else np.asarray(times)
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise DefinitionError(
                f"event times: expected a time in every row, got none in row {_first(np.isnat(array))}"
            )
        return np.asarray(array.astype("datetime64[ms]").astype(np.int64))
    if array.dtype.kind in "iu":
        return np.asarray(array, dtype=np.int64)
    return np.array([_milliseconds(one, row) for row, one in enumerate(array.tolist())], dtype=np.int64)


def _milliseconds(time: Any, row: int) -> int:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise DefinitionError(f"event time of row {row}: {time.isoformat()} has no zone; give one, such as UTC")
        return (time - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(time, numbers.Integral):
        return int(time)
    raise DefinitionError(
        f"event time of row {row}: expected whole milliseconds since the epoch or a datetime, got {time!r:.60}"
    )


def warn_of_unit(times: Int64s, now: int) -> bool:
    """Whether it has been said (RuntimeWarning) that times seem to be in another unit than milliseconds.

    ``now`` is in milliseconds. The first row tells: nothing is converted, since a guess that is right for a thousand
    rows is wrong for the next.
    """
    unit = likely_unit(int(times[0]), now) if len(times) else None
    if unit is None:
        return False
    text = (
        f"event time {int(times[0])} looks like {unit} since the epoch, expected milliseconds: it is sent as it is, and"
        " means " + str(_EPOCH.year + int(times[0]) // 31_556_952_000) + "; convert it, or give a datetime"
    )
    warnings.warn(text, RuntimeWarning, stacklevel=4)
    return True


def text_of(name: Any, what: str, row: int = 0) -> str:
    """An id or a label as a text: a text itself, or a whole number. Raises :class:`DefinitionError` for others."""
    if isinstance(name, str):
        return name
    if isinstance(name, bool | np.bool_) or not isinstance(name, numbers.Integral):
        raise DefinitionError(f"{what} of row {row}: expected a text or a whole number, got {name!r:.60}")
    return str(int(name))


def texts_of(names: Iterable[Any], what: str) -> list[str]:
    """Ids or labels as texts, as :func:`text_of`."""
    return [text_of(name, what, row) for row, name in enumerate(names)]


def check_admitted(samples: Samples, definition: StreamDefinition) -> None:
    """Raise :class:`RowsRefused` if a worker would refuse any of these samples, with its own reason for each."""
    _, refusals = admit(samples, definition)
    if refusals:
        reasons = {one.row: one.reason for one in refusals}
        raise refused(reasons, len(samples), ("cannot be sent, and none was", "correct them, or leave them out"))


def refused(refusals: Mapping[int, str], rows: int, words: tuple[str, str]) -> RowsRefused:
    """The error for some of so many rows; ``words``: what they cannot, and what to do."""
    what, cure = words
    shown = "; ".join(f"row {row}: {reason}" for row, reason in islice(refusals.items(), _SHOWN))
    more = f"; and {len(refusals) - _SHOWN} more" if len(refusals) > _SHOWN else ""
    return RowsRefused(f"rows: {len(refusals)} of {rows} {what}: {shown}{more}; {cure}", refusals)


def _first(flags: Any) -> int:
    return int(np.flatnonzero(flags)[0])
