"""The rows of paper 3's size: the same wherever they are made, and so is what they add up to."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from deltaplane.log.partial import Partial
from deltaplane_benchmarks.speed.figures import Figures
from deltaplane_benchmarks.speed.massive import by_processes, definition_of, quality, rows_of_block
from deltaplane_benchmarks.speed.massive_command import figures, of_speed


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


@pytest.mark.parametrize("load", [0.1, 7.0])
def test_a_speedup_says_little_where_cores_were_not_free(load: float) -> None:
    table = Figures("massive: made", {"rows": "", "seconds": "", "load": ""})
    for rows, seconds in ((100, 8.0), (100, 5.0), (400, 16.0)):
        table.add(rows, seconds, load)
    speedup, sizeup, scaleup = of_speed(table, 4)
    assert "speedup of 4 processes over one: 1.60" in speedup
    assert "sizeup: 4.0 times the rows took 3.20 times the seconds" in sizeup
    assert "scaleup: 4.0 times the rows by 4 processes took 2.00" in scaleup
    for said in (speedup, scaleup):
        assert ("not free (load 7.0)" in said) == (load > 1)


def test_the_figures_are_of_one_digest_and_stand_beside_the_papers() -> None:
    table = figures(40_000, 0, ("local",), 0)
    assert [row["rows"] for row in table.rows][-1] == 40_000
    assert any("scaleup 872" in note for note in table.notes)
    assert any(note.startswith("Digest of 40,000 rows") for note in table.notes)
