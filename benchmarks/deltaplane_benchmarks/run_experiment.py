"""A run: the chosen experiments one after another, what they gave, what was missing, and how long it took."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np
import scipy

from deltaplane import __version__
from deltaplane_benchmarks.bench import Bench, Experiment, Settings
from deltaplane_benchmarks.data.archives import Cache
from deltaplane_benchmarks.exhibit import Report

__all__ = ["described", "run"]


def run(experiments: Sequence[Experiment], settings: Settings, cache: Cache, say: Callable[[str], None]) -> Report:
    """Run them in order. Data that cannot be had is in the report's ``missing``; all else that fails is raised."""
    bench = Bench(settings, cache, say)
    report = Report({**described(settings), "rounds": bench.rounds})
    begin = time.perf_counter()
    for experiment in experiments:
        say(f"paper {experiment.paper}: {experiment.name}" if experiment.paper else experiment.name)
        report.exhibits += experiment.run(bench)
    report.missing = bench.missing
    report.seconds = time.perf_counter() - begin
    return report


def described(settings: Settings) -> dict[str, object]:
    """What a figure depends on: seed, rounds, versions, machine, date."""
    return {
        "seed": settings.seed,
        "rounds": settings.rounds,
        "quick": settings.quick,
        "deltaplane": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.now(UTC).date().isoformat(),
    }
