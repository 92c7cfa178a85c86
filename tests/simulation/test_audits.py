"""What an audit says of forged deltas; that it finds nothing in honest histories, every one of test_faults tells."""

from __future__ import annotations

from unittest import mock

import pytest

from deltaplane import limits
from simulation.audits import accounts_of, check_audit
from simulation.breaks import BREAKS_OF_AUDITS, first_forgery_missed
from simulation.forgeries import FORGERIES, accepted, audited, short_history
from simulation.histories import RETIRED_IDS, definition_for
from simulation.world import World

SEEDS = range(60)


@pytest.mark.parametrize("name", FORGERIES)
def test_whatever_is_forged_is_found(name: str) -> None:
    tried = 0
    for seed in SEEDS:
        world = short_history(seed)
        for partition in world.workers:
            forged = FORGERIES[name](world, world.truth(partition)[-1].state)
            if forged is not None:
                tried += 1
                assert audited(world, forged).faults, f"seed {seed}, partition {partition}: {name}"
    assert tried >= 5


@pytest.mark.parametrize("name", BREAKS_OF_AUDITS)
def test_an_audit_that_believes_the_deltas_misses_what_is_forged(name: str) -> None:
    assert first_forgery_missed(name, SEEDS) is not None, f"no forgery needs that an audit does not: {name}"


def test_of_retirements_beyond_those_remembered_an_audit_believes_only_that_they_were_forgotten_in_time() -> None:
    said = set[str]()
    with mock.patch.object(limits, "RETIRED_IDS", 3):
        for seed in range(12):
            world = World(definition_for(seed), seed)
            world.live_through(150)
            check_audit(world)
            for source, account in accounts_of(world).items():
                said.update(account.believed)
                state = world.truth(source.partition)[-1].state
                forged = accepted(
                    world,
                    state,
                    state.statistics - state.statistics,
                    retirements_window_from=state.retirements_position,
                )
                if state.rebuild.retirements_window_from < state.retirements_position:
                    assert any("retirements_window_from" in fault for fault in audited(world, forged).faults)
    assert any("retirements before offset" in one for one in said)


def test_repeats_of_one_retirement_are_no_reason_for_which_others_may_be_forgotten() -> None:
    found = 0
    with mock.patch.object(limits, "RETIRED_IDS", RETIRED_IDS):
        for seed in range(12):
            world = World(definition_for(seed), seed)
            world.live_through(20)
            for _ in range(3):
                world.producer.repeat(world.now)
                world.live_through(20)
            for partition in world.workers:
                state = world.truth(partition)[-1].state
                retired = [
                    one for one in world.producer.retired.get(partition, []) if one[0] < state.retirements_position
                ]
                oldest, newest = state.rebuild.retirements_window_from, state.retirements_position
                if len(retired) > RETIRED_IDS and len({sample_id for _, sample_id in retired}) <= RETIRED_IDS:
                    found += 1
                    assert not audited(world, state).faults
                    nothing = state.statistics - state.statistics
                    forged = accepted(world, state, nothing, retirements_window_from=(oldest + newest + 1) // 2)
                    assert any("retirements_window_from" in fault for fault in audited(world, forged).faults), seed
    assert found >= 5
