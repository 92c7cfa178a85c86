"""Sources that are ordered out and in, amid crashes of everybody: they leave exactly, and come back as they were."""

from __future__ import annotations

import functools
from collections import Counter

import pytest

from simulation.breaks import BREAKS_OF_ORDERS, first_caught
from simulation.orders import ORDERS, check_orders, live_with_orders

SEEDS = range(80)


@functools.cache
def happened(seed: int) -> Counter[str]:
    """What happened to sources in a seed's history, checked once for all tests. Worlds are large."""
    world = live_with_orders(seed)
    check_orders(world)
    return world.orders


@pytest.mark.parametrize("seed", SEEDS)
def test_sources_ordered_out_and_in_leave_exactly_and_come_back_as_if_they_had_never_been_out(seed: int) -> None:
    try:
        happened(seed)
    except Exception as fault:
        fault.add_note(f"seed {seed}; repeat with: make simulate ORDERS=yes SEED={seed}")
        raise


def test_everything_that_can_happen_to_a_source_happened() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen.update(happened(seed))
    assert {name for name in ORDERS if not seen[name]} == set()


def test_every_way_to_break_the_rule_of_orders_is_caught() -> None:
    for name in BREAKS_OF_ORDERS:
        found = first_caught(name, range(60))
        assert found is not None, f"nobody noticed in 60 histories that the rule {name}"
