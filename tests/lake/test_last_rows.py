"""A stream that reads the last rows of a table is, bit for bit, the one that has read the whole table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane.errors import DefinitionError
from deltaplane.exact.statistics import Statistics
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples, admit
from deltaplane.window.partition import Partition
from deltaplane.wire import read_retirement
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.lake import last_rows
from deltaplane_services.lake.compute import Computing
from deltaplane_services.lake.last_rows import LastRows, last_rows_of_table
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeError
from deltaplane_services.operations.backup import Backup, BackupWriter
from deltaplane_services.processors.codec import read_published_samples
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, Record
from lake_tables import INPUT, TABLES, ids_of, table_of, write_folder

NOW = 2_000_000_000_000
DAY = 86_400_000
WINDOWS: list[Any] = ["37", "5s", "70s", ["10", "60"], ["20s", "90s"], "5000", "30000s"]


def columns_of(window: Any, partitions: int = 1, **tables: Any) -> ColumnsOfTable:
    more = {"window": {"length": window}, "partitions": partitions, **tables}
    return ColumnsOfTable(StreamDefinition.from_tables({**TABLES, **more}), INPUT)


class Stream:
    """All partitions of a stream that reads a log, record by record, and hears of each other's event times."""

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self.partitions = [Partition(definition, number) for number in range(definition.partitions)]
        self.known: list[dict[str, None]] = [{} for _ in self.partitions]
        self.watermark = max(partition.watermark for partition in self.partitions)

    def read(self, number: int, samples: Samples, retirements: Iterable[Retirement] = ()) -> None:
        admitted, _ = admit(samples, self.definition, self.known[number], partition=number)
        self.known[number].update(dict.fromkeys(admitted.new_labels))
        self.partitions[number].step(admitted, list(retirements), self.watermark)
        self.watermark = max(self.watermark, self.partitions[number].watermark)

    def publish(self, samples: Samples) -> None:
        homes = self.definition.partitions_of(samples.ids)
        for number in np.unique(homes).tolist():
            self.read(number, samples.chosen(np.flatnonzero(homes == number)))

    def retire(self, ids: Iterable[str]) -> None:
        for offset, one in enumerate(ids):
            self.read(self.definition.partition_of(one), rows_of([], self.definition), [Retirement(one, "", offset)])

    def restore(self, records: Iterable[Record]) -> None:
        data = self.definition.data_fingerprint
        for record in records:
            if record.topic == SAMPLES:
                self.read(record.partition, read_published_samples(record, self.definition))
            else:
                assert record.topic == RETIREMENTS
                retirement = read_retirement(record.value, len(self.definition.features), data, record.offset)
                self.read(record.partition, rows_of([], self.definition), [retirement])

    @property
    def statistics(self) -> Statistics:
        """Once everybody has heard of the largest event time."""
        for number in range(self.definition.partitions):
            self.read(number, rows_of([], self.definition))
        return sum((one.statistics for one in self.partitions), Statistics(self.definition.dimension))


def rows_of(rows: list[dict[str, Any]], definition: StreamDefinition) -> Samples:
    """Rows of a table as samples that come at NOW."""
    table = tuple(dict.fromkeys(str(row["target"]) for row in rows))
    codes = np.array([table.index(str(row["target"])) for row in rows], dtype=np.int32)
    features = np.array([[row[name] for name in definition.features] for row in rows])
    times = np.array([row["at"].replace(tzinfo=UTC).timestamp() * 1000 for row in rows]).astype(np.int64)
    features = features.reshape(len(rows), len(definition.features)).astype(np.float64)
    return Samples.of_record([row["id"] for row in rows], times, table, codes, features, NOW)


