"""Rows by name through real topics: the digest of the batch, a letter for what cannot be read, and the same answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltaplane.errors import DefinitionError, RowsRefused, TableMismatch
from deltaplane.log.records import NamedQuery, Prediction, Unanswered
from deltaplane.reference import Reference
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_answer, read_dead_letter, write_named_query
from deltaplane_services.client import LiveModel, SampleProducer
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import QUERIES, Outgoing
from kafka.clients import read_topic, wait_until
from kafka.rows import FIRST_TIME
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream

ROWS = 400
COLUMNS: dict[str, Any] = {
    "rules": [
        {"column": "amount", "kind": "number", "fill": 20.0, "log": True},
        {"column": "country", "kind": "category", "levels": ["DE", "FR", "NG"]},
        {"column": "shop", "kind": "hashed", "buckets": 8, "missing": "fill"},
        {"column": "known", "kind": "boolean", "missing": "refuse"},
        {"column": "begun", "kind": "time", "parts": ["hour"], "missing": "fill"},
    ]
}
FEATURES = 18


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    grid = {"steps": [2.0**-20] * FEATURES}
    with Stream.made(tmp_path, stream_name, kafka.bootstrap, columns=COLUMNS, features={}, grid=grid) as opened:
        yield opened


def rows_of(count: int, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of mixed cells, some of them missing, and labels that follow from them with noise."""
    random = np.random.default_rng(seed)
    rows, labels = [], []
    for at in range(count):
        fraud = bool(random.random() < 0.3)
        row: dict[str, Any] = {
            "amount": round(float(random.lognormal(4 if fraud else 3, 1)), 2),
            "country": str(random.choice(["NG", "DE"] if fraud else ["DE", "FR", "PL"])),
            "shop": f"shop {random.integers(50)}",
            "known": bool(random.random() < (0.3 if fraud else 0.8)),
            "begun": f"2026-03-{at % 28 + 1:02}T{random.integers(24):02}:00:00Z",
        }
        for name in ("amount", "country"):
            if random.random() < 0.05:
                row[name] = None
        rows.append(row)
        labels.append("yes" if fraud else "no")
    return rows, labels


def tell(reference: Reference, rows: list[dict[str, Any]], labels: list[str]) -> None:
    definition = reference.definition
    assert definition.columns is not None
    ids = [f"row-{at}" for at in range(len(rows))]
    features = definition.columns.encode_records(rows).features
    codes = np.array([int(label == "yes") for label in labels], dtype=np.int32)
    times = FIRST_TIME + np.arange(len(rows), dtype=np.int64)
    samples = Samples.of_record(ids, times, ("no", "yes"), codes, features, log_time=2**60)
    home = definition.partitions_of(ids)
    for partition in range(definition.partitions):
        reference.add(partition, samples.chosen(np.flatnonzero(home == partition)))


def send(stream: Stream, rows: list[dict[str, Any]], labels: list[str]) -> None:
    """Some rows one by one, some as a list of dictionaries, some as columns, and the others as encoded features."""
    ids, times = [f"row-{at}" for at in range(len(rows))], FIRST_TIME + np.arange(len(rows), dtype=np.int64)
    quarter = len(rows) // 4
    columns = stream.definition.columns
    assert columns is not None
    with SampleProducer(stream.settings, check=False) as producer:
        for at in range(quarter):
            producer.send(ids[at], int(times[at]), labels[at], rows[at])
        parts = [slice(begin, begin + quarter) for begin in (quarter, 2 * quarter, 3 * quarter)]
        tables: list[Any] = [
            rows[parts[0]],
            {name: [row[name] for row in rows[parts[1]]] for name in columns.columns},
            columns.encode_records(rows[parts[2]]).features,
        ]
        for part, table in zip(parts, tables, strict=True):
            producer.send_batch(ids[part], times[part], labels[part], table)
        producer.send("bad", FIRST_TIME, "yes", {**rows[0], "amount": "a lot"})
        producer.send_batch(
            ["worse", "worst"], times[:2], labels[:2], [{**rows[0], "known": None}, {**rows[1], "begun": "2026-02-30"}]
        )
        check_refusals(producer, rows[0])


