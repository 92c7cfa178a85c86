"""The one rule by which everyone who reads a log gets past batches at which clients go silent."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.kafka import log as log_module
from deltaplane_services.kafka import silence, unpacking
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.silence import ENDS_ASKED_FOR, SILENCE_SECONDS, Listening, Silence, behind_silence
from deltaplane_services.kafka.unpacking import NOT_READ

TOPIC = "stream.deltas"


class Time:
    """Time that passes when somebody waits."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


class Log:
    """One partition, and the spans of it that no client reads."""

    bad: list[range]
    end: int
    time: Time
    made = 0


class Client:
    """Hands over a record at a time, and goes silent for good once it meets a batch that it cannot read."""

    def __init__(self, _: dict[str, Any]) -> None:
        Log.made += 1
        self.place, self.deaf, self.told = 0, False, False
        self.assigned: list[TopicPartition] = []

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = places
        self.place = max(0, places[0].offset) if places else 0

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(place.topic, place.partition) for place in self.assigned]

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(place.topic, place.partition, self.place) for place in places]

    def get_watermark_offsets(self, _: TopicPartition, **__: object) -> tuple[int, int]:
        return 0, Log.end

    def consume(self, _: int, timeout: float = 0.0) -> list[Message]:
        Log.time.sleep(timeout)
        self.deaf = self.deaf or any(self.place in batch for batch in Log.bad)
        if self.deaf or not self.assigned or self.told:
            return []
        if self.place >= Log.end:
            self.told = True
            ended = KafkaError(KafkaError._PARTITION_EOF)
            return [Message(topic=TOPIC, partition=0, offset=Log.end, error=ended)]
        self.place += 1
        return [Message(topic=TOPIC, partition=0, offset=self.place - 1, value=b"row", timestamp=(1, 7))]

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _log(monkeypatch: pytest.MonkeyPatch) -> None:
    Log.time, Log.bad, Log.end, Log.made = Time(), [], 0, 0
    for module in (silence, log_module, unpacking):
        monkeypatch.setattr(module, "Consumer", Client)
        monkeypatch.setattr(module, "time", Log.time)


class Watched:
    """What a service would be told."""

    def __init__(self) -> None:
        self.said: list[str | None] = []
        self.passed: list[str] = []

    def silent(self, why: str | None) -> None:
        self.said.append(why)

    def passed_over(self, topic: str) -> None:
        self.passed.append(topic)


def found_behind(begin: int) -> int | None:
    return behind_silence({}, TopicPartition(TOPIC, 0, begin), Log.end, lambda: None)


@given(spans=st.lists(st.tuples(st.integers(1, 90), st.integers(1, 4)), min_size=1, max_size=4), rows=st.integers(0, 3))
def test_the_first_offset_that_is_read_behind_a_silent_batch_is_found_whatever_lies_behind_it(
    spans: list[tuple[int, int]], rows: int
) -> None:
    """Also where a row or two stand between two such batches: none of them may be lost."""
    Log.bad, at = [], 3
    for length, gap in spans:
        Log.bad.append(range(at, at + length))
        at += length + gap
    Log.end = at + rows
    assert found_behind(3) == Log.bad[0].stop


@pytest.mark.parametrize("length", [511, 512, 513, 5000, 2**31 - 1])
def test_a_batch_that_claims_any_number_of_records_is_got_past_while_its_reader_still_counts_as_alive(
    length: int,
) -> None:
    Log.bad, Log.end = [range(7, 7 + length)], 7 + length + 2
    began, pulses = Log.time.now, list[float]()
    found = behind_silence({}, TopicPartition(TOPIC, 0, 7), Log.end, lambda: pulses.append(Log.time.now))
    assert found == 7 + length
    assert max(b - a for a, b in zip([began, *pulses], [*pulses, Log.time.now], strict=True)) < 30.0
    assert Log.time.now - began < 280.0


def test_a_log_whose_rest_nobody_reads_and_one_that_a_new_client_reads_are_not_passed_over() -> None:
    Log.bad, Log.end = [range(3, 9)], 9
    assert found_behind(3) == 9, "the end of the log answers"
    Log.bad, Log.end = [], 9
    assert found_behind(3) is None
    Log.bad = [range(20)]
    assert found_behind(3) is None, "a broker that is away is silent everywhere"


def reader_from(offset: int) -> tuple[LogReader, Watched]:
    reader, watched = LogReader({}, "stream"), Watched()
    reader.batch_ends.watch = watched
    reader.follow([("deltas", 0, offset)])
    return reader, watched


def test_a_follower_gets_the_record_that_stands_in_the_place_of_a_silent_batch_and_then_the_rows_behind_it() -> None:
    Log.bad, Log.end = [range(2, 5)], 7
    reader, watched = reader_from(0)
    came = []
    while Log.time.now < 300.0 and not reader.has_ended("deltas", 0):
        came += [(one.offset, one.content) for one in reader.poll(10, 0.5)]
    assert came == [(0, b"row"), (1, b"row"), (2, NOT_READ), (5, b"row"), (6, b"row")]
    assert watched.passed == [TOPIC]
    assert "nothing has come from offset 2 on for 20 s, though the log goes on to 7" in str(watched.said[0])
    assert watched.said[-1] is None


def test_a_follower_at_the_end_of_its_log_is_left_alone_even_where_the_log_ends_with_marks() -> None:
    Log.end = 4
    reader, watched = reader_from(0)
    while Log.time.now < 300.0:
        reader.poll(10, 0.5)
    assert (Log.made, watched.passed, watched.said) == (1, [], [])


class Logs:
    """Ends of logs, and how often they were asked for."""

    def __init__(self, end: int, behind: int | None = None) -> None:
        self.end, self.behind, self.asked = end, behind, 0

    def bounds_at(self, _: TopicPartition) -> tuple[int, int]:
        self.asked += 1
        return 0, self.end

    def behind_silence(self, place: TopicPartition, end: int) -> TopicPartition | None:
        assert end == self.end
        return None if self.behind is None else TopicPartition(place.topic, place.partition, self.behind)

    def known_behind(self, place: TopicPartition) -> int | None:
        del place
        return None


def test_nobody_is_asked_before_it_has_been_quiet_for_long_and_few_are_asked_at_once() -> None:
    listening, logs = Listening(0.0), Logs(5)
    places = [TopicPartition(TOPIC, partition, 5) for partition in range(3 * ENDS_ASKED_FOR)]
    listening.find(places, logs, SILENCE_SECONDS - 0.1)
    assert logs.asked == 0
    for turn in (1, 2, 3, 3):
        assert listening.find(places, logs, SILENCE_SECONDS).silence is Silence.NONE
        assert logs.asked == turn * ENDS_ASKED_FOR


def test_marks_of_transactions_behind_the_last_record_are_no_silence() -> None:
    listening, logs = Listening(0.0), Logs(9, behind=9)
    place = TopicPartition(TOPIC, 0, 5)
    ended = Message(topic=TOPIC, partition=0, offset=9, error=KafkaError(KafkaError._PARTITION_EOF))
    listening.hear([ended], 1.0)
    assert listening.find([place], logs, 60.0).passed == []
    logs.end = 11
    assert [at.offset for at, _ in listening.find([place], logs, 90.0).passed] == [9]


def test_where_a_new_client_reads_on_the_old_one_is_to_be_replaced_and_nothing_is_passed_over() -> None:
    found = Listening(0.0).find([TopicPartition(TOPIC, 0, 5)], Logs(9), 60.0)
    assert (found.silence, found.passed) == (Silence.OF_THE_CLIENT, [])
