"""``bench lake`` measures ways that all give the same digest."""

from __future__ import annotations

from deltaplane_benchmarks.speed.lake import measure


def test_all_ways_give_the_same_digest_and_cost_something() -> None:
    found = measure(features=4, rows=400, rounds=3, seed=1)
    assert found.same_digest
    assert min(found.bare, found.local, found.with_ids, found.start) > 0.0
    assert found.local_to_bare.lower <= found.local_to_bare.median <= found.local_to_bare.upper
