"""Topics on a cluster whose owner says what may be made: all that can be is, and the rest is named with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import not_run
from deltaplane_services.operations.topics import Finding, TopicReport, check_topics, create_topics
from kafka import distribution
from kafka.clients import create_topic
from kafka.cluster import KafkaCluster
from kafka.conftest import StartKafka
from kafka.services import Stream
from kafka.test_topics import EVERY_TOPIC, PARTITIONS, config_of, partitions_of, settings_of

POLICY = Path(__file__).with_name("StatedPolicy.java")
MANAGED = (
    "only cleanup.policy delete.retention.ms max.message.bytes max.compaction.lag.ms message.timestamp.type"
    " message.timestamp.difference.max.ms min.compaction.lag.ms min.insync.replicas retention.bytes retention.ms"
    " segment.bytes segment.ms"
)
"""What some managed clusters allow to be said."""

ALL_BUT_ORDINARY = "only compression.type"


class Ruled:
    """A cluster with a policy that a test states."""

    def __init__(self, cluster: KafkaCluster, file: Path) -> None:
        self.bootstrap = cluster.bootstrap
        self.file = file

    def state(self, *rules: str) -> None:
        """Have these rules from now on."""
        self.file.write_text("\n".join(rules))


@pytest.fixture(scope="module")
def one_ruled(start_kafka: StartKafka, tmp_path_factory: pytest.TempPathFactory) -> Ruled:
    compiler = shutil.which("javac")
    if compiler is None:
        not_run.give_up("KAFKA", "there is no javac on PATH to compile a policy with")
    directory = tmp_path_factory.mktemp("policy")
    jars = os.pathsep.join(str(jar) for jar in distribution.prepare().jars)
    subprocess.run([compiler or "", "-cp", jars, "-d", str(directory), str(POLICY)], check=True)
    file = directory / "rules"
    file.write_text("")
    properties = {"create.topic.policy.class.name": "StatedPolicy", "test.policy.file": str(file)}
    return Ruled(start_kafka(properties=properties, classes=directory), file)


@pytest.fixture
def ruled(one_ruled: Ruled) -> Iterator[Ruled]:
    one_ruled.state()
    yield one_ruled
    one_ruled.state()


def made(report: TopicReport, name: str) -> set[str]:
    return {topic.removeprefix(f"{name}.") for topic in report.created}


def vital(report: TopicReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.vital]


def test_a_cluster_that_lets_few_settings_be_said_gets_every_topic_and_nothing_is_said_twice(
    ruled: Ruled, stream_name: str
) -> None:
    ruled.state(MANAGED)
    report = create_topics(settings_of(stream_name, ruled.bootstrap))
    assert made(report, stream_name) == EVERY_TOPIC.keys()
    assert partitions_of(ruled.bootstrap, stream_name) == EVERY_TOPIC
    # Its codec may not be chosen there; the rest is as it must be.
    assert {(f.topic, f.setting) for f in vital(report)} == {
        (f"{stream_name}.{topic}", "compression.type") for topic in ("samples", "retirements", "queries")
    }
    for finding in vital(report):
        assert "Config property 'compression.type' is not allowed" in finding.remedy
        assert f"--entity-name {finding.topic} --add-config compression.type=zstd" in finding.remedy
        assert "forged" in str(finding)
    assert config_of(ruled.bootstrap, f"{stream_name}.samples")["message.timestamp.type"] == "LogAppendTime"


def test_what_a_cluster_gives_by_itself_is_not_asked_for(ruled: Ruled, stream_name: str) -> None:
    # Every setting that the broker has as it must be is forbidden to be said.
    ruled.state(
        "never unclean.leader.election.enable false",
        "never retention.bytes -1",
        "never min.insync.replicas 1",
        "never compression.type producer",
    )
    report = create_topics(settings_of(stream_name, ruled.bootstrap))
    assert report.findings == ()
    assert made(report, stream_name) == EVERY_TOPIC.keys()


@pytest.mark.parametrize("mute", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        ("never retention.ms -1", "samples", "retention.ms", True),
        ("never cleanup.policy compact", "checkpoints", "cleanup.policy", True),
        ("never message.timestamp.type LogAppendTime", "deltas", "message.timestamp.type", True),
        ("most max.message.bytes 1048588", "samples", "max.message.bytes", False),
        ("most max.message.bytes 1048588", "deltas", "max.message.bytes", False),
        ("most segment.bytes 1000000", "models", "segment.bytes", False),
    ],
)
def test_a_value_that_is_refused_is_left_out_and_named_with_the_brokers_words(
    ruled: Ruled, stream_name: str, case: tuple[str, str, str, bool], *, mute: bool
) -> None:
    rule, topic, setting, is_vital = case
    ruled.state(rule, *(["mute"] if mute else []))
    settings = settings_of(stream_name, ruled.bootstrap)
    report = create_topics(settings)
    assert made(report, stream_name) == EVERY_TOPIC.keys()
    assert {finding.setting for finding in report.findings} == {setting}
    (finding,) = [finding for finding in report.findings if finding.topic == f"{stream_name}.{topic}"]
    assert finding.vital == is_vital
    assert ("not on this cluster" if mute else setting) in finding.remedy
    assert f"--entity-name {finding.topic} --add-config {setting}=" in finding.remedy
    # Whoever looks again finds the same, but for the length of files of samples, which may be any.
    assert {(f.topic, f.setting, f.vital) for f in check_topics(settings)} == {
        (f.topic, f.setting, f.vital)
        for f in report.findings
        if (f.topic, f.setting) != (f"{stream_name}.samples", "segment.bytes")
    }


def test_a_message_limit_below_what_a_delta_needs_is_vital(ruled: Ruled, stream_name: str) -> None:
    ruled.state("most max.message.bytes 1048588")
    report = create_topics(settings_of(stream_name, ruled.bootstrap, features=900))
    assert {(f.topic, f.setting) for f in vital(report)} == {
        (f"{stream_name}.{topic}", "max.message.bytes") for topic in ("deltas", "checkpoints", "models")
    }


def test_a_setting_that_a_policy_wants_said_is_said(ruled: Ruled, stream_name: str) -> None:
    ruled.state("demand retention.bytes", "demand unclean.leader.election.enable")
    report = create_topics(settings_of(stream_name, ruled.bootstrap))
    # Topics that are compacted have no such setting to say.
    assert {"samples", "retirements", "deltas", "queries", "predictions"} <= made(report, stream_name)
    assert {f.topic.rsplit(".", 1)[1] for f in report.findings} == {"checkpoints", "models", "receipts", "dead-letters"}
    assert all("every topic must have retention.bytes" in finding.found for finding in report.findings)


def test_numbers_of_replicas_and_partitions_that_are_refused_are_named_with_what_to_do(
    ruled: Ruled, stream_name: str
) -> None:
    settings = settings_of(stream_name, ruled.bootstrap)
    ruled.state("replicas 3")
    report = create_topics(settings)
    assert report.created == ()
    assert all("--replication-factor" in finding.remedy for finding in report.findings)
    ruled.state(f"partitions {PARTITIONS - 1}")
    report = create_topics(settings)
    assert made(report, stream_name) == {"checkpoints", "models"}
    assert all("fewer partitions" in finding.remedy and finding.vital for finding in report.findings)
    # What stands is left as it is, and what was missing is made.
    ruled.state()
    report = create_topics(settings)
    assert (made(report, stream_name), report.findings) == (EVERY_TOPIC.keys() - {"checkpoints", "models"}, ())


def test_three_replicas_are_chosen_where_one_is_refused_and_nobody_asked_for_it(
    start_kafka: StartKafka, one_ruled: Ruled, stream_name: str, tmp_path: Path
) -> None:
    rules = tmp_path / "rules"
    rules.write_text("replicas 3")
    properties = {
        "create.topic.policy.class.name": "StatedPolicy",
        "test.policy.file": str(rules),
        "default.replication.factor": "1",
    }
    classes = one_ruled.file.parent
    with start_kafka(nodes=3, properties=properties, classes=classes) as cluster:
        report = create_topics(settings_of(stream_name, cluster.bootstrap))
        assert report.findings == ()
        assert made(report, stream_name) == EVERY_TOPIC.keys()


def test_a_topic_that_is_there_already_is_left_alone_whatever_the_policy(ruled: Ruled, stream_name: str) -> None:
    create_topic(ruled.bootstrap, f"{stream_name}.models")
    ruled.state(ALL_BUT_ORDINARY)
    report = create_topics(settings_of(stream_name, ruled.bootstrap))
    assert made(report, stream_name) == EVERY_TOPIC.keys() - {"models"}
    by_topic: dict[str, set[str]] = {}
    for finding in report.findings:
        by_topic.setdefault(finding.topic.removeprefix(f"{stream_name}."), set()).add(finding.setting)
    assert by_topic["models"] >= {"cleanup.policy", "max.message.bytes"}
    assert by_topic["samples"] >= {"retention.ms"}
    assert "compression.type" not in by_topic["samples"]


def test_the_command_makes_what_it_can_and_its_exit_code_says_whether_something_is_missing(
    ruled: Ruled, stream_name: str, tmp_path: Path
) -> None:
    tables: dict[str, Any] = {"window": {"length": "1000"}}
    with Stream.of(tmp_path, stream_name, ruled.bootstrap, **tables) as stream:
        ruled.state("never retention.ms -1")
        told = stream.run("topics", "create", code=1)
        assert told.stdout.count("created ") == len(EVERY_TOPIC)
        assert "retention.ms may not be -1" in told.stderr
        assert stream.run("topics", "check", code=1).stderr.count("retention.ms") >= 2
    with Stream.of(tmp_path / "other", f"{stream_name}-x", ruled.bootstrap, **tables) as stream:
        ruled.state("most max.message.bytes 1048588", "most segment.bytes 1000000")
        told = stream.run("topics", "create")
        assert told.stdout.count("created ") == len(EVERY_TOPIC)
        assert "max.message.bytes is above" in told.stderr
        assert "max.message.bytes" in stream.run("topics", "check").stderr
