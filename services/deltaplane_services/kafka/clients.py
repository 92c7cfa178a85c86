"""The clients of commands and services, each on its cluster.

Raw rows stay on the site's cluster; statistics and models are on the central one.
"""

from __future__ import annotations

import logging
import math
import re
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException

from deltaplane.errors import DefinitionError
from deltaplane.stream.mismatch import announcement
from deltaplane_services.definition_file.kafka_properties import ClusterName, client_refused, without_secrets
from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.intake.waiting_rows import WaitingRows, opened
from deltaplane_services.kafka.access import INTAKES, MERGERS, ROLES, SCORERS, WORKERS, group_name
from deltaplane_services.kafka.admin_questions import admin_client
from deltaplane_services.kafka.certificates import with_cause
from deltaplane_services.kafka.intake_loop import IntakeClients
from deltaplane_services.kafka.judge_loop import JudgeClients
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.kafka.membership import Principal
from deltaplane_services.kafka.publishing import MOST_UNACKNOWLEDGED_SAMPLES, Delivered, Publisher, ignore_delivery
from deltaplane_services.kafka.scorer_loop import headers_of
from deltaplane_services.kafka.service_clients import ClusterClients, ServiceClients, WorkerClients
from deltaplane_services.kafka.topic_watch import TopicWatch
from deltaplane_services.processors.messages import CHECKPOINTS, DELTAS, MODELS, RETIREMENTS, SAMPLES

__all__ = [
    "CRITICAL",
    "MOST_REMEMBERED",
    "SILENT_SECONDS",
    "intake_clients",
    "judge_clients",
    "merger_clients",
    "publisher",
    "reader",
    "readers",
    "registry_properties",
    "sample_publisher",
    "scorer_clients",
    "topic_watch",
    "whole_name_publisher",
    "worker_clients",
    "writer_name",
]

logger = logging.getLogger(__name__)
Client = TypeVar("Client")

SILENT_SECONDS = 60.0
"""Seconds in which the same error of a client is logged only once."""

MOST_REMEMBERED = 100
_OF_THE_MOMENT = re.compile(r" \(after [0-9]+ms in state [^)]*\)|: [0-9]+ identical error\(s\) suppressed")

CRITICAL = 2
"""The level of librdkafka's own lines on standard error that are let through; its errors go to our log instead."""


def writer_name(settings: ServiceSettings, role: str = "worker") -> str:
    """A name for this process that no other has ever had."""
    return f"{settings.knobs.instance or role}-{uuid.uuid4().hex[:12]}"


def publisher(settings: ServiceSettings, cluster: ClusterName, on_delivered: Delivered = ignore_delivery) -> Publisher:
    """A publisher to one cluster. Raises :class:`DefinitionError` if librdkafka refuses its properties."""
    name, announced = settings.definition.name, announcement(settings.definition)
    properties = settings.producer_properties(cluster)
    return _made(lambda given: Publisher(given, name, on_delivered, announcement=announced), properties, cluster)


def whole_name_publisher(settings: ServiceSettings, cluster: ClusterName) -> Publisher:
    """A publisher of records that name whole topics, of the stream or not. Raises as :func:`publisher` does."""
    return _made(lambda given: Publisher(given, ""), settings.producer_properties(cluster), cluster)


def sample_publisher(settings: ServiceSettings) -> Publisher:
    """A publisher of samples and retirements to the site's cluster. Raises as :func:`publisher` does."""
    name, announced = settings.definition.name, announcement(settings.definition)
    properties, most = settings.producer_properties("site"), MOST_UNACKNOWLEDGED_SAMPLES
    return _made(lambda given: Publisher(given, name, ignore_delivery, most, announced), properties, "site")


