"""Chaos with an intake: a shop sells, its labels come early, late, twice, contradicting or never, and everything dies.

What a seed draws is done to real processes and brokers while payments and chargebacks come. In the end the model must
be that of the joined table with the labels that count, and an audit must find the same.
"""

from __future__ import annotations

import subprocess
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos.processes import Process, Processes
from deltaplane.log.model import Model
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.operations.topics import create_topics
from kafka.cluster import KafkaCluster
from kafka.made_shop import MadeShop
from services.intake_shop import COLUMNS, FEATURES

__all__ = ["KINDS", "ShopReport", "run_shop"]

INTAKE_KILLED = "intake killed (SIGKILL), started again"
STORE_LOST = "intake killed and its stores lost, started again"
INTAKES_SHARED = "intakes 1 to 3"
INTAKES_FEWER = "intakes 3 to 1"
INTAKE_FROZEN = "intake frozen past its session (SIGSTOP), resumed"
WORKER_KILLED = "worker killed (SIGKILL), started again"
MERGER_KILLED = "merger killed (SIGKILL), started again"
BROKER_KILLED = "broker of three killed, started again"

KINDS = (
    *(INTAKE_KILLED, STORE_LOST, INTAKES_SHARED, INTAKES_FEWER, INTAKE_FROZEN),
    *(WORKER_KILLED, MERGER_KILLED, BROKER_KILLED),
)
SESSION_SECONDS = 3.0
PAYMENTS_BETWEEN = 120
DRAIN_SECONDS = 240.0
PAST_SILENCE_DAYS = 31


@dataclass
class ShopReport:
    """What was done, what became of it, and what is wrong."""

    seed: int
    done: Counter[str] = field(default_factory=Counter)
    payments: int = 0
    live: int = 0
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


class _ShopMayhem:
    """The services of a run, and what is done to them."""

    def __init__(self, random: Random, processes: Processes, cluster: KafkaCluster, state: Path) -> None:
        self._random, self._processes, self._cluster, self._state = random, processes, cluster, state
        self._intakes: dict[int, Process] = {}
        self._others = {name: processes.start(name, name) for name in ("worker", "merger")}
        self._start_intake(0)
        self.acts: dict[str, Callable[[], None]] = {
            INTAKE_KILLED: self._kill_intake,
            STORE_LOST: lambda: self._kill_intake(lose_store=True),
            INTAKES_SHARED: self._more,
            INTAKES_FEWER: self._fewer,
            INTAKE_FROZEN: self._freeze,
            WORKER_KILLED: lambda: self._kill("worker"),
            MERGER_KILLED: lambda: self._kill("merger"),
            BROKER_KILLED: self._kill_broker,
        }

    def _start_intake(self, slot: int) -> None:
        present = self._intakes.get(slot)
        if present is None or not present.alive:
            self._intakes[slot] = self._processes.start(f"intake-{slot}", "intake")

    def _kill_intake(self, *, lose_store: bool = False) -> None:
        slot = self._random.choice([slot for slot, one in self._intakes.items() if one.usable])
        self._processes.kill(self._intakes[slot])
        for file in self._state.glob("*") if lose_store else ():
            file.unlink(missing_ok=True)
        time.sleep(self._random.uniform(0.0, 1.0))
        self._start_intake(slot)

    def _more(self) -> None:
        for slot in (1, 2):
            self._start_intake(slot)

    def _fewer(self) -> None:
        for slot in (1, 2):
            if slot in self._intakes and self._intakes[slot].usable:
                self._processes.terminate(self._intakes.pop(slot))

    def _freeze(self) -> None:
        """One sleeps for longer than its session; another takes over, and the sleeper wakes with what it had ready."""
        slot = self._random.choice([slot for slot, one in self._intakes.items() if one.usable])
        frozen = self._intakes[slot]
        self._processes.freeze(frozen)
        other = max(self._intakes) + 1
        self._start_intake(other)
        time.sleep(SESSION_SECONDS + self._random.uniform(1.0, 2.0))
        self._processes.resume(frozen)

    def _kill(self, name: str) -> None:
        self._processes.kill(self._others[name])
        self._others[name] = self._processes.start(name, name)

    def _kill_broker(self) -> None:
        node = self._random.choice(self._cluster.nodes)
        self._cluster.kill(node)
        time.sleep(self._random.uniform(1.0, 3.0))
        self._cluster.restart(node)

    def restore(self) -> None:
        """Have everything run that is to run."""
        self._cluster.restore()
        self._start_intake(0)


