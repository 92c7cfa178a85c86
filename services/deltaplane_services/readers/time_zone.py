"""The conversion of local times of a declared time zone to UTC.

An hour that a zone skips does not exist, and an hour that it repeats happened twice. A row with such a time is refused,
with the reason, since any guess would be wrong for somebody.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane_services.readers.row_blocks import ReaderError

__all__ = ["DAY", "LocalZone"]

DAY = 86_400_000
"""Milliseconds of a day."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - it is a local time without a zone.
_EARLY, _LATE = datetime(2, 1, 1), datetime(9999, 6, 1)  # noqa: DTZ001
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - date(1970, 1, 1).toordinal() + 2, 2_932_895
"""The first and last day since the epoch for which a zone is asked: Python has the years 1 to 9999."""


class LocalZone:
    """A zone of the time zone database, by its name. Raises ReaderError if there is no such zone."""

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            self._zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as fault:
            raise ReaderError(
                f"There is no time zone `{name}` in the time zone database of this machine; give a name such as "
                "`Europe/Berlin` or `UTC` with `--time-zone`, or install the package tzdata."
            ) from fault

    def to_utc(self, local: int, abbreviation: str | None = None) -> int:
        """The milliseconds since the epoch, UTC, of ``local`` milliseconds.

        ``abbreviation`` is that of the zone at that time (``CEST``), which decides a repeated hour. Raises ValueError
        for a time that does not exist or happened twice, and for an abbreviation that the zone does not have.
        """
        if not _FIRST_DAY <= local // DAY <= _LAST_DAY:
            raise ValueError("is outside of the years 1 to 9999")
        naive = _EPOCH + timedelta(milliseconds=local)
        if abbreviation is not None:
            return local - self._offset_called(abbreviation, naive)
        first, second = (_offset(naive.replace(tzinfo=self._zone, fold=fold)) for fold in (0, 1))
        if first < second:
            raise ValueError(f"does not exist in {self.name}, where clocks were put forward over it")
        if first > second:
            raise ValueError(f"happened twice in {self.name}, where clocks were put back over it")
        return local - first

    def _offset_called(self, abbreviation: str, naive: datetime) -> int:
        """The milliseconds ahead of UTC that an abbreviation means; it may be that of another season."""
        for days in (0, 91, -91, 182, -182):
            moment = min(max(naive, _EARLY) + timedelta(days=days), _LATE)
            for fold in (0, 1):
                if (there := moment.replace(tzinfo=self._zone, fold=fold)).tzname() == abbreviation:
                    return _offset(there)
        raise ValueError(f"is in {abbreviation}, which {self.name} is not called then; name another --time-zone")

    def to_utc_each(self, local: Int64s) -> Int64s | None:
        """The milliseconds int64[n] in UTC of local ones int64[n]; None if they must be converted one by one."""
        days, day_of = np.unique(local // DAY, return_inverse=True)
        if not len(days) or days[0] < _FIRST_DAY or days[-1] > _LAST_DAY:
            return None
        offsets = [self._offset_of_day(day) for day in days.tolist()]
        steady = np.array([offset is not None for offset in offsets])[day_of]
        times: Int64s = local - np.array([offset or 0 for offset in offsets], dtype=np.int64)[day_of]
        try:
            for at in np.flatnonzero(~steady).tolist():
                times[at] = self.to_utc(int(local[at]))
        except ValueError:
            return None
        return times

    def _offset_of_day(self, day: int) -> int | None:
        """The milliseconds ahead of UTC on a day; None if they change on that day."""
        if (known := self._offsets.get(day)) is None:
            begin = _EPOCH + timedelta(days=day)
            hours = [begin + timedelta(hours=hour) for hour in range(25)]
            found = {_offset(hour.replace(tzinfo=self._zone, fold=fold)) for hour in hours for fold in (0, 1)}
            known = self._offsets[day] = (found.pop() if len(found) == 1 else None,)
        return known[0]

    @cached_property
    def _offsets(self) -> dict[int, tuple[int | None]]:
        return {}


def _offset(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None, "a zone has an offset at any time"
    return offset // timedelta(milliseconds=1)
