"""Real services on a real Kafka, scraped by a real Prometheus while a replay runs and a worker is killed."""

from __future__ import annotations

import http.client
import json
import math
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

import not_run
from dashboards import distribution
from dashboards.observed import DEFINITION, ELECTRICITY, automatic
from dashboards.server import Prometheus, as_grafana_sends_it, expressions, promtool, running
from deltaplane.log import confusion
from deltaplane.log.model import Model
from deltaplane.log.records import Query
from deltaplane.window.outcomes import SampleOutcome
from deltaplane.wire import write_query
from deltaplane_services.client import SampleProducer
from deltaplane_services.definition_file.definition_tables import load_tables
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.observe.metrics import metric_names
from deltaplane_services.processors.messages import MODELS, QUERIES, SAMPLES, Outgoing
from kafka import offline
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream

SERVICES = ("worker", "worker", "merger", "merger", "scorer")


ROWS = 45_312
ALWAYS_ZERO = {
    ("quality", "What is asked for", "B"): "the G-mean has no bound; core/test_objective.py has some that are not kept",
    ("model", "Removed and set aside sources", "B"): "a source is set aside in test_sources_apart.py and by its alert",
    ("pipeline", "Ready", "B"): "models go stale in test_pipeline_answers.py",
    ("overview", "Ready", "B"): "the same",
    (
        "pipeline",
        "Rejected samples and retirements",
        "B",
    ): "only where the partitioner is crc32, which test_pipeline_placement.py has",
    ("pipeline", "Filled in, and forgotten", "B"): "a retired id is forgotten after a million younger ones",
    ("pipeline", "Unsafe settings of topics", "A"): "its topics are right; test_unsafe_topics.py has others",
    ("pipeline", "Records let go of", "A"): "all records are within the margin; test_trim.py has others",
    ("pipeline", "Where the logs begin", "A"): "the same",
    ("pipeline", "Deltas", "C"): "trials are void where the solver is changed, which test_pipeline_changes.py does",
    ("pipeline", "Times that cannot be", "A"): "no window ends with time here; test_pipeline_alerts.py",
    ("pipeline", "Times that cannot be", "B"): "the same",
    ("pipeline", "Times that cannot be", "C"): "no batch is silent here; test_silence.py has some",
    ("pipeline", "Deltas", "D"): "no checkpoint is refused here; test_checkpoints_refused.py has some",
}
"""Panels that show data, and never anything but zero here; with the reason."""

MAY_BE_ZERO = {
    (
        "pipeline",
        "Rebuilds under way",
        "A",
    ): "a rebuild may be over between two scrapes; the test of its alert holds one",
    ("pipeline", "Records still to be read", "A"): "what is left may be read between two scrapes; so here",
    ("pipeline", "Consumer lag", "A"): "the same",
    ("overview", "Records still to be read", "A"): "the same",
    ("overview", "Consumer lag", "A"): "the same",
}
"""Panels that show a state of a moment which a scrape may miss."""


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


def came(model: Model) -> int:
    """Samples with an outcome; one whose retirement overtook it is annihilated."""
    return model.totals.get(SampleOutcome.APPLIED, 0) + model.totals.get(SampleOutcome.ANNIHILATED, 0)


