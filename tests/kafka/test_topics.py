"""Topics on a real broker: made right, left alone when they are, and named with the exact cure when they are not."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from deltaplane.errors import DeltaplaneError
from deltaplane_services.definition_file import kafka_properties
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.kafka import admin_questions
from deltaplane_services.operations.topics import Finding, check_topics, create_topics
from kafka.clients import PATIENCE_SECONDS, create_topic, wait_until
from kafka.cluster import KafkaCluster, free_port
from kafka.conftest import StartKafka
from kafka.selection import RunningKafka

PARTITIONS = 3
EVERY_TOPIC = {
    "samples": PARTITIONS,
    "retirements": PARTITIONS,
    "deltas": PARTITIONS,
    "checkpoints": 1,
    "models": 1,
    "queries": PARTITIONS,
    "predictions": PARTITIONS,
    "receipts": PARTITIONS,
    "dead-letters": PARTITIONS,
}
"""Partitions of each topic, as the project's own table has them."""


def settings_of(name: str, broker: str, *, features: int = 2, window: str = "20000", **flags: Any) -> ServiceSettings:
    tables = {
        "name": name,
        "partitions": PARTITIONS,
        "features": {"names": [f"x{index}" for index in range(features)]},
        "grid": {"steps": [1.0] * features},
        "classes": {"names": ["no", "yes"]},
        "window": {"length": window},
    }
    return resolve_settings({"broker": broker, **flags}, {}, tables)


