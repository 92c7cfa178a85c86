"""Every alert provoked on real services and a real Kafka, and cleared, with a real Prometheus evaluating the rules.

The rules are those of ``deploy/alerts.yml`` with all their times divided by :data:`FACTOR`. Raw rows are on one cluster
and statistics on another, as with a site far away, so that one can be cut off from the other. The tests run in the
order in which they stand, on one stream: before each, its alert is seen to be silent.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import not_run
from dashboards import distribution
from dashboards.hurry import hurried
from dashboards.server import DEPLOY, Prometheus, running
from dashboards.test_alert_rules import RULES
from deltaplane.log.delta import Claim, Source
from deltaplane.log.records import Query
from deltaplane.wire import write_claim, write_model, write_query, write_sample
from deltaplane_services.client import SampleProducer
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import DELTAS, MODELS, QUERIES, SAMPLES, Outgoing, source_key
from kafka.cluster import KafkaCluster
from kafka.conftest import StartKafka
from kafka.made_shop import INPUT, MadeShop
from kafka.raw_batches import batch_of, produce
from kafka.rows import FIRST_TIME, Rows
from kafka.selection import RunningKafka
from kafka.services import ServiceProcess, Stream
from kafka.test_pipeline_intake import stream_of
from kafka.test_pipeline_metrics import ask as ask_of
from kafka.test_pipeline_metrics import free_ports
from kafka.test_silence import ODD
from kafka.test_topics import alter, config_of
from kafka.test_topics_made_anew import make_anew
from services.intake_shop import FIRST_TIME as FIRST_PAYMENT
from services.intake_shop import chargeback

FACTOR = 30
SLOWER = {"DeltaplaneRebuildsAgain": 12}
"""An alert that counts what takes a second each time, so that a busy machine has no ten of it in twenty seconds."""
PACE = "500ms"
ROLES = ("worker", "worker", "merger", "scorer")
BATCH_ROWS = 150
BATCHES_PER_SECOND = 10
CLAIM_SECONDS = 1.0


@dataclass(frozen=True)
class Weather:
    """What the rows are like that come now. ``singles``: samples of one record each, by the batch.

    ``shift`` is added to every feature.
    """

    positives: float = 0.3
    noise: float = 0.02
    singles: int = 0
    shift: float = 0.0


CALM = Weather()


class Feed:
    """Publishes rows of two classes in a thread, a batch every tenth of a second, as the weather is; seeded."""

    def __init__(self, stream: Stream, seed: int) -> None:
        self.weather = CALM
        self._random = np.random.default_rng(seed)
        self._rows = 0
        self._stream = stream
        self._end = threading.Event()
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def begin(self) -> None:
        """Begin, unless it has begun."""
        if self._thread.ident is None:
            self._thread.start()

    def end(self) -> None:
        """Stop, and raise what went wrong."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            with SampleProducer(self._stream.settings, check=False) as producer:
                while not self._end.wait(1.0 / BATCHES_PER_SECOND):
                    weather = self.weather
                    producer.send_batch(*self._some(BATCH_ROWS, weather))
                    ids, times, labels, features = self._some(weather.singles, weather)
                    for row in range(weather.singles):
                        producer.send(ids[row], int(times[row]), labels[row], features[row].tolist())
        except Exception as fault:  # noqa: BLE001 - told to the thread that waits.
            self._fault = fault

    def _some(self, count: int, weather: Weather) -> tuple[list[str], Any, list[str], Any]:
        first, self._rows = self._rows, self._rows + count
        positive = self._random.random(count) < weather.positives
        features = self._random.normal(size=(count, 3)) + positive[:, None] * [3.0, 1.0, -1.0] + weather.shift
        shown = np.where(self._random.random(count) < weather.noise, ~positive, positive)
        ids = [f"row-{number}" for number in range(first, self._rows)]
        times = FIRST_TIME + 1000 * np.arange(first, self._rows, dtype=np.int64)
        return ids, times, ["yes" if one else "no" for one in shown], features


