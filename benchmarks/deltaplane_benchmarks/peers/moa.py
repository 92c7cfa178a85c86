"""MOA, a program in Java, which a small program of ours (``Prequential.java``) asks for votes and tells labels.

MOA's own commands write measures, and no votes, and know of no chunks after which labels come. So ours reads an ARFF
file of the rows, asks MOA's learner for the votes of a chunk, then trains it on the rows whose labels have come, as all
learners here are. Its seconds are processor seconds of all threads, with rows in memory before the clock starts.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from deltaplane.arrays import Flags, Floats
from deltaplane.errors import DeltaplaneError
from deltaplane_benchmarks.peers.task import CHUNKS, LABELS, ROWS, SCALED, Learner, Ran, Run, Task

__all__ = [
    "ABSENT",
    "ENSEMBLE",
    "PROGRAM",
    "SECONDS_AT_MOST",
    "java",
    "learners",
    "learners_by_chunk",
    "present",
    "read_answers",
    "version",
    "write_arff",
]

SECONDS_AT_MOST = 1800.0
PROGRAM = Path(__file__).with_name("Prequential.java")
ABSENT = (
    "not given: --moa DIRECTORY with its jars (Maven: nz.ac.waikato.cms.moa:moa and what it needs), and a JDK of 11 or"
    " later"
)
ENSEMBLE = 30
"""Trees of an ensemble of a hundred by default, which would take three times as long."""


def present(jars: Path | None) -> bool:
    """Whether MOA can be run."""
    return jars is not None and shutil.which("javac") is not None and version(jars) is not None


def version(jars: Path | None) -> str | None:
    """The name of MOA's jar, which has its version; None if there is none."""
    return next((jar.stem for jar in sorted(jars.glob("moa-*.jar"))), None) if jars is not None else None


@dataclass(frozen=True)
class _Way:
    """How a learner of MOA is run. ``learner``: MOA's text of it, or of the base of an ensemble that samples."""

    name: str
    learner: str
    how: str
    by: str = CHUNKS
    scaled: bool = False
    sampling: str | None = None


_LARGE = f"{ENSEMBLE} trees of 100, else as it is"
_SAMPLED = "ten of MOA's Hoeffding trees, sampled by class, as published;"

_BY_ROW = (
    _Way("SGD", "functions.SGD", f"hinge, {SCALED}", by=ROWS, scaled=True),
    _Way("HoeffdingTree", "trees.HoeffdingTree", "rows as they are", by=ROWS),
)
_BY_CHUNK = (
    _Way("HoeffdingTree", "trees.HoeffdingTree", "as it is"),
    _Way("ARF", f"meta.AdaptiveRandomForest -s {ENSEMBLE}", _LARGE),
    _Way("SRP", f"meta.StreamingRandomPatches -s {ENSEMBLE}", _LARGE),
    _Way("LeveragingBag", "meta.LeveragingBag", "ten trees, as it is"),
    _Way("SGBT", f"meta.StreamingGradientBoostedTrees -s {ENSEMBLE}", _LARGE),
    _Way(
        "OnlineUnderOverBagging",
        "meta.imbalanced.OnlineUnderOverBagging -l trees.HoeffdingTree",
        "of Hoeffding trees, since each of ten is a forest of 100 trees by default; else as it is",
    ),
    _Way("OOB", "trees.HoeffdingTree", f"{_SAMPLED} the rarer class is taken more often", sampling="over"),
    _Way("UOB", "trees.HoeffdingTree", f"{_SAMPLED} the more frequent class is taken less often", sampling="under"),
)


def learners(jars: Path | None) -> tuple[Learner, ...]:
    """Those that take a row at a time."""
    return tuple(_learner(jars, way) for way in _BY_ROW)


def learners_by_chunk(jars: Path | None) -> tuple[Learner, ...]:
    """Those of the league of imbalanced streams, as MOA has them by default but for the size of large ensembles."""
    return tuple(_learner(jars, way) for way in _BY_CHUNK)


def _learner(jars: Path | None, way: _Way) -> Learner:
    return Learner(f"MOA {way.name}", way.by, way.how, None, partial(_moa, jars=jars, way=way))


@contextmanager
def _moa(task: Task, *, jars: Path | None, way: _Way) -> Iterator[Run]:
    assert jars is not None, "who runs it has looked for it"
    with tempfile.TemporaryDirectory(prefix="deltaplane-bench-") as directory:
        data, told = Path(directory) / "rows.arff", Path(directory) / "answers.txt"
        write_arff(task.scaled() if way.scaled else task, data)
        step = 1 if way.by == ROWS else task.chunk
        words = [way.learner, str(data), str(step), str(task.late), str(told)]
        words += [way.sampling] if way.sampling else []

        def run() -> Ran:
            told.unlink(missing_ok=True)
            java(jars, [PROGRAM.stem, *words], told)
            seconds, predicted, scores = read_answers(told.read_text("ascii"))
            if len(predicted) != len(task):
                raise DeltaplaneError(f"bench: MOA answered {len(predicted):,} of {len(task):,} rows")
            return Ran.of(task, predicted, scores, seconds)

        yield run


def java(jars: Path, words: list[str], made: Path) -> None:
    """Run a program of MOA or ours, which is to make a file. Raises :class:`DeltaplaneError` if it does not."""
    agents = [f"-javaagent:{jar}" for jar in sorted(jars.glob("sizeofag-*.jar"))]
    path = f"{jars / '*'}{os.pathsep}{_compiled(jars).name}"
    _run(["java", "-Xmx2g", "-XX:+UseSerialGC", *agents, "-cp", path, *words], made)


@functools.cache
def _compiled(jars: Path) -> tempfile.TemporaryDirectory[str]:
    """A directory with our program compiled, which is deleted when this process ends."""
    directory = tempfile.TemporaryDirectory(prefix="deltaplane-bench-")
    made = Path(directory.name) / f"{PROGRAM.stem}.class"
    _run(["javac", "-cp", str(jars / "*"), "-d", directory.name, str(PROGRAM)], made)
    return directory


def _run(line: list[str], made: Path) -> None:
    ended = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS_AT_MOST, check=False)  # noqa: S603
    if ended.returncode or not made.exists():
        raise DeltaplaneError(f"bench: {line[0]} for MOA ended with {ended.returncode}: {ended.stderr.strip()[-500:]}")


def read_answers(text: str) -> tuple[float, Flags, Floats]:
    """What ``Prequential.java`` wrote: seconds, which rows are predicted positive bool[n], and scores float64[n]."""
    first, *lines = text.split("\n")
    pairs = np.array([line.split() for line in lines if line], dtype=np.float64).reshape(-1, 2)
    return float(first), pairs[:, 0] == 1.0, pairs[:, 1]


def write_arff(task: Task, place: Path) -> None:
    """Rows and labels as an ARFF file."""
    levels = task.levels or (0,) * task.features.shape[1]
    with place.open("w", encoding="ascii") as file:
        file.write("@relation rows\n")
        for at, count in enumerate(levels):
            file.write(f"@attribute x{at} {'{' + ','.join(map(str, range(count))) + '}' if count else 'numeric'}\n")
        file.write(f"@attribute y {{{','.join(LABELS)}}}\n@data\n")
        for values, flag in zip(task.features.tolist(), task.flags.tolist(), strict=True):
            file.write(",".join(f"{value:.9g}" for value in values) + f",{LABELS[flag]}\n")