def check_refusals(producer: SampleProducer, row: dict[str, Any]) -> None:
    """What no worker could take is refused before it is sent, and nothing of its batch is."""
    with pytest.raises(RowsRefused, match=r"column 'amuont' has no rule in columns.rules; did you mean 'amount'"):
        producer.send("never", FIRST_TIME, "yes", {**row, "amuont": 1.0})
    times = np.full(2, FIRST_TIME)
    with pytest.raises(RowsRefused, match=r"rows: 1 of 2 cannot be sent, and none was: row 1: column 'shops' has no"):
        producer.send_batch(["never", "ever"], times, ["no", "no"], [row, {"shops": 1}])
    with pytest.raises(RowsRefused, match=r"row 1: column 'shop' is neither a number nor a text.*: \['a'\]"):
        producer.send_batch(["never", "ever"], times, ["no", "no"], [row, {**row, "shop": ["a"]}])
    with pytest.raises(TableMismatch, match="no column 'country'"):
        producer.send_batch(["never"], times[:1], ["no"], {"amount": [1.0]})
    with pytest.raises(DefinitionError, match="expected columns of one length"):
        producer.send_batch(["never"], times[:1], ["no"], [row, row])
    with pytest.raises(DefinitionError, match=f"expected {FEATURES} features, got 2"):
        producer.send("never", FIRST_TIME, "yes", [1.0, 2.0])


def ask(stream: Stream, queries: list[dict[str, Any]]) -> None:
    definition, out = stream.definition, publisher(stream.settings, "central")
    assert definition.columns is not None
    for number, row in enumerate(queries):
        value = write_named_query(NamedQuery(f"query-{number}", row, definition.data_fingerprint), definition.columns)
        out.publish([Outgoing(QUERIES, number % definition.partitions, f"query-{number}".encode(), value)])
    out.flush()


def test_rows_by_name_have_the_digest_of_the_batch_and_queries_by_name_its_answers(
    kafka: RunningKafka, stream: Stream
) -> None:
    definition, name = stream.definition, stream.definition.name
    assert len(definition.features) == FEATURES
    rows, labels = rows_of(ROWS, seed=1)
    reference = Reference(definition)
    tell(reference, rows, labels)
    for command in ("worker", "merger", "scorer"):
        stream.start(command)
    send(stream, rows, labels)
    digest = reference.statistics().digest(definition.data_fingerprint)
    stream.wait_for_digest(digest, "rows in four forms")

    wait_until(lambda: len(read_topic(kafka.bootstrap, f"{name}.dead-letters")) == 3, "each bad row has a letter")
    told = sorted(read_dead_letter(one.value()).reason for one in read_topic(kafka.bootstrap, f"{name}.dead-letters"))
    for reason, words in zip(
        told,
        (
            "sample 'bad': column 'amount' is no number: 'a lot'; correct the value",
            "sample 'worse': column 'known' is missing; leave such rows out",
            "sample 'worst': column 'begun' names a day that does not exist: '2026-02-30'; write it as",
        ),
        strict=True,
    ):
        assert re.match(re.escape(words), reason), reason

    queries, _ = rows_of(50, seed=2)
    with LiveModel(stream.settings) as live:
        model = live.wait(PATIENCE_SECONDS)
        while model.digest != digest:
            model = live.wait(PATIENCE_SECONDS, version=model.version)
        expected = live.predict(queries)
        assert definition.columns is not None
        assert live.predict({key: [row[key] for row in queries] for key in definition.columns.columns}) == expected
        assert live.predict(definition.columns.encode_records(queries).features) == expected
        assert live.predict(queries[7]) == expected[7:8]
        with pytest.raises(RowsRefused, match=r"1 of 2 have no answer: row 1: column 'known' is missing"):
            live.predict([queries[0], {"amount": 1.0}])
    assert set(expected) == {"no", "yes"}
    ask(stream, [*queries, {**queries[0], "known": "perhaps"}])
    wait_until(lambda: len(read_topic(kafka.bootstrap, f"{name}.predictions")) == 51, "each query has an answer")
    answers = {
        one.id: one for one in (read_answer(r.value()) for r in read_topic(kafka.bootstrap, f"{name}.predictions"))
    }
    for number, label in enumerate(expected):
        answer = answers[f"query-{number}"]
        assert isinstance(answer, Prediction)
        assert answer.predicted == label
    refused = answers["query-50"]
    assert isinstance(refused, Unanswered)
    assert refused.reason.startswith("query 'query-50': column 'known' is neither true nor false")
