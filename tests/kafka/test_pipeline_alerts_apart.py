"""Alerts that take a stream of their own: of clocks, of an intake, and of a server of answers.

As in test_pipeline_alerts.py, which has the others.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import not_run
from dashboards import distribution
from dashboards.hurry import hurried
from dashboards.server import DEPLOY, running
from deltaplane.wire import write_model
from deltaplane_services.client import SampleProducer
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import MODELS, Outgoing
from kafka.alert_scene import FACTOR, PACE, Feed, Scene
from kafka.conftest import StartKafka
from kafka.made_shop import INPUT, MadeShop
from kafka.rows import Rows
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_pipeline_intake import stream_of
from kafka.test_pipeline_metrics import ask as ask_of
from kafka.test_pipeline_metrics import free_ports
from services.intake_shop import FIRST_TIME as FIRST_PAYMENT
from services.intake_shop import chargeback

FASTER = {"DeltaplaneLabelsWithoutEvents": 180}
"""An alert that waits for half an hour."""


# Clocks, on a stream of its own with a window of time -----------------------------------------------------------------


class Clocks(Scene):
    """A stream with a window of an hour, to which single samples of any event time are sent."""

    sent = 0

    def send(self, *seconds_ahead: float, per_second: int = 1000) -> None:
        """One sample each, so far ahead of now, in milliseconds or in parts of a second of another number."""
        with SampleProducer(self.stream.settings, check=False) as producer:
            for ahead in seconds_ahead:
                event_time = int((time.time() + ahead) * per_second)
                producer.send(f"c{self.sent}", event_time, ("no", "yes")[self.sent % 2], [float(self.sent % 7), 1, 0])
                self.sent += 1

    def send_until_it_fires(self, alert: str, *seconds_ahead: float, per_second: int = 1000, **labels: str) -> None:
        """Send such samples, again and again, until an alert fires; then no more."""

        def fired() -> bool:
            self.send(*seconds_ahead, per_second=per_second)
            return bool(self.prometheus.alerts(alert))

        self.prometheus.wait_for(f"{alert} to fire while such samples come", fired)
        self.fires(alert, stream=self.name, **labels)


@pytest.fixture(scope="module")
def clocks(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocks]:
    if reason := distribution.why_none():
        not_run.give_up("PROMETHEUS", reason)
    directory, ports = tmp_path_factory.mktemp("clocks"), free_ports(2)
    rules = hurried(DEPLOY / "alerts.yml", FACTOR, directory)
    tables: dict[str, Any] = {"window": {"length": "1h"}, "partitions": 1}
    addresses = [f"127.0.0.1:{port}" for port in ports]
    with (
        Stream.made(directory / "s", Rows.stream_name("clocks"), kafka.bootstrap, **tables) as stream,
        running(directory, addresses, rules, PACE) as prometheus,
    ):
        scene = Clocks(stream, Feed(stream, seed=12), prometheus)
        for port, role in zip(ports, ("worker", "merger"), strict=True):
            scene.start(role, port)
        prometheus.wait_for("both services", lambda: prometheus.value("sum(deltaplane_ready) == 2") is not None)
        scene.send(*([0.0] * 20))
        yield scene


def test_a_clock_that_is_ahead_and_allowed_is_an_alert_until_it_is_set(clocks: Clocks) -> None:
    clocks.silent("DeltaplaneClockAhead", "DeltaplaneLateSamples", "DeltaplaneTimesInSeconds")
    clocks.send_until_it_fires("DeltaplaneClockAhead", 200.0, site="local", partition="0")
    # The newest time falls behind what is allowed as the log goes on; a test does not wait for it, but starts anew.
    assert clocks.prometheus.value("max(deltaplane_event_time_ahead_seconds) > 180") is not None


def test_samples_that_are_late_or_beyond_what_is_allowed_are_an_alert_while_they_come(clocks: Clocks) -> None:
    clocks.send_until_it_fires("DeltaplaneLateSamples", 7200.0, -7200.0)
    clocks.silent("DeltaplaneLateSamples")


def test_times_in_seconds_are_an_alert_while_they_come(clocks: Clocks) -> None:
    clocks.send_until_it_fires("DeltaplaneTimesInSeconds", 0.0, per_second=1)
    clocks.silent("DeltaplaneTimesInSeconds", "DeltaplaneLateSamples")


def test_a_forged_model_is_an_alert_for_a_while(clocks: Clocks) -> None:
    clocks.silent("DeltaplaneWatermarksIgnored")
    good = clocks.stream.model()
    assert good is not None
    forged = replace(good, version=good.version + 1000, watermark=good.created + 10**12)
    # Whoever reads it reads the answer to it at once, as if a merger had been quicker.
    answer, key = replace(good, version=forged.version + 1), clocks.name.encode()
    client = publisher(clocks.stream.settings, "central")
    client.publish([Outgoing(MODELS, 0, key, write_model(model)) for model in (forged, answer)])
    client.flush()
    clocks.fires("DeltaplaneWatermarksIgnored", stream=clocks.name)
    clocks.silent("DeltaplaneWatermarksIgnored")


# Labels without events, on a stream with an intake --------------------------------------------------------------------


def test_labels_whose_events_do_not_come_are_an_alert(kafka: RunningKafka, tmp_path: Path) -> None:
    if reason := distribution.why_none():
        not_run.give_up("PROMETHEUS", reason)
    name, (port,) = Rows.stream_name("orphans"), free_ports(1)
    shop = MadeShop(kafka.bootstrap, name, seed=3)
    rules = hurried(DEPLOY / "alerts.yml", FACTOR, tmp_path, FASTER)
    with (
        stream_of(tmp_path / "s", name, kafka.bootstrap, shop.intake(), input=INPUT) as stream,
        running(tmp_path, [f"127.0.0.1:{port}"], rules, PACE) as prometheus,
    ):
        scene = Scene(stream, Feed(stream, seed=3), prometheus)
        scene.start("intake", port)
        scene.silent("DeltaplaneLabelsWithoutEvents")
        for ref in (f"of-before-{number}" for number in range(1200)):
            shop.send(shop.chargebacks, ref, chargeback(ref, "fraud"), FIRST_PAYMENT)
        shop.flush()
        scene.fires("DeltaplaneLabelsWithoutEvents", stream=scene.name)


def test_a_schema_registry_that_does_not_answer_is_an_alert(kafka: RunningKafka, tmp_path: Path) -> None:
    if reason := distribution.why_none():
        not_run.give_up("PROMETHEUS", reason)
    name, (port, nobody) = Rows.stream_name("unregistered"), free_ports(2)
    shop, rules = MadeShop(kafka.bootstrap, name, seed=3), hurried(DEPLOY / "alerts.yml", FACTOR, tmp_path)
    intake = {key: value for key, value in shop.intake().items() if key != "time_unit"}
    intake |= {"format": "confluent-avro", "labels": {**intake["labels"], "format": "json"}}
    registry = f"http://127.0.0.1:{nobody}"
    with (
        stream_of(tmp_path / "s", name, kafka.bootstrap, intake, registry=registry, input=INPUT) as stream,
        running(tmp_path, [f"127.0.0.1:{port}"], rules, PACE) as prometheus,
    ):
        scene = Scene(stream, Feed(stream, seed=3), prometheus)
        scene.start("intake", port)
        scene.silent("DeltaplaneRegistrySilent")
        shop.send(shop.payments, "a", b"\0\0\0\0\x09\2\2", FIRST_PAYMENT)
        shop.flush()
        scene.fires("DeltaplaneRegistrySilent", stream=scene.name)


# A server of answers ----------------------------------------------------------------------------------------------


def test_requests_without_an_answer_and_a_model_that_nobody_renews_are_alerts(
    start_kafka: StartKafka, tmp_path: Path
) -> None:
    if reason := distribution.why_none():
        not_run.give_up("PROMETHEUS", reason)
    (port,), broker, name = free_ports(1), start_kafka(), Rows.stream_name("answers")
    rules = hurried(DEPLOY / "alerts.yml", FACTOR, tmp_path)
    with (
        Stream.made(tmp_path / "s", name, broker.bootstrap) as stream,
        running(tmp_path, [f"127.0.0.1:{port}"], rules, PACE) as prometheus,
    ):
        scene = Scene(stream, Feed(stream, seed=4), prometheus, broker)
        stream.start("serve", "--address", f"127.0.0.1:{port}")
        scene.prometheus.wait_for("the server", lambda: scene.prometheus.value("deltaplane_http_model_stale") == 0.0)
        scene.silent("DeltaplaneAnswersFail", "DeltaplaneAnswersStale")
        ended = threading.Event()

        def ask() -> None:
            while not ended.wait(0.1):
                with contextlib.suppress(OSError):
                    assert ask_of(port, "/v2/health/ready")[0] == 503

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        try:
            scene.fires("DeltaplaneAnswersFail", stream=name)
            broker.pause(1)
            scene.fires("DeltaplaneAnswersStale", stream=name)
        finally:
            broker.resume(1)
            ended.set()
            asking.join()
        scene.silent("DeltaplaneAnswersStale", "DeltaplaneAnswersFail")
