"""What an audit says of forged deltas; that it finds nothing in honest histories, every one of test_faults tells."""

from __future__ import annotations

from unittest import mock

import pytest

from deltaplane import limits
from simulation.audits import accounts_of, check_audit
from simulation.breaks import BREAKS_OF_AUDITS, first_forgery_missed
from simulation.forgeries import FORGERIES, accepted, audited, short_history
from simulation.histories import definition_for
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
        for seed in range(30):
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
