"""A history of rows in a lake becomes a source of a live stream, loses rows by id, and is proved from its table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Source
from deltaplane.log.partial import Partial
from deltaplane.reference import Reference
from deltaplane.wire import write_claim
from deltaplane.wire.histories import history_name
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.kafka.history_log import KafkaHistoryLog
from deltaplane_services.processors.messages import DELTAS, Outgoing
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_pipeline_metrics import ask, free_ports

INPUT = {"label": "label", "id": "id", "time": "time"}
COUNT = 600


@dataclass
class Lake:
    """A live stream with rows of its own, and a table of older rows beside it."""

    stream: Stream
    table: Path
    history: Path
    past: Rows
    live: Rows

    def digest(self, without: frozenset[str] = frozenset()) -> str:
        """The digest of all rows, but for some of the past."""
        definition = self.stream.definition
        reference = Reference(definition)
        self.live.tell(reference)
        kept = np.array([at for at, one in enumerate(self.past.ids) if one not in without])
        past = Partial.of(definition, self.past.samples(kept)).in_windows(definition)
        total: Statistics = reference.statistics() + past
        return total.digest(definition.data_fingerprint)

    def run(self, *words: object, code: int = 0) -> str:
        done = self.stream.run(*map(str, words), code=code)
        return done.stdout + done.stderr


def write(rows: Rows, folder: Path, files: int = 3) -> None:
    """Some rows as a folder of Parquet files."""
    folder.mkdir()
    table = pa.table(
        {
            "id": rows.ids,
            "time": pa.array(rows.times, pa.timestamp("ms")),
            **{name: rows.features[:, at] for at, name in enumerate(("height", "weight", "age"))},
            "label": rows.labels,
        }
    )
    for number in range(files):
        part = table.slice(number * COUNT // files, COUNT // files)
        pq.write_table(part, folder / f"part-{number}.parquet")


@pytest.fixture
def lake(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Lake]:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, input=INPUT) as stream:
        live, past = Rows(200, seed=1, ids_from=10_000), Rows(COUNT, seed=2)
        write(past, tmp_path / "table")
        yield Lake(stream, tmp_path / "table", tmp_path / "history.stats", past, live)


def test_a_history_is_a_source_is_retired_from_by_id_and_is_proved_from_its_table(lake: Lake, tmp_path: Path) -> None:
    stream = lake.stream
    merger = stream.start("merger")
    worker = stream.start("worker")
    stream.run("produce", lake.live.write(tmp_path / "live.csv"))
    lake.run("bootstrap", "compute", lake.table, "--out", lake.history)
    assert "published; 600 rows" in lake.run("bootstrap", "publish", lake.history)
    stream.wait_for_digest(lake.digest(), "the history is in the model")
    with KafkaHistoryLog(stream.settings) as log:
        before = log.state(Source("history", 0))
        assert "published before, nothing was written" in lake.run("bootstrap", "publish", lake.history)
        assert log.state(Source("history", 0)) == before

    assert "history/0" in lake.run("audit")
    assert "equal" in lake.run("audit", "--history", lake.history)

    said = lake.run("bootstrap", "retire", "row-7", "row-8", "nobody", "--history", lake.history, code=1)
    assert "row-7: retired" in said
    assert "nobody: unknown" in said
    out = frozenset({"row-7", "row-8"})
    stream.wait_for_digest(lake.digest(out), "two rows are out")
    assert "row-7: duplicate" in lake.run("bootstrap", "retire", "row-7", "--history", lake.history)
    said = lake.run("audit", "--history", lake.history, "--sql", 20, "--sql-seed", 5)
    assert "10 entries of each class by plain SQL (seed 5): equal" in said
    assert "NOT EQUAL" not in said

    # What a merger and a worker know of it outlives them.
    merger.kill()
    worker.kill()
    stream.start("merger")
    stream.start("worker")
    more = Rows(50, seed=3, ids_from=20_000)
    stream.run("produce", more.write(tmp_path / "more.csv"))
    more_told = Reference(stream.definition)
    lake.live.tell(more_told)
    more.tell(more_told)
    past = Partial.of(stream.definition, lake.past.samples(np.array([at for at in range(COUNT) if at not in (7, 8)])))
    total = more_told.statistics() + past.in_windows(stream.definition)
    stream.wait_for_digest(total.digest(stream.definition.data_fingerprint), "everybody goes on")
    assert "equal" in lake.run("audit", "--history", lake.history)

    rows = pq.read_table(lake.table / "part-1.parquet")
    height = rows["height"].to_pylist()
    height[5] += 1.0
    pq.write_table(rows.set_column(2, "height", pa.array(height)), lake.table / "part-1.parquet")
    said = lake.run("audit", "--history", lake.history, "--sql", 20, code=1)
    assert "NOT EQUAL" in said
    assert "SQL finds" in said
    assert "SQL counts" not in said
    assert "name the file of the history (--history)" in lake.run("audit", "--sql", 20, code=2)
    said = lake.run("bootstrap", "retire", "row-9", "--history", lake.history, code=2)
    assert "part-1.parquet is not the one" in said


def test_a_history_follows_its_table_and_whoever_is_killed_over_it_is_run_again(lake: Lake, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra lake brings it")
    stream, name = lake.stream, str(tmp_path / "delta")
    stream.start("merger")
    rows = pa.concat_tables([pq.read_table(file) for file in sorted(lake.table.iterdir())])
    deltalake.write_deltalake(name, rows.slice(0, 400), configuration={"delta.enableChangeDataFeed": "true"})
    lake.run("bootstrap", "compute", name, "--out", lake.history)
    lake.run("bootstrap", "publish", lake.history)
    (port,) = free_ports(1)
    words = ("bootstrap", "follow", str(lake.history), "--interval-seconds", "0.05")
    following = (*words, "--metrics-address", f"127.0.0.1:{port}")
    process = stream.start(*following)
    process.wait_for("version 0 of")
    for begin in range(400, COUNT, 50):
        deltalake.write_deltalake(name, rows.slice(begin, 50), mode="append")
    process.wait_for("version 1, 50 rows came")
    process.kill()
    process = stream.start(*following)
    process.wait_for("version 4 of the table is in|version 4 of|version 4, 50 rows came")
    status, scraped = ask(port, "/metrics")
    assert status == 200
    assert re.search(r'deltaplane_table_version\{.*source="history/0".*\} 4.0', scraped)
    process.terminate()
    deltalake.DeltaTable(name).delete("id = 'row-7'")
    assert "row-9: retired" in lake.run("bootstrap", "retire", "row-9", "--history", lake.history)
    said = lake.run("bootstrap", "follow", lake.history, "--once")
    assert "version 5, 0 rows came, 1 went" in said
    assert "version 5 is in" in said
    out = frozenset({"row-7", "row-9"})
    kept = np.array([at for at, one in enumerate(lake.past.ids) if one not in out])
    expected = Partial.of(stream.definition, lake.past.samples(kept)).in_windows(stream.definition)
    stream.wait_for_digest(expected.digest(stream.definition.data_fingerprint), "the table as it is, minus what is out")
    assert "equal" in lake.run("audit", "--history", lake.history, "--sql", 20)
    assert "version: the table has none after 5 yet" in lake.run(
        "bootstrap", "follow", lake.history, "--version", 9, code=2
    )


def test_a_live_source_begins_with_the_history_of_its_log_and_its_worker_goes_on_at_the_cut(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    past, live = Rows(COUNT, seed=2), Rows(100, seed=1, ids_from=COUNT)
    write(past, tmp_path / "table")
    file = tmp_path / "history.stats"
    of_rows = {**INPUT, "ignore": ["id"]}
    del of_rows["id"]
    window = {"length": "all", "keep_rows": False}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, input=of_rows, window=window, partitions=1) as stream:
        stream.run("bootstrap", "compute", str(tmp_path / "table"), "--out", str(file))
        publish = ("bootstrap", "publish", str(file), "--source", "local/0", "--wait", "0", "--cut")
        assert "expected a cut from 1 to the end of the log, which is 0" in stream.run(*publish, "1", code=2).stderr
        stream.run("produce", past.write(tmp_path / "past.csv"))
        with KafkaHistoryLog(stream.settings) as log:
            _, cut = log.bounds_of(Source("local", 0)).samples
        assert "local/0: published; 600 rows, tile 0" in stream.run(*publish, str(cut)).stdout
        assert "published before" in stream.run(*publish, str(cut)).stdout
        stream.run("produce", live.write(tmp_path / "live.csv"))
        stream.start("merger")
        stream.start("worker")
        reference = Reference(stream.definition)
        past.tell(reference)
        live.tell(reference)
        digest = reference.statistics().digest(stream.definition.data_fingerprint)
        stream.wait_for_digest(digest, "the worker goes on at the cut")
        assert "has begun" in stream.run(*publish, str(cut), code=2).stderr
        assert "equal" in stream.run("audit").stdout


def test_a_history_under_the_name_of_a_live_source_fences_nobody(lake: Lake) -> None:
    lake.run("bootstrap", "compute", lake.table, "--out", lake.history)
    said = lake.run("bootstrap", "publish", lake.history, "--source", "local", code=2)
    assert "give a history another name" in said
    worker = lake.stream.start("worker", "--site", "elsewhere")
    worker.wait_for("claimed elsewhere/0")
    said = lake.run("bootstrap", "publish", lake.history, "--source", "elsewhere", code=2)
    assert "is owned by" in said
    assert worker.running


def test_a_claim_that_somebody_died_over_is_taken_up_again(lake: Lake) -> None:
    lake.run("bootstrap", "compute", lake.table, "--out", lake.history)
    name = history_name(lake.history.read_bytes())
    claim = Claim(Source("history", 0), f"history-{name}", lake.stream.definition.stream_fingerprint)
    out = publisher(lake.stream.settings, "central")
    out.publish_and_wait(Outgoing(DELTAS, 0, b"history/0", write_claim(claim)))
    assert "published; 600 rows" in lake.run("bootstrap", "publish", lake.history, "--wait", "0")
    with KafkaHistoryLog(lake.stream.settings) as log:
        assert log.state(Source("history", 0)).samples_position == COUNT


@pytest.mark.parametrize("window", ["250", "400s"])
def test_a_stream_with_a_window_goes_on_from_the_last_rows_of_a_table(
    kafka: RunningKafka, tmp_path: Path, stream_name: str, window: str
) -> None:
    past, live = Rows(COUNT, seed=2), Rows(100, seed=1, ids_from=COUNT - 50)
    write(past, tmp_path / "table")
    file = tmp_path / "rows.avro"
    with Stream.of(
        tmp_path, stream_name, kafka.bootstrap, input=INPUT, window={"length": window}, partitions=2
    ) as stream:
        said = stream.run("bootstrap", "rows", tmp_path / "table", "--out", file).stdout
        reference, data = Reference(stream.definition), stream.definition.data_fingerprint
        past.tell(reference)
        assert f"digest {reference.statistics().digest(data)}" in said
        stream.run("topics", "create")
        stream.start("merger")
        stream.start("worker")
        assert "equal: the model of stream" in stream.run("restore", file, "--wait", "60").stdout
        stream.run("produce", live.write(tmp_path / "live.csv"))
        live.tell(reference)
        stream.wait_for_digest(reference.statistics().digest(data), "rows that come later go on from there")
