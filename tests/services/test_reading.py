"""What a client delivers after it was told where to read: what it fetched before, gaps of the log, made-up offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from deltaplane.errors import LogDisorder
from deltaplane_services.kafka.log import end_behind
from deltaplane_services.kafka.log_errors import LogUnavailable
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


class ClientOfAGrowingLog:
    """A consumer that was told an end with what it fetched, while the broker knows a later one, or does not answer."""

    def __init__(self, told: int, at_the_broker: int | None) -> None:
        self.told, self.at_the_broker, self.asked = told, at_the_broker, 0

    def get_watermark_offsets(self, _: TopicPartition, **how: Any) -> tuple[int, int]:
        if how == {"cached": True}:
            return 0, self.told
        self.asked += 1
        if self.at_the_broker is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return 0, self.at_the_broker


def end_for(client: Any, *offsets: int) -> int | None:
    return end_behind(client, TopicPartition("s.samples", 3), records(*offsets), 1.0)


def test_records_that_the_broker_appended_after_it_had_said_the_end_are_no_made_up_ones() -> None:
    client = ClientOfAGrowingLog(told=7, at_the_broker=9)
    assert taken(asked(5), [(5, 6, 7, 8)], end_for(client, 5, 6, 7, 8)) == [True]
    assert (client.asked, end_for(client, 5, 6), client.asked) == (1, 7, 1)
    with pytest.raises(LogDisorder, match="expected offsets below 9, where the log ends, got 9"):
        taken(asked(5), [(8, 9)] * 2, end_for(client, 8, 9))


def test_an_end_is_asked_for_only_if_records_lie_beyond_the_one_that_is_known() -> None:
    assert end_for(ClientOfAGrowingLog(told=-1001, at_the_broker=None), 5) is None
    assert end_for(ClientOfAGrowingLog(told=7, at_the_broker=None)) == 7
    with pytest.raises(LogUnavailable, match=r"s\.samples-3: its end cannot be had"):
        end_for(ClientOfAGrowingLog(told=7, at_the_broker=None), 7)
