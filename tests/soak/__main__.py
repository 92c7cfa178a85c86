"""``python -m soak``: a long run on real Kafka, its curves, its verdicts, and an exit code.

The seed decides what is sent and the order of restarts. ``--draw DIRECTORY`` judges and draws again what an earlier run
has written down, or one that still runs has so far.
"""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from deltaplane_benchmarks.bench import Settings
from deltaplane_benchmarks.exhibit import Report
from deltaplane_benchmarks.run_experiment import described
from deltaplane_services.system.arenas import keep_few_arenas
from kafka.cluster import KafkaCluster
from soak.curves import read_curves
from soak.observe import SystemUnknown, require_proc
from soak.run import Plan, run
from soak.show import exhibits, keep_account, kept_account, write
from soak.stream import BROKER

BRIEF_PAUSE_SECONDS, PAUSE_SECONDS = 75.0, 150.0
LONG_MINUTES = 30.0
"""From so many minutes on restarts are further apart."""


def main() -> int:
    """Run once; 0 if all was as it must be."""
    parser = argparse.ArgumentParser(prog="soak", description="A steady stream on real Kafka, with restarts, watched.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--rate", type=float, default=2000.0, help="rows a second (default 2000)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run; a new one by default")
    parser.add_argument("--pause", type=float, default=None, help="mean seconds between two restarts")
    parser.add_argument("--out", type=Path, default=None, help="directory for tables, curves and logs; must be new")
    parser.add_argument("--draw", type=Path, default=None, help="judge and draw again what is in this directory")
    given = parser.parse_args()
    console = Console(width=140, highlight=False)
    if given.draw is not None:
        return _report(given.draw, console)
    try:
        require_proc()
    except SystemUnknown as fault:
        parser.error(str(fault))
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    pause = given.pause or (PAUSE_SECONDS if given.minutes >= LONG_MINUTES else BRIEF_PAUSE_SECONDS)
    plan = Plan(seed, 60.0 * given.minutes, given.rate, pause)
    directory = given.out or Path("soak-results") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-seed-{seed}"
    directory.mkdir(parents=True)
    console.print(f"soak: seed {seed}, {given.minutes:g} minutes at {given.rate:,.0f} rows/s, into {directory}")
    began = time.monotonic()
    keep_few_arenas()  # The load is judged like a service, and is one.
    (directory / "plan.json").write_text(json.dumps(asdict(plan)) + "\n", "utf-8")
    # Told to end, it still ends its services and clears up, as it does when interrupted.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # What this process's own clients have to say while the broker is away belongs to the logs, not to the terminal.
    logging.basicConfig(filename=directory / "load.log", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with (
        tempfile.TemporaryDirectory(prefix="deltaplane-soak-") as temporary,
        KafkaCluster.start(Path(temporary) / "kafka", nodes=1, properties=BROKER) as cluster,
    ):
        outcome = run(cluster, directory, plan, console.print)
    keep_account(directory, outcome.account, {**outcome.figures, "seconds": f"{time.monotonic() - began:.0f}"})
    return _report(directory, console)


def _report(directory: Path, console: Console) -> int:
    plan = Plan(**json.loads((directory / "plan.json").read_text("utf-8")))
    curves = read_curves(directory / "curves.jsonl")
    account, figures = kept_account(directory)
    machine = {name: value for name, value in described(Settings()).items() if name not in {"seed", "rounds", "quick"}}
    again = f"make soak SEED={plan.seed} MINUTES={plan.seconds / 60:g} RATE={plan.rows_per_second:g}"
    shown = exhibits(curves, account, figures, plan.rows_per_second)
    report = Report({"made by": again, **machine}, shown, seconds=curves.seconds)
    write(report, directory, console)
    if report.targets_missed:
        console.print(f"FAILED; repeat with: {again}", style="bold red")
        return 1
    console.print("memory, files and threads flat; 0 lost, 0 double; digests equal", style="bold green")
    return 0


if __name__ == "__main__":
    sys.exit(main())
