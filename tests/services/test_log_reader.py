"""Questions to brokers: one that goes to a broker that has died is asked again, of whoever leads now."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from deltaplane_services.kafka import log as log_module
from deltaplane_services.kafka.log import ATTEMPT_SECONDS, REQUEST_TIMEOUT_SECONDS, LogReader, LogUnavailable


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class HangingConsumer:
    """Asks a dead leader, each time until its time is up, before it has looked so many times who leads."""

    clock: Clock
    hangs: int

    def __init__(self, _: dict[str, Any]) -> None:
        self.looked = 0

    def get_watermark_offsets(self, place: TopicPartition, *, timeout: float, cached: bool) -> tuple[int, int]:
        assert place.partition == 0
        assert not cached
        if self.looked < self.hangs:
            self.clock.sleep(timeout)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return 3, 17

    def list_topics(self, topic: str, *, timeout: float) -> None:
        assert (topic, timeout) == ("stream.models", ATTEMPT_SECONDS)
        self.looked += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(log_module, "time", clock)
    monkeypatch.setattr(log_module, "Consumer", HangingConsumer)
    monkeypatch.setattr(log_module, "BatchEnds", lambda _: None)
    monkeypatch.setattr(HangingConsumer, "clock", clock, raising=False)
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
