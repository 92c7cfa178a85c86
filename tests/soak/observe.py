"""Looking at the processes of a run: memory, files and threads from ``/proc``, the rest from their own metrics."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from chaos.processes import Process, Processes
from deltaplane_services.observe.metrics import metric_names
from deltaplane_services.observe.top.gather import Address, Gatherer, Scrape
from kafka.cluster import KafkaCluster
from soak.curves import ProcessSample

_METRICS = re.compile(r"metrics at http://(\S+)/metrics")


class SystemUnknown(Exception):
    """This system does not say what a soak wants to know."""


def require_proc() -> None:
    """Raise :class:`SystemUnknown` where there is no ``/proc`` such as Linux has it."""
    if not Path("/proc/self/fd").is_dir():
        raise SystemUnknown("soak: not supported on this system: memory, files and threads are read from /proc (Linux)")


def sample_process(seconds: float, process_id: int, name: str, life: int, work: str) -> ProcessSample | None:
    """One process now, or None where it has ended."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{process_id}/status").read_text().splitlines())
        files = sum(1 for _ in Path(f"/proc/{process_id}/fd").iterdir())
        resident = int(status["VmRSS"].split()[0]) / 1024
    except (OSError, KeyError):
        return None
    return ProcessSample(seconds, name, life, work, round(resident, 2), files, int(status["Threads"]))


def disk_megabytes(cluster: KafkaCluster) -> float:
    """What the nodes' files take on disk; a file that goes meanwhile counts for nothing."""
    total = 0
    for directory in cluster.directories:
        for place, _, files in os.walk(directory):
            for file in files:
                try:
                    total += Path(place, file).stat().st_blocks * 512
                except OSError:
                    continue
    return total / 2**20


class Observer:
    """Samples everything that a run has started, and this process, which is the load's."""

    def __init__(self, processes: Processes, cluster: KafkaCluster) -> None:
        self._processes = processes
        self._cluster = cluster
        self._addresses: dict[int, Address] = {}
        self._fresh: dict[int, tuple[float, float]] = {}
        self._broker_ids: list[int] = []

    def scrapes(self) -> dict[str, tuple[Process, Scrape]]:
        """What each living service says of itself, by name; those that do not answer are missing."""
        asked = {process.name: (process, self._address(process)) for process in self._processes.every if process.alive}
        places = [address for _, address in asked.values() if address is not None]
        answers = Gatherer(places).gather().answers
        found = {}
        for name, (process, address) in asked.items():
            answer = answers.get(address) if address is not None else None
            if isinstance(answer, Scrape):
                found[name] = (process, answer)
        return found

    def _address(self, process: Process) -> Address | None:
        number = process.process.pid
        if number not in self._addresses:
            said = _METRICS.search(process.said())
            if said is None:
                return None
            self._addresses[number] = Address.of(said[1])
        return self._addresses[number]

    def processes(self, seconds: float, scrapes: dict[str, tuple[Process, Scrape]]) -> Iterator[ProcessSample]:
        """Every service that answers, the broker, and this process."""
        lives: dict[str, int] = {}
        for process in self._processes.every:
            lives[process.name] = lives.get(process.name, 0) + 1
        for name, (process, scrape) in scrapes.items():
            found = sample_process(seconds, process.process.pid, name, lives[name], work_of(scrape))
            if found is not None:
                yield found
        for node in self._cluster.alive:
            number = self._cluster.process_id(node)
            if number not in self._broker_ids:
                self._broker_ids.append(number)
            found = sample_process(seconds, number, f"broker-{node}", self._broker_ids.index(number) + 1, "")
            if found is not None:
                yield found
        own = sample_process(seconds, os.getpid(), "load", 1, "")
        assert own is not None, "this process lives"
        yield own

    def freshness(self, scrapes: dict[str, tuple[Process, Scrape]]) -> float | None:
        """Mean seconds from sample to model since this was last asked, over all workers."""
        count = total = 0.0
        for process, scrape in scrapes.values():
            now = (
                scrape.value(f"{metric_names.SAMPLE_TO_MODEL.name}_count") or 0.0,
                scrape.value(f"{metric_names.SAMPLE_TO_MODEL.name}_sum") or 0.0,
            )
            before = self._fresh.get(process.process.pid, (0.0, 0.0))
            self._fresh[process.process.pid] = now
            count, total = count + now[0] - before[0], total + now[1] - before[1]
        return round(total / count, 4) if count > 0.0 else None


def work_of(scrape: Scrape) -> str:
    """What a service is occupied with, as far as its size depends on that."""
    elected = scrape.value(metric_names.ELECTED.name)
    if elected is not None:
        return "elected" if elected else "standing by"
    held = scrape.of(metric_names.ROWS_HELD.name)
    role = scrape.identity.get("role", "")
    return f"{len(held)} partitions" if role == "worker" else ""


def lag_records(scrapes: dict[str, tuple[Process, Scrape]]) -> int:
    """Records that the services have still to read."""
    return int(sum(value for _, scrape in scrapes.values() for _, value in scrape.of(metric_names.LAG.name)))


def live_rows(scrapes: dict[str, tuple[Process, Scrape]]) -> int:
    """Rows of the window, as the elected merger says it; 0 while there is none."""
    counts = [
        sum(value for _, value in scrape.of(metric_names.WINDOW_SAMPLES.name))
        for _, scrape in scrapes.values()
        if scrape.value(metric_names.ELECTED.name)
    ]
    return int(max(counts, default=0.0))
