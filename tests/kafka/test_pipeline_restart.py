"""Services that begin again: from a checkpoint, over a large window, and over a log that has lost what they need."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from deltaplane.log.delta import Claim, Delta, Source
from deltaplane.log.model import Model
from deltaplane.reference import Reference
from deltaplane.wire import read_checkpoint, read_claim_or_delta, read_model
from deltaplane_services.client import SampleProducer
from kafka.clients import PATIENCE_SECONDS, read_topic, wait_until
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream


@contextmanager
def a_stream(
    directory: Path, name: str, broker: str, checkpoint_seconds: float = 0.3, **tables: Any
) -> Iterator[Stream]:
    tables = {"input": {"label": "label", "id": "id", "time": "time"}, **tables}
    with Stream.made(directory, name, broker, service={"checkpoint_seconds": checkpoint_seconds}, **tables) as stream:
        yield stream


def send(stream: Stream, rows: Rows, reference: Reference, batch: int = 1000) -> None:
    """Publish rows, and tell the batch account of them."""
    with SampleProducer(stream.settings) as producer:
        for begin in range(0, len(rows), batch):
            part = slice(begin, begin + batch)
            producer.send_batch(rows.ids[part], rows.times[part], rows.labels[part], rows.features[part])
    rows.tell(reference)


def wait_for_batch(stream: Stream, reference: Reference, what: str) -> Model:
    return stream.wait_for_digest(reference.statistics().digest(stream.definition.data_fingerprint), what)


def checkpointed(stream: Stream, broker: str) -> dict[int, int]:
    """Deltas partition to the offset that its source's newest checkpoint goes on at."""
    records = read_topic(broker, f"{stream.definition.name}.checkpoints")
    found = [read_checkpoint(record.value(), stream.definition.dimensions) for record in records]
    return {one.state.source.partition: one.next_offset for one in sorted(found, key=lambda one: one.next_offset)}


def trim(broker: str, topic: str, offsets: dict[int, int]) -> None:
    """Delete the records below these offsets, as retention does."""
    admin = AdminClient({"bootstrap.servers": broker})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    for future in admin.delete_records(places).values():
        future.result(PATIENCE_SECONDS)


