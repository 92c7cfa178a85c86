"""What tests keep asking of a cluster: make a topic, read it to the end, wait until its replicas agree.

Waits have a limit only so that a hang ends; no test may depend on how long they take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deltaplane_services.kafka.log_errors import patience
from kafka.errors import KafkaNotStarted

PATIENCE_SECONDS = 180.0

_POLL_SECONDS = 0.05

Properties = Mapping[str, str | int | float | bool]
"""Client properties beside ``bootstrap.servers``."""


def create_topic(
    bootstrap: str, topic: str, *, partitions: int = 1, replicas: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create ``topic`` and return when every partition has a leader. Raises KafkaException if it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics(
        [NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=dict(config or {}))]
    )
    created[topic].result(PATIENCE_SECONDS)
    wait_until(lambda: len(leaders(admin, topic)) == partitions, f"{topic} has {partitions} partitions with leaders")


def read_topic(bootstrap: str, topic: str, properties: Properties | None = None) -> list[Message]:
    """Return every record of ``topic``, partition by partition, each in the order of its log."""
    settings = {
        "group.id": "reads-without-a-group",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 10,
        **(properties or {}),
        "bootstrap.servers": bootstrap,
    }
    records: list[Message] = []
    with Consumer(settings) as consumer:
        ends = {}
        starts = []
        for partition in _partitions(consumer, topic):
            first, ends[partition] = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=PATIENCE_SECONDS
            )
            starts.append(TopicPartition(topic, partition, first))
        consumer.assign(starts)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _passed(consumer, starts, ends):
            assert time.monotonic() < deadline, f"{topic} was not read to its ends {ends}"
            for message in consumer.consume(500, timeout=0.05):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                records.append(message)
    return sorted(records, key=lambda record: record.partition() or 0)


def leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    """Return the node that leads each partition of ``topic``; a partition without a leader is left out."""
    return {number: p.leader for number, p in _partitions(admin, topic).items() if p.leader >= 0}


def wait_until_in_sync(bootstrap: str, topic: str, replicas: int) -> None:
    """Return when every partition of ``topic`` has ``replicas`` replicas that hold all of it.

    A second node may be killed BEFORE that only by a test that wants to lose the majority.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wait_until(
        lambda: all(len(p.isrs) >= replicas for p in _partitions(admin, topic).values()),
        f"{topic} has {replicas} replicas in sync",
    )


def wait_until(so: Callable[[], bool], what: str) -> None:
    """Return when ``so()``; fail with ``what`` if it never is. Errors that Kafka calls passing are waited out."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    last = ""
    while time.monotonic() < deadline:
        try:
            if so():
                return
        except KafkaException as error:
            last = f"; the last error was {error}"
        time.sleep(_POLL_SECONDS)
    raise AssertionError(f"not so after {PATIENCE_SECONDS:.0f} s: {what}{last}")


def require_answer(bootstrap: str, what: str) -> None:
    """Raise :class:`KafkaNotStarted`, calling it ``what``, unless a broker answers."""
    try:
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=PATIENCE_SECONDS / 4)
    except KafkaException as error:
        raise KafkaNotStarted(f"{what} ({bootstrap}) does not answer: {error}") from error


def _partitions(client: AdminClient | Consumer, topic: str) -> dict[int, Any]:
    """Return what the cluster says of each partition: confluent-kafka's PartitionMetadata, which it has no name for."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            described = client.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic]
        except KafkaException as error:
            # The broker that was asked may be the one that has just been killed.
            if not patience(error) or time.monotonic() > until:
                raise
            time.sleep(_POLL_SECONDS)
            continue
        if described.error is not None:
            raise KafkaException(described.error)
        partitions: dict[int, Any] = described.partitions
        return partitions


def _passed(consumer: Consumer, starts: Sequence[TopicPartition], ends: Mapping[int, int]) -> bool:
    """Return whether ``consumer`` is past ``ends``, which may be beyond its last record: transactions leave marks."""
    first = {start.partition: start.offset for start in starts}
    places = consumer.position(list(starts))
    # A position below zero is that of a partition from which nothing has been taken yet.
    return all(max(place.offset, first[place.partition]) >= ends[place.partition] for place in places)
