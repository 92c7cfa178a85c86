"""A broker of three is dead: what asks about topics goes on being answered, and leaves the processor to others."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from deltaplane_services.kafka.admin_questions import AdminQuestions
from deltaplane_services.kafka.topic_watch import ASK_SECONDS, TopicWatch
from kafka.clients import create_topic, wait_until
from kafka.cluster import KafkaCluster

LOOK_SECONDS = 6.0


@pytest.fixture
def clients(kafka_three: KafkaCluster) -> Any:
    def make(note: object) -> AdminClient:
        properties: dict[str, Any] = {"bootstrap.servers": kafka_three.bootstrap, "error_cb": note, "log_level": 0}
        return AdminClient(properties)

    return make


def test_a_watch_over_topics_is_answered_while_one_of_three_brokers_is_dead(
    kafka_three: KafkaCluster, clients: Any, stream_name: str
) -> None:
    create_topic(kafka_three.bootstrap, stream_name, replicas=3)
    watch = TopicWatch(clients, [stream_name])
    watch.ask_now(30.0)
    (known,) = watch.ids.values()
    kafka_three.kill(1)
    until = time.monotonic() + LOOK_SECONDS + ASK_SECONDS
    while time.monotonic() < until:
        watch.turn()
        time.sleep(0.01)

    def answered() -> bool:
        watch.ids = {}
        watch.ask_now(30.0)
        return watch.ids == {stream_name: known}

    wait_until(answered, "the watch is answered")
    watch.close()


def test_a_dead_broker_is_not_called_as_fast_as_it_refuses(kafka_three: KafkaCluster, clients: Any) -> None:
    node = 2
    about = ConfigResource(ResourceType.BROKER, str(node))

    def ask(client: AdminClient, seconds: float) -> dict[ConfigResource, Future[Any]]:
        described: dict[ConfigResource, Future[Any]] = client.describe_configs([about], request_timeout=seconds)
        return described

    questions = AdminQuestions(clients)
    assert questions.wait(ask, 60.0)[about].result(0.0)
    kafka_three.kill(node)
    began, spent = time.monotonic(), time.process_time()
    fault = questions.wait(ask, LOOK_SECONDS)[about].exception(0.0)
    wall, processor = time.monotonic() - began, time.process_time() - spent
    assert fault is not None
    assert fault.args[0].code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}
    # One client that goes on calling costs 1.3 seconds of the processor in each.
    assert processor < 0.7 * wall
