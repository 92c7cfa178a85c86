"""The clients through which services talk to Kafka, as functions that make them.

Publishers are made anew after a failed delivery, since an idempotent producer that has failed stays failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer

from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.membership import Principal
from deltaplane_services.kafka.publishing import Publisher
from deltaplane_services.kafka.topic_watch import TopicWatch

__all__ = ["ClusterClients", "ServiceClients", "WorkerClients"]


@dataclass(frozen=True)
class ClusterClients:
    """Functions that make the clients of a service on one cluster."""

    publisher: Callable[[], Publisher]
    reader: Callable[[], LogReader]
    watch: Callable[[], TopicWatch]


@dataclass(frozen=True)
class ServiceClients:
    """The clients of a merger or a scorer.

    ``consumer`` makes the member of its group, and ``party`` says who that is to the brokers.
    """

    consumer: Callable[[], Consumer]
    party: Principal
    central: ClusterClients


@dataclass(frozen=True)
class WorkerClients(ServiceClients):
    """The clients of a worker, whose group is on the cluster of its site."""

    site: ClusterClients
