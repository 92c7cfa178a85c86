"""Answers on a real broker: to everybody who asks, and by whom they are given when brokers and topics go and come."""

from __future__ import annotations

import contextlib
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from deltaplane.log.model import Model
from deltaplane.log.records import Prediction, Query, Unanswered
from deltaplane.wire import read_answer, write_model, write_query
from deltaplane_services.client import LiveModel
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import MODELS, Outgoing
from golden.wire_examples import MODEL, PLANE
from kafka.clients import PATIENCE_SECONDS, read_topic, wait_until
from kafka.cluster import KafkaCluster, free_port
from kafka.conftest import StartKafka
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream

GOOD = (1.0, 2.0, 3.0)


def model_of(stream: Stream, version: int, height: float = 1.0) -> Model:
    """A model that says yes where the height, times a factor, is above zero."""
    plane = replace(PLANE, classes=("no", "yes"), positive="yes", weights=np.array([[height, 0.0, 0.0]]))
    plane = replace(plane, biases=np.zeros(1))
    fingerprint = stream.definition.stream_fingerprint
    return replace(MODEL, version=version, plane_version=version, plane=plane, stream_fingerprint=fingerprint)


def publish(stream: Stream, model: Model) -> None:
    out = publisher(stream.settings, "central")
    out.publish_and_wait(Outgoing(MODELS, 0, stream.definition.name.encode(), write_model(model)))


def ask(stream: Stream, values: dict[str, bytes], **headers: bytes) -> dict[str, tuple[int, int]]:
    """Publish queries by their keys; the partition and offset that each was given."""
    producer = Producer({"bootstrap.servers": stream.settings.central_cluster.broker})
    places: dict[str, tuple[int, int]] = {}

    def told(key: str) -> Callable[[Any, Message], None]:
        def delivered(error: object, message: Message) -> None:
            assert error is None
            places[key] = message.partition() or 0, message.offset() or 0

        return delivered

    for key, value in values.items():
        topic = f"{stream.definition.name}.queries"
        producer.produce(topic, value, key.encode(), headers=dict(headers), on_delivery=told(key))
    assert producer.flush(PATIENCE_SECONDS) == 0
    return places


def query(stream: Stream, query_id: str, row: tuple[float, ...] = GOOD) -> bytes:
    return write_query(Query(query_id, np.array(row), stream.definition.data_fingerprint))


def answers(stream: Stream) -> dict[bytes, Message]:
    """Every answer by its key."""
    found = read_topic(stream.settings.central_cluster.broker, f"{stream.definition.name}.predictions")
    return {bytes(message.key() or b""): message for message in found}


def class_of(stream: Stream, query_id: str) -> str | None:
    told = [read_answer(message.value()) for message in answers(stream).values()]
    return next((one.predicted for one in told if isinstance(one, Prediction) and one.id == query_id), None)


class Scorer:
    """A scorer as a process, and what it says of itself."""

    def __init__(self, stream: Stream) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.process: ServiceProcess = stream.start("scorer", DELTAPLANE_METRICS_ADDRESS=self.address)

    def ready(self) -> tuple[int, str]:
        assert self.process.running, self.process.tail()
        try:
            with urllib.request.urlopen(f"http://{self.address}/readyz", timeout=PATIENCE_SECONDS) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as fault:
            return fault.code, fault.read().decode()
        except OSError as fault:
            return 0, str(fault)

    def stale(self) -> float:
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=PATIENCE_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        (line,) = [line for line in lines if line.startswith("deltaplane_stale_model{")]
        return float(line.split()[-1])

    def wait_until_ready(self, what: str) -> None:
        wait_until(lambda: self.ready()[0] == 200, f"{what}; it says {self.ready()}")

    def wait_until_it_says(self, words: str) -> None:
        wait_until(lambda: self.ready()[0] == 503 and words in self.ready()[1], f"503 and {words!r}")


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str) -> Iterator[Stream]:
    with Stream.made(tmp_path, stream_name, kafka.bootstrap) as opened:
        yield opened


def delete_topics(stream: Stream, *topics: str) -> None:
    """Delete topics and return when the broker has forgotten them."""
    admin = AdminClient({"bootstrap.servers": stream.settings.central_cluster.broker})
    names = [f"{stream.definition.name}.{topic}" for topic in topics]
    for future in admin.delete_topics(names).values():
        future.result(PATIENCE_SECONDS)
    wait_until(lambda: not set(names) & admin.list_topics(timeout=5).topics.keys(), f"{names} are gone")


def test_whoever_asks_finds_an_answer_by_the_place_of_the_query_with_headers_and_all(stream: Stream) -> None:
    publish(stream, model_of(stream, 1))
    Scorer(stream).wait_until_ready("there is a model")
    values = {
        "good": query(stream, "good"),
        "far": query(stream, "far", (1e12, 0.0, 0.0)),
        "not a number": query(stream, "not a number", (float("nan"), 0.0, 0.0)),
        "wide": query(stream, "wide", (1.0, 2.0, 3.0, 4.0)),
        "json": b'{"height": 1.0}',
    }
    headers = {"correlation-id": b"\0\xff7", "": b"without a name", "antwort-für": b""}
    places = ask(stream, values, **headers)

    wait_until(lambda: len(answers(stream)) == len(values), "every query has an answer")
    found = answers(stream)
    for key, (partition, offset) in places.items():
        message = found[f"{stream.definition.name}.queries-{partition}-{offset}".encode()]
        assert message.headers() == list(headers.items())
        told = read_answer(message.value())
        assert told.id == key
        assert isinstance(told, Prediction if key == "good" else Unanswered)
        if isinstance(told, Unanswered):
            assert told.key == key.encode()
            assert told.kind == ("bad record" if key in {"wide", "json"} else "bad value")
    letters = read_topic(stream.settings.central_cluster.broker, f"{stream.definition.name}.dead-letters")
    assert len(letters) == len(values) - 1


