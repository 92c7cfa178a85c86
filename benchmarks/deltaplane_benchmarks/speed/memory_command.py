"""The command ``bench memory``."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from deltaplane_benchmarks import show
from deltaplane_benchmarks.exhibit import Report
from deltaplane_benchmarks.shared_options import Check, Outputs, Seed
from deltaplane_benchmarks.speed.figures import machine
from deltaplane_benchmarks.speed.memory import EVERY_EIGHTH, Course, run_course
from deltaplane_services.cli.option_groups import with_groups

__all__ = ["LOOKS", "ROWS_BEYOND", "TRACED_LOOKS", "TRACED_ROWS", "TRACED_WINDOWS", "WINDOWS", "memory_command"]

LOOKS = 100
WINDOWS = (10_000, 20_000, 50_000, 100_000, 200_000, 400_000, 800_000)
TRACED_WINDOWS = (50_000, 250_000)
TRACED_ROWS, TRACED_LOOKS = 900_000, 150
"""Long enough for a checkpoint once the longer window is settled, and looked at often enough to see it just after."""

ROWS_BEYOND = 400_000
"""Rows that a window is measured with once it has been full for as long as it is."""


@with_groups
def memory_command(  # noqa: PLR0913, PLR0917 - the options of a command.
    outputs: Outputs,
    rows: Annotated[int, typer.Option(min=200_000, help="Rows to go through one window.")] = 10_000_000,
    features: Annotated[int, typer.Option(min=1, help="Features of a row.")] = 54,
    window: Annotated[int, typer.Option(min=1_000, help="Rows of that window.")] = 20_000,
    chunk: Annotated[int, typer.Option(min=1, help="Rows between two models.")] = 1_000,
    seed: Seed = 0,
    check: Check = False,  # noqa: FBT002
) -> None:
    """Memory and time a row of an endless stream: by rows seen, and by the length of the window.

    deltaplane bench memory --rows 1000000 --plots plots --json memory.json
    """
    # With it come all of SciPy's statistics, for which no other command should have to wait.
    from deltaplane_benchmarks.speed.memory_exhibits import by_rows, by_window

    console, began = Console(stderr=outputs.json_to == "-", highlight=False), time.perf_counter()
    with show.progress(console) as say:
        say(f"{rows:,} rows through a window of {window:,}")
        plain = run_course(Course(rows, features, window, chunk, seed, LOOKS))
        say("the same, every eighth row retired")
        retiring = run_course(Course(rows, features, window, chunk, seed, LOOKS, EVERY_EIGHTH))
        windows = []
        for length in WINDOWS:
            say(f"a window of {length:,} rows")
            beyond = min(ROWS_BEYOND, rows)
            windows.append(run_course(Course(2 * length + beyond, features, length, chunk, seed, LOOKS)))
        say("what a live row holds, traced")
        traced = [
            run_course(Course(TRACED_ROWS, features, length, chunk, seed, TRACED_LOOKS, traced=True))
            for length in TRACED_WINDOWS
        ]
    exhibits = [by_rows(plain, retiring), by_window(windows, traced)]
    settings = {"rows": rows, "features": features, "window": window, "chunk": chunk, "seed": seed, **machine()}
    report = Report(settings, exhibits, seconds=time.perf_counter() - began)
    show.show(report, console)
    if outputs.json_to is not None:
        show.write_json(report, outputs.json_to)
    show.write_out(report, outputs, console)
    if check and report.targets_missed:
        raise typer.Exit(1)
