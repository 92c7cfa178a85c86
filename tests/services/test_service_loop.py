"""One loop for every service: what a failure is answered by, in which order output is safe, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.kafka.membership import ANYBODY
from deltaplane_services.kafka.publishing import DeliveryFailed, Publisher, Publishers
from deltaplane_services.kafka.recoveries import Recoveries
from deltaplane_services.kafka.service_loop import ServiceLoop
from deltaplane_services.processors.messages import Outgoing, Output

AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT))
LETTER, DELTA = Outgoing("dead-letters", 0, None, b"letter"), Outgoing("deltas", 0, None, b"delta")


class Watched:
    """Writes down what is asked of it, in one list with all others."""

    def __init__(self, name: str, said: list[str], fault: Exception | None = None) -> None:
        self.name, self.said, self.fault = name, said, fault

    def publish(self, records: Iterable[Outgoing]) -> None:
        self.said.append(f"{self.name}: {[record.topic for record in records]}")

    def flush(self) -> None:
        self.said.append(f"{self.name}: flush")
        if self.fault is not None:
            raise self.fault

    def abandon(self) -> None:
        self.said.append(f"{self.name}: abandon")

    def ends(self) -> None:
        self.said.append(f"{self.name}: ends")


class Loop(ServiceLoop):
    """Raises what it is given to raise, in its turns and when it goes on."""

    going_on = "trying again"

    def __init__(self, recoveries: Recoveries, *, at_flush: Exception | None = None, one: bool = False) -> None:
        self.said, self.made, self.pauses = list[str](), 0, list[float]()
        self.turns, self.goings = list[Exception | None](), list[Exception | None]()
        self.outage: str | None = None

        def publishers() -> Publishers:
            self.made += 1
            first, then = (cast("Publisher", Watched(f"{name}{self.made}", self.said, at_flush)) for name in ("a", "b"))
            return Publishers.of_one(then) if one else Publishers(first, then)

        super().__init__(cast("Any", Watched("metrics", self.said)), recoveries, publishers)

    @property
    def _outage(self) -> str | None:
        return self.outage

    def _turn(self, most: int, timeout_seconds: float) -> None:
        del most, timeout_seconds
        if fault := self.turns.pop(0):
            raise fault

    def _go_on(self, pause_seconds: float) -> None:
        self.pauses.append(pause_seconds)
        if fault := self.goings.pop(0) if self.goings else None:
            raise fault

    def _leave(self) -> None:
        self.said.append("left")


def stepped(loop: Loop, *turns: Exception | None) -> Loop:
    loop.turns.extend(turns)
    for _ in turns:
        loop.step(10, 0.0)
    return loop


@pytest.mark.parametrize("fault", [DeliveryFailed("lost"), LogUnavailable("away"), AWAY])
def test_after_a_failure_that_may_pass_the_service_goes_on_with_new_publishers(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    loop = stepped(Loop(Recoveries(ANYBODY)), fault)
    assert sorted(loop.said) == ["a1: abandon", "b1: abandon"]
    assert (loop.made, loop.pauses) == (2, [0.4])
    assert f"{fault}; trying again in 0.4 s (failure 1 of 10)" in caplog.text


def test_a_publisher_that_is_both_is_abandoned_once() -> None:
    assert stepped(Loop(Recoveries(ANYBODY), one=True), AWAY).said == ["b1: abandon"]


def test_a_turn_that_succeeds_ends_the_row_of_failures() -> None:
    assert stepped(Loop(Recoveries(ANYBODY)), AWAY, AWAY, None, AWAY).pauses == [0.4, 0.8, 0.4]


def test_where_turns_succeed_while_sources_fail_only_time_ends_the_row() -> None:
    assert stepped(Loop(Recoveries.of_worker(ANYBODY)), AWAY, AWAY, None, AWAY).pauses == [0.2, 0.4, 0.8]


def test_a_client_that_fails_while_the_service_goes_on_is_one_more_failure() -> None:
    loop = Loop(Recoveries(ANYBODY))
    loop.goings = [AWAY, None]
    assert stepped(loop, DeliveryFailed("lost")).pauses == [0.4, 0.8]
    assert loop.made == 3


def test_too_many_failures_in_a_row_end_the_service_and_those_of_an_outage_do_not() -> None:
    loop = Loop(Recoveries(ANYBODY, most=2))
    loop.outage = "no broker answers"
    stepped(loop, *[AWAY] * 5)
    loop.outage = None
    with pytest.raises(LogUnavailable, match="kafka"):
        stepped(loop, *[AWAY] * 3)


def test_what_cannot_pass_ends_the_service_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        stepped(Loop(Recoveries(ANYBODY)), ZeroDivisionError())


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (Output((LETTER,), (DELTA,)), ["a1: ['dead-letters']", "a1: flush", "b1: ['deltas']"]),
        (Output((), (DELTA,)), ["b1: ['deltas']"]),
    ],
)
def test_what_comes_first_is_acknowledged_before_the_rest_is_published(output: Output, expected: list[str]) -> None:
    loop = Loop(Recoveries(ANYBODY))
    loop._publish(output)
    assert loop.said == expected


def test_at_the_end_what_was_published_arrives_before_the_clients_are_closed() -> None:
    loop = Loop(Recoveries(ANYBODY))
    loop.close()
    assert loop.said == ["metrics: ends", "b1: flush", "left"]


@pytest.mark.parametrize("left_unsent", [None, "the next owner goes on"])
def test_clients_are_closed_though_a_delivery_fails_at_the_end(
    left_unsent: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Loop, "left_unsent", left_unsent)
    loop = Loop(Recoveries(ANYBODY), at_flush=DeliveryFailed("lost"))
    if left_unsent is None:
        with pytest.raises(DeliveryFailed):
            loop.close()
    else:
        loop.close()
        assert "at the end: lost; the next owner goes on" in caplog.text
    assert loop.said[-1] == "left"
