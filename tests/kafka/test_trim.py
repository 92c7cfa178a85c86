"""A log that lets go of what no window needs: bounded on the disk, and every reader of it goes on as before."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltaplane.reference import Reference
from deltaplane_services.client import SampleProducer
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.kafka.clients import reader
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES
from kafka.clients import wait_until
from kafka.cluster import KafkaCluster
from kafka.conftest import StartKafka
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream
from kafka.test_topics import alter

TABLES: dict[str, Any] = {
    "window": {"length": "400"},
    "input": {"label": "label", "id": "id", "time": "time"},
    "partitions": 2,
}
NO_MARGIN = ("--margin-records", "0", "--margin-share", "0")
SERVICE = {"checkpoint_seconds": 0.3}


class Trimmed:
    """A stream to which rows are sent in records of twenty, and the account of them."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.reference = Reference(stream.definition)
        self.sent = 0

    def send(self, count: int) -> None:
        """Send rows; the account keeps them all."""
        rows = Rows(count, seed=self.sent, ids_from=self.sent)
        with SampleProducer(self.stream.settings) as producer:
            for begin in range(0, count, 20):
                part = slice(begin, begin + 20)
                producer.send_batch(rows.ids[part], rows.times[part], rows.labels[part], rows.features[part])
        rows.tell(self.reference)
        self.sent += count

    def settle(self, what: str) -> None:
        """Wait for a model of all that was sent."""
        self.stream.wait_for_digest(self.digest, what)

    @property
    def digest(self) -> str:
        return self.reference.statistics().digest(self.stream.definition.data_fingerprint)

    def begins(self, topic: str = SAMPLES) -> list[int]:
        """Where each partition of the log begins."""
        log = reader(self.stream.settings, "site")
        try:
            return [log.bounds(topic, partition)[0] for partition in range(self.stream.definition.partitions)]
        finally:
            log.close()

    def trim(self, *options: str, code: int = 0) -> dict[str, Any]:
        """Trim by the command, once the checkpoints have come to all that was sent."""
        found: dict[str, Any] = json.loads(self.stream.run("topics", "trim", "--json", *options, code=code).stdout)
        return found

    def trim_until(self, least: int) -> None:
        """Trim until every log of samples begins there or later: the checkpoints come a moment after the model."""

        def trimmed() -> bool:
            self.trim(*NO_MARGIN)
            return min(self.begins()) >= least

        wait_until(trimmed, f"the logs begin at {least} or later")


@pytest.fixture(params=["400", "400s"])
def trimmed(request: pytest.FixtureRequest, kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Trimmed]:
    tables = {**TABLES, "window": {"length": request.param}}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service=SERVICE, **tables) as stream:
        yield Trimmed(stream)


def test_whoever_reads_a_trimmed_log_finds_what_was_there_before(trimmed: Trimmed, tmp_path: Path) -> None:
    stream = trimmed.stream
    worker, merger = stream.start("worker"), stream.start("merger")
    trimmed.send(4000)
    trimmed.settle("before")
    dry = trimmed.trim(*NO_MARGIN, "--dry-run")
    assert trimmed.begins() == [0, 0], "a dry run does nothing"
    assert {log["topic"] for log in dry["logs"]} == {SAMPLES, RETIREMENTS}
    # Each of two partitions has 2,000 rows, ten to a record; 200 are in its window, and 1,000 more are remembered.
    trimmed.trim_until(60)
    begins = trimmed.begins()

    # Killed: the next one rebuilds the same from what is left.
    worker.kill()
    worker = stream.start("worker")
    worker.wait_for("claimed local/", count=2)
    trimmed.send(40)
    trimmed.settle("after a rebuild")
    assert stream.run("audit").stdout.endswith("equal\n")

    # A retirement that is late: its row has gone with the log, and is told like any other that has expired.
    late, live = f"row-{trimmed.sent - 500}", f"row-{trimmed.sent - 1}"
    told = stream.run("retire", late, live, "--wait", "30").stdout
    assert f"{late}: expired" in told
    assert f"{live}: retired" in told
    trimmed.reference.retire(late)
    trimmed.reference.retire(live)
    trimmed.settle("retired")

    # A standby takes over, and so does a worker after it.
    standby = stream.start("merger")
    standby.wait_for("joined|standing by|elected|INFO", count=1)
    merger.kill()
    trimmed.send(40)
    trimmed.settle("by the standby")
    trimmed.trim(*NO_MARGIN)
    worker.kill()
    stream.start("worker").wait_for("claimed local/", count=2)
    trimmed.send(20)
    trimmed.settle("by the next worker")
    assert stream.run("audit").stdout.endswith("equal\n")

    # A copy is the same stream, wherever the old log begins.
    tables = tomllib.loads(stream.definition_file.read_text("utf-8"))
    other = tmp_path / "other.toml"
    other.write_text(as_toml({**tables, "name": f"{stream.definition.name}-copy"}), "utf-8")
    digest = trimmed.digest
    assert f"digest of the old stream {digest}" in stream.run("copy", "--to", other, "--idle-seconds", "1").stdout
    settings = resolve_settings({}, {}, tomllib.loads(other.read_text("utf-8")))
    (tmp_path / "copy").mkdir()
    copied = Stream(tmp_path / "copy", other, settings, stream.environment)
    try:
        copied.start("worker")
        copied.start("merger")
        copied.wait_for_digest(digest, "the copy")
    finally:
        copied.close()
    assert all(now >= before for now, before in zip(trimmed.begins(), begins, strict=True))


