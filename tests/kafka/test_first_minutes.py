"""What a stranger's first minutes on Kafka say to them: what is wrong is in the log, and names what came instead."""

from __future__ import annotations

import contextlib
import re
import secrets
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer

from deltaplane.log.records import Query
from deltaplane.wire import write_query
from kafka.clients import PATIENCE_SECONDS
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    tables = {"input": {"label": "label", "id": "id", "time": "time"}}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service={"checkpoint_seconds": 0.3}, **tables) as opened:
        yield opened


def publish(broker: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def wait_for_rows(stream: Stream, rows: int) -> None:
    stream.wait_for_model(lambda model: model.totals.get("applied") == rows, f"a model of {rows} rows")


def test_worker_and_scorer_say_in_their_logs_what_they_refuse_and_what_it_seems_to_be(
    kafka: RunningKafka, stream: Stream, tmp_path: Path
) -> None:
    name = stream.definition.name
    worker, merger = stream.start("worker"), stream.start("merger")
    publish(kafka.bootstrap, f"{name}.samples", *[b'{"id": "a", "height": 1.5}'] * 25)
    (said,) = worker.wait_for(r"WARNING .*: refused (\d+) of \1 \(all\): \1 bad record; for example samples-0 at .*")
    assert "got JSON (26 bytes); send Avro single-object encoding" in said[0]
    assert f"all are in topic {name}.dead-letters" in said[0]

    stream.run("produce", Rows(60, seed=1).write(tmp_path / "rows.csv"))
    stream.wait_for_model(lambda model: model.plane is not None, "a plane")
    scorer = stream.start("scorer")
    good = write_query(Query("q", np.array([1.0, 2.0, 3.0]), stream.definition.data_fingerprint))
    publish(kafka.bootstrap, f"{name}.queries", good, b"\0\0\0\0\x2a" + good[10:])
    (said,) = scorer.wait_for(r"WARNING .*: refused 1 of \d .*: 1 bad record; for example queries-0 at offset 1: .*")
    assert "got a query in Confluent schema registry framing (00, schema id 42)" in said[0]
    for service in (worker, merger, scorer):
        service.terminate()
    refused = sum(int(found[1]) for found in re.finditer(r": refused (\d+) of", worker.log))
    assert refused == 25, "none is lost: what was not said in time is said at the end"


def test_rows_of_a_pipe_that_stays_open_are_learned_and_a_signal_ends_it_with_all_of_them_sent(
    stream: Stream, tmp_path: Path
) -> None:
    worker, merger = stream.start("worker"), stream.start("merger")
    line = Rows(60, seed=1).write(tmp_path / "rows.csv").read_text("utf-8").splitlines(keepends=True)
    producer = subprocess.Popen(
        stream.line("produce", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=stream.environment,
    )
    try:
        assert producer.stdin is not None
        for first, last in ((0, 41), (41, 61)):
            producer.stdin.writelines(line[first:last])
            producer.stdin.flush()
            wait_for_rows(stream, last - 1)
        producer.send_signal(signal.SIGTERM)
        producer.wait(PATIENCE_SECONDS)
        said, faults = producer.communicate(timeout=PATIENCE_SECONDS)
    finally:
        producer.kill()
        producer.wait()
    assert said.startswith("60 rows and 0 retirements published in "), (said, faults)
    assert producer.returncode == 130
    assert "Traceback" not in faults
    for service in (worker, merger):
        service.terminate()


def test_two_files_without_ids_are_both_live_and_one_that_is_sent_again_counts_once(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    tables = {"input": {"label": "label", "time": "time", "ignore": ["id"]}}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, **tables) as stream:
        services = [stream.start("worker"), stream.start("merger")]
        files = [Rows(n, seed=n, ids_from=1000 * n).write(tmp_path / f"{n}.csv") for n in (20, 15)]
        for file in (*files, files[0]):
            stream.run("produce", file)
        model = stream.wait_for_model(lambda model: model.totals.get("duplicate", 0) == 20, "the first file again")
        assert sum(model.counts.values()) == 35
        for service in services:
            service.terminate()


@contextlib.contextmanager
def other(stream: Stream, **changes: Any) -> Iterator[Stream]:
    """The same stream, with a definition in which some tables differ."""
    tables = tomllib.loads(stream.definition_file.read_text("utf-8"))
    kept = {key: value for key, value in tables.items() if key not in ("name", "service")}
    directory = stream.directory / f"other-{secrets.token_hex(4)}"
    with Stream.of(directory, tables["name"], tables["service"]["broker"], **{**kept, **changes}) as opened:
        yield opened


def test_whoever_comes_with_another_definition_is_told_which_settings_differ(stream: Stream, tmp_path: Path) -> None:
    worker, merger = stream.start("worker"), stream.start("merger")
    rows = Rows(60, seed=1).write(tmp_path / "rows.csv")
    stream.run("produce", rows)
    wait_for_rows(stream, 60)
    steps = [2.0**-9] * 3
    with other(stream, max_skew="3h", grid={"steps": steps}) as mistaken:
        said = [mistaken.run(command, code=2).stderr for command in ("worker", "merger", "scorer", "audit")]
    for refused in said:
        assert 'max_skew (here "3h", there ' in refused
        assert "grid.steps (here [0.001953125, " in refused
        assert "features" not in refused, "these are the same"
    with other(stream, grid={"steps": steps}) as mistaken:
        mistaken.run("produce", rows)
    (found,) = worker.wait_for(r"WARNING .*: \d+ other definition; for example samples-\d at offset \d+: .*")
    assert "grid.steps (here [0.0009765625, 0.0009765625, 0.0009765625], there [0.001953125, " in found[0]
    for service in (worker, merger):
        service.terminate()


def test_an_order_for_a_source_that_nobody_heard_of_is_refused_unless_it_is_forced(
    stream: Stream, tmp_path: Path
) -> None:
    worker, merger = stream.start("worker"), stream.start("merger")
    stream.run("produce", Rows(60, seed=1).write(tmp_path / "rows.csv"))
    wait_for_rows(stream, 60)
    for order in ("remove", "admit"):
        for name in ("locl", "locl/0"):
            said = stream.run("source", order, name, code=2).stderr
            assert "nothing was ever heard of it; did you mean 'local" in said
            assert "say --force" in said
    assert "locl" not in stream.run("source", "list").stdout
    assert "to-come/1: removed" in stream.run("source", "remove", "to-come/1", "--force").stdout
    worker.terminate()
    assert "local/0: removed" in stream.run("source", "remove", "local/0").stdout
    merger.terminate()


def test_files_made_of_a_stream_carry_no_secret_and_raw_rows_are_their_owners_alone(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    tables = {
        "input": {"label": "label", "id": "id", "time": "time"},
        "kafka": {"sasl.password": "hunter2-secret", "client.id": "me"},
    }
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, **tables) as stream:
        stream.definition_file.chmod(0o600)
        services = [stream.start("worker"), stream.start("merger")]
        stream.run("produce", Rows(60, seed=1).write(tmp_path / "rows.csv"))
        wait_for_rows(stream, 60)

        two, saved = tmp_path / "two.toml", tmp_path / "saved.avro"
        said = stream.run("repartition", "--partitions", "3", "--out", two, "--idle-seconds", "0.5").stdout
        assert "may be secrets: kafka.sasl.password" in said
        assert "hunter2" not in said + two.read_text("utf-8")
        assert tomllib.loads(two.read_text("utf-8"))["kafka"] == {"client": {"id": "me"}}
        stream.run("backup", saved)
        assert [path.stat().st_mode & 0o777 for path in (two, saved)] == [0o600, 0o600]

        # What fails leaves nothing behind that the next one stumbles over.
        for options in (("--partitions", "0"), ("--partitions", "2", "--name", "no name!")):
            for _ in range(2):
                assert (
                    "there already" not in stream.run("repartition", *options, "--out", tmp_path / "x", code=2).stderr
                )
        for command in (("repartition", "--partitions", "2", "--out"), ("grid", "refit", "--out"), ("backup",)):
            said = stream.run(*command, tmp_path / "missing" / "x", code=2).stderr
            assert "make the directory first" in said
            assert "Traceback" not in said
        assert not list(tmp_path.glob("*partial*"))
        for service in services:
            service.terminate()
