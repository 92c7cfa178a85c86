"""What an elected merger lets go of, and when: in each turn what the turn before found."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pytest

from deltaplane.log.delta import Source
from deltaplane.log.trimming import Untouched
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.operations import trim
from deltaplane_services.operations.trim import LogTrim, Place, Trimming, TrimPlan, trimmed
from deltaplane_services.system.background import repeat_in_background
from kafka.clients import wait_until
from services.settings_stream import resolve

SOURCE = Source("local", 0)


class Logs:
    """One log of samples, and what was asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begin, self.can_go_to = 0, 0
        self.elected = True
        self.untouched: tuple[Untouched, ...] = ()
        self.told: list[tuple[Mapping[Place, int], Mapping[Place, int]]] = []
        monkeypatch.setattr(trim, "plan_trim", lambda *_: self._plan())
        monkeypatch.setattr(trim, "apply_trims", lambda _, trims: self._let_go(trims))
        self.trimming = Trimming(resolve({}), lambda: self.elected, lambda *heard: self.told.append(heard))

    def _plan(self) -> TrimPlan:
        return TrimPlan((LogTrim(SOURCE, "samples", self.begin, self.can_go_to, 10_000),), self.untouched)

    def _let_go(self, trims: Sequence[LogTrim]) -> dict[Place, int]:
        for one in trims:
            self.begin = max(self.begin, one.to)
        return {one.place: self.begin for one in trims if one.records > 0}

    def turn(self, can_go_to: int) -> int:
        self.can_go_to = can_go_to
        self.trimming.turn()
        return self.begin


def test_a_turn_lets_go_of_what_the_turn_before_found(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(monkeypatch)
    assert [logs.turn(to) for to in (100, 250, 400, 400)] == [0, 100, 250, 400]
    assert [gone for gone, _ in logs.told] == [{}, {("samples", 0): 100}, {("samples", 0): 150}, {("samples", 0): 150}]
    assert logs.told[-1][1] == {("samples", 0): 400}


def test_whoever_is_not_elected_lets_nothing_go_and_begins_anew_when_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(monkeypatch)
    logs.turn(100)
    logs.elected = False
    assert logs.turn(200) == 0
    logs.elected = True
    assert [logs.turn(to) for to in (300, 500)] == [0, 300]


def test_a_state_that_says_less_than_before_is_the_one_that_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(monkeypatch)
    # Checkpoints only move on, unless somebody has forged one.
    assert [logs.turn(to) for to in (900, 50, 60)] == [0, 50, 50]


def test_a_source_that_keeps_its_log_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(monkeypatch)
    logs.untouched = (Untouched(SOURCE, "it is not understood"),)
    with caplog.at_level(logging.INFO):
        for to in (10, 20, 30):
            logs.turn(to)
    assert caplog.text.count("source local/0 keeps its log: it is not understood") == 1


@pytest.mark.parametrize(
    ("flags", "window", "trims"),
    [
        ({}, "100", True),
        ({}, "1h", True),
        ({}, "all", False),
        ({"trim_seconds": 0.0}, "100", False),
        ({"central_broker": "far:9"}, "100", False),
    ],
)
def test_only_logs_of_windows_that_end_on_a_cluster_of_the_mergers_own_are_trimmed_by_it(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, object], window: str, *, trims: bool
) -> None:
    turns: list[bool] = []
    monkeypatch.setattr(trim.Trimming, "turn", lambda _: turns.append(True))
    tables = {
        "name": "s",
        "features": {"names": ["x"]},
        "grid": {"steps": [1.0]},
        "classes": {"names": ["no", "yes"]},
        "window": {"length": window},
    }
    with trimmed(resolve(flags, {}, tables), lambda: True, lambda *_: None):
        if trims:
            wait_until(lambda: bool(turns), "it has turned")
    assert bool(turns) == trims


def test_what_fails_beside_the_work_is_said_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    turns: list[int] = []

    def job() -> None:
        turns.append(1)
        if len(turns) == 3:
            raise ValueError("a mistake of our own")
        raise LogUnavailable("the broker is away")

    with caplog.at_level(logging.WARNING), repeat_in_background("errand", 0.01, job):
        wait_until(lambda: len(turns) >= 3, "it was tried again")
    assert "errand: the broker is away; trying again every 0.01 s" in caplog.text
    assert "errand: failed; trying again" in caplog.text
