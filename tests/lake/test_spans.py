"""A large file that is summed in spans of its row groups gives the history that it gives as a whole, byte for byte."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.wire.histories import write_history
from deltaplane_services.lake import spans
from deltaplane_services.lake.compute import Computing, compute_history
from deltaplane_services.lake.file_sums import FileSums
from deltaplane_services.lake.spans import crc_of_joined, joined, spans_of
from deltaplane_services.lake.table_sums import TableSums
from deltaplane_services.lake.tables import open_table
from lake_tables import COLUMNS, DEFINITION, ids_of, table_of

RETIRED = frozenset(ids_of(range(30, 40)))


@given(st.binary(), st.binary())
def test_the_checksum_of_two_texts_follows_from_their_own(first: bytes, second: bytes) -> None:
    assert crc_of_joined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    numbers = np.random.default_rng(3).permutation(np.repeat(np.arange(150), 2)).tolist()
    pq.write_table(table_of(300, ids=ids_of(numbers)), tmp_path / "rows.parquet", row_group_size=40)
    return tmp_path / "rows.parquet"


@pytest.fixture
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "ROWS_OF_A_SPAN", 70)
    monkeypatch.setattr(spans, "_BYTES_OF_A_SMALL_FILE", 0)


def test_a_small_file_is_taken_as_a_whole(file: Path) -> None:
    assert spans_of(file, file.name) == [None]


@pytest.mark.usefixtures("small_spans")
def test_row_groups_are_joined_until_a_span_has_rows_enough(file: Path) -> None:
    assert spans_of(file, file.name) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    sums = FileSums(DEFINITION, COLUMNS.options)
    parts = [sums.whole(file, file.name, hashes=True, span=span) for span in spans_of(file, file.name)]
    whole, together = sums.whole(file, file.name, hashes=True), joined(parts)
    assert together.partial == whole.partial
    assert together.partial.examples["bad value"] == whole.partial.examples["bad value"]
    assert (together.ids, together.id_bytes) == (whole.ids, whole.id_bytes)
    assert together.hashes.tolist() == whole.hashes.tolist()


def test_the_history_is_the_same_byte_for_byte_and_more_processes_than_files_have_work(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compute_history(str(file), COLUMNS, Computing(retired=RETIRED))
    monkeypatch.setattr(spans, "ROWS_OF_A_SPAN", 70)
    monkeypatch.setattr(spans, "_BYTES_OF_A_SMALL_FILE", 0)
    cut = compute_history(str(file), COLUMNS, Computing(retired=RETIRED, processes=2))
    assert write_history(cut) == write_history(whole)
    with TableSums(open_table(str(file), None), COLUMNS, 2) as sums:
        sums.whole(hashes=False)
        assert len(sums.processes.pids) == 2


@pytest.mark.usefixtures("small_spans")
def test_what_is_no_parquet_is_not_cut(tmp_path: Path) -> None:
    for name in ("rows.csv", "broken.parquet"):
        (tmp_path / name).write_text("price,demand,target\n1,2,UP\n")
        assert spans_of(tmp_path / name, name) == [None]
    assert spans_of(tmp_path / "gone.parquet", "gone.parquet") == [None]