def reader(settings: ServiceSettings, cluster: ClusterName, *, headers: bool = False) -> LogReader:
    """A reader by offset on one cluster, with the headers of records if they are asked for.

    Raises :class:`DefinitionError` if librdkafka refuses its properties.
    """
    name = settings.definition.name
    properties = settings.consumer_properties(cluster, f"{name}.readers")
    return _made(lambda given: LogReader(given, name, headers_of if headers else None), properties, cluster)


@contextmanager
def readers(settings: ServiceSettings) -> Iterator[tuple[LogReader, LogReader]]:
    """(a reader of the central cluster, one of the site's), which are closed at the end of the block."""
    with closing(reader(settings, "central")) as central, closing(reader(settings, "site")) as site:
        yield central, site


def topic_watch(settings: ServiceSettings, cluster: ClusterName, topics: Sequence[str]) -> TopicWatch:
    """A watch over topics of a stream on one cluster; its clients log nothing, since the others log the same errors."""
    names = [f"{settings.definition.name}.{topic}" for topic in topics]
    return _watch(settings.admin_properties(cluster), cluster, names)


def _watch(properties: Mapping[str, Any], cluster: ClusterName, names: Sequence[str]) -> TopicWatch:
    """A watch over topics by their full names, through clients with these properties."""
    return TopicWatch(lambda note: admin_client(properties, cluster, note), names)


def worker_clients(settings: ServiceSettings, on_delivered: Delivered = ignore_delivery) -> WorkerClients:
    """The clients of a worker: samples and retirements come from the site's cluster, deltas go to the central one."""
    return WorkerClients(
        consumer=lambda: _member(settings, "site", WORKERS, settings.knobs.instance, {"enable.partition.eof": True}),
        party=_party(settings, "site", WORKERS),
        central=_cluster_clients(settings, "central", (DELTAS, MODELS), on_delivered),
        site=_cluster_clients(settings, "site", (SAMPLES, RETIREMENTS), on_delivered),
    )


def merger_clients(settings: ServiceSettings, on_delivered: Delivered = ignore_delivery) -> ServiceClients:
    """The clients of a merger.

    Its membership is never static, since a merger that is gone must not keep its place.
    """
    return ServiceClients(
        consumer=lambda: _member(settings, "central", MERGERS, ""),
        party=_party(settings, "central", MERGERS),
        central=_cluster_clients(settings, "central", (DELTAS, CHECKPOINTS, MODELS), on_delivered),
    )


def scorer_clients(settings: ServiceSettings, on_delivered: Delivered = ignore_delivery) -> ServiceClients:
    """The clients of a scorer."""
    topics = tuple(ROLES["scorer"].topics("central"))
    return ServiceClients(
        consumer=lambda: _member(settings, "central", SCORERS, settings.knobs.instance, {"enable.partition.eof": True}),
        party=_party(settings, "central", SCORERS),
        central=_cluster_clients(settings, "central", topics, on_delivered),
    )


def _cluster_clients(
    settings: ServiceSettings, cluster: ClusterName, topics: Sequence[str], on_delivered: Delivered
) -> ClusterClients:
    """The clients of a service on one cluster; its watch is over ``topics``."""
    return ClusterClients(
        publisher=lambda: publisher(settings, cluster, on_delivered),
        reader=lambda: reader(settings, cluster),
        watch=lambda: topic_watch(settings, cluster, topics),
    )


def judge_clients(settings: ServiceSettings) -> JudgeClients:
    """The clients of a judge: predictions come from the central cluster, labels from the site's."""
    return JudgeClients(
        predictions=lambda: reader(settings, "central"),
        samples=lambda: reader(settings, "site"),
        party=Principal.of(settings.admin_properties("site")),
    )


