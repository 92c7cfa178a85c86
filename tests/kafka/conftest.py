"""Lends a real Kafka to the tests of this directory.

``kafka``
    One node, for the whole run: what most tests need. Keep to topics of your own (``stream_name``).
``second_kafka``, ``third_kafka``
    Two more clusters of one node, for sites. They may be killed and frozen; the next test gets them running.
``kafka_three``
    One cluster of three nodes, for the module: replication 3, ``min.insync.replicas`` 2. The same holds.
``secure_kafka``
    One node that speaks TLS, asks for a name and a password (SCRAM), and allows nothing that was not allowed; for the
    module.
``start_kafka``
    A function with the options of :meth:`KafkaCluster.start` but for the directory. What it starts ends with the
    module, or with a ``with`` block.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

import not_run
from kafka import selection
from kafka.cluster import KafkaCluster
from kafka.secure import SecureKafka
from kafka.selection import RunningKafka

_NEED_PROCESSES = {"kafka_three", "second_kafka", "third_kafka", "secure_kafka", "start_kafka"}
_NEED_ANY = {"kafka"}


class StartKafka(Protocol):
    """The type of ``start_kafka``."""

    def __call__(
        self,
        nodes: int = 1,
        *,
        base_port: int | None = None,
        client_protocol: str = "PLAINTEXT",
        properties: dict[str, str] | None = None,
        classes: Path | None = None,
    ) -> KafkaCluster:
        """Start a cluster: see :meth:`KafkaCluster.start`."""


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKafka]:
    with selection.any_kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def _second_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster.start(tmp_path_factory.mktemp("second-kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _third_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster.start(tmp_path_factory.mktemp("third-kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def _kafka_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster.start(tmp_path_factory.mktemp("kafka-three"), nodes=3) as cluster:
        yield cluster


@pytest.fixture
def second_kafka(_second_kafka: KafkaCluster) -> KafkaCluster:
    _second_kafka.restore()
    return _second_kafka


@pytest.fixture
def third_kafka(_third_kafka: KafkaCluster) -> KafkaCluster:
    _third_kafka.restore()
    return _third_kafka


@pytest.fixture
def kafka_three(_kafka_three: KafkaCluster) -> KafkaCluster:
    _kafka_three.restore()
    return _kafka_three


@pytest.fixture(scope="module")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with SecureKafka.start(tmp_path_factory.mktemp("secure-kafka")) as secure:
        yield secure


@pytest.fixture(scope="module")
def start_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartKafka]:
    with ExitStack() as clusters:

        def start(nodes: int = 1, **options: Any) -> KafkaCluster:
            return clusters.enter_context(
                KafkaCluster.start(tmp_path_factory.mktemp("started-kafka"), nodes, **options)
            )

        yield start


@pytest.fixture
def stream_name(request: pytest.FixtureRequest) -> str:
    """A stream name of the test's own: its topics meet no other test's, nor those of an earlier run."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    return f"{words}-{secrets.token_hex(4)}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do not run a test for want of Kafka, where there is none of the kind that it needs."""
    wanted = set(getattr(item, "fixturenames", ()))
    reason = ""
    if wanted & _NEED_ANY:
        reason = selection.why_no_kafka()
    if not reason and wanted & _NEED_PROCESSES:
        reason = selection.why_no_processes()
    if reason:
        not_run.give_up("KAFKA", reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the ends of the brokers' logs into the report of a failed test."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            cluster = value.cluster if isinstance(value, SecureKafka) else value
            if isinstance(cluster, KafkaCluster):
                report.sections += [(f"{name}, log of node {node}", cluster.log_tail(node)) for node in cluster.nodes]
    return report