def test_a_merger_goes_on_from_its_checkpoint_and_reads_no_older_delta(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    broker, topic = kafka.bootstrap, f"{stream_name}.deltas"
    with a_stream(tmp_path, stream_name, broker) as stream:
        reference = Reference(stream.definition)
        stream.start("worker")
        merger = stream.start("merger")
        send(stream, Rows(4000, seed=1), reference, batch=100)
        model = wait_for_batch(stream, reference, "before the restart")
        sequences = {position.source.partition: position.sequence for position in model.positions}
        wait_until(
            lambda: all(checkpointed(stream, broker).get(p, 0) > n for p, n in sequences.items()),
            "all deltas are in checkpoints",
        )
        merger.kill()
        offsets = checkpointed(stream, broker)
        assert set(offsets) == {0, 1}
        # What lies below the checkpoints is not there any more: who reads it must fail.
        trim(broker, topic, offsets)

        again = stream.start("merger")

        (begun,) = again.wait_for(r"elected; going on with (.*)")
        assert begun[1] == ", ".join(f"deltas-{partition} at {offset}" for partition, offset in sorted(offsets.items()))
        send(stream, Rows(1000, seed=2, ids_from=4000), reference)
        after = wait_for_batch(stream, reference, "after the restart")
        assert after.version > model.version
        assert stream.run("audit").stdout.endswith("equal\n")


def test_no_model_contains_less_than_the_one_before_it_when_a_merger_begins_again(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    broker = kafka.bootstrap
    with a_stream(tmp_path, stream_name, broker, checkpoint_seconds=3600.0) as stream:
        reference = Reference(stream.definition)
        stream.start("worker")
        merger = stream.start("merger")
        for number in range(5):
            send(stream, Rows(500, seed=number, ids_from=500 * number), reference)
            wait_for_batch(stream, reference, "before the merger is killed")
        merger.kill()
        # One delta at a time: it has time to publish models on its way.
        stream.start("merger", DELTAPLANE_POLL_RECORDS="1", DELTAPLANE_REFRESH_SECONDS="0")
        send(stream, Rows(500, seed=9, ids_from=5000), reference)
        wait_for_batch(stream, reference, "after the merger was killed")

    contained: dict[Source, int] = {}
    models = [read_model(record.value()) for record in read_topic(broker, f"{stream_name}.models")]
    assert [model.version for model in models] == sorted({model.version for model in models})
    for model in models:
        for position in model.positions:
            assert position.sequence >= contained.get(position.source, 0), f"version {model.version}: {model.positions}"
            contained[position.source] = position.sequence


def test_a_merger_refuses_to_begin_where_deltas_behind_its_checkpoint_are_gone(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    broker = kafka.bootstrap
    with a_stream(tmp_path, stream_name, broker, partitions=1) as stream:
        reference = Reference(stream.definition)
        worker, merger = stream.start("worker"), stream.start("merger")
        send(stream, Rows(1000, seed=1), reference, batch=100)
        wait_for_batch(stream, reference, "before the restart")
        merger.terminate()
        (offset,) = checkpointed(stream, broker).values()
        models = len(read_topic(broker, f"{stream_name}.models"))
        send(stream, Rows(1000, seed=2, ids_from=1000), reference, batch=100)
        wait_until(lambda: len(read_topic(broker, f"{stream_name}.deltas")) > offset, "a delta behind the checkpoint")
        trim(broker, f"{stream_name}.deltas", {0: offset + 1})

        refused = stream.start("merger")

        assert refused.wait() == 2
        said = refused.log
        assert f"the checkpoints go on at offset {offset}, the log begins at {offset + 1}" in said
        assert "Traceback" not in said
        assert len(read_topic(broker, f"{stream_name}.models")) == models, "nothing was published"
        stream.processes.remove(refused)
        assert worker.running


WINDOW = 200_000


def test_a_worker_with_a_large_window_is_serving_again_right_after_it_was_killed(
    kafka: RunningKafka, tmp_path: Path, stream_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_stream(tmp_path, stream_name, kafka.bootstrap, partitions=1, window={"length": WINDOW}) as stream:
        reference = Reference(stream.definition)
        stream.start("merger")
        worker = stream.start("worker", "--instance", "the-worker")
        send(stream, Rows(WINDOW + 20_000, seed=1), reference, batch=2000)
        wait_for_batch(stream, reference, "before the restart")
        worker.kill()
        send(stream, Rows(1000, seed=2, ids_from=WINDOW + 20_000), reference)

        began = time.monotonic()
        stream.start("worker", "--instance", "the-worker")
        wait_for_batch(stream, reference, "after the restart")
        seconds = time.monotonic() - began

        assert stream.run("audit").stdout.endswith("equal\n")
    with capsys.disabled():
        sys.stdout.write(f"\na worker with a window of {WINDOW:,} rows was serving {seconds:.1f} s after its start\n")


def test_a_worker_does_not_serve_a_source_of_which_retention_has_deleted_live_rows(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    broker = kafka.bootstrap
    with a_stream(tmp_path, stream_name, broker, partitions=1, window={"length": 1000}) as stream:
        reference = Reference(stream.definition)
        stream.start("merger")
        worker = stream.start("worker")
        send(stream, Rows(2000, seed=1), reference, batch=100)
        before = wait_for_batch(stream, reference, "before the restart")
        worker.terminate()
        # The window begins at record 10 of 20.
        trim(broker, f"{stream_name}.samples", {0: 15})

        again = stream.start("worker")

        again.wait_for(
            r"needs samples from offset 10 .* the log begins at 15 .* retention has deleted live rows", count=2
        )
        assert "Traceback" not in again.log
        again.terminate()
        changes = [
            read_claim_or_delta(record.value(), stream.definition.dimensions)
            for record in read_topic(broker, f"{stream_name}.deltas")
        ]
        last_delta = max(at for at, change in enumerate(changes) if isinstance(change, Delta))
        assert all(isinstance(change, Claim) for change in changes[last_delta + 1 :])
        assert read_topic(broker, f"{stream_name}.dead-letters") == []
        model = stream.model()
        assert model is not None
        assert model.digest == before.digest

        audited = stream.run("audit", code=1)
        assert "retention has deleted live rows" in audited.stdout
        assert audited.stdout.endswith("NOT EQUAL\n")


def test_a_worker_that_begins_late_takes_what_the_log_still_has(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    broker = kafka.bootstrap
    with a_stream(tmp_path, stream_name, broker, partitions=1) as stream:
        reference = Reference(stream.definition)
        rows = Rows(1000, seed=1)
        send(stream, rows, Reference(stream.definition), batch=100)
        trim(broker, f"{stream_name}.samples", {0: 3})

        for command in ("worker", "merger"):
            stream.start(command)

        reference.add(0, rows.samples(np.arange(300, 1000)))
        wait_for_batch(stream, reference, "what was left of the log")