def intake_clients(settings: ServiceSettings, on_delivered: Delivered = ignore_delivery) -> IntakeClients:
    """The clients of an intake, all on the site's cluster. Raises :class:`DefinitionError` without an ``[intake]``."""
    if settings.intake is None:
        raise DefinitionError("intake: the definition has no [intake], which names your topics; see deltaplane.toml")
    name, intake = settings.definition.name, settings.intake
    announced = announcement(settings.definition)
    properties = settings.consumer_properties("site", f"{name}.readers")
    out, most = settings.producer_properties("site"), MOST_UNACKNOWLEDGED_SAMPLES

    def rows(partition: int) -> WaitingRows:
        return opened(Path(settings.knobs.state_directory), f"{name}.{settings.site}.{partition}", intake.identity)

    return IntakeClients(
        consumer=lambda: _member(settings, "site", INTAKES, settings.knobs.instance, {"enable.partition.eof": True}),
        party=_party(settings, "site", INTAKES),
        site=ClusterClients(
            publisher=lambda: _made(lambda given: Publisher(given, name, on_delivered, most, announced), out, "site"),
            reader=lambda: _made(lambda given: LogReader(given, name, headers_of), properties, "site"),
            watch=lambda: _watch(settings.admin_properties("site"), "site", intake.topics),
        ),
        users_reader=lambda: _made(lambda given: LogReader(given, "", headers_of), properties, "site"),
        rows=rows,
        query_publisher=lambda: publisher(settings, "central", on_delivered),
        registry=registry_properties(settings.knobs),
    )


def registry_properties(knobs: Knobs) -> dict[str, Any]:
    """The properties of a schema registry's client: the address, and what the file of ``registry_properties`` has.

    Raises :class:`DefinitionError` for a file that cannot be read. What it holds is not repeated: it may be a secret.
    """
    given: dict[str, Any] = {}
    if knobs.registry_properties:
        path = Path(knobs.registry_properties)
        try:
            given = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else "it is no TOML, such as 'KEY' = 'VALUE'"
            raise DefinitionError(f"registry_properties: {str(path)!r} cannot be read: {why}") from None
    return {**given, **({"url": knobs.registry} if knobs.registry else {})}


def _member(
    settings: ServiceSettings, cluster: ClusterName, group: str, instance: str, more: Mapping[str, Any] | None = None
) -> Consumer:
    properties = settings.consumer_properties(cluster, group_name(settings, group), instance)
    return _made(Consumer, {**properties, **(more or {})}, cluster)


def _party(settings: ServiceSettings, cluster: ClusterName, group: str) -> Principal:
    return Principal.of(settings.consumer_properties(cluster, group_name(settings, group)))


def _made(make: Callable[[dict[str, Any]], Client], properties: Mapping[str, Any], cluster: ClusterName) -> Client:
    """A client with these properties, whose errors go to our log. Raises :class:`DefinitionError` if they are refused.

    ``make`` makes it from all of its properties.
    """
    ours: dict[str, Any] = {"error_cb": _ErrorLog(cluster, properties)}
    if "debug" not in properties:
        ours["log_level"] = CRITICAL
    try:
        return make({**ours, **properties})
    except (KafkaException, TypeError, ValueError) as fault:
        raise client_refused(fault, properties, cluster) from None


class _ErrorLog:
    """Logs the errors that librdkafka reports outside of calls, without repetitions.

    A client that is refused (a wrong password, a certificate that nobody vouches for) tries again several times a
    second as long as it lives, and each message differs from the one before only in a number of milliseconds.
    """

    def __init__(self, cluster: ClusterName, properties: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._properties = properties
        self._said: dict[str, float] = {}

    def __call__(self, error: KafkaError) -> None:
        """Log an error, unless it was logged lately; called from the thread that polls the client."""
        text, now = _OF_THE_MOMENT.sub("", error.str()), time.monotonic()
        if now - self._said.get(text, -math.inf) < SILENT_SECONDS:
            return
        if len(self._said) >= MOST_REMEMBERED:
            self._said.clear()
        self._said[text] = now
        said = without_secrets(with_cause(text, self._properties), self._properties)
        logger.warning("%s cluster: %s (%s)", self._cluster, said, error.name())
