"""MOA, a program in Java, by its own command line on an ARFF file of the same rows.

It reads the file while it learns, so reading is in its time, which is the processor time that it states itself. It
knows no chunks: every row is predicted, then learned. Its evaluator gives each class's recall so far every
thousand rows, from which, with the number of rows of each class, the rows it had right are known.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from deltaplane.errors import DeltaplaneError
from deltaplane.log.confusion import Confusion, gmean
from deltaplane_benchmarks.peers.task import LABELS, ROWS, SCALED, Learner, Ran, Run, Task

__all__ = ["ABSENT", "SECONDS_AT_MOST", "gmean_of", "learners", "present", "write_arff"]

SECONDS_AT_MOST = 900.0
ABSENT = "not given: --moa DIRECTORY with its jars (Maven: nz.ac.waikato.cms.moa:moa and what it needs), and java"


def present(jars: Path | None) -> bool:
    """Whether MOA can be run."""
    return jars is not None and shutil.which("java") is not None and any(jars.glob("moa-*.jar"))


def learners(jars: Path | None) -> tuple[Learner, ...]:
    """Those of MOA that are run."""
    ways = (
        ("SGD", "functions.SGD", f"hinge, {SCALED}; reads its file"),
        ("HoeffdingTree", "trees.HoeffdingTree", "rows as they are; reads its file"),
    )
    return tuple(
        Learner(
            f"MOA {name}",
            ROWS,
            how,
            None,
            partial(_moa, jars=jars, learner=learner, scaled=name == "SGD"),
            waits=False,
        )
        for name, learner, how in ways
    )


@contextmanager
def _moa(task: Task, *, jars: Path | None, learner: str, scaled: bool) -> Iterator[Run]:
    assert jars is not None, "who runs it has looked for it"
    with tempfile.TemporaryDirectory(prefix="deltaplane-bench-") as directory:
        data, found = Path(directory) / "rows.arff", Path(directory) / "found.csv"
        write_arff(task.scaled() if scaled else task, data)
        words = f"EvaluatePrequential -l ({learner}) -s (ArffFileStream -f {data})"
        words += f" -e (BasicClassificationPerformanceEvaluator -r) -f {task.chunk} -q {task.chunk} -d {found}"
        agents = [f"-javaagent:{jar}" for jar in sorted(jars.glob("sizeofag-*.jar"))]
        line = ["java", "-Xmx2g", "-XX:+UseSerialGC", *agents, "-cp", str(jars / "*"), "moa.DoTask", words]

        def run() -> Ran:
            found.unlink(missing_ok=True)
            ended = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS_AT_MOST, check=False)  # noqa: S603
            if ended.returncode or not found.exists():
                raise DeltaplaneError(f"bench: MOA ended with {ended.returncode}: {ended.stderr.strip()[-500:]}")
            lines = list(csv.DictReader(found.read_text("utf-8").splitlines()))
            return Ran(partial(gmean_of, lines, task), float(lines[-1]["evaluation time (cpu seconds)"]))

        yield run


def write_arff(task: Task, place: Path) -> None:
    """Rows and labels as an ARFF file."""
    with place.open("w", encoding="ascii") as file:
        file.write("@relation rows\n")
        file.writelines(f"@attribute x{at} numeric\n" for at in range(task.features.shape[1]))
        file.write(f"@attribute y {{{','.join(LABELS)}}}\n@data\n")
        for values, flag in zip(task.features.tolist(), task.flags.tolist(), strict=True):
            file.write(",".join(f"{value:.9g}" for value in values) + f",{LABELS[flag]}\n")


def gmean_of(lines: list[dict[str, str]], task: Task, rows: int) -> float:
    """The G-mean of the first so many rows without the first chunk, from recalls so far."""
    at = {int(float(line["learning evaluation instances"])): line for line in lines}
    right = [_right(at[mark], task, mark) for mark in (task.chunk, rows)]
    counts = {}
    for code, label in enumerate(LABELS):
        hits = right[1][code] - right[0][code]
        total = int(np.count_nonzero(task.flags[task.chunk : rows] == bool(code)))
        counts[label, label], counts[label, LABELS[1 - code]] = hits, total - hits
    return gmean(Confusion(counts))


def _right(line: dict[str, str], task: Task, rows: int) -> list[int]:
    """Rows of each class among the first so many that were predicted right."""
    found = []
    for code in range(len(LABELS)):
        name = next(name for name in line if name.startswith(f"Recall for class {code}"))
        recall = float(line[name]) / 100.0
        total = int(np.count_nonzero(task.flags[:rows] == bool(code)))
        found.append(0 if np.isnan(recall) else round(recall * total))
    return found