class Scene:
    """The services of one stream by their ports, and the Prometheus that scrapes them."""

    def __init__(self, stream: Stream, prometheus: Prometheus) -> None:
        self.stream = stream
        self.prometheus = prometheus
        self.services: dict[int, ServiceProcess] = {}
        self.name = stream.definition.name
        self.spoiled = 0

    def start(self, role: str, port: int) -> None:
        self.services[port] = self.stream.start(role, DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}")

    def ports(self, role: str) -> list[int]:
        return [port for port, service in self.services.items() if role in service.name]

    def ask_and_spoil(self) -> None:
        """Publish ten queries, a record of samples and one of models that are none, a sample with a gap, and a
        retirement of nobody.
        """
        query = write_query(Query("any", np.full(6, 0.5), self.stream.definition.data_fingerprint))
        client = publisher(self.stream.settings, "site")
        client.publish([*[Outgoing(QUERIES, 0, None, query)] * 10, Outgoing(SAMPLES, 0, None, b"no record")])
        client.publish([Outgoing(MODELS, 0, b"forged", b"no model")])
        client.flush()
        with SampleProducer(self.stream.settings) as producer:
            self.spoiled += 1
            producer.retire("never-comes", "for a test")
            producer.send(f"with-a-gap-{self.spoiled}", 0, "1", [math.nan, 0.5, 0.5, 0.5, 0.5, 0.5])

    def ask_of_other_rows(self) -> None:
        """Publish 2,000 queries about rows that are alike, and a thousand about rows that lie elsewhere; seeded."""
        rows = np.random.default_rng(8).normal(0.4, 0.1, size=(3000, 6))
        rows[2000:] += 0.3
        fingerprint = self.stream.definition.data_fingerprint
        queries = (write_query(Query(f"any-{at}", row, fingerprint)) for at, row in enumerate(rows))
        client = publisher(self.stream.settings, "site")
        client.publish([Outgoing(QUERIES, 0, None, query) for query in queries])
        client.flush()
        # With a scrape before and behind it, as the panels look at it.
        found = "max_over_time(sum(increase(deltaplane_query_drifts_total[1h]))[10m:1s])"
        self.prometheus.wait_for("queries that shift to be found", lambda: (self.prometheus.value(found) or 0) > 0)

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
        not_run.give_up("PROMETHEUS", reason)
    directory = tmp_path_factory.mktemp("metrics")
    whole = automatic(load_tables(DEFINITION))
    tables = {name: table for name, table in whole.items() if name not in {"name", "service"}}
    tables["features"] = {**tables["features"], "missing": "offset"}
    ports = free_ports(len(SERVICES))
    # Looked at often; what is worked out by hand needs all records, and these few are all within the margin.
    service = {"trim_seconds": 0.5}
    with (
        Stream.made(directory / "stream", "electricity-metrics", kafka.bootstrap, service=service, **tables) as stream,
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
        producer = stream.start("produce", str(ELECTRICITY), "--speed", "3000", "--retire-fraction", "0.02")
        for _ in range(5):
            scene.ask_and_spoil()
            scene.wait_for_model(scene.version() + 1)
        # The source of a site that there is not leaves the stream, which changes nothing of it.
        stream.run("source", "remove", "far/0", "--force")
        victim = scene.ports("worker")[0]
        scene.services[victim].kill()
        down = f'up{{instance="127.0.0.1:{victim}"}} == 0'
        prometheus.wait_for("the worker that is gone", lambda: prometheus.value(down) is not None)
        scene.start("worker", victim)
        scene.wait_for_ready(len(SERVICES))
        assert producer.wait() == 0
        scene.ask_and_spoil()
        scene.ask_of_other_rows()
        model = stream.wait_for_model(lambda newest: came(newest) >= ROWS + scene.spoiled, "every row has come")
        scene.wait_for_model(model.version)
        yield scene


def shown_here() -> dict[tuple[str, str, str], str]:
    """The queries of all panels but those of processes that this scene has none of, which tests/dashboards has."""
    elsewhere = ("deltaplane_http_", "deltaplane_intake_", "deltaplane_served_", "deltaplane_table_")
    return {where: query for where, query in expressions().items() if not any(name in query for name in elsewhere)}


def test_every_query_of_every_panel_returns_a_number_from_services_on_kafka(scene: Scene) -> None:
    empty = {
        where: expression
        for where, expression in shown_here().items()
        if not scene.prometheus.finite(as_grafana_sends_it(expression, scene.name))
    }
    assert empty == {}


def test_every_query_has_shown_something_else_than_zero_but_for_what_cannot_be_provoked(scene: Scene) -> None:
    still = set()
    for where, expression in shown_here().items():
        over_time = f"max_over_time(({as_grafana_sends_it(expression, scene.name)})[10m:1s])"
        if not any(scene.prometheus.finite(over_time)):
            still.add(where)
    assert still - MAY_BE_ZERO.keys() == ALWAYS_ZERO.keys()


def test_promtool_finds_nothing_to_say_about_services_on_kafka(scene: Scene) -> None:
    for port in scene.services:
        verdict = promtool("check", "metrics", text=ask(port, "/metrics")[1])
        assert (verdict.returncode, verdict.stdout + verdict.stderr) == (0, "")


def test_one_merger_shows_the_stream_and_the_other_stands_by_and_is_ready(scene: Scene) -> None:
    for metric in metric_names.STREAM:
        assert scene.prometheus.value(f"count(count by (instance) ({metric.name}))") == 1, metric.name
    answers = sorted(ask(port, "/readyz") for port in scene.ports("merger"))
    assert [status for status, _ in answers] == [200, 200]
    assert [why.partition(",")[0] for _, why in answers] == ["merger: elected", "merger: standing by"]


def test_the_dashboard_and_the_model_have_the_same_gmean_on_kafka(scene: Scene) -> None:
    model = scene.stream.model()
    assert model is not None
    expected = confusion.summary(model.scores, "1").gmean
    shown = scene.prometheus.value('max(deltaplane_gmean_ratio{span="all"})')
    assert shown == pytest.approx(expected, abs=1e-14)
    counted = expressions()["quality", "G-mean since the beginning", "A"]
    assert scene.prometheus.value(as_grafana_sends_it(counted, scene.name)) == pytest.approx(expected, abs=1e-12)


def test_the_dashboard_has_the_gmean_that_the_logs_give_when_it_is_worked_out_by_hand(scene: Scene) -> None:
    confusion = offline.Offline(scene.stream.settings).confusion()
    shown = scene.prometheus.query("max by (truth, predicted) (deltaplane_confusion_samples_total)")
    counted = {(dict(labels)["truth"], dict(labels)["predicted"]): count for labels, count in shown.items()}
    assert counted == dict(confusion)
    assert sum(confusion.values()) > ROWS * 0.5
    gmean = scene.prometheus.value('max(deltaplane_gmean_ratio{span="all"})')
    assert gmean == pytest.approx(offline.gmean(confusion), abs=1e-14)


def test_top_shows_the_same_numbers_as_prometheus_has(scene: Scene) -> None:
    at = ",".join(f"127.0.0.1:{port}" for port in scene.services)
    command = [sys.executable, "-m", "deltaplane_services", "top", "--at", at, "--json", "--interval-seconds", "0.2"]
    frame = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    value = scene.prometheus.value
    assert sorted(one["role"] for one in frame["services"]) == sorted(SERVICES)
    assert {one["state"] for one in frame["services"]} == {"ready"}
    assert frame["notes"] == []
    assert frame["gmean"]["all"] == value('max(deltaplane_gmean_ratio{span="all"})')
    assert frame["imbalance_ratio"] == value("max(deltaplane_window_imbalance_ratio)")
    assert frame["model"]["version"] == value("max(deltaplane_model_version)")
    assert frame["rebuilds"]["done"] == value("sum(deltaplane_rebuild_duration_seconds_count)")
    assert frame["counts"]["rejected"]["bad_record"] == scene.spoiled
    assert frame["counts"]["retirements"]["retired"] == value('sum(deltaplane_retirements_total{outcome="retired"})')
    live = {one["name"]: one["live_samples"] for one in frame["classes"]}
    assert sum(live.values()) == value("sum(deltaplane_window_samples)")


def test_all_has_been_read_and_no_lag_is_left(scene: Scene) -> None:
    scene.prometheus.wait_for("no lag", lambda: scene.prometheus.value("sum(deltaplane_consumer_lag_records)") == 0)
    lags = scene.prometheus.query("sum by (topic) (deltaplane_consumer_lag_records)")
    assert {dict(labels)["topic"] for labels in lags} == {"samples", "retirements", "deltas", "models", "queries"}