def run_shop(cluster: KafkaCluster, directory: Path, seed: int, *, kills: int) -> ShopReport:
    """Run it, and report. ``directory`` takes the definition, the stores and the logs of the services."""
    began, report, random = time.monotonic(), ShopReport(seed), Random(seed)
    assert kills >= len(KINDS), f"{kills} events cannot be of {len(KINDS)} kinds"
    name = f"chaos-shop-{seed}-{random.randbytes(3).hex()}-{time.time_ns() % 10**6}"
    shop, state, file = MadeShop(cluster.bootstrap, name, seed), directory / "stores", directory / "shop.toml"
    tables = {
        "name": name,
        "partitions": 4,
        "columns": COLUMNS,
        "grid": {"steps": [2.0**-20] * FEATURES},
        "classes": {"names": ["fraud", "ok"], "positive": "fraud"},
        "window": {"length": "all"},
        "solver": {"C": 1.0},
        "intake": shop.intake(),
        "service": {
            "state_directory": str(state),
            "session_timeout_milliseconds": int(SESSION_SECONDS * 1000),
            "checkpoint_seconds": 1.0,
        },
    }
    file.write_text(as_toml(tables), "utf-8")
    settings = resolve_settings({"broker": cluster.bootstrap}, {}, tomllib.loads(file.read_text("utf-8")))
    report.faults += [str(finding) for finding in create_topics(settings).findings]
    events = [*KINDS, *random.choices(KINDS, k=kills - len(KINDS))]
    random.shuffle(events)
    processes = Processes(directory, file, cluster.bootstrap)
    follower = ModelFollower(reader(settings, "central"), settings.definition)
    with processes.none_left():
        mayhem = _ShopMayhem(random, processes, cluster, state)
        for kind in events:
            shop.sell(PAYMENTS_BETWEEN)
            time.sleep(random.uniform(0.0, 2.0))
            mayhem.acts[kind]()
            report.done[kind] += 1
            processes.watch()
        mayhem.restore()
        shop.sell(PAYMENTS_BETWEEN)
        shop.let_pass(PAST_SILENCE_DAYS)
        report.payments, digest = len(shop.rows), shop.digest(settings.definition)
        model = _drained(follower, digest, processes)
        report.live = 0 if model is None else sum(model.counts.values())
        if model is None or model.digest != digest:
            found = "there is none" if model is None else f"it has {report.live} rows and digest {model.digest}"
            report.faults.append(f"no model of the joined table, {report.payments} rows, digest {digest}: {found}")
        report.faults += _audit(processes)
        processes.end()
    follower.close()
    report.faults += processes.faults
    report.seconds = time.monotonic() - began
    return report


def _drained(follower: ModelFollower, digest: str, processes: Processes) -> Model | None:
    until = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < until and (follower.model is None or follower.model.digest != digest):
        processes.watch()
        follower.poll(500, 0.1)
    return follower.model


def _audit(processes: Processes) -> list[str]:
    audit = subprocess.run(processes.command_line("audit"), capture_output=True, text=True, check=False)
    said = audit.stdout.strip().splitlines()
    if audit.returncode == 0 and said and said[-1] == "equal":
        return []
    return [f"deltaplane audit ended with code {audit.returncode}:\n{audit.stdout}{audit.stderr}"]