def test_a_models_topic_that_was_made_anew_is_followed_from_its_beginning_by_scorer_and_live_model(
    stream: Stream,
) -> None:
    publish(stream, model_of(stream, 50))
    scorer = Scorer(stream)
    scorer.wait_until_ready("there is a model")
    with LiveModel(stream.settings) as live:
        assert live.wait(PATIENCE_SECONDS).version == 50
        assert live.predict(np.array([GOOD])) == ["yes"]

        delete_topics(stream, MODELS)
        scorer.wait_until_it_says("models; make the topics")
        wait_until(lambda: live.stale is not None, "the live model says that nobody renews it")
        assert scorer.stale() == 1.0
        assert live.predict(np.array([GOOD])) == ["yes"], "the last good model stays in force"

        stream.run("topics", "create")
        scorer.wait_until_it_says("holds no model any more (answers by model version 50)")
        ask(stream, {"meanwhile": query(stream, "meanwhile")})
        wait_until(lambda: class_of(stream, "meanwhile") == "yes", "queries are answered by the last good model")

        publish(stream, model_of(stream, 1, height=-1.0))
        scorer.wait_until_ready("a model of the new log")
        assert "model version 1" in scorer.ready()[1]
        assert scorer.stale() == 0.0
        wait_until(lambda: live.stale is None, "the live model is followed again")
        assert live.model is not None
        assert live.model.version == 1
        assert live.predict(np.array([GOOD])) == ["no"]
        ask(stream, {"then": query(stream, "then")})
        wait_until(lambda: class_of(stream, "then") == "no", "queries are answered by the model of the new log")


def test_a_models_topic_that_is_replaced_by_a_longer_one_at_once_is_noticed(stream: Stream) -> None:
    publish(stream, model_of(stream, 50))
    scorer = Scorer(stream)
    scorer.wait_until_ready("there is a model")
    with LiveModel(stream.settings) as live:
        live.wait(PATIENCE_SECONDS)
        delete_topics(stream, MODELS)
        stream.run("topics", "create")
        for version in range(1, 8):
            publish(stream, model_of(stream, version, height=-1.0))
        wait_until(lambda: live.model is not None and live.model.version == 7, "the newest of the new log")
        wait_until(lambda: "version 7" in scorer.ready()[1], "the newest of the new log")
        scorer.wait_until_ready("it is followed")


def test_a_queries_topic_that_was_made_anew_is_answered_from_its_beginning(stream: Stream) -> None:
    publish(stream, model_of(stream, 1))
    scorer = Scorer(stream)
    scorer.wait_until_ready("there is a model")
    ask(stream, {f"old-{at}": query(stream, f"old-{at}") for at in range(4)})
    wait_until(lambda: len(answers(stream)) == 4, "the old queries are answered")
    delete_topics(stream, "queries")
    scorer.wait_until_it_says("queries; make the topics")
    stream.run("topics", "create")
    ask(stream, {f"new-{at}": query(stream, f"new-{at}") for at in range(12)})
    wait_until(
        lambda: all(class_of(stream, f"new-{at}") == "yes" for at in range(12)), "all of the new queries are answered"
    )
    scorer.wait_until_ready("it goes on")


def test_a_scorer_is_not_ready_while_no_broker_answers(second_kafka: KafkaCluster, tmp_path: Path) -> None:
    with Stream.made(tmp_path, "waiting", second_kafka.bootstrap) as stream:
        publish(stream, model_of(stream, 1))
        scorer = Scorer(stream)
        scorer.wait_until_ready("there is a model")
        second_kafka.kill(1)
        scorer.wait_until_it_says("no broker answers")
        second_kafka.restart(1)
        scorer.wait_until_ready("the broker is back")
        ask(stream, {"after": query(stream, "after")})
        wait_until(lambda: class_of(stream, "after") == "yes", "queries are answered again")


def test_scorer_and_live_model_outlive_a_broker_that_comes_back_empty(start_kafka: StartKafka, tmp_path: Path) -> None:
    port = port_of_three()
    first = start_kafka(base_port=port)
    with Stream.made(tmp_path, "empty", first.bootstrap) as stream, contextlib.ExitStack() as stack:
        for version in range(1, 20):
            publish(stream, model_of(stream, version))
        scorer = Scorer(stream)
        scorer.wait_until_ready("there is a model")
        ask(stream, {f"before-{at}": query(stream, f"before-{at}") for at in range(8)})
        wait_until(lambda: len(answers(stream)) == 8, "queries are answered")
        live = stack.enter_context(LiveModel(stream.settings))
        live.wait(PATIENCE_SECONDS)

        first.stop()
        second = start_kafka(base_port=port)
        assert second.bootstrap == first.bootstrap
        scorer.wait_until_it_says("make the topics with")
        wait_until(
            lambda: live.predict(np.array([GOOD])) == ["yes"] and live.stale is not None,
            "the client goes on with its model and knows that the topic is gone",
        )

        stream.run("topics", "create")
        publish(stream, model_of(stream, 1, height=-1.0))
        scorer.wait_until_ready("a model of the new broker")
        wait_until(lambda: live.stale is None and live.predict(np.array([GOOD])) == ["no"], "the new model is followed")
        ask(stream, {"after": query(stream, "after")})
        wait_until(lambda: class_of(stream, "after") == "no", "queries are answered by the new model")
        assert "Traceback" not in scorer.process.log


def port_of_three() -> int:
    """The first of three ports in a row that are free."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError), contextlib.ExitStack() as sockets:
            for offset in range(3):
                sockets.enter_context(socket.create_server(("127.0.0.1", port + offset)))
            return port