@pytest.mark.parametrize("trimmed", ["400"], indirect=True)
def test_a_source_that_was_removed_or_never_worked_on_keeps_its_log_and_the_command_says_so(trimmed: Trimmed) -> None:
    stream = trimmed.stream
    assert trimmed.trim() == {"logs": [], "untouched": []}
    stream.start("worker")
    stream.start("merger")
    trimmed.send(4000)
    trimmed.settle("before")
    trimmed.trim_until(60)
    stream.run("source", "remove", "local/1")
    stream.wait_for_model(lambda model: any(p.removed for p in model.positions), "one is out")
    begins = trimmed.begins()

    def said() -> bool:
        ended = stream.run("topics", "trim", "--json", *NO_MARGIN, code=1)
        return [one["source"] for one in json.loads(ended.stdout)["untouched"]] == ["local/1"]

    wait_until(said, "the removed source keeps its log")
    assert trimmed.begins()[1] == begins[1]


def test_a_window_over_everything_keeps_its_samples(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> None:
    tables = {**TABLES, "window": {"length": "all"}}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service=SERVICE, **tables) as stream:
        trimmed = Trimmed(stream)
        stream.start("worker")
        stream.start("merger", DELTAPLANE_TRIM_SECONDS="0.2")
        trimmed.send(600)
        trimmed.settle("all")
        wait_until(lambda: len(trimmed.trim(*NO_MARGIN, code=1)["untouched"]) == 2, "both keep their logs")
        assert trimmed.begins() == [0, 0]
        assert trimmed.begins(RETIREMENTS) == [0, 0]


# By itself -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tidying(start_kafka: StartKafka) -> KafkaCluster:
    """A broker that deletes files soon after it may, where others take minutes."""
    return start_kafka(
        properties={
            "log.retention.check.interval.ms": "300",
            "log.segment.delete.delay.ms": "0",
            "log.initial.task.delay.ms": "0",
        }
    )


def bytes_on_disk(cluster: KafkaCluster, topic: str) -> int:
    """Bytes of the records of partition 0."""
    (home,) = cluster.directories
    return sum(file.stat().st_size for file in (home / "data" / f"{topic}-0").glob("*.log"))


def test_the_merger_keeps_a_count_windows_log_bounded_over_many_windows_by_itself(
    tidying: KafkaCluster, tmp_path: Path, stream_name: str
) -> None:
    tables = {**TABLES, "window": {"length": "1000"}, "partitions": 1}
    service = {**SERVICE, "trim_seconds": 0.3}
    with Stream.made(tmp_path, stream_name, tidying.bootstrap, service=service, **tables) as stream:
        samples = f"{stream_name}.samples"
        # The least that a broker allows.
        alter(tidying.bootstrap, samples, {"segment.bytes": "1048576"})
        worker: ServiceProcess = stream.start("worker")
        mergers = [stream.start("merger"), stream.start("merger")]
        for round_ in range(6):
            rows = Rows(24_000, seed=round_, ids_from=24_000 * round_)
            with SampleProducer(stream.settings) as producer:
                for begin in range(0, len(rows), 200):
                    part = slice(begin, begin + 200)
                    producer.send_batch(rows.ids[part], rows.times[part], rows.labels[part], rows.features[part])
            reference = Reference(stream.definition)
            rows.tell(reference)
            digest = reference.statistics().digest(stream.definition.data_fingerprint)
            stream.wait_for_digest(digest, f"round {round_}")
            # A megabyte of margin, and the file that is being written.
            wait_until(lambda: bytes_on_disk(tidying, samples) < 3 * 2**20, "old files are deleted")
            if round_ == 3:
                worker.kill()
                worker = stream.start("worker")
        log = "".join(merger.log for merger in mergers)
        assert "samples-0: let go of " in log
        assert log.count("it begins at") >= 3
        assert stream.run("audit").stdout.endswith("equal\n")
        worker.kill()
        stream.start("worker").wait_for("claimed local/0")
        assert stream.run("audit").stdout.endswith("equal\n")
