"""Logs as other people's producers write them: in transactions, some of them aborted; and compacted by mistake."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer

from deltaplane.reference import Reference
from deltaplane.stream.sample import Retirement
from deltaplane.wire import write_retirement, write_sample
from kafka.background import Background
from kafka.clients import PATIENCE_SECONDS, read_topic, wait_until
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_pipeline_metrics import ask, free_ports
from kafka.test_topics import alter

INPUT = {"label": "label", "id": "id", "time": "time"}


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    service = {"checkpoint_seconds": 0.3}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service=service, partitions=1, input=INPUT) as opened:
        yield opened


class Transactions:
    """Writes rows in transactions of its own, as Flink, Kafka Streams and Kafka Connect do."""

    def __init__(self, stream: Stream, broker: str) -> None:
        self._stream = stream
        self._producer = Producer({"bootstrap.servers": broker, "transactional.id": f"{stream.definition.name}.tx"})
        self._producer.init_transactions()

    def send(self, rows: Rows, at: Iterable[int], *, abort: bool = False, retire: Iterable[str] = ()) -> None:
        """One transaction."""
        definition = self._stream.definition
        self._producer.begin_transaction()
        for row in at:
            value = write_sample(
                rows.ids[row], int(rows.times[row]), rows.labels[row], rows.features[row], definition.data_fingerprint
            )
            self._producer.produce(f"{definition.name}.samples", value, key=rows.ids[row], partition=0)
        for sample_id in retire:
            value = write_retirement(Retirement(sample_id, "withdrawn", 0), definition.data_fingerprint)
            self._producer.produce(f"{definition.name}.retirements", value, key=sample_id, partition=0)
        self._producer.flush(PATIENCE_SECONDS)
        if abort:
            self._producer.abort_transaction()
        else:
            self._producer.commit_transaction()


def digest_of(reference: Reference) -> str:
    return reference.statistics().digest(reference.definition.data_fingerprint)


def audit_is_equal(stream: Stream) -> bool:
    return stream.run("audit").stdout.endswith("equal\n")


def test_rows_of_many_small_transactions_are_all_learned_and_nothing_lags_behind_the_last_mark(
    kafka: RunningKafka, stream: Stream
) -> None:
    rows, reference, writer = Rows(60, seed=1), Reference(stream.definition), Transactions(stream, kafka.bootstrap)
    for begin in range(0, 50, 10):
        writer.send(rows, range(begin, begin + 10))
    (port,) = free_ports(1)
    worker = stream.start("worker", DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}")
    stream.start("merger")
    reference.add(0, rows.samples(np.arange(50)))
    stream.wait_for_digest(digest_of(reference), "rows of transactions that were there before the worker")

    # Each of the later ones is a gap in the middle of what is read.
    for row in range(50, 60):
        writer.send(rows, [row], retire=[rows.ids[row - 50]])
    reference.add(0, rows.samples(np.arange(50, 60)))
    for row in range(10):
        reference.retire(rows.ids[row])
    stream.wait_for_digest(digest_of(reference), "rows of transactions that came while the worker read")

    wait_until(lambda: lag_of(port, "samples") == 0, "no lag is left behind the mark of the last transaction")
    assert ask(port, "/readyz") == (200, "worker: serving partitions [0]\n")
    assert worker.log.count("asking again") <= 3
    assert audit_is_equal(stream)


def lag_of(port: int, topic: str) -> float | None:
    name = 'deltaplane_consumer_lag_records{partition="0",site="local"'
    lines = [line for line in ask(port, "/metrics")[1].splitlines() if line.startswith(name) and f'"{topic}"' in line]
    return float(lines[0].split()[-1]) if lines else None


def test_what_was_aborted_never_was_and_what_was_committed_around_it_counts_once(
    kafka: RunningKafka, stream: Stream
) -> None:
    rows, reference, writer = Rows(90, seed=2), Reference(stream.definition), Transactions(stream, kafka.bootstrap)
    worker = stream.start("worker")
    stream.start("merger")
    for begin in range(0, 90, 10):
        aborted = begin % 20 == 10
        retire = [rows.ids[begin - 9]] if begin else []
        writer.send(rows, range(begin, begin + 10), abort=aborted, retire=retire)
        if not aborted:
            reference.add(0, rows.samples(np.arange(begin, begin + 10)))
            for sample_id in retire:
                reference.retire(sample_id)
        if begin == 40:
            stream.wait_for_digest(digest_of(reference), "half of the transactions")
            worker.kill()
            worker = stream.start("worker")
    stream.wait_for_digest(digest_of(reference), "all transactions, the aborted ones left out")
    assert audit_is_equal(stream)
    assert read_topic(kafka.bootstrap, f"{stream.definition.name}.dead-letters") == []


class _Pump(Background):
    """A transaction of 20 rows every 20 ms."""

    def __init__(self, writer: Transactions, rows: Rows) -> None:
        self._writer, self._rows, self.sent = writer, rows, 0
        super().__init__("transactions")
        self.start()

    def _work(self) -> None:
        while not self._stopping.is_set() and self.sent + 20 <= len(self._rows):
            self._writer.send(self._rows, range(self.sent, self.sent + 20))
            self.sent += 20
            time.sleep(0.02)


def test_workers_that_are_killed_under_a_steady_transactional_producer_lose_and_double_nothing(
    kafka: RunningKafka, stream: Stream
) -> None:
    rows, reference = Rows(20_000, seed=3), Reference(stream.definition)
    stream.start("merger")
    worker = stream.start("worker", "--instance", "one")
    pump = _Pump(Transactions(stream, kafka.bootstrap), rows)
    for _ in range(3):
        worker.wait_for("claimed local/0")
        time.sleep(0.5)
        worker.kill()
        worker = stream.start("worker", "--instance", "one")
    pump.stop()
    assert pump.sent > 0
    reference.add(0, rows.samples(np.arange(pump.sent)))
    stream.wait_for_digest(digest_of(reference), f"{pump.sent} rows in transactions of 20")
    assert audit_is_equal(stream)


def test_a_worker_rebuilds_from_a_log_that_was_compacted_though_the_last_record_is_gone(
    kafka: RunningKafka, stream: Stream
) -> None:
    topic = f"{stream.definition.name}.samples"
    compact(kafka.bootstrap, topic)
    rows, reference = Rows(20, seed=4), Reference(stream.definition)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def put(at: Iterable[int], shift: float) -> None:
        for row in at:
            features, time_of_row = rows.features[row] + shift, int(rows.times[row])
            value = write_sample(
                rows.ids[row], time_of_row, rows.labels[row], features, stream.definition.data_fingerprint
            )
            producer.produce(topic, value, key=rows.ids[row], partition=0)
            moved = Rows.single(rows.ids[row], rows.labels[row], features[None, :], time_of_row)
            reference.add(0, moved.samples())
        assert producer.flush(PATIENCE_SECONDS) == 0

    worker = stream.start("worker")
    stream.start("merger")
    for shift in (0.0, 1.0, 2.0):
        put(range(20), shift)
        time.sleep(1.1)
    # The last records by far are of one id; compaction leaves the last of them, and of all that lies before it nothing.
    put([7] * 5, 3.0)
    before = stream.wait_for_digest(digest_of(reference), "before compaction")
    wait_until(lambda: len(read_topic(kafka.bootstrap, topic)) < 60, "the log is compacted")
    worker.kill()

    again = stream.start("worker")

    again.wait_for("claimed local/0")
    put([3], 4.0)
    after = stream.wait_for_digest(digest_of(reference), "a row after the rebuild")
    assert after.version > before.version
    assert again.log.count("asking again") <= 3
    assert audit_is_equal(stream)


def compact(broker: str, topic: str) -> None:
    """Have a topic compacted as soon as a segment is closed, which is each second."""
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1000",
        "segment.bytes": "1048576",
    }
    alter(broker, topic, settings)