def whole(folder: Path, definition: StreamDefinition, *, by_time: bool = False) -> Stream:
    """The stream that has read every row of a folder, in batches of 7."""
    rows = [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    rows = sorted(rows, key=lambda row: row["at"]) if by_time else rows
    stream = Stream(definition)
    for begin in range(0, len(rows), 7):
        stream.publish(rows_of(rows[begin : begin + 7], definition))
    return stream


def restored(last: LastRows) -> Stream:
    stream = Stream(last.definition)
    stream.restore(last.records())
    return stream


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("by_time", [False, True])
def test_the_restored_stream_is_the_one_that_has_read_every_row(
    tmp_path: Path, window: Any, partitions: int, *, by_time: bool
) -> None:
    numbers = np.random.default_rng(3).permutation(np.repeat(np.arange(100), 3)).tolist()
    folder = write_folder(tmp_path / "table", table_of(300, ids=ids_of(numbers)), 4)
    columns = columns_of(window, partitions)
    retired = ids_of([*range(30, 40), 777])
    computing = Computing(last_by="time" if by_time else None, retired=frozenset(retired))
    last = last_rows_of_table(str(folder), columns, computing, NOW)
    every, again = whole(folder, columns.definition, by_time=by_time), restored(last)
    every.retire(retired)
    assert every.statistics == again.statistics == last.statistics
    assert every.statistics.counts()
    more = table_of(120, seed=9, ids=ids_of(range(60, 180))).to_pylist()
    for begin in range(0, len(more), 5):
        for stream in (every, again):
            stream.publish(rows_of(more[begin : begin + 5], columns.definition))
        assert every.statistics == again.statistics, "what comes later meets the same rows and leaves the same slots"


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 60), st.sampled_from(["UP", "DOWN", "sideways"])), min_size=1
    ),
    window=st.sampled_from([["1", "2", "5"], "3", "10s", ["4s", "20s"], "59s"]),
    partitions=st.sampled_from([1, 2]),
    by_time=st.booleans(),
    seed=st.integers(0, 3),
)
def test_for_any_versions_times_and_windows_the_end_of_the_log_is_enough(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, str]],
    window: Any,
    partitions: int,
    *,
    by_time: bool,
    seed: int,
) -> None:
    count = len(rows)
    table = pa.table(
        {
            "id": [f"row-{number}" for number, _, _ in rows],
            "at": pa.array([time * 1000 for _, time, _ in rows], pa.timestamp("ms")),
            "price": np.arange(count) / 8,
            "demand": np.arange(count),
            "target": [label for _, _, label in rows],
        }
    )
    folder = write_folder(tmp_path_factory.mktemp("lake") / "table", table, 1 + seed)
    if isinstance(window, list) and partitions > 1 and window[0] == "1":
        window = window[1:]
    columns = columns_of(window, partitions)
    try:
        last = last_rows_of_table(str(folder), columns, Computing(last_by="time" if by_time else None), NOW)
    except LakeError:
        assert all(label == "sideways" for _, _, label in rows)
        return
    assert whole(folder, columns.definition, by_time=by_time).statistics == restored(last).statistics


def test_of_a_long_table_only_the_last_files_are_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "table", table_of(1000), 10)
    columns = columns_of("50", 3)
    last = last_rows_of_table(str(folder), columns, Computing(), NOW)
    assert last.read <= 200
    assert last.rows == 50
    assert whole(folder, columns.definition).statistics == restored(last).statistics


def test_rows_that_are_let_go_are_let_go_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "table", table_of(200_000), 2)
    held: list[int] = []
    joined = last_rows._joined

    def noted(pieces: Sequence[Samples]) -> Samples:
        held.append(sum(map(len, pieces)))
        return joined(pieces)

    monkeypatch.setattr(last_rows, "_joined", noted)
    last = last_rows_of_table(str(folder), columns_of("5s"), Computing(), NOW)
    assert len(held) > 1
    assert last.rows < 200_000


def test_rows_that_are_ahead_of_the_clock_are_refused_as_their_topic_would(tmp_path: Path) -> None:
    table = table_of(20)
    times = [NOW - 1000 * number for number in range(19)] + [NOW + DAY]
    folder = write_folder(tmp_path / "table", table.set_column(1, "at", pa.array(times, pa.timestamp("ms"))), 1)
    columns = columns_of("60s")
    last = last_rows_of_table(str(folder), columns, Computing(), NOW)
    assert last.refusals["bogus time"] == 1
    assert "part-00000.parquet: row 20" in last.examples["bogus time"]
    assert whole(folder, columns.definition).statistics == restored(last).statistics


def test_open_classes_are_those_that_the_whole_log_has_admitted(tmp_path: Path) -> None:
    labels = ["first", "second", *["third"] * 30]
    table = table_of(32).set_column(4, "target", pa.array(labels))
    table = table.set_column(2, "price", pa.array(np.arange(32) / 8))
    folder = write_folder(tmp_path / "table", table, 3)
    columns = columns_of("10", classes={"most": 2})
    with pytest.raises(LakeError, match="none of its"):
        last_rows_of_table(str(write_folder(tmp_path / "none", table[:0], 1)), columns, Computing(), NOW)
    last = last_rows_of_table(str(folder), columns, Computing(), NOW)
    assert last.labels == {0: ["first", "second"]}
    assert last.refusals["too many classes"] == 30
    file = tmp_path / "rows.avro"
    with BackupWriter(file, columns.definition) as writer:
        writer.begin(last.labels)
        writer.add(list(last.records()))
        writer.end(None)
    assert Backup(file).labels == last.labels


@pytest.mark.parametrize(
    ("window", "given_columns", "words"),
    [
        ({"length": "all"}, INPUT, "needs every row"),
        ({"length": ["10", "all"]}, INPUT, "needs every row"),
        ({"length": "10", "pane": 5}, INPUT, "send the whole table"),
        ({"length": "10"}, replace(INPUT, id=None, time=None, ignore=("id", "at")), "name their column with --id"),
        ({"length": "10s"}, replace(INPUT, time=None, ignore=("at",)), "name their column: --time"),
    ],
)
def test_windows_and_columns_of_which_the_last_rows_are_not_known_are_refused(
    tmp_path: Path, window: dict[str, Any], given_columns: InputTable, words: str
) -> None:
    folder = write_folder(tmp_path / "table", table_of(20), 1)
    columns = ColumnsOfTable(StreamDefinition.from_tables({**TABLES, "window": window}), given_columns)
    with pytest.raises(DefinitionError, match=words):
        last_rows_of_table(str(folder), columns, Computing(), NOW)
