"""Members of consumer groups: one that is not let in again asks anew, with a new client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from deltaplane_services.kafka import member as member_module
from deltaplane_services.kafka.member import JOIN_SECONDS, Member

PLACES = [TopicPartition("stream.samples", 0)]
PATIENCE_SECONDS = 60.0


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


class Client:
    """Hears from its group in the course of a poll what the test has it hear."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.told: dict[str, Callable[..., None]] = {}
        self.hears: list[str] = []
        self.left = threading.Event()
        self.may_leave = threading.Event()

    def subscribe(self, topics: list[str], **told: Callable[..., None]) -> None:
        self.topics, self.told = topics, told

    def hear(self, change: str) -> None:
        self.told[change](self, PLACES)

    def consume(self, most: int, *, timeout: float) -> list[Any]:
        assert (most, timeout) == (7, 0.5)
        while self.hears:
            self.hear(self.hears.pop(0))
        return []

    def close(self) -> None:
        self.may_leave.wait(PATIENCE_SECONDS)
        self.hear("on_lost")
        self.left.set()


class Group:
    """The clients that a member has made, and what it has heard of them."""

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.heard: list[tuple[str, int]] = []
        self.member = Member(
            self._make,  # type: ignore[arg-type]
            ["stream.samples"],
            assigned=self._note("assigned"),
            revoked=self._note("revoked"),
            lost=self._note("lost"),
        )

    def _make(self) -> Client:
        self.clients.append(Client())
        return self.clients[-1]

    def _note(self, change: str) -> Callable[..., None]:
        return lambda client, _: self.heard.append((change, self.clients.index(client)))

    def poll(self, *hears: str) -> None:
        self.clients[-1].hears += hears
        self.member.consume(7, 0.5)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(member_module, "time", clock)
    return clock


@pytest.fixture
def group(clock: Clock) -> Iterator[Group]:
    del clock
    group = Group()
    yield group
    for client in group.clients:
        client.may_leave.set()


@pytest.mark.parametrize("change", ["on_lost", "on_revoke"])
def test_a_member_that_is_not_let_in_again_asks_anew_with_a_new_client(group: Group, clock: Clock, change: str) -> None:
    group.member.join()
    group.poll("on_assign")
    assert group.member.joined
    clock.now += 1000.0
    group.poll(change)
    assert not group.member.joined
    clock.now += JOIN_SECONDS
    group.poll()
    assert len(group.clients) == 1, "it may be let in yet"

    clock.now += 1.0
    group.poll()
    group.poll("on_assign")

    assert group.member.joined
    assert [client.topics for client in group.clients] == [["stream.samples"]] * 2
    said = "lost" if change == "on_lost" else "revoked"
    assert group.heard == [("assigned", 0), (said, 0), ("assigned", 1)]
    # The old client leaves when it can, and nobody waits for it, or listens to it.
    assert not group.clients[0].left.is_set()
    group.clients[0].may_leave.set()
    assert group.clients[0].left.wait(PATIENCE_SECONDS)
    assert group.member.joined
    assert len(group.heard) == 3


def test_what_a_client_had_is_lost_once_it_is_replaced_since_its_group_takes_nothing_back_from_a_new_one(
    group: Group,
) -> None:
    group.member.join()
    group.poll("on_assign")
    group.member.join_anew()
    assert group.heard == [("assigned", 0), ("lost", 0)]
    assert not group.member.joined
    group.member.join_anew()
    assert len(group.heard) == 2, "there was nothing more to lose"
    group.poll("on_assign")
    assert group.heard[2:] == [("assigned", 2)]


def test_a_member_that_is_never_let_in_asks_anew_again_and_again(group: Group, clock: Clock) -> None:
    group.member.join()
    for clients in (1, 2, 3):
        group.poll()
        assert len(group.clients) == clients
        clock.now += JOIN_SECONDS + 1.0


def test_a_member_asks_only_once_it_is_to(group: Group, clock: Clock) -> None:
    clock.now += 1000.0
    group.poll()
    assert (len(group.clients), group.member.asked) == (1, False)
    group.member.join()
    assert group.member.asked


def test_a_member_stays_as_long_as_its_group_lets_it(group: Group, clock: Clock) -> None:
    group.member.join()
    group.poll("on_assign")
    for _ in range(5):
        clock.now += 10.0 * JOIN_SECONDS
        group.poll("on_revoke", "on_assign")
    assert len(group.clients) == 1
