"""``replay --broker``: the same replay on a real cluster, with topics and services of its own.

The stream gets a name that no other stream has. Its topics are created, and deleted at the end. A merger and workers
run as separate processes, exactly as in production.
"""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from deltaplane.errors import DeltaplaneError
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.operations.topics import create_topics
from deltaplane_services.processors.messages import TOPICS
from deltaplane_services.replay.kafka_pipeline import KafkaPipeline, Service
from deltaplane_services.replay.run import OpenPipeline

__all__ = ["KafkaRun", "delete_topics", "on_kafka", "start_services", "stop_services"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KafkaRun:
    """Where a replay runs: the cluster, further librdkafka properties, and the number of workers.

    ``keep_topics`` keeps the topics for an audit. ``services=False`` uses services that somebody else has started for
    the stream. ``service``: the tables ``[service]`` and ``[kafka]`` of a definition file, by their names.
    ``blas_threads`` is the number of BLAS threads of each service.
    """

    broker: str
    properties: Sequence[str] = ()
    workers: int = 1
    keep_topics: bool = False
    services: bool = True
    service: Mapping[str, Any] = field(default_factory=dict, repr=False)
    blas_threads: int = 1


def on_kafka(run: KafkaRun) -> OpenPipeline:
    """A function that opens the pipeline for a definition.

    The stream gets a unique name, unless the services are somebody else's.
    """

    def open_pipeline(definition: StreamDefinition) -> KafkaPipeline:
        if run.services:
            definition = replace(definition, name=f"{definition.name}-replay-{secrets.token_hex(4)}")
        tables = definition.to_tables() | dict(run.service)
        flags: dict[str, Any] = {"broker": run.broker, "kafka": list(run.properties)}
        if run.services:
            # A replay uses one cluster, even if the file or the environment names a central one.
            flags["central_broker"] = run.broker
        settings = resolve_settings(flags, os.environ, tables)
        if not run.services:
            return KafkaPipeline(settings)
        with ExitStack() as undo:
            if not run.keep_topics:
                undo.callback(delete_topics, settings)
            for finding in create_topics(settings).findings:
                if finding.stops:
                    raise DeltaplaneError(f"kafka: {finding}")
                logger.warning("%s", finding)
            directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="deltaplane-")))
            file = directory / "deltaplane.toml"
            file.write_text(as_toml(tables), "utf-8")
            services = start_services(file, run, directory / "services.log")
            undo.callback(stop_services, services)
            pipeline = KafkaPipeline(settings, services)
            pipeline.on_close(undo.pop_all().close)
            return pipeline

    return open_pipeline


def delete_topics(settings: ServiceSettings) -> None:
    """Delete the topics of a stream that was made for one replay; a topic that stays is named on standard error."""
    admin = AdminClient(settings.admin_properties("site"))
    names = [f"{settings.definition.name}.{topic}" for topic in TOPICS]
    for name, future in admin.delete_topics(names, operation_timeout=30).items():
        try:
            future.result()
        except KafkaException as fault:
            if fault.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                print(f"deltaplane: topic {name} was not deleted: {fault.args[0].str()}", file=sys.stderr)  # noqa: T201


def start_services(definition: Path, run: KafkaRun, log: Path) -> list[Service]:
    """Start a merger and the workers as processes; their output goes to the file ``log``."""
    # Passwords go through the environment: everybody who may list processes can read a command line.
    escaped = (item.replace(";", ";;") for item in run.properties)
    given = os.environ.get("DELTAPLANE_KAFKA_PROPERTIES", "")
    environment = {**os.environ, "DELTAPLANE_KAFKA_PROPERTIES": ";".join(filter(None, (given, *escaped)))}
    started = []
    with log.open("ab") as output:
        for command in ("merger", *("worker" for _ in range(run.workers))):
            line = [sys.executable, "-m", "deltaplane_services", command, "--definition", str(definition)]
            line += ["--broker", run.broker, "--central-broker", run.broker]
            line += ["--blas-threads", str(run.blas_threads)]
            # With a session of its own a service gets no interrupt from the terminal: the replay ends it in order.
            process = subprocess.Popen(  # noqa: S603
                line,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
            started.append(Service(command, process, log))
    return started


def stop_services(services: Sequence[Service]) -> None:
    """Ask every service to end; kill each one that has not ended after 30 seconds."""
    for service in services:
        service.process.terminate()
    for service in services:
        try:
            service.process.wait(30)
        except subprocess.TimeoutExpired:
            service.process.kill()
            service.process.wait()
