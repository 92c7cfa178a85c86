"""Which Kafka the tests get, and what happens where there is none.

For tests that need a broker to talk to, in this order: the cluster that ``DELTAPLANE_TEST_KAFKA`` names; a container,
if a Docker engine answers; Apache Kafka's own jars on Java. Tests that kill, freeze or restart nodes need the last, for
that is the one whose processes are at hand.

Where there is none, tests are skipped and the end of the run says so in capitals; on continuous integration (``CI``),
or with ``DELTAPLANE_REQUIRE_KAFKA=1``, they fail. A broker that was named or installed and does not answer is a failure
everywhere.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafka import distribution, docker
from kafka.clients import require_answer
from kafka.cluster import KafkaCluster
from kafka.errors import KafkaUnavailable

NAMED = "DELTAPLANE_TEST_KAFKA"


class RunningKafka(Protocol):
    """What every choice offers."""

    @property
    def bootstrap(self) -> str:
        """Addresses for ``bootstrap.servers``."""


@dataclass(frozen=True)
class NamedKafka:
    """A cluster that somebody else runs."""

    bootstrap: str


@functools.cache
def why_no_processes() -> str:
    """Return why no cluster can be run from Kafka's jars, or nothing if one can; fetches the jars to find out."""
    return _refusal(distribution.prepare)


@functools.cache
def why_no_container() -> str:
    """Return why no container can be run, or nothing if one can."""
    return _refusal(docker.require_engine)


def why_no_kafka() -> str:
    """Return why there is no Kafka of any kind, or nothing if there is one."""
    if os.environ.get(NAMED) or not why_no_container() or not why_no_processes():
        return ""
    return f"{why_no_processes()}; {why_no_container()}; {NAMED} names no cluster"


def any_kafka(directory: Path) -> AbstractContextManager[RunningKafka]:
    """Return the first Kafka of the order above, running; its files, if any, are in ``directory``.

    Raises :class:`KafkaUnavailable`, :class:`KafkaNotStarted`.
    """
    if named := os.environ.get(NAMED):
        require_answer(named, f"the cluster that {NAMED} names")
        return nullcontext(NamedKafka(named))
    if not why_no_container():
        return docker.KafkaContainer.start()
    # Nobody ends it but the run. So no silence of it, on a machine that has more to do, makes it dead to itself.
    return KafkaCluster.start(directory, properties={"broker.session.timeout.ms": "60000"})


def _refusal(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except KafkaUnavailable as reason:
        return str(reason)
    return ""
