"""What a soak does to its services: one restart every few minutes, SIGTERM and SIGKILL in turn, each victim in turn.

The order and the pauses are drawn from the seed. One worker is left alone: its life is as long as the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

from chaos.processes import Process, Processes
from kafka.cluster import KafkaCluster

SPARED = "worker-2"
VICTIMS = ("worker", "elected merger", "worker", "scorer", "worker", "standby merger", "broker")
"""A round of victims, which the seed puts in order."""

START_AT_MOST_SECONDS = 3.0
"""What a supervisor may take to start a service again."""

SERVICES = {
    "worker-1": "worker",
    "worker-2": "worker",
    "merger-1": "merger",
    "merger-2": "merger",
    "scorer-1": "scorer",
}


def schedule(random: Random, pause_seconds: float) -> Iterator[tuple[float, str]]:
    """(seconds since the one before, victim), without end; pauses are within a third of ``pause_seconds``."""
    while True:
        victims = list(VICTIMS)
        random.shuffle(victims)
        for victim in victims:
            yield random.uniform(2 / 3, 4 / 3) * pause_seconds, victim


class Restarts:
    """Ends services and starts them again."""

    def __init__(self, random: Random, processes: Processes, cluster: KafkaCluster) -> None:
        self._random = random
        self._processes = processes
        self._cluster = cluster
        self._services: dict[str, Process] = {}
        self._start_at: dict[str, float] = {}
        self._forcefully = random.random() < 0.5

    def begin(self) -> None:
        """Start every service."""
        for name, command in SERVICES.items():
            self._services[name] = self._processes.start(name, command)

    def turn(self) -> None:
        """Start what has ended by order, a moment later. Called often."""
        self._processes.watch()
        for name, process in self._services.items():
            if process.alive or not process.may_end:
                continue
            now = time.monotonic()
            at = self._start_at.setdefault(name, now + self._random.uniform(0.0, START_AT_MOST_SECONDS))
            if now >= at:
                del self._start_at[name]
                self._services[name] = self._processes.start(name, SERVICES[name])

    def restart(self, victim: str) -> str | None:
        """Do it, and say what was done; None where nobody can be the victim just now."""
        how = "SIGKILL" if self._forcefully else "SIGTERM"
        if victim == "broker":
            if self._forcefully:
                self._cluster.kill(1)
            # Stopped in an orderly way, if it still runs.
            self._cluster.restart(1)
            name = "broker-1"
        else:
            process = self._victim(victim)
            if process is None:
                return None
            (self._processes.kill if self._forcefully else self._processes.terminate)(process)
            name = process.name
        self._forcefully = not self._forcefully
        return f"{name} {how}" + (f" ({victim})" if "merger" in victim else "")

    def _victim(self, victim: str) -> Process | None:
        usable = [process for name, process in self._services.items() if name != SPARED and process.usable]
        if victim == "elected merger":
            usable = [process for process in usable if process.command == "merger" and process.elected()]
        elif victim == "standby merger":
            usable = [process for process in usable if process.command == "merger" and not process.elected()]
        else:
            usable = [process for process in usable if process.command == victim]
        return usable[0] if usable else None
