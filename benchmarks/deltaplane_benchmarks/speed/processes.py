"""Services and a producer as processes of their own on a real broker, and what they cost the machine."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from deltaplane.errors import DeltaplaneError
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import write_sample, write_sample_batch
from deltaplane_benchmarks.speed.made_rows import LABELS, make_rows
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.kafka.clients import sample_publisher
from deltaplane_services.operations.topics import create_topics
from deltaplane_services.processors.messages import SAMPLES, Outgoing
from deltaplane_services.replay.kafka_pipeline import Service
from deltaplane_services.replay.on_kafka import KafkaRun, delete_topics, start_services, stop_services

__all__ = [
    "START_SECONDS",
    "Cost",
    "Load",
    "Producer",
    "Running",
    "Sent",
    "cost_of",
    "peak_megabytes",
    "running",
    "spark_process",
]

START_SECONDS = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Processor seconds of a process so far, and the most memory it has had."""

    cpu_seconds: float
    peak_megabytes: float


def cost_of(process_id: int) -> Cost:
    """What a live process has cost. Raises :class:`DeltaplaneError` where the system does not say."""
    try:
        times = Path(f"/proc/{process_id}/stat").read_text("ascii").rpartition(")")[2].split()
        status = Path(f"/proc/{process_id}/status").read_text("ascii")
    except OSError as fault:
        raise DeltaplaneError(f"bench: process {process_id} has ended, or this system has no /proc: {fault}") from None
    return Cost((int(times[11]) + int(times[12])) / _TICKS, peak_megabytes(status))


def peak_megabytes(status: str) -> float:
    """The largest resident memory so far, in MiB, from what ``/proc/…/status`` says of a process."""
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


@dataclass(frozen=True)
class Running:
    """A stream of its own on a broker, with a merger and workers that have claimed it."""

    settings: ServiceSettings
    flags: Mapping[str, Any]
    tables: Mapping[str, Any]
    services: Sequence[Service]

    def costs(self) -> dict[str, Cost]:
        """By the name of the service; several of a name are added."""
        total: dict[str, Cost] = {}
        for service in self.services:
            cost = cost_of(service.process.pid)
            known = total.get(service.name, Cost(0.0, 0.0))
            total[service.name] = Cost(
                known.cpu_seconds + cost.cpu_seconds, max(known.peak_megabytes, cost.peak_megabytes)
            )
        return total


@contextmanager
def running(definition: StreamDefinition, broker: str, workers: int = 1) -> Iterator[Running]:
    """Topics made, services started and ready; all gone at the end."""
    definition = replace(definition, name=f"{definition.name}-{secrets.token_hex(4)}")
    tables, flags = definition.to_tables(), {"broker": broker}
    settings = resolve_settings(flags, os.environ, tables)
    with ExitStack() as undo:
        undo.callback(delete_topics, settings)
        for finding in create_topics(settings).findings:
            raise DeltaplaneError(f"kafka: {finding}")
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="deltaplane-bench-")))
        (directory / "deltaplane.toml").write_text(as_toml(tables), "utf-8")
        log = directory / "services.log"
        services = start_services(directory / "deltaplane.toml", KafkaRun(broker, workers=workers), log)
        undo.callback(stop_services, services)
        _wait_until_ready(services, log, definition.partitions)
        yield Running(settings, flags, tables, services)


def _wait_until_ready(services: Sequence[Service], log: Path, partitions: int) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        text = log.read_text("utf-8", "replace")
        if text.count("claimed") >= partitions and "elected" in text:
            return
        for service in services:
            if service.process.poll() is not None or time.monotonic() > until:
                raise DeltaplaneError(
                    f"bench: the {service.name} was not ready in time; its log ends:\n{service.tail()}"
                )
        time.sleep(0.05)


@dataclass(frozen=True)
class Load:
    """What a producer sends: ``rows`` made from a seed, in messages of ``batch`` rows (0: one ``Sample`` each).

    ``rows_per_second``: paced; None is as fast as it goes.
    """

    rows: int
    features: int
    seed: int
    batch: int
    feature_type: str = "float32"
    rows_per_second: float | None = None

    @property
    def messages(self) -> int:
        """Records that the rows make."""
        return self.rows if self.batch == 0 else -(-self.rows // self.batch)


@dataclass(frozen=True)
class Sent:
    """What the producer says at its end; ``bytes`` are those of the messages before compression."""

    seconds: float
    cpu_seconds: float
    bytes: int
    peak_megabytes: float
    sent_at: list[float]
    """For each message, when it was handed over, by the clock of :func:`time.time`; only of a paced load."""


class Producer:
    """A process that makes its rows, says that it is ready, and sends when told to."""

    def __init__(self, stream: Running, load: Load) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_produce, args=(theirs, dict(stream.flags), stream.tables, load), daemon=True
        )
        self._process.start()
        self._pipe.recv()

    def go(self) -> None:
        """Begin to send."""
        self._pipe.send("go")

    def sent(self) -> Sent:
        """Wait for the end."""
        sent: Sent = self._pipe.recv()
        self._process.join()
        return sent


def _produce(pipe: Connection, flags: dict[str, Any], tables: Mapping[str, Any], load: Load) -> None:
    settings = resolve_settings(flags, os.environ, tables)
    rows = make_rows(load.rows, load.features, load.seed)
    out, print_of_data = sample_publisher(settings), settings.definition.data_fingerprint
    step = load.batch or 1
    batches = [rows.samples(at, min(at + step, len(rows))) for at in range(0, len(rows), step)] if load.batch else []
    singles = rows.features.tolist() if not load.batch else []
    pipe.send("ready")
    pipe.recv()
    cpu, began, size, sent_at = time.process_time(), time.perf_counter(), 0, []
    for message in range(load.messages):
        if load.rows_per_second is not None:
            wait = began + message * step / load.rows_per_second - time.perf_counter()
            if wait > 0.0:
                time.sleep(wait)
            sent_at.append(time.time())
        if load.batch:
            key, value = None, write_sample_batch(batches[message], print_of_data, load.feature_type)  # type: ignore[arg-type]
        else:
            sample_id, label = str(message), LABELS[rows.codes[message]]
            key, value = sample_id.encode(), write_sample(sample_id, message, label, singles[message], print_of_data)
        size += len(value)
        out.publish((Outgoing(SAMPLES, 0, key, value),))
    out.flush()
    pipe.send(
        Sent(time.perf_counter() - began, time.process_time() - cpu, size, cost_of(os.getpid()).peak_megabytes, sent_at)
    )


def spark_process(session: Any) -> Any:
    """The process of a session of Spark; None if it is not ours to see, so that nothing is known of it."""
    return getattr(getattr(session.sparkContext, "_gateway", None), "proc", None)
