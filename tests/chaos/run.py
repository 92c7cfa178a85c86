"""One run: a cluster, a stream, producers at load, a schedule of events, and the reckoning."""

from __future__ import annotations

import contextlib
import subprocess
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos.checks import check
from chaos.events import BROKER_KILLED_IN_TRANSACTION, DEAD_SPEAKS, Mayhem, schedule
from chaos.late import LateRecords
from chaos.load import Load
from chaos.processes import Processes
from chaos.streams import window_for, write_definition
from chaos.transactions import FAILED, WAYS
from deltaplane.errors import DeltaplaneError
from deltaplane.log.model import Model
from deltaplane_services.client import LiveModel
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.operations.topics import create_topics
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES
from kafka.background import Background
from kafka.cluster import KafkaCluster

DRAIN_SECONDS = 600.0
LAST_ROWS = 400
CALM_SECONDS = 2.0
"""Load before the first event and after the last."""


@dataclass
class Report:
    """What was done, what was survived, what the figures are, and what is wrong."""

    seed: int
    window: str
    done: dict[str, int] = field(default_factory=dict)
    course: list[tuple[float, str]] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    survived: dict[str, int] = field(default_factory=dict)
    figures: dict[str, int | str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


class ModelReader(Background):
    """Reads the models as they come, all through the run, as any reader of them does."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.models: list[Model] = []
        self.faults: list[str] = []
        self._log = reader(settings, "central")
        self._follower = ModelFollower(self._log, settings.definition)
        super().__init__("chaos-models")
        self.start()

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                self.models += self._follower.poll(500, 0.05)
            except DeltaplaneError as fault:
                self.faults.append(f"reader of models: {fault}")
                return

    def stop(self) -> None:
        """Read no more."""
        super().stop()
        self._follower.close()


def run(
    cluster: KafkaCluster, directory: Path, seed: int, *, kills: int, kinds: Iterable[str], rows_per_second: float
) -> Report:
    """Run it, and report. ``directory`` takes the definition and the logs of the services."""
    began = time.monotonic()
    kinds = tuple(kinds)
    report = Report(seed, window_for(seed))
    file = directory / "deltaplane.toml"
    write_definition(file, seed, report.window)
    settings = resolve_settings({"broker": cluster.bootstrap}, {}, tomllib.loads(file.read_text("utf-8")))
    report.faults += [str(finding) for finding in create_topics(settings).findings]
    random = Random(seed)
    events = schedule(random, kills, kinds)
    processes = Processes(directory, file, cluster.bootstrap)
    late = LateRecords(settings)
    load = Load(settings, seed, rows_per_second)
    mayhem = Mayhem(random, processes, cluster, late, load.transactions)
    models = ModelReader(settings)
    live = LiveModel(settings)
    closing = contextlib.ExitStack()
    for close in (models.stop, live.close, late.close, load.transactions.close):
        closing.callback(close)
    with closing, processes.none_left():
        mayhem.begin()
        load.start()
        try:
            time.sleep(CALM_SECONDS)
            mayhem.live_through(events)
            mayhem.restore()
            time.sleep(CALM_SECONDS)
        finally:
            load.stop()
        drained = _drain(settings, load, models, processes)
        if DEAD_SPEAKS in kinds and not drained:
            # Once more to every source, now that each tile of the dead would fit exactly, and that nothing is to come
            # by which a source would be claimed again anyway. Whatever is sent after that must arrive all the same.
            arrived = [late.arrive(random, partition) for partition in range(settings.definition.partitions)]
            report.figures["sources claimed late at the very end"] = sum(arrived)
            load.send(LAST_ROWS)
            drained = _drain(settings, load, models, processes)
        report.faults += drained or _follows(live, models.models[-1])
        report.faults += _audit(processes)
        processes.end()
    report.faults += [*mayhem.faults, *processes.faults, *load.faults, *models.faults]
    found = check(settings, load, models.models)
    report.faults += found.faults
    report.figures |= {
        **found.figures,
        "seconds of load": f"{load.seconds:.3f}",
        "rows a second": round(load.sender.rows_sent() / load.seconds),
    }
    report.done, report.course, report.sent = dict(mayhem.done), mayhem.course, dict(sorted(load.did.items()))
    report.survived = {what: times for what, times in processes.survived().items() if times}
    happened = mayhem.done + load.did
    expected = (*kinds, *WAYS, *([FAILED] if BROKER_KILLED_IN_TRANSACTION in kinds else []))
    report.faults += [f"never happened: {kind}" for kind in expected if not happened[kind]]
    report.seconds = time.monotonic() - began
    return report


def _follows(live: LiveModel, newest: Model) -> list[str]:
    """What is wrong with the model that a client follows, once all has been drained."""
    followed = live.wait(DRAIN_SECONDS, newest.version - 1)
    if followed.version == newest.version and followed.digest != newest.digest:
        return [f"LiveModel has another model of version {newest.version} than its topic"]
    return []


def _drain(settings: ServiceSettings, load: Load, models: ModelReader, processes: Processes) -> list[str]:
    """Wait until a model contains everything, and every source has heard the last watermark."""
    until = time.monotonic() + DRAIN_SECONDS
    ends = {
        partition: (load.topics.read_to(SAMPLES, partition), load.topics.read_to(RETIREMENTS, partition))
        for partition in range(settings.definition.partitions)
    }
    reached: dict[int, tuple[int, int]] = {}
    while time.monotonic() < until:
        processes.watch()
        if models.models:
            model = models.models[-1]
            reached = {place.source.partition: (place.samples, place.retirements) for place in model.positions}
            level = not settings.definition.nested_windows.timed or {place.watermark for place in model.positions} == {
                model.watermark
            }
            if reached == ends and level:
                return []
        time.sleep(0.05)
    return [f"not drained within {DRAIN_SECONDS:g} s: expected {ends}, the newest model has {reached}"]


def _audit(processes: Processes) -> Sequence[str]:
    """``deltaplane audit`` says equal."""
    audit = subprocess.run(processes.command_line("audit"), capture_output=True, text=True, check=False)
    said = audit.stdout.strip().splitlines()
    if audit.returncode == 0 and said and said[-1] == "equal":
        return []
    return [f"deltaplane audit ended with code {audit.returncode}:\n{audit.stdout}{audit.stderr}"]
