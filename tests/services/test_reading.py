"""What a client delivers after it was told where to read: what it fetched before, gaps of the log, made-up offsets."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from deltaplane.errors import LogDisorder
from deltaplane_services.kafka.reading import Reading
from deltaplane_services.processors.messages import SAMPLES, Record


def records(*offsets: int) -> list[Record]:
    return [Record(SAMPLES, 3, offset, 0, None, b"") for offset in offsets]


def asked(offset: int) -> Reading:
    reading = Reading()
    reading.ask(offset)
    return reading


def taken(reading: Reading, polls: Iterable[Iterable[int]], end: int | None = None) -> list[bool]:
    return [reading.hear(records(*offsets), end) for offsets in polls]


def test_what_follows_without_gaps_is_taken_poll_by_poll() -> None:
    assert taken(asked(5), [(), (5, 6), (7,), (), (8, 9)]) == [True] * 5


def test_a_first_record_beyond_the_place_is_asked_for_once_more_and_then_taken() -> None:
    reading = asked(5)
    assert taken(reading, [(8, 9)]) == [False]
    reading.ask(5)
    assert taken(reading, [(8, 9), (20,)]) == [True, True]


def test_what_was_fetched_for_an_earlier_place_is_not_taken_and_what_comes_then_is() -> None:
    reading = asked(5)
    assert taken(reading, [(100, 101)]) == [False]
    reading.ask(5)
    assert taken(reading, [(5, 6), (7,)]) == [True, True]


def test_two_gaps_in_one_poll_do_not_have_it_asked_for_again_and_again() -> None:
    reading = asked(0)
    assert taken(reading, [(0, 1, 3, 4, 6), (8,), (11, 13)]) == [True] * 3


def test_another_gap_behind_another_place_is_asked_for_in_its_turn() -> None:
    reading = asked(5)
    assert taken(reading, [(7,)]) == [False]
    reading.ask(5)
    assert taken(reading, [(7,)]) == [True]
    reading.ask(8)
    assert taken(reading, [(10,)]) == [False]
    reading.ask(8)
    assert taken(reading, [(10,)]) == [True]


def test_records_before_the_place_are_passed_over_at_first() -> None:
    assert taken(asked(5), [(3, 4), (4, 5, 6), (7,)]) == [True] * 3


@pytest.mark.parametrize("polls", [[(5, 6), (6,)], [(5, 6), (5,)], [(5, 7, 6)], [(5,), (6, 6)]])
def test_an_offset_that_does_not_ascend_is_refused(polls: list[tuple[int, ...]]) -> None:
    with pytest.raises(LogDisorder, match="samples-3: expected offsets that ascend"):
        taken(asked(5), polls)


def test_an_offset_beyond_the_end_is_refused() -> None:
    with pytest.raises(LogDisorder, match="samples-3: expected offsets below 7, where the log ends, got 1000005"):
        taken(asked(5), [(5, 1_000_005)], end=7)


def test_before_anything_was_asked_for_nothing_is_judged() -> None:
    assert taken(Reading(), [(9, 3)]) == [True]
