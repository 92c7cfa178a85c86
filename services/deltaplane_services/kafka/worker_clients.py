"""The clients through which a worker talks to Kafka."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer

from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.membership import ANYBODY, Principal
from deltaplane_services.kafka.publishing import Publisher
from deltaplane_services.kafka.topic_watch import TopicWatch

__all__ = ["WorkerClients"]


@dataclass(frozen=True)
class WorkerClients:
    """Functions that make the clients of a worker, on the site's cluster and on the central one.

    Publishers are made anew after a failed delivery, since an idempotent producer that has failed stays failed.
    """

    consumer: Callable[[], Consumer]
    site_publisher: Callable[[], Publisher]
    central_publisher: Callable[[], Publisher]
    site_reader: Callable[[], LogReader]
    central_reader: Callable[[], LogReader]
    site_watch: Callable[[], TopicWatch]
    central_watch: Callable[[], TopicWatch]
    party: Principal = ANYBODY
