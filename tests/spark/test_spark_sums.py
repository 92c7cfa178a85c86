"""What Spark adds up has the bits of one process, however it is cut, shuffled and added, and whatever is killed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import write_partial
from deltaplane.wire.histories import write_history
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.lake import spark
from deltaplane_services.lake.block_sums import partial_of_block
from deltaplane_services.lake.compute import Computing, compute_history
from deltaplane_services.lake.spark_sums import SparkSums
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.produce.feed_options import reader_options
from deltaplane_services.readers import ReaderError, open_rows
from spark_killing import killing_once

ROWS, FILES = 5_000, 50
TABLES: dict[str, Any] = {
    "name": "history",
    "features": {"names": ["price", "demand", "hour"]},
    "grid": {"steps": [2.0**-20, 2.0**-10, 1.0]},
    "window": {"length": "all", "keep_rows": False},
    "input": {"label": "target", "time": "at"},
}
DEFINITION = StreamDefinition.from_tables({key: value for key, value in TABLES.items() if key != "input"})


def table_of(rows: int) -> pa.Table:
    """Rows of which some are refused: a value that is missing, one beyond the grid, a label that is missing."""
    random = np.random.default_rng(25)
    price, labels = random.normal(size=rows), random.choice(["DOWN", "UP"], rows).tolist()
    price[::50], price[1::60] = np.nan, 1e300
    labels = [None if row % 70 == 0 else label for row, label in enumerate(labels)]
    return pa.table(
        {
            "price": price,
            "demand": random.normal(size=rows),
            "hour": random.integers(0, 24, rows),
            "target": pa.array(labels, pa.string()),
            "at": pa.array(random.integers(0, 10**12, rows), pa.timestamp("ms")),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return table_of(ROWS)


@pytest.fixture(scope="module")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in fifty files."""
    folder = tmp_path_factory.mktemp("lake")
    for number in range(FILES):
        pq.write_table(table.slice(number * ROWS // FILES, ROWS // FILES), folder / f"part-{number:05}.parquet")
    return folder


@pytest.fixture(scope="module")
def of_one_process(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Partial:
    """What one process adds up from one file."""
    path = tmp_path_factory.mktemp("whole") / "table.parquet"
    pq.write_table(table, path)
    total = Partial.zero(DEFINITION)
    with open_rows(path, reader_options(DefinitionFile.of(TABLES))) as reader:
        for block in reader:
            total = total + partial_of_block(DEFINITION, block)
    return total


def paths_of(folder: Path) -> list[tuple[str, str]]:
    return [(str(path), path.name) for path in sorted(folder.iterdir())]


def same(found: Partial, expected: Partial) -> bool:
    """Whether every field but the examples, which name rows by their place, has the same bits."""
    assert found.refusals == expected.refusals
    assert found.refusals.keys() == found.examples.keys()
    bare = [write_partial(one.with_refused([])) for one in (without_examples(found), without_examples(expected))]
    return bare[0] == bare[1]


def without_examples(partial: Partial) -> Partial:
    return replace(partial, examples={})


@pytest.mark.parametrize("partitions", [1, 2, 7, 50])
def test_files_add_up_to_the_bits_of_one_process_at_any_number_of_partitions(
    session: Any, folder: Path, of_one_process: Partial, partitions: int
) -> None:
    found, facts = spark.sum_of_files(session, paths_of(folder), TABLES, partitions)
    assert same(found, of_one_process)
    assert found.digest() == of_one_process.digest()
    assert [one["number"] for one in facts] == list(range(FILES))
    assert sum(one["rows"] for one in facts) == found.rows


@pytest.mark.parametrize("partitions", [1, 50])
def test_a_shuffled_data_frame_adds_up_to_the_same_bits(
    session: Any, folder: Path, of_one_process: Partial, partitions: int
) -> None:
    frame = session.read.parquet(str(folder)).orderBy("demand").repartition(partitions)
    assert same(spark.partial_of_data_frame(frame, TABLES), of_one_process)


@pytest.mark.parametrize("fan_in", [2, 64])
def test_any_tree_of_additions_gives_the_same_bits(
    session: Any, folder: Path, of_one_process: Partial, fan_in: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "FAN_IN", fan_in)
    found, _ = spark.sum_of_files(session, paths_of(folder), TABLES, 13)
    assert same(found, of_one_process)


@pytest.mark.parametrize("executor", [False, True], ids=["worker", "executor"])
def test_a_killed_process_changes_no_bit(
    session: Any,
    folder: Path,
    of_one_process: Partial,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    executor: bool,
) -> None:
    """It is killed after its rows went out, so that what it summed is summed twice."""
    mark = tmp_path / "killed"
    monkeypatch.setattr(spark, "SumOfFiles", killing_once(spark.SumOfFiles, mark, executor=executor))
    found, _ = spark.sum_of_files(session, paths_of(folder), TABLES, 7)
    assert mark.exists()
    assert same(found, of_one_process)


def test_a_file_that_cannot_be_read_is_told_in_one_line_and_not_tried_again(
    session: Any, folder: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "part-x.parquet"
    broken.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(ReaderError, match=r"part-x\.parquet is not a whole Parquet file"):
        spark.sum_of_files(session, [*paths_of(folder), (str(broken), broken.name)], TABLES, 3)


def test_a_history_computed_by_spark_has_the_bytes_of_one_computed_here(session: Any, folder: Path) -> None:
    assert session is not None
    columns = ColumnsOfTable(DEFINITION, InputTable.of(TABLES["input"]))
    local = compute_history(str(folder), columns, Computing(processes=1))
    assert write_history(compute_history(str(folder), columns, Computing(), SparkSums)) == write_history(local)
