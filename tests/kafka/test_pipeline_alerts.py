"""Every alert provoked on real services and a real Kafka, and cleared, with a real Prometheus evaluating the rules.

Raw rows are on one cluster and statistics on another, as with a site far away, so that one can be cut off from the
other. The tests run in the order in which they stand, on one stream: before each, its alert is seen to be silent, and
in the end all are. Alerts that take a stream of their own are in test_pipeline_alerts_apart.py.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import not_run
from dashboards import distribution
from dashboards.hurry import hurried
from dashboards.server import DEPLOY, running
from dashboards.test_alert_rules import RULES
from deltaplane.log.records import Query
from deltaplane.wire import write_query, write_sample
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.processors.messages import QUERIES, SAMPLES, Outgoing
from kafka.alert_scene import CALM, FACTOR, PACE, Feed, Scene
from kafka.conftest import StartKafka
from kafka.raw_batches import batch_of, produce
from kafka.rows import FIRST_TIME, Rows
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_pipeline_metrics import free_ports
from kafka.test_silence import ODD
from kafka.test_topics import alter, config_of
from kafka.test_topics_made_anew import make_anew

SLOWER = {"DeltaplaneRebuildsAgain": 12}
"""An alert that counts what takes a second each time, so that a busy machine has no ten of it in twenty seconds."""
ROLES = ("worker", "worker", "merger", "scorer")


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


def test_a_stream_that_runs_as_it_should_raises_no_alert(scene: Scene) -> None:
    scene.calm()
    scene.silent(*(rule["alert"] for rule in RULES))


def test_a_service_that_is_killed_is_down_until_it_is_started_again(scene: Scene) -> None:
    scene.silent("DeltaplaneDown")
    port = scene.port_of("scorer")
    scene.services[port].kill()
    scene.fires("DeltaplaneDown", instance=f"127.0.0.1:{port}", job="deltaplane")
    scene.start("scorer", port)


def test_without_any_merger_the_role_is_gone_and_deltas_get_into_no_model(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneRoleGone", "DeltaplaneNoModel")
    port = scene.port_of("merger")
    scene.services[port].terminate()
    scene.fires("DeltaplaneRoleGone", stream=scene.name, role="merger")
    scene.fires("DeltaplaneNoModel", stream=scene.name)
    scene.start("merger", port)


def test_a_record_that_is_none_raises_the_alert_of_dead_letters_for_a_while(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneDeadLetters")
    client = publisher(scene.stream.settings, "site")
    client.publish([Outgoing(SAMPLES, 0, None, b"no record")])
    client.flush()
    scene.fires("DeltaplaneDeadLetters", reason="bad_record")


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


def test_labels_by_chance_make_the_gmean_fall_below_its_own_past(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneGmeanFallen")
    scene.feed.weather = replace(CALM, noise=0.5)
    scene.fires("DeltaplaneGmeanFallen", stream=scene.name)
    scene.feed.weather = CALM


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


def test_without_a_live_sample_of_a_class_the_solver_refuses(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneSolverRefuses")
    scene.feed.weather = replace(CALM, positives=0.0, noise=0.0)
    scene.fires("DeltaplaneSolverRefuses", stream=scene.name)
    scene.feed.weather = CALM


def test_sources_that_somebody_else_claims_all_the_time_are_rebuilt_again_and_again(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneRebuildsAgain")
    with scene.foreign_claims():
        scene.fires("DeltaplaneRebuildsAgain", stream=scene.name, job="deltaplane")


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


def test_a_topic_that_is_made_anew_sets_its_sources_aside_until_they_begin_anew(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneSourceSetAside")
    make_anew(scene.stream.settings.cluster("site").broker, scene.stream, ["retirements"])
    scene.fires("DeltaplaneSourceSetAside", stream=scene.name, site="local")
    scene.stream.run("source", "remove", "local")
    scene.stream.run("source", "admit", "local")


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


def test_checkpoints_that_their_topic_refuses_are_an_alert_until_it_admits_them(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneCheckpointRefused")
    with scene.altered("checkpoints", "max.message.bytes", "100"):
        scene.fires("DeltaplaneCheckpointRefused", stream=scene.name)


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


def test_more_records_than_the_workers_can_read_make_the_lag_grow(scene: Scene) -> None:
    scene.calm()
    scene.silent("DeltaplaneLagGrowing")
    # Ever more, until they are too many. This comes last, since what there is too much of takes long to be read.
    singles = itertools.count(300, 10)

    def flooded() -> bool:
        scene.feed.weather = replace(CALM, singles=next(singles))
        return bool(scene.prometheus.alerts("DeltaplaneLagGrowing"))

    scene.prometheus.wait_for("a lag that grows", flooded)
    scene.fires("DeltaplaneLagGrowing", topic="samples", site="local")
    scene.feed.weather = CALM
    # As whoever is told of it does: give the workers more at once.
    for port in [port for port, service in scene.services.items() if "worker" in service.name]:
        scene.services[port].terminate()
        scene.start("worker", port, DELTAPLANE_POLL_RECORDS="5000")


def test_once_all_is_mended_no_alert_fires(scene: Scene) -> None:
    scene.calm()
    scene.silent(*(rule["alert"] for rule in RULES))


def test_every_alert_has_been_provoked() -> None:
    texts = [Path(__file__), Path(__file__).with_name("test_pipeline_alerts_apart.py")]
    text = "".join(file.read_text("utf-8") for file in texts)
    for rule in RULES:
        assert re.search(rf'\.(fires|send_until_it_fires)\("{rule["alert"]}"', text), rule["alert"]
