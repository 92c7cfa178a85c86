"""A history is what a partition that has read the same rows holds, bit for bit, however its table is cut."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane.errors import DefinitionError
from deltaplane.wire import write_partial
from deltaplane.wire.histories import history_name, read_history, write_history
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.lake.compute import Computing, compute_history, mark_of
from deltaplane_services.lake.table_sums import ColumnsOfTable, TableSums
from deltaplane_services.lake.tables import LakeError, open_table
from lake_tables import COLUMNS, DEFINITION, INPUT, ids_of, partition_of_folder, table_of, write_folder


@pytest.mark.parametrize("files", [1, 2, 7])
def test_the_digest_is_that_of_a_partition_whatever_the_files_and_processes(tmp_path: Path, files: int) -> None:
    # Each id comes three times, mostly in several files, and some versions are refused.
    numbers = np.random.default_rng(1).permutation(np.repeat(np.arange(300), 3)).tolist()
    folder = write_folder(tmp_path / "table", table_of(900, ids=ids_of(numbers)), files)
    retired = ids_of([*range(40), 5000])
    history = compute_history(str(folder), COLUMNS, Computing(retired=frozenset(retired), processes=files))
    partition = partition_of_folder(folder, retired)
    assert history.partial.digest() == partition.statistics.digest(DEFINITION.data_fingerprint)
    assert (
        history.partial.rows
        == history.partial.counts["applied"]
        == partition.statistics.counts()["UP"] + (partition.statistics.counts()["DOWN"])
    )
    assert history.facts["retired_marks"] == sorted(map(mark_of, retired[:-1]))
    alone = compute_history(str(folder), COLUMNS, Computing(retired=frozenset(retired), processes=1))
    assert write_history(alone) == write_history(history)


def test_the_last_admitted_version_counts_and_not_the_last_one(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": ["a", "a", "b", "b"],
            "at": pa.array([0, 1, 2, 3], pa.timestamp("ms")),
            "price": [1.0, float("nan"), 2.0, 3.0],
            "demand": [1, 1, 1, 1],
            "target": ["UP", "UP", "DOWN", "sideways"],
        }
    )
    folder = write_folder(tmp_path / "table", table, 2)
    history = compute_history(str(folder), COLUMNS, Computing())
    assert history.partial.statistics.counts() == {"DOWN": 1, "UP": 1}
    assert "replaced" not in history.partial.counts
    assert history.partial.refusals == {"unread": 1, "unknown class": 1}


def test_by_time_the_latest_version_counts_wherever_it_lies(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": ["a", "a"],
            "at": pa.array([9, 1], pa.timestamp("ms")),
            "price": [1.0, 2.0],
            "demand": [1, 1],
            "target": ["UP", "DOWN"],
        }
    )
    folder = write_folder(tmp_path / "table", table, 2)
    assert compute_history(str(folder), COLUMNS, Computing()).partial.statistics.counts() == {"DOWN": 1}
    by_time = compute_history(str(folder), COLUMNS, Computing(last_by="time"))
    assert by_time.partial.statistics.counts() == {"UP": 1}
    without = ColumnsOfTable(DEFINITION, InputTable(label="target", id="id"))
    with pytest.raises(DefinitionError, match="name their column with --time"):
        compute_history(str(folder), without, Computing(last_by="time"))


def test_without_ids_every_row_counts(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(100, ids=["same"] * 100), 3)
    columns = ColumnsOfTable(DEFINITION, InputTable(label="target"))
    ids_ignored = ColumnsOfTable(DEFINITION, InputTable(label="target", ignore=("id", "at")))
    assert columns.options.id is None
    history = compute_history(str(folder), ids_ignored, Computing())
    assert history.partial.rows + sum(history.partial.refusals.values()) == 100
    with pytest.raises(DefinitionError, match="name their column with --id"):
        compute_history(str(folder), ids_ignored, Computing(retired=frozenset("a")))


def test_a_process_that_is_killed_is_replaced_and_its_file_counts_once(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(400), 8)
    calm = compute_history(str(folder), COLUMNS, Computing(processes=2))
    table = open_table(str(folder), None)
    killed: list[int] = []

    with TableSums(table, COLUMNS, 2) as sums:

        def kill(done: int, _all: int) -> None:
            if done in (2, 5):
                pid = sums.processes.pids[0]
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

        summed = sums.whole(hashes=True, told=kill)
    assert len(killed) == 2
    assert write_partial(summed.partial) == write_partial(calm.partial)


def test_a_file_that_kills_its_process_each_time_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "table", table_of(10), 1)
    died = "import sys; print('no memory', file=sys.stderr); sys.exit(7)"
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda line, **more: real([line[0], "-c", died], **more))
    with pytest.raises(LakeError, match=r"part-00000.parquet: .* died 3 times \(exit code 7: no memory; .*memory"):
        compute_history(str(folder), COLUMNS, Computing())


def test_the_bytes_of_a_history_are_read_as_they_were_written_and_name_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(50), 2)
    history = compute_history(str(folder), COLUMNS, Computing())
    data = write_history(history)
    again = read_history(data)
    assert (again.partial, again.definition.stream_fingerprint) == (history.partial, DEFINITION.stream_fingerprint)
    assert again.facts == history.facts
    assert [file["name"] for file in again.facts["files"]] == ["part-00000.parquet", "part-00001.parquet"]
    assert (again.facts["version"], again.facts["input"]) == (None, INPUT.table)
    assert len(history_name(data)) == 16
    assert history_name(data) != history_name(write_history(replace(history, facts={})))


def test_parts_that_came_out_empty_are_passed_over(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(20), 1)
    pq.write_table(table_of(20).slice(0, 0), folder / "part-00009.parquet")
    assert compute_history(str(folder), COLUMNS, Computing()).facts["files"][1]["rows"] == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "README.txt").write_text("x"), r"'README.txt', whose name shows none of csv"),
        (lambda folder: (folder / "part-00001.parquet").write_bytes(b"PAR1 and no more"), r"not a whole Parquet file"),
        (lambda folder: pq.write_table(pa.table({"a": [1]}), folder / "part-00001.parquet"), r"no column `target`"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_by_name(tmp_path: Path, spoil: Any, message: str) -> None:
    folder = write_folder(tmp_path / "table", table_of(20), 1)
    spoil(folder)
    with pytest.raises(LakeError, match=message):
        compute_history(str(folder), COLUMNS, Computing())


def test_a_table_that_is_not_there_or_has_no_versions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no such file or folder"):
        open_table(str(tmp_path / "nowhere"), None)
    with pytest.raises(LakeError, match="holds no files of rows"):
        open_table(str(tmp_path), None)
    with pytest.raises(LakeError, match="--version is of Delta tables"):
        open_table(str(tmp_path), 3)


def test_a_table_of_which_no_row_counts_gives_no_history(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(20), 1)
    with pytest.raises(LakeError, match=r"none of its rows counts: .*18 retired id"):
        compute_history(str(folder), COLUMNS, Computing(retired=frozenset(ids_of(range(20)))))
