"""What must be so before a command begins: brokers that answer, topics that are there, models of the same definition.

Asked once, at the start, so that a mistake in the configuration is one message, and not a service that waits for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka_properties import ClusterName
from deltaplane_services.processors.records import (
    CHECKPOINTS,
    DEAD_LETTERS,
    DELTAS,
    MODELS,
    PREDICTIONS,
    QUERIES,
    RECEIPTS,
    RETIREMENTS,
    SAMPLES,
    TOPICS,
)
from deltaplane_services.settings import ServiceSettings

START_TIMEOUT_SECONDS = 10.0
"""How long a broker may take to answer the first question. A supervisor that starts brokers and services together
starts a service again that came too early."""

NEEDED: Mapping[str, Mapping[ClusterName, tuple[str, ...]]] = {
    "worker": {
        "site": (SAMPLES, RETIREMENTS, RECEIPTS, DEAD_LETTERS),
        "central": (DELTAS, CHECKPOINTS, MODELS),
    },
    "merger": {"central": (DELTAS, CHECKPOINTS, MODELS, DEAD_LETTERS)},
    "scorer": {"central": (MODELS, QUERIES, PREDICTIONS, DEAD_LETTERS)},
    "produce": {"site": (SAMPLES, RETIREMENTS)},
    "retire": {"site": (RETIREMENTS, RECEIPTS), "central": (MODELS,)},
    "model": {"central": (MODELS,)},
    "audit": {"site": (SAMPLES, RETIREMENTS), "central": (DELTAS, CHECKPOINTS, MODELS)},
}
"""The topics that a command reads or writes, by cluster."""


def check_stream(settings: ServiceSettings, command: str) -> None:
    """Raise what keeps a command from beginning.

    :class:`LogUnavailable` for brokers that do not answer and topics that are missing, :class:`DeltaplaneError` for
    topics of another number of partitions, :class:`DefinitionMismatch` where the stream's models are of another
    definition.
    """
    for cluster, topics in NEEDED[command].items():
        log = reader(settings, cluster)
        try:
            for topic in topics:
                expected = 1 if TOPICS[topic].single else settings.definition.partitions
                found = log.partitions(topic, START_TIMEOUT_SECONDS)
                if found != expected:
                    raise DeltaplaneError(
                        f"kafka: topic {settings.definition.name}.{topic} has {found} partitions, expected {expected};"
                        " use the definition that the stream was made with, or see: deltaplane topics check"
                    )
            if MODELS in topics:
                ModelFollower(log, settings.definition)
        finally:
            log.close()
