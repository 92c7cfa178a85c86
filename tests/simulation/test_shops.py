"""Whatever happens to an intake, the end is that of the joined table; each rule that is broken on purpose is missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from deltaplane_services.intake import joining
from deltaplane_services.intake.joining import IntakeProcessor
from deltaplane_services.intake.waiting_rows import WaitingRow
from simulation.shops import FAULTS, SimulatedShop

SEEDS = range(20)


def lived(seed: int) -> SimulatedShop:
    world = SimulatedShop(seed)
    for _ in range(120):
        world.do()
    world.end()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_to_a_shop_the_end_is_that_of_the_joined_table(seed: int) -> None:
    found, expected = lived(seed).digests()
    assert found == expected, f"seed {seed}"


def test_every_kind_of_fault_happens_to_some_shop() -> None:
    faults: Counter[str] = Counter()
    for seed in range(10):
        world = lived(seed)
        world.digests()
        faults.update(world.faults)
    assert {fault for fault in FAULTS if not faults[fault]} == set()


def _never_again(self: IntakeProcessor, record: Any) -> list[Any]:
    del self, record
    return []


def _newest_read(self: IntakeProcessor, row: WaitingRow | None, item: Any, log_time: int) -> WaitingRow:
    return APPLY(self, None if row is None else row._replace(event_time=None, label_time=None), item, log_time)


def _no_silence(self: IntakeProcessor, row: WaitingRow, clock: int) -> WaitingRow:
    return JUDGE(self, row._replace(due=None), clock)


def _sent_all(self: IntakeProcessor, sent: Any, begins: Any) -> None:
    RESTORE(self, dict.fromkeys(begins, 2**40) if sent else {}, begins)
    self._sent = {}
    if sent:
        self._rows.facts.positions.update(sent)


APPLY, JUDGE, RESTORE = IntakeProcessor._apply, IntakeProcessor._judge, IntakeProcessor.restore

BREAKS: dict[str, tuple[str, Callable[..., Any]]] = {
    "what was sent too late is believed": ("again", _never_again),
    "what was read last counts": ("_apply", _newest_read),
    "silence is nothing": ("_judge", _no_silence),
    "a store that is lost is not rebuilt": ("restore", _sent_all),
}


@pytest.mark.parametrize("name", BREAKS)
def test_each_rule_of_an_intake_that_is_broken_on_purpose_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute, broken = BREAKS[name]
    monkeypatch.setattr(joining.IntakeProcessor, attribute, broken)

    def caught(seed: int) -> bool:
        found, expected = lived(seed).digests()
        return found != expected

    assert any(caught(seed) for seed in SEEDS), f"{name}: no seed notices"
