"""``python -m chaos``: a run of chaos on real Kafka, its tables, and an exit code.

The seed decides the window, what is sent, and the schedule of events; the machine decides what each event interrupts.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from chaos.events import WEIGHTS
from chaos.run import Report, run
from chaos.shop import KINDS, ShopReport, run_shop
from kafka.cluster import KafkaCluster

ROWS_PER_SECOND = 800.0


def main() -> int:
    """Run once; 0 if all was as it must be."""
    parser = argparse.ArgumentParser(prog="chaos", description="Chaos on real Kafka: everything dies, nothing is lost.")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run; a new one by default")
    parser.add_argument("--kills", type=int, default=30, help=f"events, at least {len(WEIGHTS)} (default 30)")
    parser.add_argument("--rate", type=float, default=ROWS_PER_SECOND, help="rows a second")
    parser.add_argument("--keep", type=Path, default=None, help="keep the logs of services and brokers here")
    given = parser.parse_args()
    if given.kills < len(WEIGHTS):
        parser.error(f"--kills: there are {len(WEIGHTS)} kinds of events, and each must happen")
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    console = Console(width=110, highlight=False)
    console.print(f"chaos: seed {seed}, {given.kills} events; repeat with: make chaos SEED={seed} KILLS={given.kills}")
    with tempfile.TemporaryDirectory(prefix="deltaplane-chaos-") as temporary:
        directory = given.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        with KafkaCluster.start(directory / "kafka", nodes=3) as cluster:
            report = run(cluster, directory, seed, kills=given.kills, kinds=WEIGHTS, rows_per_second=given.rate)
            cluster.restore()
            shop = directory / "shop"
            shop.mkdir(exist_ok=True)
            sold = run_shop(cluster, shop, seed, kills=max(len(KINDS), given.kills // 2))
    show(console, report)
    show_shop(console, sold)
    if report.faults or sold.faults:
        console.print(f"FAILED; repeat with: make chaos SEED={seed} KILLS={given.kills}", style="bold red")
        return 1
    console.print("0 lost, 0 double, digests equal", style="bold green")
    return 0


def show(console: Console, report: Report) -> None:
    """The tables of a run."""
    title = f"seed {report.seed}, window {report.window}, {report.seconds:.0f} s"
    for name, counts in (
        (f"Done: {title}", report.done),
        ("Sent", report.sent),
        ("Survived", report.survived),
        ("Figures", report.figures),
    ):
        console.print(_table(name, counts))
    for fault in report.faults:
        console.print(f"FAULT: {fault}", style="red", markup=False)


def show_shop(console: Console, report: ShopReport) -> None:
    """What came of the run with an intake."""
    title = f"An intake, labels early, late, twice, contradicting, never: {report.seconds:.0f} s"
    figures = {"payments": report.payments, "rows live": report.live}
    figures |= {"lost": max(0, report.payments - report.live), "double": max(0, report.live - report.payments)}
    console.print(_table(title, {**report.done, **figures}))
    for fault in report.faults:
        console.print(f"FAULT: {fault}", style="red", markup=False)


def _table(title: str, counts: Mapping[str, int | str]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, count in counts.items():
        table.add_row(name, f"{count:,}" if isinstance(count, int) else count)
    return table


if __name__ == "__main__":
    sys.exit(main())
