"""Which client goes to which cluster: raw rows stay on the site's, statistics and models live on the central one."""

from __future__ import annotations

import logging
import uuid

from confluent_kafka import Consumer, KafkaError

from deltaplane_services.kafka.log import LogReader, Publisher
from deltaplane_services.kafka.merger import MergerClients
from deltaplane_services.kafka.scorer import ScorerClients
from deltaplane_services.kafka.worker import WorkerClients
from deltaplane_services.kafka_properties import ClusterName
from deltaplane_services.settings import ServiceSettings

logger = logging.getLogger(__name__)


def writer_name(settings: ServiceSettings) -> str:
    """A name for this process that none has had before."""
    return f"{settings.knobs.instance or 'worker'}-{uuid.uuid4().hex[:12]}"


def publisher(settings: ServiceSettings, cluster: ClusterName) -> Publisher:
    """A publisher to one cluster."""
    return Publisher({**settings.producer_properties(cluster), "error_cb": _log_error}, settings.definition.name)


def reader(settings: ServiceSettings, cluster: ClusterName) -> LogReader:
    """A reader by offset on one cluster."""
    properties = settings.consumer_properties(cluster, f"{settings.definition.name}.readers")
    return LogReader({**properties, "error_cb": _log_error}, settings.definition.name)


def worker_clients(settings: ServiceSettings) -> WorkerClients:
    """Samples and retirements are consumed on the site's cluster, deltas go to the central one."""
    return WorkerClients(
        consumer=lambda: _member(settings, "site", f"workers.{settings.site}", settings.knobs.instance),
        site_publisher=lambda: publisher(settings, "site"),
        central_publisher=lambda: publisher(settings, "central"),
        site_reader=lambda: reader(settings, "site"),
        central_reader=lambda: reader(settings, "central"),
    )


def merger_clients(settings: ServiceSettings) -> MergerClients:
    """All on the central cluster. Membership is never static: a merger that is gone must not keep its place."""
    return MergerClients(
        consumer=lambda: _member(settings, "central", "mergers", ""),
        publisher=lambda: publisher(settings, "central"),
        reader=lambda: reader(settings, "central"),
    )


def scorer_clients(settings: ServiceSettings) -> ScorerClients:
    """All on the central cluster."""
    return ScorerClients(
        consumer=lambda: _member(settings, "central", "scorers", settings.knobs.instance),
        publisher=lambda: publisher(settings, "central"),
        reader=lambda: reader(settings, "central"),
    )


def _member(settings: ServiceSettings, cluster: ClusterName, group: str, instance: str) -> Consumer:
    properties = settings.consumer_properties(cluster, f"{settings.definition.name}.{group}", instance)
    return Consumer({**properties, "error_cb": _log_error})


def _log_error(error: KafkaError) -> None:
    """What librdkafka says by the way; what matters comes back from the call that needed it."""
    logger.warning("kafka: %s (%s)", error.str(), error.name())
