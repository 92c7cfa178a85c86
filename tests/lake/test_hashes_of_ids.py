"""Ids that do not fit in memory are resolved on disk, in parts, to the same history, byte for byte."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane.arrays import Int64s
from deltaplane.errors import ExtraMissing
from deltaplane.wire.histories import write_history
from deltaplane_services.lake import hashes_of_ids
from deltaplane_services.lake.compute import Computing, compute_history
from deltaplane_services.lake.hashes_of_ids import HashesOfIds
from deltaplane_services.lake.recomputing import TableOfHistory
from lake_tables import COLUMNS, ids_of, table_of, write_folder

RETIRED = frozenset(ids_of([*range(30, 40), 777]))


def on_disk(patch: pytest.MonkeyPatch, most: int = 50, part: int = 40) -> None:
    patch.setattr(hashes_of_ids, "MOST_IN_MEMORY", most)
    patch.setattr(hashes_of_ids, "ROWS_OF_A_PART", part)


@pytest.mark.parametrize("last_by", [None, "time"])
def test_the_history_is_the_same_byte_for_byte_and_rows_of_it_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_by: Any
) -> None:
    numbers = np.random.default_rng(3).permutation(np.repeat(np.arange(200), 2)).tolist()
    folder = write_folder(tmp_path / "table", table_of(400, ids=ids_of([*numbers[:-9], *range(900, 909)])), 3)
    in_memory = compute_history(str(folder), COLUMNS, Computing(last_by=last_by, retired=RETIRED))
    asked = ids_of([3, 4, 5, 905, 12345])
    found = TableOfHistory(in_memory).rows_of(asked)
    on_disk(monkeypatch)
    history = compute_history(str(folder), COLUMNS, Computing(last_by=last_by, retired=RETIRED))
    assert write_history(history) == write_history(in_memory)
    assert history.partial.counts["replaced"] > 100
    assert TableOfHistory(history).rows_of(asked) == found


@settings(max_examples=8, deadline=None)
@given(
    files=st.lists(st.lists(st.integers(-6, 6)), min_size=1, max_size=4),
    wanted=st.lists(st.integers(-8, 8), unique=True),
    most=st.integers(0, 20),
    part=st.integers(1, 9),
)
def test_on_disk_the_rows_are_those_that_are_found_in_memory(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], wanted: list[int], most: int, part: int
) -> None:
    asked = np.array(wanted, dtype=np.int64)
    place = tmp_path_factory.mktemp("hashes")
    with pytest.MonkeyPatch.context() as patch:
        memory, disk = HashesOfIds(), HashesOfIds()
        for number, hashes in enumerate(files):
            memory.add(number, np.array(hashes, dtype=np.int64))
        on_disk(patch, most, part)
        patch.setattr(hashes_of_ids, "mkdtemp", lambda prefix: tempfile.mkdtemp(prefix=prefix, dir=place))
        for number, hashes in enumerate(files):
            disk.add(number, np.array(hashes, dtype=np.int64))
        parts = list(disk.suspects(asked))
        assert _plain(memory.having(asked)) == _plain(disk.having(asked))
    del disk
    assert not list(place.iterdir()), "nothing is left on disk"
    (expected,) = memory.suspects(asked)
    together: dict[int, list[int]] = {}
    hashes_of_parts = []
    for one in parts:
        hashes_of_parts.append({files[number][at] for number, places in one.items() for at in places.tolist()})
        for number, places in one.items():
            assert places.tolist() == sorted(places.tolist())
            together.setdefault(number, []).extend(places.tolist())
    assert {number: sorted(places) for number, places in together.items()} == _plain(expected)
    assert sum(map(len, hashes_of_parts)) == len(set().union(*hashes_of_parts)), "a hash is in one part alone"


def _plain(found: Any) -> dict[int, list[int]]:
    rows: dict[int, Int64s] = dict(found)
    return {number: at.tolist() for number, at in rows.items()}


def test_without_the_library_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk(monkeypatch, most=1)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ExtraMissing, match=r"rows with ids needs duckdb: pip install 'deltaplane\[lake\]'"):
        HashesOfIds().add(0, np.arange(3))
