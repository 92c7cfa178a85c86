"""Topics that are deleted and made again, shorter than what was read of them, or wider than the stream."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from deltaplane.reference import Reference
from deltaplane_services.client import SampleProducer
from kafka.clients import PATIENCE_SECONDS, wait_until
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream
from kafka.test_pipeline_metrics import ask, free_ports

WINDOWS = {"all rows": {"length": "all"}, "all, none kept": {"length": "all", "keep_rows": False}, "50": {"length": 50}}


@pytest.fixture
def streams() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def made(streams: ExitStack, kafka: RunningKafka, directory: Path, name: str, window: object) -> Stream:
    service = {"checkpoint_seconds": 0.3}
    return streams.enter_context(Stream.made(directory, name, kafka.bootstrap, service=service, window=window))


def send(stream: Stream, count: int, ids_from: int = 0) -> Rows:
    rows = Rows(count, seed=ids_from, ids_from=ids_from)
    with SampleProducer(stream.settings) as producer:
        for row in range(count):
            producer.send(rows.ids[row], int(rows.times[row]), rows.labels[row], rows.features[row])
    return rows


def read(stream: Stream) -> int:
    model = stream.model()
    return 0 if model is None else sum(position.samples for position in model.positions)


def make_anew(broker: str, stream: Stream, topics: Sequence[str]) -> None:
    admin, names = AdminClient({"bootstrap.servers": broker}), [f"{stream.definition.name}.{one}" for one in topics]
    for future in admin.delete_topics(names).values():
        future.result(PATIENCE_SECONDS)
    wait_until(lambda: not set(names) & admin.list_topics(timeout=PATIENCE_SECONDS).topics.keys(), "topics are deleted")
    stream.run("topics", "create")


def start_worker(stream: Stream) -> tuple[ServiceProcess, int]:
    (port,) = free_ports(1)
    return stream.start("worker", DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}"), port


def readiness(port: int) -> tuple[int, str]:
    """What a worker says of itself; (0, "") before it says anything."""
    try:
        return ask(port, "/readyz")
    except ConnectionError:
        return 0, ""


def begin_anew(stream: Stream) -> None:
    """What the message says."""
    stream.run("source", "remove", "local")
    stream.run("source", "admit", "local")


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("down", [False, True], ids=["while it is read", "while no worker is there"])
def test_a_samples_topic_that_is_made_anew_is_one_clear_fault_with_one_cure(
    kafka: RunningKafka, tmp_path: Path, stream_name: str, streams: ExitStack, window: str, *, down: bool
) -> None:
    stream = made(streams, kafka, tmp_path, stream_name, WINDOWS[window])
    worker, port = start_worker(stream)
    stream.start("merger")
    send(stream, 100)
    wait_until(lambda: read(stream) == 100, "all rows are learned")
    if down:
        worker.terminate()
    make_anew(kafka.bootstrap, stream, ["samples"])
    # More than there was before: every position that was read up to lies within the new log.
    rows = send(stream, 400, ids_from=1000)
    if down:
        worker, port = start_worker(stream)

    wait_until(lambda: readiness(port)[1].count("were deleted and made again") == 2, "both sources are set aside")
    said = readiness(port)[1]
    assert said.count("is set aside") == 2
    assert "deltaplane source remove local/0, then deltaplane source admit local/0" in said
    assert worker.running

    begin_anew(stream)
    reference = Reference(stream.definition)
    rows.tell(reference)
    digest = reference.statistics().digest(stream.definition.data_fingerprint)
    stream.wait_for_digest(digest, "the new log from its first row, and nothing of the old one")
    wait_until(lambda: readiness(port)[0] == 200, "the worker is ready again")
    assert stream.run("audit").stdout.endswith("equal\n")


def test_a_log_that_has_lost_its_end_is_named_with_both_offsets(
    kafka: RunningKafka, tmp_path: Path, stream_name: str, streams: ExitStack
) -> None:
    stream = made(streams, kafka, tmp_path, stream_name, WINDOWS["all, none kept"])
    worker, _ = start_worker(stream)
    stream.start("merger")
    send(stream, 100)
    wait_until(lambda: read(stream) == 100, "all rows are learned")
    worker.terminate()
    make_anew(kafka.bootstrap, stream, ["retirements"])
    make_anew(kafka.bootstrap, stream, ["samples"])
    rows = send(stream, 10, ids_from=1000)
    worker, port = start_worker(stream)
    worker.wait_for("under the names samples and retirements, up to offset", count=2)
    begin_anew(stream)
    reference = Reference(stream.definition)
    rows.tell(reference)
    stream.wait_for_digest(reference.statistics().digest(stream.definition.data_fingerprint), "the new log")
    wait_until(lambda: readiness(port)[0] == 200, "the worker is ready again")


def test_deltas_that_are_made_anew_stop_the_stream_with_words_and_the_cure_brings_everything_back(
    kafka: RunningKafka, tmp_path: Path, stream_name: str, streams: ExitStack
) -> None:
    stream = made(streams, kafka, tmp_path, stream_name, {"length": "all"})
    worker, port = start_worker(stream)
    merger = stream.start("merger")
    rows = send(stream, 200)
    reference = Reference(stream.definition)
    rows.tell(reference)
    digest = reference.statistics().digest(stream.definition.data_fingerprint)
    before = stream.wait_for_digest(digest, "before")

    make_anew(kafka.bootstrap, stream, ["deltas"])

    # It has noticed that the topic is another one, or that what it was about to read is not there.
    assert merger.wait() == 2
    assert re.search("were deleted and made again|the newest model has read", merger.log.splitlines()[-1])
    stream.processes.remove(merger)
    again = stream.start("merger")
    assert again.wait() == 2
    assert "the newest model has read" in again.log.splitlines()[-1]
    assert "Traceback" not in again.log
    stream.processes.remove(again)
    wait_until(lambda: "the newest model has read" in readiness(port)[1], "the worker says the same")
    model = stream.model()
    assert model is not None
    assert (model.version, model.digest) == (before.version, before.digest), "no empty model was published"

    worker.terminate()
    make_anew(kafka.bootstrap, stream, ["deltas", "checkpoints", "models"])
    start_worker(stream)
    stream.start("merger")
    stream.wait_for_digest(digest, "all samples read again")
    assert stream.run("audit").stdout.endswith("equal\n")


def test_partitions_that_are_added_to_a_live_topic_are_seen_at_once_and_the_others_go_on(
    kafka: RunningKafka, tmp_path: Path, stream_name: str, streams: ExitStack
) -> None:
    stream = made(streams, kafka, tmp_path, stream_name, {"length": "all"})
    worker, port = start_worker(stream)
    stream.start("merger")
    send(stream, 50)
    wait_until(lambda: read(stream) == 50, "all rows are learned")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wider = [NewPartitions(f"{stream_name}.{topic}", 3) for topic in ("samples", "retirements")]
    for future in admin.create_partitions(wider).values():
        future.result(PATIENCE_SECONDS)

    wait_until(lambda: "has 3 partitions, the stream 2" in readiness(port)[1], "the worker says so")
    assert readiness(port)[0] == 503
    assert "deltaplane repartition" in readiness(port)[1]
    time.sleep(1.0)
    assert worker.running
    with SampleProducer(stream.settings) as producer:
        rows = Rows(50, seed=9, ids_from=500)
        for row in range(50):
            producer.send(rows.ids[row], int(rows.times[row]), rows.labels[row], rows.features[row])
    wait_until(lambda: read(stream) == 100, "rows in the stream's own partitions are learned")
