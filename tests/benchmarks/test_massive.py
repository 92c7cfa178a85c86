"""The rows of paper 3's size: the same wherever they are made, and so is what they add up to."""

from __future__ import annotations

import hashlib

import numpy as np

from deltaplane.log.partial import Partial
from deltaplane_benchmarks.speed.massive import by_processes, definition_of, quality, rows_of_block


def test_the_rows_of_a_block_are_these_on_every_machine() -> None:
    rows = rows_of_block(seed=0, block=7, rows=100)
    bytes_of_rows = rows.features.astype("<i8").tobytes() + rows.label_codes.astype("<i4").tobytes()
    assert hashlib.sha256(bytes_of_rows).hexdigest()[:16] == "39083473bab7c399"
    assert 30 < int(rows.label_codes.sum()) < 70


def test_blocks_and_seeds_differ() -> None:
    one, *others = (rows_of_block(seed, block, 10).features for seed, block in ((0, 0), (0, 1), (1, 0)))
    assert not any(np.array_equal(one, other) for other in others)


def test_processes_add_up_what_one_would_and_a_plane_is_better_than_chance() -> None:
    definition = definition_of(units=16, seed=0)
    found = by_processes(definition, seed=0, blocks=2, processes=2).partial
    expected = sum(
        (Partial.of(definition, rows_of_block(0, block)) for block in (2, 3)), start=Partial.zero(definition)
    )
    assert found.digest() == expected.digest()
    assert quality(definition, found, seed=0)[2] > 0.55
