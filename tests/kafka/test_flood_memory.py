"""What a flood of the least records costs a worker in memory: what its client takes to unpack them, and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from kafka.raw_batches import batch_of, produce, varint
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream

RECORDS = 200_000

SPARE_MEGABYTES = 40
"""What a worker may take for itself: some polls of a thousand records, a model, and what its libraries keep."""

PLAIN_CLIENT = """
import sys
from confluent_kafka import Consumer, TopicPartition

def megabytes(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))

broker, topic, records = sys.argv[1], sys.argv[2], int(sys.argv[3])
client, before, got = Consumer({"bootstrap.servers": broker, "group.id": "plain"}), megabytes("VmRSS"), 0
client.assign([TopicPartition(topic, 0, 0)])
while got < records:
    got += len(client.consume(1000, 1.0))
print(megabytes("VmHWM") - before)
client.close()
"""
"""A client that reads a topic, a thousand records at a time, keeps none, and says by how much it has grown at most."""


def null_records(count: int) -> bytes:
    """A packed batch of records without key, value and headers."""
    bodies = (b"\0\0" + varint(delta) + b"\1\1\0" for delta in range(count))
    records = b"".join(varint(len(body)) + body for body in bodies)
    return batch_of(count, bytes(pa.Codec("zstd").compress(records, asbytes=True)), "zstd")


def megabytes(process: int, name: str) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def test_a_worker_takes_no_more_memory_for_a_flood_than_its_client_does(
    kafka: RunningKafka, tmp_path: Path, stream_name: str
) -> None:
    tables = {"partitions": 1, "input": {"label": "label", "id": "id", "time": "time"}}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service={"checkpoint_seconds": 0.3}, **tables) as stream:
        worker = stream.start("worker")
        stream.start("merger")
        worker.wait_for("claimed local/0")
        stream.run("produce", Rows(100, seed=1).write(tmp_path / "before.csv"))
        stream.wait_for_model(lambda model: sum(model.counts.values()) == 100, "the rows before the flood")
        before, topic = megabytes(worker.process.pid, "VmRSS"), f"{stream.definition.name}.samples"

        assert produce(kafka.bootstrap, topic, null_records(RECORDS))[0] == 0
        stream.run("produce", Rows(100, seed=2, ids_from=1000).write(tmp_path / "after.csv"))

        stream.wait_for_model(lambda model: sum(model.counts.values()) == 200, "the rows behind the flood")
        grown = megabytes(worker.process.pid, "VmHWM") - before
        asked = [sys.executable, "-c", PLAIN_CLIENT, kafka.bootstrap, topic, str(RECORDS)]
        plain = float(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
        assert grown <= plain + SPARE_MEGABYTES, f"{grown:.0f} MB, the client alone {plain:.0f} MB"
        model = stream.model()
        assert model is not None
        assert model.totals["refused bad record"] == RECORDS
        assert worker.running
