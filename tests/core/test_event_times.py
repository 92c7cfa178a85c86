"""Times in another unit than milliseconds are named, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.stream.event_times import likely_unit, look_like_seconds, unit_in_words

NOW, HOUR, YEAR = 1_750_000_000_123, 3_600_000, 365 * 86_400_000
ANY = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("event_time", "unit"),
    [
        (NOW // 1000, "seconds"),
        ((NOW - 3 * YEAR) // 1000, "seconds"),
        (NOW * 1000, "microseconds"),
        ((NOW + 2 * HOUR) * 1000, "microseconds"),
        (NOW * 1_000_000, "nanoseconds"),
        (NOW, None),
        (NOW + 2 * YEAR, None),
        (0, None),
        (-5 * YEAR, None),
        # Genuine milliseconds of the seventies, but for the few days that seconds of our time are read as.
        (86_400_000, None),
        (YEAR, None),
        (9 * YEAR, None),
        (2**61, None),
    ],
)
def test_the_unit_of_an_event_time_is_told_by_when_it_came(event_time: int, unit: str | None) -> None:
    assert likely_unit(event_time, NOW) == unit
    words = unit_in_words(event_time, NOW)
    assert words == ("" if unit is None else f"; it looks like {unit} since the epoch, expected milliseconds")


@given(ANY, st.integers(-(2**40), limits.PLAUSIBLE_AGE_MILLISECONDS - 1))
def test_a_log_whose_own_time_is_made_up_tells_nothing(event_time: int, log_time: int) -> None:
    assert likely_unit(event_time, log_time) is None


@given(st.integers(-limits.PLAUSIBLE_AGE_MILLISECONDS, limits.PLAUSIBLE_AGE_MILLISECONDS), ANY)
def test_a_time_near_that_of_the_log_is_what_it_says(age: int, log_time: int) -> None:
    assert likely_unit(log_time - age, log_time) is None


@given(st.lists(st.tuples(st.one_of(ANY, st.integers(0, 2**32)), st.one_of(ANY, st.integers(0, 2**42))), max_size=9))
def test_many_at_once_are_told_as_one_by_one(pairs: list[tuple[int, int]]) -> None:
    times, logs = (np.array([pair[at] for pair in pairs], dtype=np.int64) for at in (0, 1))
    assert look_like_seconds(times, logs).tolist() == [likely_unit(*pair) == "seconds" for pair in pairs]
