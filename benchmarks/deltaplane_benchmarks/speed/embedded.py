"""``bench throughput``: replays in one process, by window, chunk and mode, on a file or on rows made from a seed."""

from __future__ import annotations

import csv
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Any

import numpy as np

from deltaplane.errors import DeltaplaneError
from deltaplane_benchmarks.data.made_mixed import mixed_table
from deltaplane_benchmarks.speed.made_rows import LABELS, make_rows
from deltaplane_benchmarks.speed.processes import peak_megabytes

__all__ = [
    "MIXED",
    "SETTINGS",
    "Replayed",
    "Setting",
    "best_of",
    "data_file",
    "mixed_file",
    "replay",
    "startup_seconds",
]


@dataclass(frozen=True)
class Setting:
    """One way to replay: ``window`` and ``choice_of_c`` as on the command line, a model after every ``chunk`` rows."""

    name: str
    window: str
    choice_of_c: str
    chunk: int
    features: int
    rows: int


SETTINGS = (
    Setting("plain", "20000", "1", 1000, 54, 500_000),
    Setting("window of 2,000", "2000", "1", 1000, 54, 500_000),
    Setting("window of 200,000", "200000", "1", 1000, 54, 500_000),
    Setting("automatic", "auto", "auto", 1000, 54, 500_000),
    Setting("automatic", "auto", "auto", 100, 6, 100_000),
    Setting("model after every row", "2000", "1", 1, 6, 100_000),
)

MIXED = Setting("mixed columns", "20000", "1", 1000, 0, 0)
"""How a table of mixed columns is replayed, and one of numbers beside it; features and rows are those of the tables."""


@dataclass(frozen=True)
class Replayed:
    """What one replay took, imports left out, and what it found."""

    seconds: float
    cpu_seconds: float
    peak_megabytes: float
    rows: int
    digest: str
    verified: bool
    gmean: float | None
    weights: tuple[float, ...]
    features: int

    @property
    def rows_per_second(self) -> float:
        """From the first row read to the last model."""
        return self.rows / self.seconds


_RUN_AND_LEAVE_STATUS = """
import os, runpy, sys
place = sys.argv.pop(1)
try:
    runpy.run_module("deltaplane_services", run_name="__main__", alter_sys=True)
finally:
    if os.path.exists("/proc/self/status"):
        with open(place, "w") as left, open("/proc/self/status") as status:
            left.write(status.read())
"""
"""A process's peak as the system tells whoever waits for it includes that of its parent when it began."""


@contextmanager
def data_file(features: int, rows: int, seed: int) -> Iterator[Path]:
    """A CSV file of rows made from a seed, with the label in ``y``."""
    made = make_rows(rows, features, seed)
    with tempfile.TemporaryDirectory(prefix="deltaplane-bench-") as directory:
        place = Path(directory) / "rows.csv"
        with place.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"f{at}" for at in range(features)), "y"])
            for values, code in zip(made.features.tolist(), made.codes.tolist(), strict=True):
                writer.writerow([*(f"{value:g}" for value in values), LABELS[code]])
        yield place


@contextmanager
def mixed_file(rows: int, seed: int) -> Iterator[Path]:
    """A CSV file of a made table of mixed columns, with the label in ``y``: one row in twenty is fraud."""
    columns, labels = mixed_table(rows, seed, fraud=0.05)
    with tempfile.TemporaryDirectory(prefix="deltaplane-bench-") as directory:
        place = Path(directory) / "mixed.csv"
        with place.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*columns, "y"])
            writer.writerows(zip(*columns.values(), labels, strict=True))
        yield place


def replay(
    file: Path,
    label: str,
    positive: str | None,
    setting: Setting,
    *,
    verify: bool = False,
    more: tuple[str, ...] = (),
) -> Replayed:
    """One replay in a process of its own, so that its memory is its own; ``more`` flags besides.

    Raises :class:`DeltaplaneError`.
    """
    flags = ["--label", label, "--window", setting.window, "--C", setting.choice_of_c, "--chunk", str(setting.chunk)]
    flags += ["--positive", positive] if positive else []
    flags += ["--verify"] if verify else []
    flags += more
    with (
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile("w+") as errors,
        tempfile.NamedTemporaryFile("r", encoding="ascii") as at_its_end,
    ):
        line = [
            sys.executable,
            "-c",
            _RUN_AND_LEAVE_STATUS,
            at_its_end.name,
            "replay",
            str(file),
            *flags,
            "--json",
            "-",
        ]
        process = subprocess.Popen(line, stdout=output, stderr=errors)  # noqa: S603
        # Of this process alone: the sums over all children would be those of all runs so far.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            said = errors.read().strip()[-500:]
            raise DeltaplaneError(f"bench: the replay ended with {process.returncode}: {said}")
        result: dict[str, Any] = loads(output.read())
        status_left = at_its_end.read()
    return Replayed(
        seconds=result["seconds"],
        cpu_seconds=used.ru_utime + used.ru_stime,
        peak_megabytes=peak_megabytes(status_left) if status_left else math.nan,
        rows=result["rows"],
        digest=result["digest"],
        verified=bool(result.get("verified")),
        gmean=result.get("gmean"),
        features=len(result["settings"]["definition"]["features"]["names"]),
        weights=tuple(np.ravel(result.get("model", {}).get("weights", ())).tolist()),
    )


def best_of(repeats: int, file: Path, label: str, positive: str | None, setting: Setting) -> Replayed:
    """The fastest of several; all must give one digest. Raises :class:`DeltaplaneError` where they do not."""
    runs = [replay(file, label, positive, setting) for _ in range(repeats)]
    if len({run.digest for run in runs}) > 1:
        raise DeltaplaneError(f"bench: equal replays gave different digests: {sorted({run.digest for run in runs})}")
    return min(runs, key=lambda run: run.seconds)


def startup_seconds() -> float:
    """Processor seconds that the command takes to do nothing: to be taken from those of a replay."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import deltaplane_services.cli.application, deltaplane_services.replay.run, pyarrow.csv",
        ],
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
