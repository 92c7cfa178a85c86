"""One soak: a cluster, a stream, a steady load, restarts, a look every few seconds, and the reckoning."""

from __future__ import annotations

import contextlib
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chaos.processes import Processes
from deltaplane.log.model import Model
from deltaplane_benchmarks.exhibit import Target
from deltaplane_services.client import LiveModel
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.operations.topics import create_topics
from kafka.cluster import KafkaCluster
from soak.account import judge_account, judge_digest, log_ends, retirements_answered, rows_accounted
from soak.curves import Curves, Event, Seen, StreamSample, as_line, read_curves
from soak.events import Restarts, schedule
from soak.load import Answers, Load
from soak.observe import Observer, disk_megabytes, lag_records, live_rows
from soak.stream import write_definition

DRAIN_SECONDS = 120.0
BEGIN_SECONDS = 120.0
TURN_SECONDS = 0.1

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How long, how fast, how often something is restarted, and how often it is looked at."""

    seed: int
    seconds: float = 600.0
    rows_per_second: float = 2000.0
    pause_seconds: float = 100.0
    look_seconds: float = 5.0


@dataclass
class Outcome:
    """What was seen, and what is true of the end."""

    curves: Curves
    account: list[Target]
    figures: dict[str, int | str] = field(default_factory=dict)


class NoModel(Exception):
    """The services did not come to make a model."""


def run(cluster: KafkaCluster, directory: Path, plan: Plan, say: Say) -> Outcome:
    """Run it. ``directory`` takes the definition, the logs of the services, and what is seen, a line each."""
    file = directory / "deltaplane.toml"
    write_definition(file, plan.seed)
    settings = resolve_settings({"broker": cluster.bootstrap}, {}, tomllib.loads(file.read_text("utf-8")))
    faults = [str(finding) for finding in create_topics(settings).findings]
    logs = directory / "logs"
    logs.mkdir()
    processes = Processes(logs, file, cluster.bootstrap)
    with contextlib.ExitStack() as closing, processes.none_left():
        soak = _Soak(cluster, settings, plan, processes, directory / "curves.jsonl", say)
        closing.callback(soak.close)
        account = []
        soak.live_through()
        if not processes.faults:
            faults += soak.drain()
            account = soak.reckon()
        processes.end()
    faults += [*processes.faults, *soak.faults]
    account.append(
        Target("services: none ended unasked, hung, or left something behind", not faults, "; ".join(faults) or "none")
    )
    return Outcome(read_curves(directory / "curves.jsonl"), account, soak.figures(processes))


class _Soak:
    """The parts of a run, and its clock."""

    def __init__(
        self, cluster: KafkaCluster, settings: ServiceSettings, plan: Plan, processes: Processes, file: Path, say: Say
    ) -> None:
        self._cluster, self._settings, self._plan, self._processes, self._say = cluster, settings, plan, processes, say
        self._restarts = Restarts(Random(f"restarts {plan.seed}"), processes, cluster)
        self._schedule = schedule(Random(f"schedule {plan.seed}"), plan.pause_seconds)
        self._observer = Observer(processes, cluster)
        self._load = Load(settings, plan.seed, plan.rows_per_second)
        self._answers = Answers(settings)
        self._live = LiveModel(settings)
        self._file = file.open("w", encoding="utf-8")
        self._began = time.monotonic()
        self._model: Model | None = None

    @property
    def seconds(self) -> float:
        """Since the load began."""
        return round(time.monotonic() - self._began, 2)

    @property
    def faults(self) -> list[str]:
        """What went wrong with the load and its readers."""
        return [*self._load.faults, *self._answers.faults]

    def live_through(self) -> None:
        """The services begin; then load and restarts, until the time is over and the last restart is got over."""
        self._restarts.begin()
        self._load.start()
        self._answers.start()
        self._wait_for_a_model()
        self._began = time.monotonic()
        look_at, (pause, victim) = 0.0, next(self._schedule)
        act_at = pause
        # What is ended in the end would be judged by how it was just starting again.
        last_act = self._plan.seconds - 0.5 * self._plan.pause_seconds
        # A service that ended unasked ends the run: two hours of starting it again would say no more.
        while self.seconds < self._plan.seconds and not self._processes.faults:
            self._restarts.turn()
            if self.seconds >= look_at:
                look_at = self.seconds + self._plan.look_seconds
                self._look()
            if act_at <= self.seconds < last_act:
                at, what = self.seconds, self._restarts.restart(victim)
                if what is not None:
                    self._note(Event(at, what))
                    self._say(f"{at / 60:6.1f} min  {what}")
                pause, victim = next(self._schedule)
                act_at = at + pause
            time.sleep(TURN_SECONDS)
        self._load.stop()

    def _wait_for_a_model(self) -> None:
        until = time.monotonic() + BEGIN_SECONDS
        while self._live.model is None:
            self._processes.watch()
            if time.monotonic() > until or self._processes.faults:
                raise NoModel("\n".join(self._processes.faults) or f"no model within {BEGIN_SECONDS:g} s")
            time.sleep(TURN_SECONDS)

    def _look(self) -> None:
        seconds, scrapes = self.seconds, self._observer.scrapes()
        for sample in self._observer.processes(seconds, scrapes):
            self._note(sample)
        acknowledged = self._load.producer.rows_acknowledged
        model = self._live.model
        behind = acknowledged - (rows_accounted(model.totals) if model is not None else 0)
        self._note(
            StreamSample(
                seconds,
                acknowledged,
                # Acknowledgements are heard of a moment after the models that contain their rows, now and then.
                max(0, behind),
                lag_records(scrapes),
                self._observer.freshness(scrapes),
                live_rows(scrapes),
                round(disk_megabytes(self._cluster), 1),
            )
        )

    def _note(self, seen: Seen) -> None:
        self._file.write(as_line(seen) + "\n")
        self._file.flush()

    def drain(self) -> list[str]:
        """Wait until the newest model accounts for all, and every query is answered; say so where that never is."""
        sent, until = self._load.sent, time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < until:
            self._restarts.turn()
            model = self._live.model
            if model is not None and (
                rows_accounted(model.totals) >= sent.rows
                and retirements_answered(model.totals) >= sent.retirements
                and model.totals.get("refused bad record", 0) >= sent.refused["bad record"]
                and {place.watermark for place in model.positions} == {model.watermark}
                and self._answers.answered >= sent.queries
            ):
                self._look()
                return []
            time.sleep(TURN_SECONDS)
        return [f"not drained within {DRAIN_SECONDS:g} s"]

    def reckon(self) -> list[Target]:
        """The account, by the newest model."""
        self._model = model = self._live.model
        assert model is not None, "there has been one"
        producer = self._load.producer
        self._say("drained; auditing")
        return [
            *judge_account(self._load.sent, model, producer, log_ends(self._settings, list(producer.sent))),
            Target(
                "queries: each is answered",
                self._answers.answered == self._load.sent.queries,
                f"{self._load.sent.queries:,} asked, {self._answers.answered:,} answered,"
                f" {self._answers.repeated:,} of them again after a restart",
            ),
            *judge_digest(self._settings, model, self._processes.command_line("audit")),
        ]

    def figures(self, processes: Processes) -> dict[str, int | str]:
        """Counts for a table."""
        survived = {what: times for what, times in processes.survived().items() if times}
        model = self._model or self._live.model
        assert model is not None, "there has been one"
        totals = {name: count for name, count in sorted(model.totals.items()) if count and " " not in name}
        return {
            "rows": self._load.sent.rows,
            "retirements": self._load.sent.retirements,
            "queries": self._load.sent.queries,
            "model version": model.version,
            **{f"outcome: {name}": count for name, count in totals.items()},
            **survived,
        }

    def close(self) -> None:
        """Stop what runs in this process."""
        self._load.stop()
        self._answers.stop()
        self._live.close()
        self._file.close()
