"""Retiring a subject on Kafka: one command takes out all rows of a customer, with receipts, through a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltaplane.reference import Reference
from deltaplane.stream.sample import Samples
from deltaplane_services import SampleProducer
from kafka.rows import FIRST_TIME
from kafka.selection import RunningKafka
from kafka.services import Stream

COLUMNS: dict[str, Any] = {
    "rules": [
        {"column": "amount", "kind": "number", "missing": "fill"},
        {"column": "customer", "kind": "subject"},
        {"column": "age", "kind": "number", "missing": "fill"},
    ]
}
ROWS = 120


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    grid = {"steps": [2.0**-20] * 2}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, columns=COLUMNS, features={}, grid=grid) as opened:
        yield opened


def send(stream: Stream, first: int, rows: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    ids = [f"row-{first + at}" for at in range(len(rows))]
    labels = ["yes" if row["amount"] > 0 else "no" for row in rows]
    with SampleProducer(stream.settings, check=False) as producer:
        half = len(rows) // 2
        for at in range(half):
            producer.send(ids[at], FIRST_TIME + first + at, labels[at], rows[at])
        times = FIRST_TIME + first + np.arange(half, len(rows))
        producer.send_batch(ids[half:], times, labels[half:], rows[half:])
    return ids, labels


def tell(reference: Reference, ids: list[str], labels: list[str], rows: list[dict[str, Any]], first: int) -> None:
    definition = reference.definition
    assert definition.columns is not None
    features = definition.columns.encode_records(rows).features
    codes = np.array([int(label == "yes") for label in labels], dtype=np.int32)
    times = FIRST_TIME + first + np.arange(len(rows), dtype=np.int64)
    samples = Samples.of_record(ids, times, ("no", "yes"), codes, features, log_time=2**60)
    home = definition.partitions_of(ids)
    for partition in range(definition.partitions):
        reference.add(partition, samples.chosen(np.flatnonzero(home == partition)))


def made(count: int, seed: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [
        {"amount": float(random.normal()), "age": int(random.integers(99)), "customer": f"c{random.integers(6)}"}
        for _ in range(count)
    ]


def test_all_rows_of_a_customer_leave_by_one_command_and_those_that_come_after_by_another(stream: Stream) -> None:
    reference, definition = Reference(stream.definition), stream.definition
    rows = made(ROWS, 1)
    ids, labels = send(stream, 0, rows)
    tell(reference, ids, labels, rows, 0)
    worker = stream.start("worker")
    stream.start("merger")
    stream.wait_for_digest(reference.statistics().digest(definition.data_fingerprint), "all rows")
    mine = [sample_id for sample_id, row in zip(ids, rows, strict=True) if row["customer"] == "c3"]
    assert len(mine) > 8
    told = stream.run("retire", "--where", "customer=c3").stdout
    assert f"customer=c3: {len(mine)} rows: {len(mine)} retired; model" in told
    for sample_id in mine:
        reference.retire(sample_id)
    stream.wait_for_digest(reference.statistics().digest(definition.data_fingerprint), "without the customer")
    assert "verified" in stream.run("verify-receipt", mine[0]).stdout

    stream.processes.remove(worker)
    worker.kill()
    more = made(20, 2)
    new_ids, new_labels = send(stream, ROWS, more)
    tell(reference, new_ids, new_labels, more, ROWS)
    stream.start("worker")
    stream.wait_for_digest(reference.statistics().digest(definition.data_fingerprint), "rows that came later")
    later = [sample_id for sample_id, row in zip(new_ids, more, strict=True) if row["customer"] == "c3"]
    assert later
    answers = json.loads(stream.run("retire", "--where", "customer=c3", "--json").stdout)
    assert {one["id"]: one["outcome"] for one in answers} == {
        **dict.fromkeys(mine, "duplicate"),
        **dict.fromkeys(later, "retired"),
    }
    for sample_id in later:
        reference.retire(sample_id)
    stream.wait_for_digest(reference.statistics().digest(definition.data_fingerprint), "without any of them")
    assert stream.run("audit").stdout.endswith("equal\n")


def test_a_customer_that_nobody_knows_and_a_column_that_is_no_subject_are_said(stream: Stream) -> None:
    assert "no row of it is in the log" in stream.run("retire", "--where", "customer=nobody", code=4).stdout
    said = stream.run("retire", "--where", "amount=1", code=2).stderr
    assert "is no subject of this stream, it has customer" in said
    assert "expected ids, or --where" in stream.run("retire", code=2).stderr
    assert "expected ids, or --where" in stream.run("retire", "a", "--where", "customer=b", code=2).stderr
