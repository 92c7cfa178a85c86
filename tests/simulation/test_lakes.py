"""Histories that become sources beside live workers: published once, and retired from once, whoever dies or sleeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deltaplane.errors import DeltaplaneError
from deltaplane.log.delta import SourceState
from deltaplane_services.processors import history_source
from deltaplane_services.processors.history_source import HistoryLog, HistorySource, Standing, VersionChange
from simulation.lakes import FAULTS, live_with_a_lake

SEEDS = range(50)
BLOCK = 25


@pytest.mark.parametrize("first", SEEDS[::BLOCK])
def test_a_history_counts_once_and_what_is_told_to_be_out_is_out(first: int) -> None:
    for seed in range(first, first + BLOCK):
        try:
            live_with_a_lake(seed)
        except Exception as fault:
            fault.add_note(f"seed {seed}")
            raise


def test_everything_that_can_happen_happened() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        seen.update(live_with_a_lake(seed).faults)
    assert {name for name in FAULTS if not seen[name]} == set()


def _forget_what_is_there(patch: pytest.MonkeyPatch) -> None:
    """The state is not asked whether the history is there already."""
    patch.setattr(HistorySource, "_holds", lambda _self, state: state.begun and state.sequence == -1)
    patch.setattr(HistorySource, "_check_free", lambda _self, _state: None)


def _believe_no_receipt(patch: pytest.MonkeyPatch) -> None:
    """Rows are taken out whether or not they are out."""
    patch.setattr(history_source, "retired_ids_of", lambda *_: frozenset())


def _believe_every_receipt(patch: pytest.MonkeyPatch) -> None:
    """A receipt counts whether or not its tile was accepted."""

    def every(_state: SourceState, receipts: Any, *_: Any) -> frozenset[str]:
        return frozenset(receipt.id for receipt in receipts)

    patch.setattr(history_source, "retired_ids_of", every)


def _one_writer_for_all(patch: pytest.MonkeyPatch) -> None:
    """Whoever retires has the name of whoever published, and is fenced by nobody."""
    patch.setattr(HistorySource, "_claim", lambda _self, _log, _state, _writer: None)


def _follow_from_what_was_read_first(patch: pytest.MonkeyPatch) -> None:
    """A version is published for the state that there is, not for the one that it was read for."""
    follow = HistorySource.follow

    def late(self: HistorySource, log: HistoryLog, standing: Standing, change: VersionChange) -> SourceState:
        now = self.standing(log)
        return follow(self, log, replace(standing, state=now.state), change)

    patch.setattr(HistorySource, "follow", late)


@pytest.mark.parametrize(
    "broken",
    [
        _forget_what_is_there,
        _believe_no_receipt,
        _believe_every_receipt,
        _one_writer_for_all,
        _follow_from_what_was_read_first,
    ],
)
def test_each_rule_broken_on_purpose_is_caught(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    for seed in range(60):
        try:
            live_with_a_lake(seed)
        except (AssertionError, DeltaplaneError):
            return
    pytest.fail(f"nobody noticed in 60 histories: {broken.__doc__}")
