"""A client that waits for a dead broker is replaced; one that has lost none is given all the time that there is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from deltaplane_services.kafka.admin_questions import (
    FIRST_MOMENT_SECONDS,
    LONGEST_MOMENT_SECONDS,
    PAUSE_SECONDS,
    AdminQuestions,
)

LOST = KafkaError(KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:9092 failed")
SECONDS = 20.0


class Client:
    """An admin client that reports what it is told to, and answers when it is told to."""

    def __init__(self, note: Callable[[KafkaError], None]) -> None:
        self.note = note
        self.asked: list[tuple[float, Future[str]]] = []
        self.reports: list[KafkaError] = []

    def ask(self, seconds: float) -> dict[str, Future[str]]:
        self.asked.append((seconds, Future()))
        return {"topic": self.asked[-1][1]}

    def poll(self, _seconds: float) -> None:
        for error in self.reports:
            self.note(error)
        self.reports.clear()


class Scene:
    """Questions, with a clock that stands still, and the clients that were made for them."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.now, self.seconds = 0.0, seconds
        self.clients: list[Client] = []
        self.questions = AdminQuestions(self._make, lambda: self.now)
        self.begin()

    def begin(self) -> None:
        self.questions.begin(lambda client, seconds: client.ask(seconds), self.seconds)  # type: ignore[attr-defined]
        self.questions.turn()

    def _make(self, note: Callable[[KafkaError], None]) -> Any:
        self.clients.append(Client(note))
        return self.clients[-1]

    def turn_at(self, now: float) -> str | None:
        self.now = now
        answers = self.questions.turn()
        return None if answers is None else answers["topic"].result(0.0)


def test_a_client_that_has_lost_no_broker_may_take_all_the_time() -> None:
    scene = Scene()
    assert scene.turn_at(SECONDS - 1.0) is None
    assert [seconds for seconds, _ in scene.clients[0].asked] == [SECONDS]
    scene.clients[0].asked[0][1].set_result("told")
    assert scene.turn_at(SECONDS - 0.5) == "told"
    assert len(scene.clients) == 1
    assert not scene.questions.asked


def test_a_client_that_has_lost_a_broker_is_replaced_after_a_moment_and_a_pause() -> None:
    scene = Scene()
    scene.clients[0].reports.append(LOST)
    assert scene.turn_at(0.1) is None
    scene.turn_at(FIRST_MOMENT_SECONDS)
    scene.turn_at(FIRST_MOMENT_SECONDS + PAUSE_SECONDS - 0.1)
    assert len(scene.clients) == 1, "there is a pause in which nobody is asked"
    scene.turn_at(FIRST_MOMENT_SECONDS + PAUSE_SECONDS)
    assert [seconds for seconds, _ in scene.clients[1].asked] == [SECONDS - FIRST_MOMENT_SECONDS - PAUSE_SECONDS]
    scene.clients[1].asked[0][1].set_result("told by another")
    assert scene.turn_at(2.0) == "told by another"


def test_one_that_has_lost_a_broker_and_answers_in_that_moment_is_kept() -> None:
    scene = Scene()
    scene.clients[0].reports.append(LOST)
    scene.turn_at(0.1)
    scene.clients[0].asked[0][1].set_result("told")
    assert scene.turn_at(FIRST_MOMENT_SECONDS + 1.0) == "told"
    scene.questions.begin(lambda client, seconds: client.ask(seconds), SECONDS)  # type: ignore[attr-defined]
    assert len(scene.clients) == 1


def test_until_the_brokers_know_of_the_dead_one_clients_wait_for_it_for_a_part_of_the_time() -> None:
    # Brokers take nine seconds by default to find that another is dead, and to name another controller.
    scene, busy, step = Scene(), 0.0, 0.05
    for tick in range(int(9.0 / step)):
        scene.clients[-1].reports.append(LOST)
        scene.turn_at(tick * step)
        busy += step * (scene.questions._client is not None)
    assert busy < 0.4 * 9.0
    assert len(scene.clients) == 4


@pytest.mark.parametrize("seconds", [4.0, 20.0])
def test_brokers_that_are_far_away_have_ever_longer_to_let_a_client_in(seconds: float) -> None:
    scene, asked, asked_at = Scene(seconds), 0, 0.0
    for tick in range(800):
        now = 0.05 * tick
        scene.clients[-1].reports.append(LOST)
        if sum(len(client.asked) for client in scene.clients) > asked:
            asked, asked_at = asked + 1, now
        limit, answer = scene.clients[-1].asked[-1]
        if scene.questions._client is not None and now - asked_at >= LONGEST_MOMENT_SECONDS - 0.1:
            return
        if now - asked_at >= limit and not answer.done():
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        with contextlib.suppress(KafkaException):
            scene.turn_at(now)
        if not scene.questions.asked:
            scene.begin()
    raise AssertionError(f"no client had {LONGEST_MOMENT_SECONDS} s; {len(scene.clients)} were asked {asked} times")


def test_a_refusal_is_an_answer_after_which_moments_are_short_again() -> None:
    scene = Scene()
    scene.clients[0].reports.append(LOST)
    scene.turn_at(0.1)
    scene.turn_at(FIRST_MOMENT_SECONDS)
    scene.turn_at(FIRST_MOMENT_SECONDS + PAUSE_SECONDS)
    refusal = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    scene.clients[1].asked[0][1].set_exception(refusal)
    with pytest.raises(KafkaException):
        scene.turn_at(3.0)
    assert scene.questions._moment_seconds == FIRST_MOMENT_SECONDS


def test_the_last_client_is_left_to_answer_when_the_time_is_over() -> None:
    scene = Scene()
    scene.clients[0].reports.append(LOST)
    scene.turn_at(0.1)
    scene.turn_at(FIRST_MOMENT_SECONDS)
    scene.turn_at(SECONDS + 5.0)
    (seconds, answer) = scene.clients[1].asked[0]
    assert 0.0 < seconds < 1.0
    scene.clients[1].reports.append(LOST)
    assert scene.turn_at(SECONDS + 6.0) is None
    answer.set_exception(TimeoutError("no answer"))
    with pytest.raises(TimeoutError, match="no answer"):
        scene.turn_at(SECONDS + 7.0)
    assert not scene.questions.asked


def test_a_question_that_is_answered_at_once_has_its_answer() -> None:
    told: dict[str, Future[str]] = {"topic": Future()}
    told["topic"].set_result("told")
    questions = AdminQuestions(Client)  # type: ignore[arg-type]
    assert questions.wait(lambda *_: told, 600.0) == told
    assert questions.wait(lambda *_: {}, 600.0) == {}


def test_a_client_that_is_turned_away_ends_the_wait() -> None:
    refused = KafkaError(KafkaError._AUTHENTICATION, "wrong password")
    clients: list[Client] = []

    def make(note: Callable[[KafkaError], None]) -> Any:
        clients.append(Client(note))
        clients[-1].reports.append(refused)
        return clients[-1]

    questions = AdminQuestions(make)
    answers = questions.wait(lambda client, seconds: client.ask(seconds), 600.0)  # type: ignore[attr-defined]
    assert not answers["topic"].done()
    assert (questions.turned_away, questions.last_error) == (True, "wrong password")
