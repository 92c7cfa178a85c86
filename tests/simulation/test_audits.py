"""What an audit says of forged deltas; that it finds nothing in honest histories, every one of test_faults tells."""

from __future__ import annotations

import pytest

from simulation.breaks import BREAKS_OF_AUDITS, first_forgery_missed
from simulation.forgeries import FORGERIES, audited, short_history

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
