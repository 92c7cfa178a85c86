"""A stream elsewhere: more partitions, another name, a file and back, and the digest is the same."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltaplane.reference import Reference
from deltaplane.wire import read_dead_letter
from deltaplane_services.client import SampleProducer
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.operations.backup import Backup
from kafka.clients import read_topic
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream

WINDOWS = pytest.mark.parametrize("window", ["all", "500s", "auto"])


@contextlib.contextmanager
def stream_of(first: Stream, file: Path) -> Iterator[Stream]:
    """The stream of another definition file, beside a first one."""
    settings = resolve_settings({}, {}, tomllib.loads(file.read_text("utf-8")))
    directory = file.parent / settings.definition.name
    directory.mkdir()
    stream = Stream(directory, file, settings, first.environment)
    try:
        yield stream
    finally:
        stream.close()


def filled(stream: Stream, seed: int) -> str:
    """Send rows, some of them twice or corrected or retired or refused; the digest of the batch."""
    rows, reference = Rows(1500, seed), Reference(stream.definition)
    with SampleProducer(stream.settings, check=False) as producer:
        for begin in range(0, len(rows), 100):
            part = slice(begin, begin + 100)
            producer.send_batch(rows.ids[part], rows.times[part], rows.labels[part], rows.features[part])
        rows.tell(reference)
        again = Rows(1500, seed + 1)
        for row in range(1400, 1420):
            # The first ten as they were, the others corrected.
            source = rows if row < 1410 else again
            one = Rows.single(rows.ids[row], source.labels[row], source.features[[row]], int(rows.times[row]))
            producer.send(one.ids[0], int(one.times[0]), one.labels[0], one.features[0])
            one.tell(reference)
        producer.send("far", int(rows.times[-1]), "yes", [1e9, 0.0, 0.0])
    # A retirement that is read before its row waits for that, and the command says so.
    stream.wait_for_digest(reference.statistics().digest(stream.definition.data_fingerprint), "sent")
    retired = [f"row-{number}" for number in (3, 1450, 1451, 1405, 1415)]
    stream.run("retire", *retired)
    for sample_id in retired:
        reference.retire(sample_id)
    return reference.statistics().digest(stream.definition.data_fingerprint)


def variant(stream: Stream, path: Path, **changes: Any) -> Path:
    """The definition of a stream with some keys changed, in a file."""
    tables = tomllib.loads(stream.definition_file.read_text("utf-8"))
    path.write_text(as_toml({**tables, **changes}), "utf-8")
    return path


@pytest.mark.parametrize("window", ["all", "500s"])
def test_a_stream_with_more_partitions_has_the_same_digest(
    window: str, kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, window={"length": window}) as stream:
        stream.start("merger")
        stream.start("worker")
        digest = filled(stream, 5)
        stream.wait_for_digest(digest, "before")
        out = tmp_path / "wider.toml"
        told = stream.run("repartition", "--partitions", "5", "--out", out, "--idle-seconds", "1").stdout
        assert f"digest of the old stream {digest}" in told
        assert "1 refused rows" in told
        with stream_of(stream, out) as wider:
            assert wider.definition.partitions == 5
            wider.start("merger")
            wider.start("worker")
            model = wider.wait_for_digest(digest, "after")
            assert len(model.positions) == 5
            assert wider.run("audit").returncode == 0
            # What comes to both goes on alike, a correction and a retirement of old rows among it.
            more = Rows(50, 9, ids_from=1490)
            for one in (stream, wider):
                with SampleProducer(one.settings, check=False) as producer:
                    producer.send_batch(more.ids, more.times, more.labels, more.features)
                one.run("retire", "row-1300", "row-1495")
            assert stream.wait_for_model(lambda m: m.totals["retirements retired"] >= 6, "retired").digest
            after = stream.wait_for_model(lambda m: m.digest == latest(wider), "the same again")
            assert after.digest != digest


def latest(stream: Stream) -> str | None:
    model = stream.model()
    return None if model is None else model.digest


@WINDOWS
def test_a_backup_gives_the_stream_back(window: str, kafka: RunningKafka, tmp_path: Path, stream_name: str) -> None:
    file = tmp_path / "stream.avro"
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, window={"length": window}) as stream:
        stream.start("merger")
        stream.start("worker")
        digest = filled(stream, 6)
        stream.wait_for_digest(digest, "before")
        assert f"digest {digest}" in stream.run("backup", file).stdout
        saved = Backup(file)
        records = list(saved.records())
        assert saved.digest == digest
        assert saved.definition.data_fingerprint == stream.definition.data_fingerprint
        assert {record.topic for record in records} == {"samples", "retirements"}
        with stream_of(stream, variant(stream, tmp_path / "again.toml", name=f"{stream_name}-again")) as again:
            told = again.run("restore", file, "--wait", "1", code=1).stdout
            assert "NOT EQUAL within 1 s: it has no model yet" in told
            again.start("merger")
            again.start("worker")
            again.wait_for_digest(digest, "restored")
            refused = again.run("restore", file, code=2)
            assert "expected an empty stream" in refused.stderr


def test_a_copy_to_other_features_or_from_nothing_is_refused(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as stream:
        new = variant(stream, tmp_path / "new.toml", name=f"{stream_name}-new")
        assert "holds no model" in stream.run("copy", "--to", new, code=2).stderr
        other = variant(stream, tmp_path / "other.toml", name=f"{stream_name}-other", grid={"steps": [1.0] * 3})
        assert "expected the features, grid and map" in stream.run("copy", "--to", other, code=2).stderr
        out = tmp_path / "other.toml"
        assert "is there already" in stream.run("repartition", "--partitions", "3", "--out", out, code=2).stderr


def test_a_stream_whose_feature_outgrew_its_grid_goes_on_on_a_wider_one(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, window={"length": "all"}) as stream:
        stream.start("merger")
        stream.start("worker")
        rows = Rows(600, 11)
        rows.features[300::10, 2] = 1e9 + np.arange(30)
        with SampleProducer(stream.settings, check=False) as producer:
            producer.send_batch(rows.ids, rows.times, rows.labels, rows.features)
        # The second is of a row that the grid refused: no live row has its id, and the retirement waits for one.
        stream.run("retire", "row-3", "row-310", code=3)
        stream.wait_for_model(lambda m: m.totals.get("refused bad value", 0) == 30, "refused")
        out = tmp_path / "wider.toml"
        told = stream.run("grid", "refit", "--out", out).stdout
        assert "30 rows were outside" in told
        with stream_of(stream, out) as wider:
            reference = Reference(wider.definition)
            rows.tell(reference)
            for sample_id in ("row-3", "row-310"):
                reference.retire(sample_id)
            told = stream.run("copy", "--regrid", "--to", out, "--idle-seconds", "1").stdout
            assert "600 rows" in told
            assert "its features or grid are others" in told
            wider.start("merger")
            wider.start("worker")
            digest = reference.statistics().digest(wider.definition.data_fingerprint)
            assert sum(wider.wait_for_digest(digest, "after").counts.values()) == 598
            assert wider.run("audit").returncode == 0


def test_a_flood_of_labels_leaves_the_stream_alive_and_a_backup_of_it_is_the_same_stream(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    # Made-up labels take the places that are left; their rows leave the window, and others are sent that are refused.
    rows = Rows(900, seed=11)
    rows.labels[200:500] = [f"made up {row}" for row in range(200, 500)]
    rows.labels[500::3] = [f"late {row}" for row in range(500, 900, 3)]
    tables = {"classes": {"most": 4}, "window": {"length": 200}}
    file = tmp_path / "stream.avro"
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service={"checkpoint_seconds": 0.3}, **tables) as stream:
        definition, reference = stream.definition, Reference(stream.definition)
        assert definition.classes.are_open
        services = [stream.start(command) for command in ("merger", "worker")]
        for begin, end in ((0, 300), (300, 600), (600, 900)):
            part = Rows(1, 0)
            part.ids, part.labels = rows.ids[begin:end], rows.labels[begin:end]
            part.times, part.features = rows.times[begin:end], rows.features[begin:end]
            with SampleProducer(stream.settings, check=False) as producer:
                producer.send_batch(part.ids, part.times, part.labels, part.features)
            part.tell(reference)
            digest = reference.statistics().digest(definition.data_fingerprint)
            stream.wait_for_digest(digest, f"after {end} rows")
            if end == 600:
                # Who takes over knows the labels whose rows it has not read.
                services[1].kill()
                stream.start("worker")
        model = stream.wait_for_digest(digest, "in the end")
        refused = model.totals["refused too many classes"]
        assert refused == 300 + len(range(500, 900, 3)) - 2 * definition.partitions
        assert model.totals["applied"] == 900 - refused
        assert model.refusal is None
        assert set(model.counts) == {"yes", "no"}
        letters = read_topic(kafka.bootstrap, f"{stream_name}.dead-letters")
        assert [read_dead_letter(letter.value()).kind for letter in letters] == ["too many classes"] * refused
        assert stream.run("audit").stdout.endswith("equal\n")

        stream.run("backup", file)
        with stream_of(stream, variant(stream, tmp_path / "again.toml", name=f"{stream_name}-again")) as again:
            again.run("topics", "create")
            again.start("merger")
            again.start("worker")
            assert "equal: the model of stream" in again.run("restore", file, "--wait", "60").stdout
