"""One Kafka node in a container, for machines that have a Docker engine and no Java.

UNTRIED: this was written where there is no Docker engine, from the documentation of the image and the code of
testcontainers, and no run has passed through it yet. It is kept as small as that calls for: one node, and no failures
to inject.

testcontainers drives it, where an engine answers.
"""

from __future__ import annotations

import gc
import time
import warnings
from types import TracebackType
from typing import Any, Self

from kafka.cluster import START_TIMEOUT_SECONDS, free_port
from kafka.distribution import kafka_version
from kafka.errors import KafkaNotStarted, KafkaUnavailable
from kafka.properties import NodePorts, broker_properties

_INSIDE = NodePorts(client=9092, broker=9094, controller=9093)
_POLL_SECONDS = 0.2


def require_engine() -> None:
    """Raise :class:`KafkaUnavailable` unless a Docker engine answers."""
    from testcontainers.core.docker_client import DockerClient  # noqa: PLC0415 - seldom needed, and slow to import.

    refusal = ""
    with warnings.catch_warnings():
        # A client that finds no engine leaves its socket open for the garbage collector, which would warn.
        warnings.simplefilter("ignore", ResourceWarning)
        # What it raises depends on how the engine is reached: sockets, pipes, SSH and HTTP each have their own.
        try:
            DockerClient().client.ping()
        except Exception as error:  # noqa: BLE001
            refusal = f"no Docker engine answers: {error}"
        gc.collect()
    if refusal:
        raise KafkaUnavailable(refusal)


class KafkaContainer:
    """The ``apache/kafka`` image of pom.xml's version, with the settings of the other test brokers."""

    def __init__(self, container: Any, bootstrap: str) -> None:
        self._container = container
        self.bootstrap = bootstrap

    @classmethod
    def start(cls) -> Self:
        """Start it and return when the broker is up. Raises :class:`KafkaNotStarted`."""
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - as above.

        image = f"apache/kafka:{kafka_version()}"
        container = DockerContainer(image)
        # A broker tells clients where to call it, so the port outside must be known before it starts.
        port = free_port()
        bootstrap = f"{container.get_container_host_ip()}:{port}"
        settings = broker_properties(1, {1: _INSIDE}, data="/tmp/kafka-data")  # noqa: S108 - a path inside the container.
        settings["listeners"] = (
            f"CLIENT://:{_INSIDE.client},BROKER://:{_INSIDE.broker},CONTROLLER://:{_INSIDE.controller}"
        )
        settings["advertised.listeners"] = f"CLIENT://{bootstrap},BROKER://127.0.0.1:{_INSIDE.broker}"
        for key, value in settings.items():
            container.with_env("KAFKA_" + key.replace(".", "_").upper(), value)
        container.with_bind_ports(_INSIDE.client, port)
        container.start()
        started = cls(container, bootstrap)
        try:
            started._await()
        except BaseException:
            started.stop()
            raise
        return started

    def stop(self) -> None:
        """Stop and remove the container."""
        self._container.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _await(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            logs = b"\n".join(self._container.get_logs())
            if b"Kafka Server started" in logs:
                return
            if time.monotonic() > deadline:
                tail = b"\n".join(logs.splitlines()[-30:]).decode(errors="replace")
                raise KafkaNotStarted(
                    f"the Kafka container is not up in {START_TIMEOUT_SECONDS:.0f} s; it said:\n{tail}"
                )
            time.sleep(_POLL_SECONDS)
