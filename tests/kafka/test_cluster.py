"""The brokers of these tests are real: they keep order, lose nothing that they acknowledged, and die when told to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from kafka.clients import PATIENCE_SECONDS, create_topic, leaders, read_topic, wait_until, wait_until_in_sync
from kafka.cluster import KafkaCluster
from kafka.conftest import StartKafka
from kafka.errors import KafkaNotStarted
from kafka.selection import RunningKafka


def test_what_is_produced_is_read_back_in_order_at_offsets_without_gaps(kafka: RunningKafka, stream_name: str) -> None:
    create_topic(kafka.bootstrap, stream_name, partitions=3)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "compression.type": "zstd", "linger.ms": 5}
    )
    for number in range(999):
        producer.produce(stream_name, key=b"%d" % (number % 7), value=b"%d" % number, partition=number % 3)
    assert producer.flush(PATIENCE_SECONDS) == 0

    records = read_topic(kafka.bootstrap, stream_name)

    for partition in range(3):
        own = [record for record in records if record.partition() == partition]
        assert [record.offset() for record in own] == list(range(333))
        assert [record.value() for record in own] == [b"%d" % number for number in range(partition, 999, 3)]
        assert [record.key() for record in own] == [b"%d" % (number % 7) for number in range(partition, 999, 3)]


def test_a_topic_that_nobody_made_does_not_come_into_being(second_kafka: KafkaCluster, stream_name: str) -> None:
    producer = Producer({"bootstrap.servers": second_kafka.bootstrap, "topic.metadata.propagation.max.ms": 1})
    refusals: list[KafkaError | None] = []
    try:
        producer.produce(stream_name, b"lost?", on_delivery=lambda error, _: refusals.append(error))
    except KafkaException as fault:
        # The client has already heard that there is none: it says so at once, in its own name.
        refusals.append(fault.args[0])
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert [refusal and refusal.name() for refusal in refusals] in (["UNKNOWN_TOPIC_OR_PART"], ["_UNKNOWN_TOPIC"])


def test_a_leader_killed_and_restarted_loses_nothing_that_three_nodes_acknowledged(
    kafka_three: KafkaCluster, stream_name: str
) -> None:
    create_topic(kafka_three.bootstrap, stream_name, replicas=3)
    producer = Producer(
        {"bootstrap.servers": kafka_three.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
    )
    admin = AdminClient({"bootstrap.servers": kafka_three.bootstrap})
    leader = leaders(admin, stream_name)[0]
    acknowledged: dict[bytes, int] = {}
    failed: list[KafkaError] = []

    def note(error: KafkaError | None, record: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            acknowledged[record.value() or b""] = record.offset() or 0

    for number in range(600):
        if number == 200:
            kafka_three.kill(leader)
            assert kafka_three.alive == tuple(node for node in kafka_three.nodes if node != leader)
        producer.produce(stream_name, b"%d" % number, on_delivery=note)
        producer.poll(0)
        if number == 400:
            # Two of three are a majority: records are acknowledged while the third is down, under another leader.
            assert producer.flush(PATIENCE_SECONDS) == 0
            assert leaders(admin, stream_name)[0] != leader
            kafka_three.restart(leader)
    assert producer.flush(PATIENCE_SECONDS) == 0
    wait_until_in_sync(kafka_three.bootstrap, stream_name, 3)

    assert failed == []
    records = read_topic(kafka_three.bootstrap, stream_name)
    assert [record.value() for record in records] == [b"%d" % number for number in range(600)]
    assert {record.value(): record.offset() for record in records} == acknowledged


def test_a_frozen_node_answers_nothing_until_it_is_resumed(second_kafka: KafkaCluster) -> None:
    second_kafka.pause(1)
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": second_kafka.bootstrap}).list_topics(timeout=0.3)
    second_kafka.resume(1)
    AdminClient({"bootstrap.servers": second_kafka.bootstrap}).list_topics(timeout=PATIENCE_SECONDS)


def test_each_cluster_has_an_identity_of_its_own(kafka: RunningKafka, second_kafka: KafkaCluster) -> None:
    names = [
        AdminClient({"bootstrap.servers": k.bootstrap}).cluster_id(PATIENCE_SECONDS) for k in (kafka, second_kafka)
    ]
    assert names[0] != names[1]


def test_clients_can_be_made_to_give_a_password(start_kafka: StartKafka) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    properties = {
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f'{module} required user_reader="right";',
    }
    refusals: list[int] = []
    with start_kafka(client_protocol="SASL_PLAINTEXT", properties=properties) as cluster:
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "reader",
        }
        stranger = Producer(
            {**settings, "sasl.password": "wrong", "error_cb": lambda error: refusals.append(error.code())}
        )
        wait_until(lambda: stranger.poll(0.1) >= 0 and bool(refusals), "a wrong password is refused")
        assert refusals[0] == KafkaError._AUTHENTICATION
        AdminClient({**settings, "sasl.password": "right"}).list_topics(timeout=PATIENCE_SECONDS)


def test_a_node_that_does_not_come_up_says_what_its_log_says(start_kafka: StartKafka) -> None:
    with pytest.raises(KafkaNotStarted, match=r"(?s)node 1 ended instead of starting.*\n.*num\.io\.threads"):
        start_kafka(properties={"num.io.threads": "none"})


def test_a_run_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal, subprocess\n"
        "from kafka.guardian import Guardian\n"
        "broker = subprocess.Popen(['sleep', '3600'], start_new_session=True)\n"
        "Guardian().watch([broker.pid])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    tests = Path(__file__).parents[1]
    # What is killed shares its output with what it leaves behind, so this returns when nothing is left.
    done = subprocess.run(
        [sys.executable, script],
        cwd=tests,
        capture_output=True,
        check=False,
        env={"PYTHONPATH": "."},
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == -9
    assert done.stderr == b""
