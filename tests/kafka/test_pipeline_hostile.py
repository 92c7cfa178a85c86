"""What a producer can do that means harm: batches that unpack to far more than they weigh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer

from deltaplane import limits
from deltaplane.log.records import DeadLetter, Prediction, Query, Unanswered
from deltaplane.reference import Reference
from deltaplane.wire import read_answer, read_dead_letter, write_query
from kafka.clients import PATIENCE_SECONDS, read_topic, wait_until
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream

MEGABYTE = 2**20


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    tables = {"window": {"length": 900}, "input": {"label": "label", "id": "id", "time": "time"}}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, service={"checkpoint_seconds": 0.3}, **tables) as opened:
        yield opened


def publish(stream: Stream, topic: str, codec: str, values: Sequence[bytes]) -> None:
    """Publish values as one batch to partition 0, whatever they unpack to."""
    producer = Producer(
        {
            "bootstrap.servers": stream.settings.site_cluster.broker,
            "compression.type": codec,
            "message.max.bytes": 10**9,
            "batch.size": 10**9,
            "queue.buffering.max.kbytes": 10**6,
            "linger.ms": 10_000 if len(values) > 1 else 0,
            "batch.num.messages": len(values),
        }
    )
    faults = []
    for value in values:
        producer.produce(
            f"{stream.definition.name}.{topic}",
            value,
            partition=0,
            on_delivery=lambda error, _: faults.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert not faults, faults


def letters_of(stream: Stream) -> list[DeadLetter]:
    records = read_topic(stream.settings.site_cluster.broker, f"{stream.definition.name}.dead-letters")
    return [read_dead_letter(record.value()) for record in records]


def test_a_batch_that_does_not_unpack_is_passed_over_by_every_reader(stream: Stream, tmp_path: Path) -> None:
    definition, reference = stream.definition, Reference(stream.definition)
    services = [stream.start(command) for command in ("worker", "merger", "scorer")]
    first, second, third = (Rows(400, seed=seed, ids_from=400 * seed) for seed in range(3))
    digests = []
    for rows in (first, second, third):
        rows.tell(reference)
        digests.append(reference.statistics().digest(definition.data_fingerprint))
    stream.run("produce", first.write(tmp_path / "first.csv"))
    stream.wait_for_digest(digests[0], "before any harm")

    one, several = [bytes(90 * MEGABYTE)], [bytes(40 * MEGABYTE)] * 3
    publish(stream, "samples", "zstd", several)
    for topic in ("samples", "retirements", "queries", "deltas"):
        publish(stream, topic, "zstd", one)
    # This client takes no measure of what it unpacks from others; what comes out is still no message.
    publish(stream, "samples", "gzip", [bytes(limits.MESSAGE_BYTES + 1)])
    query = write_query(Query("good", np.array([1.0, 2.0, 3.0]), definition.data_fingerprint))
    publish(stream, "queries", "none", [query])
    stream.run("produce", second.write(tmp_path / "second.csv"))

    stream.wait_for_digest(digests[1], "behind it")
    broker = stream.settings.central_cluster.broker
    topic = f"{definition.name}.predictions"
    wait_until(lambda: len(read_topic(broker, topic)) == 2, "the good query has an answer, and so has what is none")
    told = {type(answer): answer for answer in (read_answer(record.value()) for record in read_topic(broker, topic))}
    assert told[Prediction].id == "good"
    assert told[Unanswered].id == ""
    wait_until(lambda: len(letters_of(stream)) >= 6, "all dead letters have come")
    letters = letters_of(stream)
    assert Counter(letter.topic for letter in letters) == {"samples": 3, "retirements": 1, "queries": 1, "deltas": 1}
    assert {letter.kind for letter in letters} == {"bad record"}
    assert sum(b"does not unpack" in (letter.value or b"") for letter in letters) == 5
    assert sum(letter.size == limits.MESSAGE_BYTES + 1 for letter in letters) == 1
    assert all(service.running for service in services)

    # Whoever takes over, and whoever audits, reads over the same place and finds the same.
    for service in services:
        service.terminate()
    for command in ("worker", "merger"):
        stream.start(command)
    stream.run("produce", third.write(tmp_path / "third.csv"))
    stream.wait_for_digest(digests[2], "started again over it")
    assert stream.run("audit").stdout.endswith("equal\n")
    assert len(letters_of(stream)) == len(letters), "what was dead-lettered is not dead-lettered again"
