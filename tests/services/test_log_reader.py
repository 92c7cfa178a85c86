"""Questions to brokers: one that goes to a broker that has died is asked again, of whoever leads now."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from deltaplane_services.kafka import log as log_module
from deltaplane_services.kafka.log import ALONE_SECONDS, ATTEMPT_SECONDS, LogReader
from deltaplane_services.kafka.log_errors import REQUEST_TIMEOUT_SECONDS, LogUnavailable


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class HangingConsumer:
    """One of the first so many asks a dead leader, each time until its time is up; later ones know who leads now."""

    clock: Clock
    hangs: int
    made = 0

    def __init__(self, _: dict[str, Any]) -> None:
        type(self).made += 1
        self.number = self.made
        self.assigned: list[TopicPartition] = []

    def get_watermark_offsets(self, place: TopicPartition, *, timeout: float, cached: bool) -> tuple[int, int]:
        assert (place.topic, place.partition) == ("stream.models", 0)
        assert not cached
        if self.number <= self.hangs:
            self.clock.sleep(timeout)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return 3, 17

    def assignment(self) -> list[TopicPartition]:
        return self.assigned

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = places

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return places

    def close(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(log_module, "time", clock)
    monkeypatch.setattr(log_module, "Consumer", HangingConsumer)
    monkeypatch.setattr(log_module, "BatchEnds", lambda _: None)
    monkeypatch.setattr(HangingConsumer, "clock", clock, raising=False)
    monkeypatch.setattr(HangingConsumer, "made", 0)
    return clock


def test_a_question_that_hangs_on_a_dead_leader_is_asked_again_in_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HangingConsumer, "hangs", 2, raising=False)
    assert LogReader({}, "stream").bounds("models", 0) == (3, 17)
    assert clock.now - 100.0 < REQUEST_TIMEOUT_SECONDS / 2


def test_brokers_that_never_answer_are_given_up_when_the_time_is_up(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HangingConsumer, "hangs", 10**6, raising=False)
    reader = LogReader({}, "stream")
    with pytest.raises(LogUnavailable, match=r"stream.models-0: .*; is the topic there, and the broker\?"):
        reader.bounds("models", 0)
    assert REQUEST_TIMEOUT_SECONDS <= clock.now - 100.0 <= REQUEST_TIMEOUT_SECONDS + ATTEMPT_SECONDS


class Deaf:
    """A client of which nothing comes."""

    clock: Clock
    made: ClassVar[list[Deaf]] = []
    bounds: ClassVar[tuple[int, int]] = (0, 3)

    def __init__(self, properties: dict[str, Any]) -> None:
        self.made.append(self)
        self.say = properties["error_cb"]
        self.places: list[TopicPartition] = []
        self.at: dict[int, int] = {}
        self.closed = False

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(place.topic, place.partition) for place in self.places]

    def assign(self, places: list[TopicPartition]) -> None:
        self.places = places

    def unassign(self) -> None:
        self.places = []

    def get_watermark_offsets(self, _: TopicPartition, **__: object) -> tuple[int, int]:
        return self.bounds

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(p.topic, p.partition, self.at.get(p.partition, OFFSET_INVALID)) for p in places]

    def consume(self, _: int, *, timeout: float) -> list[Message]:
        self.clock.sleep(timeout)
        return []

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def _deaf(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "Consumer", Deaf)
    monkeypatch.setattr(log_module, "BatchEnds", Nowhere)
    monkeypatch.setattr(Deaf, "clock", clock, raising=False)
    monkeypatch.setattr(Deaf, "made", [])


class Asked(Deaf):
    """A client whose broker answers no question, and which knows the ends of logs from what it has fetched."""

    def get_watermark_offsets(self, _: TopicPartition, **how: object) -> tuple[int, int]:
        if how.get("cached") is not True:
            self.clock.sleep(ATTEMPT_SECONDS)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return OFFSET_INVALID, 20


class Nowhere:
    """There is no batch that does not unpack."""

    def __init__(self, _: dict[str, Any]) -> None:
        pass

    def from_there(self, place: TopicPartition) -> TopicPartition:
        return place

    def behind_silence(self, place: TopicPartition, end: int) -> None:
        del place, end

    def known_behind(self, place: TopicPartition) -> None:
        del place


@pytest.mark.usefixtures("_deaf")
def test_a_client_of_which_nothing_comes_on_the_way_to_a_known_end_is_replaced() -> None:
    reader = LogReader({}, "stream")
    with pytest.raises(LogUnavailable, match="nothing came for 30 s from offset 1 on, and the log goes on to"):
        list(reader.read("models", 0, 1, 3))
    first, second = Deaf.made
    assert (first.closed, second.closed, second.places) == (True, False, [])


@pytest.mark.usefixtures("_deaf")
def test_a_client_that_delivers_nothing_after_it_has_lost_all_brokers_is_replaced_where_it_was(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deaf, "bounds", (0, 0))
    said: list[str] = []
    reader = LogReader({"error_cb": lambda error: said.append(error.name())}, "stream")
    reader.follow([("deltas", 0, 5), ("deltas", 1, 7), ("models", 0, 0)])
    (first,) = Deaf.made
    first.at = {1: 9}
    reader.poll(10, 0.0)
    clock.sleep(10 * ALONE_SECONDS)
    reader.poll(10, 0.0)
    assert Deaf.made == [first], "one that is idle is left alone"

    first.say(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    reader.poll(10, 0.0)
    clock.sleep(ALONE_SECONDS + 1.0)
    reader.poll(10, 0.0)
    clock.sleep(ALONE_SECONDS + 1.0)
    reader.poll(10, 0.0)

    _, second = Deaf.made
    assert said == ["_ALL_BROKERS_DOWN"]
    assert (first.closed, second.closed) == (True, False)
    found = {(place.topic, place.partition): place.offset for place in second.places}
    assert found == {("stream.deltas", 0): 5, ("stream.deltas", 1): 9, ("stream.models", 0): OFFSET_BEGINNING}


@pytest.mark.usefixtures("_deaf")
def test_a_client_whose_brokers_came_back_and_that_delivers_again_is_kept(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = LogReader({}, "stream")
    reader.follow([("models", 0, 5)])
    (first,) = Deaf.made
    first.say(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    came = Message(topic="stream.models", partition=0, offset=5, value=b"", timestamp=(1, 7))
    monkeypatch.setattr(first, "consume", lambda _, timeout: [came])  # noqa: ARG005
    assert [record.offset for record in reader.poll(10, 0.0)] == [5]
    clock.sleep(ALONE_SECONDS + 1.0)
    reader.poll(10, 0.0)
    assert Deaf.made == [first]


@pytest.mark.usefixtures("_deaf")
def test_lags_are_told_without_asking_a_broker_which_might_not_answer(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "Consumer", Asked)
    reader = LogReader({}, "stream")
    reader.follow([("deltas", 0, 0), ("deltas", 1, 7), ("models", 0, 12)])
    Deaf.made[0].at = {1: 9}
    assert reader.lags() == {("deltas", 0): 20, ("deltas", 1): 11, ("models", 0): 8}
    assert clock.now == 100.0, "no time was spent on a question"
