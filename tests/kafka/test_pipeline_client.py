"""Predictions through topics, and the client in a user's own process, against the batch model: the same to the bit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deltaplane.errors import DefinitionError, DefinitionMismatch, RowsRefused
from deltaplane.log.records import Prediction, Query
from deltaplane.reference import Reference, answer_of
from deltaplane.solve.solver import Plane, solve
from deltaplane.wire import read_prediction, write_query
from deltaplane_services.client import LiveModel, NoPlane, SampleProducer
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import QUERIES, Outgoing
from kafka.clients import read_topic, wait_until
from kafka.cluster import KafkaCluster
from kafka.rows import FIRST_TIME, Rows
from kafka.selection import RunningKafka
from kafka.services import PATIENCE_SECONDS, Stream

ROWS = 1500


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as opened:
        yield opened


def plane_of(reference: Reference) -> Plane:
    definition = reference.definition
    return solve(reference.statistics().grams(), definition.grid, definition.solver, definition.classes.positive)


def send_all(stream: Stream, rows: Rows, reference: Reference) -> None:
    """Half of the rows one by one, the others as a batch, and one retirement."""
    half = len(rows) // 2
    with SampleProducer(stream.settings) as producer:
        for row in range(half):
            producer.send(rows.ids[row], int(rows.times[row]), rows.labels[row], rows.features[row].tolist())
        producer.send_batch(rows.ids[half:], rows.times[half:], rows.labels[half:], rows.features[half:])
        producer.retire(rows.ids[3], "asked for")
    rows.tell(reference)
    reference.retire(rows.ids[3])


def ask(stream: Stream, queries: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    """Publish queries as ``query-<number>``."""
    definition, out = stream.definition, publisher(stream.settings, "central")
    for number, row in enumerate(queries):
        name = f"query-{number}"
        value = write_query(Query(name, row, definition.data_fingerprint))
        out.publish([Outgoing(QUERIES, definition.partition_of(name), name.encode(), value)])
    out.flush()


def test_predictions_and_the_live_model_are_those_of_the_batch(kafka: RunningKafka, stream: Stream) -> None:
    definition, rows, reference = stream.definition, Rows(ROWS, seed=1), Reference(stream.definition)
    queries = Rows(400, seed=2).features
    for command in ("worker", "merger", "scorer"):
        stream.start(command)

    with LiveModel(stream.settings) as live:
        with pytest.raises(NoPlane):
            live.predict(queries)
        send_all(stream, rows, reference)
        digest = reference.statistics().digest(definition.data_fingerprint)
        model = live.wait(PATIENCE_SECONDS)
        while model.digest != digest:
            stream.check_running()
            model = live.wait(PATIENCE_SECONDS, version=model.version)
        predicted = live.predict(queries)
        with pytest.raises(DefinitionError, match=r"expected numbers \[n, 3\]"):
            live.predict(queries[:, :2])
        with pytest.raises(RowsRefused, match="1 of 1 have no answer: row 0: feature 'height' is not a number"):
            live.predict(np.full((1, 3), np.nan))

    batch = plane_of(reference)
    assert model.plane is not None
    assert model.plane.weights.tolist() == batch.weights.tolist()
    assert model.plane.biases.tolist() == batch.biases.tolist()
    expected = [batch.classes[index] for index in batch.predict(queries).tolist()]
    assert predicted == expected
    assert set(expected) == {"no", "yes"}

    ask(stream, queries)
    wait_until(lambda: len(answers(kafka, stream)) == len(queries), "every query has one answer")
    found = answers(kafka, stream)
    for number, row in enumerate(queries):
        answer = found[f"query-{number}"]
        decision = answer_of(definition, batch, row.tolist())
        assert answer.predicted == expected[number]
        assert answer.model_version == model.version
        assert (answer.predicted, answer.decisions) == decision


def answers(kafka: RunningKafka | KafkaCluster, stream: Stream) -> dict[str, Prediction]:
    """Query to its answer; fails where a query has two."""
    records = read_topic(kafka.bootstrap, f"{stream.definition.name}.predictions")
    found = [read_prediction(record.value()) for record in records]
    assert len({one.id for one in found}) == len(found)
    places = {f"{stream.definition.name}.queries-{one.partition}-{one.offset}".encode() for one in found}
    assert places == {record.key() for record in records}, "an answer is keyed by the place of its query"
    return {one.id: one for one in found}


def test_queries_wait_for_a_plane_and_are_answered_once_by_a_scorer_that_comes_after_another(
    kafka: RunningKafka, stream: Stream
) -> None:
    rows, reference = Rows(300, seed=3), Reference(stream.definition)
    queries = Rows(50, seed=4).features
    ask(stream, queries[:20])
    first = stream.start("scorer")
    for command in ("worker", "merger"):
        stream.start(command)

    send_all(stream, rows, reference)
    wait_until(lambda: len(answers(kafka, stream)) == 20, "queries that came before there was a plane are answered")
    first.terminate()
    ask(stream, queries[20:])
    stream.start("scorer")

    # ``ask`` counts anew, so the names of the second lot are those of the first: count records.
    topic = f"{stream.definition.name}.predictions"
    wait_until(lambda: len(read_topic(kafka.bootstrap, topic)) >= 50, "the second scorer answers the rest")
    assert len(read_topic(kafka.bootstrap, topic)) == 50


def test_the_producer_refuses_what_no_worker_would_take(stream: Stream) -> None:
    with SampleProducer(stream.settings) as producer:
        with pytest.raises(DefinitionError, match="expected 3 features, got 2"):
            producer.send("a", FIRST_TIME, "yes", [1.0, 2.0])
        with pytest.raises(DefinitionError, match="expected 3 features, got 4"):
            producer.send_batch(["a"], np.array([FIRST_TIME]), ["yes"], np.zeros((1, 4)))
        with pytest.raises(DefinitionError, match="columns of one length"):
            producer.send_batch(["a", "b"], np.array([FIRST_TIME]), ["yes"], np.zeros((1, 3)))


def test_a_live_model_and_the_services_outlive_their_broker(
    second_kafka: KafkaCluster, tmp_path: Path, stream_name: str
) -> None:
    with Stream.made(tmp_path, stream_name, second_kafka.bootstrap) as stream:
        rows, reference = Rows(300, seed=5), Reference(stream.definition)
        services = [stream.start(command) for command in ("worker", "merger", "scorer")]
        send_all(stream, rows, reference)
        digest = reference.statistics().digest(stream.definition.data_fingerprint)
        stream.wait_for_digest(digest, "before the broker is killed")
        threads = threading.active_count()
        with LiveModel(stream.settings) as live:
            before = live.wait(PATIENCE_SECONDS)
            expected = live.predict(rows.features)
            second_kafka.kill(1)
            assert live.predict(rows.features) == expected
            second_kafka.restart(1)
            more = Rows(300, seed=6, ids_from=1000)
            send_all(stream, more, reference)
            digest = reference.statistics().digest(stream.definition.data_fingerprint)
            model = before
            while model.digest != digest:
                stream.check_running()
                model = live.wait(PATIENCE_SECONDS, version=model.version)
        assert threading.active_count() == threads
        ask(stream, rows.features[:10])
        wait_until(lambda: len(answers(second_kafka, stream)) == 10, "queries are answered after the restart")
        assert all(service.running for service in services)


def test_a_live_model_refuses_the_models_of_another_definition(stream: Stream) -> None:
    for command in ("worker", "merger"):
        stream.start(command)
    reference = Reference(stream.definition)
    send_all(stream, Rows(300, seed=7), reference)
    stream.wait_for_model(lambda model: model.plane is not None, "there is a plane")

    tables = stream.definition.to_tables() | {"window": {"length": 100}}
    other = resolve_settings({"broker": stream.settings.site_cluster.broker}, {}, tables)

    with pytest.raises(DefinitionMismatch, match="give the new one another name"):
        LiveModel(other)
