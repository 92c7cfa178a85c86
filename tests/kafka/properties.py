"""The settings of a test broker: those of a careful production cluster, made small and quick to notice a dead node.

Three listeners a node. Clients come in by ``CLIENT``, whose protocol a test may choose (TLS, SASL); brokers talk by
``BROKER`` and controllers by ``CONTROLLER``, always in the clear, so that a test of client security sets nothing else.
Limits that a deployment must raise for itself, such as the size of a message, are left as Kafka ships them: a topic
that forgets to raise them fails here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HOST = "127.0.0.1"


@dataclass(frozen=True)
class NodePorts:
    """The ports of one node on this machine."""

    client: int
    broker: int
    controller: int


def broker_properties(
    node: int, ports: Mapping[int, NodePorts], client_protocol: str = "PLAINTEXT", data: str = "data"
) -> dict[str, str]:
    """Return the properties of ``node``, one of the cluster's nodes ``ports``; each is both broker and controller."""
    replicas = str(min(3, len(ports)))
    in_sync = str(min(2, len(ports)))
    own = ports[node]
    listeners = f"CLIENT://{HOST}:{own.client},BROKER://{HOST}:{own.broker}"
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "log.dirs": data,
        "listeners": f"{listeners},CONTROLLER://{HOST}:{own.controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"CLIENT:{client_protocol},BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{n}@{HOST}:{p.controller}" for n, p in sorted(ports.items())),
        # No topic comes into being by a typing error, and no acknowledged record is lost to a late replica.
        "auto.create.topics.enable": "false",
        "unclean.leader.election.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # A dead node is noticed in seconds, and a machine that stands still for two of them is no dead node.
        "broker.heartbeat.interval.ms": "1000",
        "broker.session.timeout.ms": "6000",
        "replica.lag.time.max.ms": "5000",
        "controller.quorum.election.timeout.ms": "1000",
        "controller.quorum.fetch.timeout.ms": "2000",
        # However long a node takes to find the others, on a machine that has more to do.
        "initial.broker.registration.timeout.ms": "240000",
        # Records of nothing: half of what an idle node does.
        "metadata.max.idle.interval.ms": "5000",
        # So is a dead group member, where a test asks for that; and a first member need not wait for others.
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        # Small: few threads, few partitions of Kafka's own, a small buffer to compact with, and soon.
        "num.network.threads": "2",
        "num.io.threads": "2",
        "num.replica.fetchers": "1",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "share.coordinator.state.topic.num.partitions": "1",
        # Reserved for every partition, in full: at Kafka's 10 MB a few hundred of them look like gigabytes.
        "log.index.size.max.bytes": "262144",
        "log.cleaner.dedupe.buffer.size": "2097152",
        "log.cleaner.backoff.ms": "5000",
    }
