"""One table has one digest: from a file, by name one by one and in batches, from Python, and in an estimator."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaplane
from deltaplane.estimators import ProximalSVM
from deltaplane.exact.statistics import Statistics
from deltaplane.log.answers import answer
from deltaplane.log.delta import Source, SourceState
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_by_name
from deltaplane.stream.sample import Samples
from deltaplane.wire import write_named_sample, write_named_sample_batch
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.processors.messages import SAMPLES, Record
from deltaplane_services.processors.worker_processor import WorkerProcessor
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.replay.run import embedded
from deltaplane_services.replay.run import replay as run_replay
from mixed_table import mixed_table

ROWS = 1200


class Series(list[Any]):
    """What a replay asks of a column of pandas, which the tests do without."""

    dtype = np.dtype(object)

    def astype(self, _: type) -> list[Any]:
        return list(self)


class Frame:
    """What a replay asks of a data frame of pandas: columns by place."""

    def __init__(self, table: dict[str, list[Any]]) -> None:
        self.columns, self._table, self.iloc = list(table), table, self

    def __getitem__(self, at: tuple[slice, int]) -> Series:
        return Series(self._table[self.columns[at[1]]])


def digest_of(definition: StreamDefinition, values: list[bytes]) -> str:
    source = Source("local", 0)
    worker = WorkerProcessor(definition, source, "w")
    worker.claim()
    worker.restore(SourceState(source, Statistics(definition.dimension)))
    output = worker.process([Record(SAMPLES, 0, at, 10, None, value) for at, value in enumerate(values)], [])
    assert not output.first, "a row was refused"
    return worker.partition.statistics.digest(definition.data_fingerprint)


def by_name(definition: StreamDefinition, rows: list[dict[str, Any]], labels: list[str]) -> dict[str, str]:
    """The digests of rows that come one by one, and in batches of seven different sizes."""
    columns, data = definition.columns, definition.data_fingerprint
    assert columns is not None
    rows = [{name: row[name] for name in columns.columns if name in row} for row in rows]
    singles = [write_named_sample(f"id-{at}", 7, labels[at], row, columns, data) for at, row in enumerate(rows)]
    batches, begin = [], 0
    while begin < len(rows):
        end = min(len(rows), begin + 1 + begin % 7 * 50)
        codes = np.array([label == "ok" for label in labels[begin:end]], dtype=np.int32)
        ids = [f"id-{at}" for at in range(begin, end)]
        frame = Samples.of_record(ids, 7, ("fraud", "ok"), codes, np.empty((end - begin, 0)))
        table = {name: [row.get(name) for row in rows[begin:end]] for name in columns.columns}
        batches.append(write_named_sample_batch(frame, table, columns, data))
        begin = end
    return {"one by one": digest_of(definition, singles), "in batches": digest_of(definition, batches)}


def test_a_mixed_table_has_one_digest_and_one_answer_for_each_row_wherever_it_comes_in(tmp_path: Path) -> None:
    table, labels = mixed_table(ROWS, seed=5, fraud=0.1)
    rows: list[dict[str, Any]] = [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow([*table, "label"])
    cells = [["" if cell is None else cell for cell in row.values()] for row in rows]
    writer.writerows([*row, label] for row, label in zip(cells, labels, strict=True))
    file = tmp_path / "rows.csv"
    file.write_text(written.getvalue(), "utf-8")
    given = {"input": {"label": "label"}, "window": {"length": "all"}, "solver": {"C": 1.0}}
    options = ReplayOptions(str(file), DefinitionFile.of(given))
    found = run_replay(options, lambda _: None, embedded(options, lambda _: None))
    definition, digest = found.definition, found.model.digest
    assert definition.columns is not None
    assert {rule.KIND for rule in definition.columns.rules} == {"number", "boolean", "category", "hashed", "time"}

    in_file = [
        {name: cell for name, cell in row.items() if name in table}
        for row in csv.DictReader(io.StringIO(written.getvalue()))
    ]
    assert by_name(definition, rows, labels) == {"one by one": digest, "in batches": digest}
    assert by_name(definition, in_file, labels) == {"one by one": digest, "in batches": digest}
    estimator = ProximalSVM(columns=definition.columns, grid=definition.grid, C=1.0).fit(table, labels)
    assert estimator.digest() == digest

    assert found.model.plane is not None
    read = {name: table[name] for name in definition.columns.columns}
    ways: list[Any] = [[{name: row[name] for name in read} for row in rows], read, {**read, "more": labels}]
    answers = [answer(found.model.plane, definition, *features_by_name(definition, way)) for way in ways]
    assert not answers[0].refusals
    assert all(one.values.tobytes() == answers[0].values.tobytes() for one in answers)


def ways_of(table: dict[str, list[Any]], folder: Path) -> dict[str, Any]:
    """One table as a file of each format, and as Python has it."""
    rows: list[dict[str, Any]] = [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
    with (folder / "t.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(["" if cell is None else cell for cell in row.values()] for row in rows)
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pq.write_table(pa.table(table), folder / "t.parquet")
    files = {ending: folder / f"t.{ending}" for ending in ("csv", "jsonl", "parquet")}
    return {**files, "frame": Frame(table), "arrow": pa.table(table), "columns": table, "dictionaries": rows}


def test_a_mixed_table_has_one_digest_from_every_format_for_any_partitions_and_chunks(tmp_path: Path) -> None:
    table, labels = mixed_table(ROWS, seed=6, fraud=0.1)
    digests = {}
    for number, (way, given) in enumerate(ways_of({**table, "label": list(labels)}, tmp_path).items()):
        partitions, chunk = 1 + number % 3, (100, 37, 600, 512)[number % 4]
        found = deltaplane.replay(given, label="label", window="all", partitions=partitions, chunk=chunk)
        assert found.summary["rejected"] == 0
        digests[way] = found.digest
    assert len(set(digests.values())) == 1, digests


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_fifth_of_a_mixed_table_is_retired_and_what_is_left_is_a_fit_of_it_alone(partitions: int) -> None:
    table, labels = mixed_table(ROWS, seed=7, fraud=0.1)
    given = {**table, "label": list(labels)}
    for window in ("all", "500", "auto"):
        settings = {"label": "label", "window": window, "partitions": partitions, "retire_fraction": 0.2, "seed": 3}
        found = deltaplane.replay(given, verify=True, **settings)
        assert found.verified is True, window
        assert found.summary["retired"] > ROWS // 10