def config_of(broker: str, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": broker})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found: dict[str, str] = {}

    def told() -> bool:
        # A broker of several may not know a topic yet that was just made.
        described = admin.describe_configs([resource])[resource].result(PATIENCE_SECONDS)
        found.update((name, entry.value) for name, entry in described.items())
        return True

    wait_until(told, f"a broker tells the settings of {topic}")
    return found


def partitions_of(broker: str, name: str) -> dict[str, int]:
    """Partitions of every topic of a stream, by its name without the stream's."""
    topics = AdminClient({"bootstrap.servers": broker}).list_topics(timeout=PATIENCE_SECONDS).topics
    return {
        topic.removeprefix(f"{name}."): len(described.partitions)
        for topic, described in topics.items()
        if topic.startswith(f"{name}.")
    }


def alter(broker: str, topic: str, changes: Mapping[str, str]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in changes.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_SECONDS)
    # A change is made before every reader of the configuration sees it.
    wait_until(lambda: changes.items() <= config_of(broker, topic).items(), f"{topic} has {changes}")


def test_every_topic_is_made_as_its_table_says_and_is_found_right(kafka: RunningKafka, stream_name: str) -> None:
    settings = settings_of(stream_name, kafka.bootstrap)

    report = create_topics(settings)

    assert report.findings == ()
    assert sorted(report.created) == sorted(f"{stream_name}.{topic}" for topic in EVERY_TOPIC)
    assert partitions_of(kafka.bootstrap, stream_name) == EVERY_TOPIC
    assert check_topics(settings) == []


def test_topics_that_are_right_are_left_alone(kafka: RunningKafka, stream_name: str) -> None:
    settings = settings_of(stream_name, kafka.bootstrap)
    create_topics(settings)
    before = config_of(kafka.bootstrap, f"{stream_name}.samples")
    report = create_topics(settings)
    assert (report.created, report.findings) == ((), ())
    assert config_of(kafka.bootstrap, f"{stream_name}.samples") == before


def test_what_the_window_is_read_back_from_is_never_deleted(kafka: RunningKafka, stream_name: str) -> None:
    create_topics(settings_of(stream_name, kafka.bootstrap, window="20000"))
    for topic in ("samples", "retirements"):
        config = config_of(kafka.bootstrap, f"{stream_name}.{topic}")
        assert config["cleanup.policy"] == "delete"
        assert (config["retention.ms"], config["retention.bytes"]) == ("-1", "-1")
    assert config_of(kafka.bootstrap, f"{stream_name}.deltas")["retention.ms"] == str(7 * 86_400_000)
    assert {
        topic
        for topic in EVERY_TOPIC
        if config_of(kafka.bootstrap, f"{stream_name}.{topic}")["cleanup.policy"] == "compact"
    } == {"checkpoints", "models", "receipts", "dead-letters"}


def test_a_window_of_time_is_kept_for_its_length_the_skew_and_the_lag(kafka: RunningKafka, stream_name: str) -> None:
    create_topics(settings_of(stream_name, kafka.bootstrap, window="30d", worst_lag_seconds=3600))
    # 30 days, the day that a date may lie ahead of the log, and the hour of lag.
    assert config_of(kafka.bootstrap, f"{stream_name}.samples")["retention.ms"] == str(31 * 86_400_000 + 3_600_000)


def test_retirements_are_never_deleted_for_a_worker_remembers_them_by_number_and_not_by_time(
    kafka: RunningKafka, stream_name: str
) -> None:
    create_topics(settings_of(stream_name, kafka.bootstrap, window="1h", worst_lag_seconds=3600))
    config = config_of(kafka.bootstrap, f"{stream_name}.retirements")
    assert (config["retention.ms"], config["retention.bytes"]) == ("-1", "-1")


def test_a_sample_bears_the_time_at_which_the_broker_took_it(kafka: RunningKafka, stream_name: str) -> None:
    settings = settings_of(stream_name, kafka.bootstrap)
    create_topics(settings)
    producer = Producer(settings.producer_properties("site"))
    # A client may say what it likes: here, the year 2255.
    producer.produce(f"{stream_name}.samples", b"one", partition=0, timestamp=9_000_000_000_000)
    assert producer.flush(PATIENCE_SECONDS) == 0
    with Consumer(settings.consumer_properties("site", group=stream_name)) as consumer:
        consumer.assign([TopicPartition(f"{stream_name}.samples", 0, 0)])
        (record,) = consumer.consume(1, PATIENCE_SECONDS)
    kind, milliseconds = record.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert milliseconds < 9_000_000_000_000


def test_the_largest_delta_and_the_largest_sample_pass_through_our_own_clients(
    kafka: RunningKafka, stream_name: str
) -> None:
    settings = settings_of(stream_name, kafka.bootstrap, features=900)
    create_topics(settings)
    # Bytes that no codec makes smaller; a sample of the topic's limit less what frames it.
    noise = np.random.default_rng(0)
    delta = noise.bytes(kafka_properties.delta_bytes(settings.definition))
    sample = noise.bytes(kafka_properties.INPUT_BYTES - 1024)
    assert len(delta) > 12_000_000
    producer = Producer(settings.producer_properties("central"))
    refusals = []
    for topic, value in (("deltas", delta), ("checkpoints", delta), ("samples", sample), ("samples", sample)):
        producer.produce(
            f"{stream_name}.{topic}", value, b"key", partition=0, on_delivery=lambda error, _: refusals.append(error)
        )
        # Together they are more than a producer holds.
        assert producer.flush(PATIENCE_SECONDS) == 0
    assert refusals == [None, None, None, None]
    with Consumer(settings.consumer_properties("central", group=stream_name)) as consumer:
        for topic, values in (("deltas", [delta]), ("checkpoints", [delta]), ("samples", [sample, sample])):
            consumer.assign([TopicPartition(f"{stream_name}.{topic}", 0, 0)])
            read: list[bytes | None] = []
            while len(read) < len(values):
                records = consumer.consume(1, PATIENCE_SECONDS)
                assert records, f"nothing came from {topic}"
                assert records[0].error() is None
                read.append(records[0].value())
            assert read == values


WRONG = [
    ("samples", "retention.ms", "604800000", "-1"),
    ("retirements", "retention.ms", "604800000", "-1"),
    ("samples", "retention.bytes", "1000000000", "-1"),
    ("samples", "cleanup.policy", "compact", "delete"),
    ("samples", "message.timestamp.type", "CreateTime", "LogAppendTime"),
    ("samples", "max.message.bytes", "1048588", "8388608"),
    ("deltas", "retention.ms", "1000", "604800000"),
    ("deltas", "max.message.bytes", "1000", "2097152"),
    ("deltas", "max.message.bytes", "1000000000", "2097152"),
    ("deltas", "unclean.leader.election.enable", "true", "false"),
    ("checkpoints", "cleanup.policy", "delete", "compact"),
    ("models", "cleanup.policy", "compact,delete", "compact"),
    ("checkpoints", "segment.bytes", "1073741824", "33554432"),
    ("receipts", "cleanup.policy", "delete", "compact"),
    ("samples", "compression.type", "producer", "zstd"),
    ("retirements", "compression.type", "uncompressed", "zstd"),
    ("queries", "compression.type", "producer", "zstd"),
    ("samples", "min.insync.replicas", "2", "1"),
]


@pytest.mark.parametrize(("topic", "setting", "wrong", "right"), WRONG)
def test_a_wrong_setting_is_named_and_its_remedy_mends_it(
    kafka: RunningKafka, stream_name: str, topic: str, setting: str, wrong: str, right: str
) -> None:
    settings = settings_of(stream_name, kafka.bootstrap)
    create_topics(settings)
    alter(kafka.bootstrap, f"{stream_name}.{topic}", {setting: wrong})

    (finding,) = check_topics(settings)

    assert (finding.topic, finding.setting, finding.found) == (f"{stream_name}.{topic}", setting, wrong)
    assert create_topics(settings).findings == (finding,), "creating again must say so too, and mend nothing by itself"
    command = re.search(r"--entity-name (\S+) --add-config ([^=]+)=(\S+)$", finding.remedy)
    assert command is not None, finding.remedy
    assert command.groups() == (f"{stream_name}.{topic}", setting, right)
    assert f"--bootstrap-server {kafka.bootstrap} " in finding.remedy
    alter(kafka.bootstrap, command[1], {command[2]: command[3]})
    assert check_topics(settings) == []


@pytest.mark.parametrize(
    ("topic", "setting", "other"),
    [
        ("dead-letters", "cleanup.policy", "compact,delete"),
        ("receipts", "cleanup.policy", "compact,delete"),
        ("deltas", "retention.ms", "-1"),
        ("deltas", "retention.ms", "9999999999"),
        ("samples", "max.message.bytes", "20000000"),
        ("samples", "compression.type", "lz4"),
        ("deltas", "compression.type", "gzip"),
        ("samples", "retention.ms", "9223372036854775807"),
    ],
)
def test_a_setting_that_is_as_good_or_better_is_no_finding(
    kafka: RunningKafka, stream_name: str, topic: str, setting: str, other: str
) -> None:
    settings = settings_of(stream_name, kafka.bootstrap)
    create_topics(settings)
    alter(kafka.bootstrap, f"{stream_name}.{topic}", {setting: other})
    assert check_topics(settings) == []


@pytest.mark.parametrize(("partitions", "says"), [(2, "--alter"), (4, "cannot be taken away")])
def test_a_topic_with_other_partitions_than_the_stream_is_named(
    kafka: RunningKafka, stream_name: str, partitions: int, says: str
) -> None:
    settings = settings_of(stream_name, kafka.bootstrap)
    create_topics(settings_of(f"{stream_name}-x", kafka.bootstrap))
    right = config_of(kafka.bootstrap, f"{stream_name}-x.retirements")
    names = ("retention.ms", "retention.bytes", "max.message.bytes", "message.timestamp.type", "compression.type")
    own = {key: right[key] for key in names}
    create_topic(kafka.bootstrap, f"{stream_name}.retirements", partitions=partitions, config=own)

    (finding,) = create_topics(settings).findings

    assert (finding.topic, finding.setting) == (f"{stream_name}.retirements", "partitions")
    assert (finding.expected, finding.found) == ("3", str(partitions))
    assert says in finding.remedy
    assert partitions_of(kafka.bootstrap, stream_name)["retirements"] == partitions


def test_topics_that_are_missing_are_each_named_with_the_command_that_makes_them(
    kafka: RunningKafka, stream_name: str
) -> None:
    findings = check_topics(settings_of(stream_name, kafka.bootstrap))
    assert {finding.topic for finding in findings} == {f"{stream_name}.{topic}" for topic in EVERY_TOPIC}
    assert all("deltaplane topics create" in str(finding) for finding in findings)
    assert partitions_of(kafka.bootstrap, stream_name) == {}, "checking must make nothing"


def test_more_replicas_than_brokers_are_refused_by_the_broker_in_its_own_words(
    kafka: RunningKafka, stream_name: str
) -> None:
    report = create_topics(settings_of(stream_name, kafka.bootstrap, replication_factor=50))
    assert report.created == ()
    assert len(report.findings) == len(EVERY_TOPIC)
    assert all(re.search(r"replication factor of 50", finding.found) for finding in report.findings)
    assert partitions_of(kafka.bootstrap, stream_name) == {}


def test_another_replication_factor_than_the_settings_say_is_a_finding(kafka: RunningKafka, stream_name: str) -> None:
    create_topics(settings_of(stream_name, kafka.bootstrap, replication_factor=1))
    findings = check_topics(settings_of(stream_name, kafka.bootstrap, replication_factor=3))
    assert {(finding.setting, finding.expected, finding.found) for finding in findings} == {
        ("replication factor", "3", "1")
    }


def test_samples_stay_on_the_cluster_of_their_site_and_statistics_go_to_the_other(
    kafka: RunningKafka, second_kafka: KafkaCluster, stream_name: str
) -> None:
    settings = settings_of(stream_name, kafka.bootstrap, central_broker=second_kafka.bootstrap)

    report = create_topics(settings)

    assert report.findings == ()
    assert partitions_of(kafka.bootstrap, stream_name).keys() == {"samples", "retirements", "receipts", "dead-letters"}
    assert partitions_of(second_kafka.bootstrap, stream_name).keys() == {
        "deltas",
        "checkpoints",
        "models",
        "queries",
        "predictions",
        "dead-letters",
    }
    assert check_topics(settings) == []
    alter(second_kafka.bootstrap, f"{stream_name}.dead-letters", {"cleanup.policy": "delete"})
    (finding,) = check_topics(settings)
    assert finding.cluster == "central"
    assert second_kafka.bootstrap in finding.remedy


def test_two_of_three_replicas_must_have_a_record_where_the_brokers_would_have_asked_for_one(
    start_kafka: StartKafka, stream_name: str
) -> None:
    with start_kafka(nodes=3, properties={"min.insync.replicas": "1"}) as cluster:
        settings = settings_of(stream_name, cluster.bootstrap)
        create_topic(cluster.bootstrap, f"{stream_name}-by-hand", replicas=3)
        assert config_of(cluster.bootstrap, f"{stream_name}-by-hand")["min.insync.replicas"] == "1"

        report = create_topics(settings)

        assert report.findings == ()
        # Three brokers hear of a change one after the other, and any of them may be asked.
        wait_until(lambda: _in_sync(cluster, stream_name) == {"2"}, "every topic wants two replicas in sync")
        for too_many_or_few in ("1", "3"):
            alter(cluster.bootstrap, f"{stream_name}.deltas", {"min.insync.replicas": too_many_or_few})
            wait_until(
                functools.partial(_is_the_one_finding, settings, "min.insync.replicas", too_many_or_few),
                f"{too_many_or_few} replicas in sync are a finding",
            )


def _in_sync(cluster: KafkaCluster, name: str) -> set[str]:
    return {config_of(cluster.bootstrap, f"{name}.{topic}")["min.insync.replicas"] for topic in EVERY_TOPIC}


def _is_the_one_finding(settings: ServiceSettings, setting: str, found: str) -> bool:
    return [(finding.setting, finding.found) for finding in check_topics(settings)] == [(setting, found)]


def test_a_cluster_that_is_not_there_is_named_with_its_address_and_what_was_said() -> None:
    broker = f"127.0.0.1:{free_port()}"
    settings = settings_of("nowhere", broker, kafka=["sasl.password=correct-horse-battery"])
    for attempt in (check_topics, create_topics):
        with pytest.raises(DeltaplaneError, match=rf"site cluster at {broker}.*[Cc]onnection refused") as refusal:
            attempt(settings, timeout_seconds=1.0)
        assert "correct-horse" not in str(refusal.value)


def test_properties_that_the_client_refuses_are_named_without_the_secrets_among_them() -> None:
    settings = settings_of(
        "nowhere", "127.0.0.1:9", kafka=["sasl.passwort=correct-horse", "security.protocol=SASL_SSL"]
    )
    with pytest.raises(DeltaplaneError, match=r'site cluster.*"sasl\.passwort"') as refusal:
        check_topics(settings)
    assert "correct-horse" not in str(refusal.value)


def test_a_finding_reads_as_one_line_with_everything_in_it() -> None:
    finding = Finding("site", "s.samples", "retention.ms", "-1", "604800000", "mend it with: x")
    assert str(finding) == ("s.samples on the site cluster: retention.ms: expected -1, got 604800000; mend it with: x")


class LateToHear(AdminClient):
    """A client whose first question about a configuration goes to a broker that has not heard of the topic yet."""

    asked = 0

    def describe_configs(  # type: ignore[override]
        self, resources: list[ConfigResource], **options: Any
    ) -> Any:
        if resources[0].restype == ResourceType.BROKER:
            return super().describe_configs(resources, **options)
        type(self).asked += 1
        if type(self).asked > 1:
            return super().describe_configs(resources, **options)
        unheard: Future[Any] = Future()
        unheard.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return {resources[0]: unheard}


def test_a_broker_that_has_not_heard_of_a_new_topic_yet_is_asked_again(
    kafka: RunningKafka, stream_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_questions, "AdminClient", LateToHear)
    report = create_topics(settings_of(stream_name, kafka.bootstrap))
    assert LateToHear.asked > 1
    assert not [finding for finding in report.findings if finding.vital]