class Scene:
    """The services of the stream by their ports, the rows that come, and the Prometheus that watches."""

    def __init__(self, stream: Stream, feed: Feed, prometheus: Prometheus, central: KafkaCluster | None = None) -> None:
        self.stream = stream
        self.feed = feed
        self.prometheus = prometheus
        self.central = central
        self.services: dict[int, ServiceProcess] = {}
        self.name = stream.definition.name

    def start(self, role: str, port: int) -> None:
        self.services[port] = self.stream.start(role, DELTAPLANE_METRICS_ADDRESS=f"127.0.0.1:{port}")

    def port_of(self, role: str) -> int:
        return next(port for port, service in self.services.items() if role in service.name)

    def calm(self) -> None:
        """Return once rows come as they should, all services are ready, and the recent scores are of such rows."""
        self.feed.weather = CALM
        self.feed.begin()
        for so in (
            f"sum(deltaplane_ready) == {len(ROLES)}",
            'max(deltaplane_prequential_samples{span="recent"}) >= 5000',
            'max(deltaplane_gmean_ratio{span="recent"}) > 0.85',
        ):
            self.prometheus.wait_for(f"calm, when {so}", lambda so=so: self.prometheus.value(so) is not None)  # type: ignore[misc]

    @contextlib.contextmanager
    def foreign_claims(self) -> Iterator[None]:
        """Every source is claimed, again and again, by one who does nothing with it."""
        client, end = publisher(self.stream.settings, "central"), threading.Event()
        definition = self.stream.definition

        def claim() -> None:
            for number in itertools.count():
                for partition in range(definition.partitions):
                    source = Source(self.stream.settings.site, partition)
                    record = write_claim(Claim(source, f"stranger.{number}", definition.stream_fingerprint))
                    client.publish([Outgoing(DELTAS, partition, source_key(source), record)])
                client.flush()
                if end.wait(CLAIM_SECONDS):
                    return

        thread = threading.Thread(target=claim, name="stranger", daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    @contextlib.contextmanager
    def altered(self, topic: str, setting: str, value: str) -> Iterator[str]:
        """A topic of the central cluster, by its full name, with another setting than it has."""
        broker, name = self.stream.settings.cluster("central").broker, f"{self.name}.{topic}"
        right = config_of(broker, name)[setting]
        alter(broker, name, {setting: value})
        try:
            yield name
        finally:
            alter(broker, name, {setting: right})

    def silent(self, *names: str) -> None:
        """Return once none of these fires."""
        self.prometheus.wait_for(f"silence of {names}", lambda: not any(map(self.prometheus.alerts, names)))

    def fires(self, name: str, **labels: str) -> None:
        """Return once this alert fires with these labels; what it says must be said in full."""

        def found() -> list[dict[str, Any]]:
            return [alert for alert in self.prometheus.alerts(name) if labels.items() <= alert["labels"].items()]

        self.prometheus.wait_for(f"{name} to fire", lambda: bool(found()))
        for alert in found():
            assert alert["annotations"]["summary"]
            assert "<no value>" not in alert["annotations"]["summary"]


@pytest.fixture(scope="module")
def scene(kafka: RunningKafka, start_kafka: StartKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    if reason := distribution.why_none():
        not_run.give_up("PROMETHEUS", reason)
    directory = tmp_path_factory.mktemp("alerts")
    central = start_kafka()
    # Workers that take one record at a time are slow enough for a test to be faster than they are.
    service = {"central_broker": central.bootstrap, "poll_records": 1, "checkpoint_seconds": 1.0}
    ports = free_ports(len(ROLES))
    name = Rows.stream_name("alerts")
    with (
        Stream.made(directory / "s", name, kafka.bootstrap, service=service, window={"length": 2000}) as stream,
        running(
            directory,
            [f"127.0.0.1:{port}" for port in ports],
            hurried(DEPLOY / "alerts.yml", FACTOR, directory, SLOWER),
            PACE,
        ) as prometheus,
    ):
        feed = Feed(stream, seed=11)
        scene = Scene(stream, feed, prometheus, central)
        for port, role in zip(ports, ROLES, strict=True):
            scene.start(role, port)
        try:
            yield scene
        finally:
            central.resume(1)
            feed.end()


def test_a_scorer_without_a_model_is_not_ready_until_there_is_one(scene: Scene) -> None:
    scorer = f"127.0.0.1:{scene.port_of('scorer')}"
    scene.fires("DeltaplaneNotReady", instance=scorer, stream=scene.name)
    scene.calm()
    scene.silent("DeltaplaneNotReady")


def test_a_stream_that_runs_as_it_should_raises_no_alert(scene: Scene) -> None:
    scene.calm()
    scene.silent(*(rule["alert"] for rule in RULES))


def test_a_service_that_is_killed_is_down_until_it_is_started_again(scene: Scene) -> None:
    scene.silent("DeltaplaneDown")
    port = scene.port_of("scorer")
    scene.services[port].kill()
    scene.fires("DeltaplaneDown", instance=f"127.0.0.1:{port}", job="deltaplane")
    scene.start("scorer", port)
    scene.silent("DeltaplaneDown")


def test_without_any_merger_the_role_is_gone_and_deltas_get_into_no_model(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneRoleGone", "DeltaplaneNoModel")
    port = scene.port_of("merger")
    scene.services[port].terminate()
    scene.fires("DeltaplaneRoleGone", stream=scene.name, role="merger")
    scene.fires("DeltaplaneNoModel", stream=scene.name)
    scene.start("merger", port)
    scene.silent("DeltaplaneRoleGone", "DeltaplaneNoModel")


def test_a_record_that_is_none_raises_the_alert_of_dead_letters_for_a_while(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneDeadLetters")
    client = publisher(scene.stream.settings, "site")
    client.publish([Outgoing(SAMPLES, 0, None, b"no record")])
    client.flush()
    scene.fires("DeltaplaneDeadLetters", reason="bad_record")
    scene.silent("DeltaplaneDeadLetters")


def test_a_producer_that_places_ids_wrong_raises_an_alert_of_its_own_for_a_while(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneWrongPartition")
    definition = scene.stream.definition
    features = [0.0] * len(definition.features)
    label = definition.classes.names[0]
    value = write_sample("astray", FIRST_TIME, label, features, definition.data_fingerprint)
    elsewhere = (definition.partition_of("astray") + 1) % definition.partitions
    client = publisher(scene.stream.settings, "site")
    client.publish([Outgoing(SAMPLES, elsewhere, b"astray", value)])
    client.flush()
    scene.fires("DeltaplaneWrongPartition", stream=scene.name)
    scene.silent("DeltaplaneWrongPartition")


def test_labels_by_chance_make_the_gmean_fall_below_its_own_past(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneGmeanFallen")
    scene.feed.weather = replace(CALM, noise=0.5)
    scene.fires("DeltaplaneGmeanFallen", stream=scene.name)
    scene.feed.weather = CALM
    scene.silent("DeltaplaneGmeanFallen")


def test_features_that_shift_are_an_alert_though_labels_are_not_looked_at(scene: Scene) -> None:
    scene.calm()
    scene.feed.weather = replace(CALM, shift=20.0)
    scene.fires("DeltaplaneFeaturesDrift", stream=scene.name)
    scene.feed.weather = CALM


def test_queries_that_shift_are_an_alert_before_any_label_has_come(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneQueriesDrift")
    rows = np.random.default_rng(8).normal(size=(3000, 3))
    rows[2000:] += 5.0
    fingerprint = scene.stream.definition.data_fingerprint
    queries = (write_query(Query(f"any-{at}", row, fingerprint)) for at, row in enumerate(rows))
    client = publisher(scene.stream.settings, "central")
    client.publish([Outgoing(QUERIES, 0, None, query) for query in queries])
    client.flush()
    scene.fires("DeltaplaneQueriesDrift", stream=scene.name)


def test_a_class_that_nearly_stops_coming_makes_the_window_imbalanced(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneImbalance")
    scene.feed.weather = replace(CALM, positives=1.0 / 300.0, noise=0.0)
    scene.fires("DeltaplaneImbalance", stream=scene.name)
    scene.feed.weather = CALM
    scene.silent("DeltaplaneImbalance")


def test_without_a_live_sample_of_a_class_the_solver_refuses(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneSolverRefuses")
    scene.feed.weather = replace(CALM, positives=0.0, noise=0.0)
    scene.fires("DeltaplaneSolverRefuses", stream=scene.name)
    scene.feed.weather = CALM
    scene.silent("DeltaplaneSolverRefuses")


def test_sources_that_somebody_else_claims_all_the_time_are_rebuilt_again_and_again(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneRebuildsAgain")
    with scene.foreign_claims():
        scene.fires("DeltaplaneRebuildsAgain", stream=scene.name, job="deltaplane")
    scene.silent("DeltaplaneRebuildsAgain")


def test_a_source_that_cannot_be_claimed_waits_too_long_for_its_window(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneRebuildTooLong")
    # The other worker is to take a partition over, and the cluster that it must claim it on does not answer.
    assert scene.central is not None
    scene.central.pause(1)
    port = scene.port_of("worker")
    scene.services[port].kill()
    try:
        scene.fires("DeltaplaneRebuildTooLong", stream=scene.stream.definition.name, site="local")
    finally:
        scene.central.resume(1)
        scene.start("worker", port)
    scene.silent("DeltaplaneRebuildTooLong")


def test_more_records_than_the_workers_can_read_make_the_lag_grow(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneLagGrowing")
    # Ever more, until they are too many: what there is too much of must be read by all tests that follow.
    singles = itertools.count(50)

    def flooded() -> bool:
        scene.feed.weather = replace(CALM, singles=next(singles))
        return bool(scene.prometheus.alerts("DeltaplaneLagGrowing"))

    scene.prometheus.wait_for("a lag that grows", flooded)
    scene.fires("DeltaplaneLagGrowing", topic="samples", site="local")
    scene.feed.weather = CALM
    scene.silent("DeltaplaneLagGrowing")


def test_a_topic_that_is_made_anew_sets_its_sources_aside_until_they_begin_anew(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneSourceSetAside")
    make_anew(scene.stream.settings.cluster("site").broker, scene.stream, ["retirements"])
    scene.fires("DeltaplaneSourceSetAside", stream=scene.name, site="local")
    scene.stream.run("source", "remove", "local")
    scene.stream.run("source", "admit", "local")
    scene.silent("DeltaplaneSourceSetAside")


def test_a_topic_with_a_setting_that_may_cost_rows_is_an_alert_until_it_is_mended(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneTopicUnsafe")
    broker, topic = scene.stream.settings.cluster("central").broker, f"{scene.name}.queries"
    right = config_of(broker, topic)["compression.type"]
    for codec, told in (("producer", True), (right, False)):
        alter(broker, topic, {"compression.type": codec})
        # A service looks when it starts, and every five minutes since.
        port = scene.port_of("scorer")
        scene.services[port].terminate()
        scene.start("scorer", port)
        if told:
            scene.fires("DeltaplaneTopicUnsafe", stream=scene.name, topic="queries")
        else:
            scene.silent("DeltaplaneTopicUnsafe")


def test_a_batch_at_which_clients_go_silent_is_an_alert_for_a_while(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneSilentBatch")
    codec, content, count = ODD["a length below zero"]
    with scene.altered("queries", "compression.type", "producer") as topic:
        broker = scene.stream.settings.cluster("central").broker
        assert produce(broker, topic, batch_of(count, content, codec))[0] == 0
        # It is looked for after twenty seconds, and the probes that prove it take as long again.
        scene.fires("DeltaplaneNotReady", instance=f"127.0.0.1:{scene.port_of('scorer')}")
        scene.fires("DeltaplaneSilentBatch", stream=scene.name, topic="queries")
    scene.silent("DeltaplaneSilentBatch")


def test_checkpoints_that_their_topic_refuses_are_an_alert_until_it_admits_them(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneCheckpointRefused")
    with scene.altered("checkpoints", "max.message.bytes", "100"):
        scene.fires("DeltaplaneCheckpointRefused", stream=scene.name)
    scene.silent("DeltaplaneCheckpointRefused")


def test_mergers_with_different_solver_settings_are_told_apart_while_one_stands_by(
    scene: Scene, tmp_path: Path
) -> None:
    scene.calm()
    scene.silent("DeltaplaneMergersDiffer")
    port = scene.port_of("scorer")
    scene.services[port].terminate()
    tables = tomllib.loads(scene.stream.definition_file.read_text("utf-8"))
    older = tmp_path / "older.toml"
    older.write_text(as_toml({**tables, "solver": {"C": 7.0}}), "utf-8")
    environment = {"DELTAPLANE_METRICS_ADDRESS": f"127.0.0.1:{port}"}
    forgotten = replace(scene.stream, definition_file=older).start("merger", **environment)
    scene.fires("DeltaplaneMergersDiffer", stream=scene.name)
    forgotten.terminate()
    scene.start("scorer", port)
    scene.silent("DeltaplaneMergersDiffer")


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
    forged = write_model(replace(good, version=good.version + 1000, watermark=good.created + 10**12))
    client = publisher(clocks.stream.settings, "central")
    client.publish([Outgoing(MODELS, 0, clocks.name.encode(), forged)])
    client.flush()
    clocks.fires("DeltaplaneWatermarksIgnored", stream=clocks.name)
    clocks.silent("DeltaplaneWatermarksIgnored")


# Labels without events, on a stream with an intake --------------------------------------------------------------------


def test_labels_whose_events_do_not_come_are_an_alert(kafka: RunningKafka, tmp_path: Path) -> None:
    if reason := distribution.why_none():
        not_run.give_up("PROMETHEUS", reason)
    name, (port,) = Rows.stream_name("orphans"), free_ports(1)
    shop, rules = MadeShop(kafka.bootstrap, name, seed=3), hurried(DEPLOY / "alerts.yml", FACTOR, tmp_path)
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


def test_every_alert_has_been_provoked_in_this_file() -> None:
    text = Path(__file__).read_text("utf-8")
    for rule in RULES:
        assert re.search(rf'\.(fires|send_until_it_fires)\("{rule["alert"]}"', text), rule["alert"]
