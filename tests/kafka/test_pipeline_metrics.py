"""Real services on a real Kafka, scraped by a real Prometheus while a replay runs and a worker is killed."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from dashboards import distribution
from dashboards.observed import DEFINITION, ELECTRICITY
from dashboards.server import Prometheus, as_grafana_sends_it, expressions, promtool, running
from deltaplane import metrics
from deltaplane.records import Query
from deltaplane.wire import write_query
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.metrics_export import names
from deltaplane_services.processors.records import QUERIES, SAMPLES, Outgoing
from deltaplane_services.replay.options import load_tables
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream

SERVICES = ("worker", "worker", "merger", "merger", "scorer")


ROWS = 45_312


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class Scene:
    """The services of one stream by their ports, and the Prometheus that scrapes them."""

    def __init__(self, stream: Stream, prometheus: Prometheus) -> None:
        self.stream = stream
        self.prometheus = prometheus
        self.services: dict[int, ServiceProcess] = {}
        self.name = stream.definition.name

    def start(self, role: str, port: int) -> None:
        self.services[port] = self.stream.start(role, DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}")

    def ports(self, role: str) -> list[int]:
        return [port for port, service in self.services.items() if role in service.name]

    def ask_and_spoil(self) -> None:
        """Publish ten queries, and a record of samples that is none."""
        query = write_query(Query("any", np.full(6, 0.5), self.stream.definition.data_fingerprint))
        client = publisher(self.stream.settings, "site")
        client.publish([*[Outgoing(QUERIES, 0, None, query)] * 10, Outgoing(SAMPLES, 0, None, b"no record")])
        client.flush()

    def version(self) -> float:
        return self.prometheus.value("max(deltaplane_model_version)") or 0.0

    def wait_for_model(self, version: float) -> None:
        self.prometheus.wait_for(f"model {version:g}", lambda: self.version() >= version)

    def wait_for_ready(self, count: int) -> None:
        ready = "sum(deltaplane_ready)"
        self.prometheus.wait_for(f"{count} services that are ready", lambda: self.prometheus.value(ready) == count)


@pytest.fixture(scope="module")
def scene(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    if reason := distribution.why_none():
        (pytest.fail if distribution.required() else pytest.skip)(f"NO PROMETHEUS, NOT RUN: {reason}")
    directory = tmp_path_factory.mktemp("metrics")
    tables = {name: table for name, table in load_tables(DEFINITION).items() if name not in {"name", "service"}}
    ports = free_ports(len(SERVICES))
    with (
        Stream.made(directory / "stream", "electricity-metrics", kafka.bootstrap, **tables) as stream,
        running(directory, [f"127.0.0.1:{port}" for port in ports]) as prometheus,
    ):
        scene = Scene(stream, prometheus)
        for port, role in zip(ports, SERVICES, strict=True):
            scene.start(role, port)
        # All but the scorer, which has no plane yet.
        scene.wait_for_ready(len(SERVICES) - 1)
        assert {ask(port, "/healthz")[0] for port in ports} == {200}
        status, why = ask(scene.ports("scorer")[0], "/readyz")
        assert status == 503
        assert "queries wait" in why
        producer = stream.start("produce", str(ELECTRICITY), "--speed", "3000")
        for _ in range(5):
            scene.ask_and_spoil()
            scene.wait_for_model(scene.version() + 1)
        victim = scene.ports("worker")[0]
        scene.services[victim].kill()
        down = f'up{{instance="127.0.0.1:{victim}"}} == 0'
        prometheus.wait_for("the worker that is gone", lambda: prometheus.value(down) is not None)
        scene.start("worker", victim)
        scene.wait_for_ready(len(SERVICES))
        assert producer.wait() == 0
        scene.ask_and_spoil()
        model = stream.wait_for_model(lambda newest: newest.totals.get("applied", 0) >= ROWS, "it contains all rows")
        scene.wait_for_model(model.version)
        yield scene


def test_every_query_of_every_panel_returns_a_number_from_services_on_kafka(scene: Scene) -> None:
    empty = {
        where: expression
        for where, expression in expressions().items()
        if not scene.prometheus.finite(as_grafana_sends_it(expression, scene.name))
    }
    assert empty == {}


def test_promtool_finds_nothing_to_say_about_services_on_kafka(scene: Scene) -> None:
    for port in scene.services:
        verdict = promtool("check", "metrics", text=ask(port, "/metrics")[1])
        assert (verdict.returncode, verdict.stdout + verdict.stderr) == (0, "")


def test_one_merger_shows_the_stream_and_the_other_stands_by_and_is_ready(scene: Scene) -> None:
    for metric in names.STREAM:
        assert scene.prometheus.value(f"count(count by (instance) ({metric.name}))") == 1, metric.name
    answers = sorted(ask(port, "/readyz") for port in scene.ports("merger"))
    assert [status for status, _ in answers] == [200, 200]
    assert [why.partition(",")[0] for _, why in answers] == ["merger: elected", "merger: standing by"]


def test_the_dashboard_and_the_model_have_the_same_gmean_on_kafka(scene: Scene) -> None:
    model = scene.stream.model()
    assert model is not None
    expected = metrics.summary(model.scores, "1").gmean
    shown = scene.prometheus.value('max(deltaplane_gmean_ratio{span="all"})')
    assert shown == pytest.approx(expected, abs=1e-14)
    counted = expressions()["quality", "G-mean since the beginning", "A"]
    assert scene.prometheus.value(as_grafana_sends_it(counted, scene.name)) == pytest.approx(expected, abs=1e-12)


def test_all_has_been_read_and_no_lag_is_left(scene: Scene) -> None:
    scene.prometheus.wait_for("no lag", lambda: scene.prometheus.value("sum(deltaplane_consumer_lag_records)") == 0)
    lags = scene.prometheus.query("sum by (topic) (deltaplane_consumer_lag_records)")
    assert {dict(labels)["topic"] for labels in lags} == {"samples", "retirements", "deltas", "models", "queries"}
