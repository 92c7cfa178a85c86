"""Sources that are ordered out and in, amid crashes of everybody: they leave exactly, and come back as they were."""

from __future__ import annotations

import functools
from collections import Counter

import pytest

from simulation.breaks import BREAKS_OF_ORDERS, first_caught
from simulation.orders import ORDERS, OrderedWorld, check_orders, live_with_orders

SEEDS = range(120)


@functools.cache
def history(seed: int) -> OrderedWorld:
    """The history of a seed, once for all tests."""
    return live_with_orders(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_sources_ordered_out_and_in_leave_exactly_and_come_back_as_if_they_had_never_been_out(seed: int) -> None:
    try:
        check_orders(history(seed))
    except Exception as fault:
        fault.add_note(f"seed {seed}; repeat with: make simulate ORDERS=yes SEED={seed}")
        raise


def test_everything_that_can_happen_to_a_source_happened() -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        happened.update(history(seed).orders)
    assert {name for name in ORDERS if not happened[name]} == set()


def test_every_way_to_break_the_rule_of_orders_is_caught() -> None:
    for name in BREAKS_OF_ORDERS:
        found = first_caught(name, range(60))
        assert found is not None, f"nobody noticed in 60 histories that the rule {name}"
