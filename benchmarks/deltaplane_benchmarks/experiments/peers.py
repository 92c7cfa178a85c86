"""``bench peers``: other stream learners and ours on the same rows, rows a second beside the G-mean.

One table a stream. No target is set: rows a second are of one machine, and which learner's planes suit a stream is what
the table is there to show. A learner that is not there keeps its line, with what would bring it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.exhibit import Cell, Chart, Column, Exhibit, Series
from deltaplane_benchmarks.peers import moa
from deltaplane_benchmarks.peers.learners import BASELINES, LEARNERS
from deltaplane_benchmarks.peers.task import CHUNK_ROWS, EXTRA, Learner, Measured, Task, measure

__all__ = [
    "NOTES",
    "PART_ROWS",
    "QUICK_PART_ROWS",
    "QUICK_ROWS",
    "REPEATS",
    "STREAMS",
    "PeerStream",
    "absent",
    "exhibit",
    "experiment",
    "run",
]

PART_ROWS, QUICK_PART_ROWS = 10_000, 3_000
QUICK_ROWS = 20_000
REPEATS = 3


@dataclass(frozen=True)
class PeerStream:
    """A stream of the catalogue, its positive class, and how many of its rows are used."""

    table: str
    positive: str
    most_rows: int = 2**62


STREAMS = (PeerStream("CoverType", "2", 200_000), PeerStream("Elec2", "1"))


def run(moa_jars: Path | None, bench: Bench) -> list[Exhibit]:
    """One table for each stream that can be had."""
    quick = bench.settings.quick
    found = []
    for stream in STREAMS:
        data = bench.table(stream.table)
        if data is None:
            continue
        rows = min(stream.most_rows, QUICK_ROWS) if quick else stream.most_rows
        task = Task(
            data.features[:rows],
            data.flags(stream.positive)[:rows],
            CHUNK_ROWS,
            QUICK_PART_ROWS if quick else PART_ROWS,
            bench.settings.label_delay,
        )
        found.append(exhibit(bench, data, stream, task, moa_jars))
    return found


def exhibit(bench: Bench, data: DataSet, stream: PeerStream, task: Task, moa_jars: Path | None) -> Exhibit:
    """Run every learner that is there on the rows of a task."""
    name = f"peers, {stream.table}"
    rows: list[tuple[Cell, ...]] = []
    measured: list[tuple[str, Measured]] = []
    hows: list[str] = []
    for learner in (*BASELINES, *LEARNERS, *moa.learners(moa_jars)):
        reason = absent(learner, moa_jars) or (_TELLS_ITSELF if task.late and not learner.waits else None)
        if reason is not None:
            rows.append((learner.name, reason, None, None, None, None, None))
            continue
        bench.say(f"{name}: {learner.name}, by {learner.by}")
        best = measure(learner, task, 1 if bench.settings.quick else REPEATS)
        measured.append((f"{learner.name}, {learner.by}", best))
        hows.append(f"{learner.name}, {learner.by}: {learner.how}.")
        microseconds = best.cpu_seconds / best.rows * 1e6
        cells = (best.rows, best.rows_per_second, microseconds, best.gmean, best.gmean_of_part)
        rows.append((learner.name, learner.by, *cells))
    return Exhibit(
        paper=0,
        name=name,
        title=f"Test, then train{_late(task)}, class {stream.positive} against the rest: rows a second and G-mean",
        columns=_columns(task),
        rows=tuple(rows),
        charts=(_chart(name, measured, task),),
        data=(f"{data.name}: {data.source} {data.note}, {len(task):,} rows of {task.features.shape[1]} features",),
        notes=(*NOTES, *hows),
    )


_TELLS_ITSELF = "cannot wait for labels: it learns a row before it takes the next"


def absent(learner: Learner, moa_jars: Path | None) -> str | None:
    """Why a learner cannot be run, or None."""
    if learner.name.startswith("MOA"):
        return None if moa.present(moa_jars) else moa.ABSENT
    return None if learner.installed else EXTRA


NOTES = (
    "Every row is predicted, then learned. By chunks, labels come 1 to 1,000 rows late, after the whole chunk.",
    "By rows, a label comes before the next row: where neighbours are alike, as in Elec2, that alone helps to guess.",
    "NoChange guesses the last label that it knows, and looks at no row: compare others with it at the same delay.",
    "With --label-delay N a label is known when the row N behind its own is predicted; by chunks, N - 1 rows later.",
    "The first 1,000 rows are learned and not counted. Slow learners get a part of the rows: see the last column.",
    "Rows are in memory, in each learner's own form, before the clock starts; BLAS has one thread.",
    "The best of three runs, or the only one where that took over 5 seconds.",
    "MOA's seconds are processor seconds of its process, from when its rows are in memory.",
    "Ours hold every row exactly, so that each can leave again; the others do not.",
)


def _late(task: Task) -> str:
    return f" {task.label_delay:,} rows later" if task.late else ""


def _columns(task: Task) -> tuple[Column, ...]:
    return (
        Column("learner"),
        Column("learns"),
        Column("rows", ",d"),
        Column("rows/s", ",.0f"),
        Column("cpu µs a row", ".2f"),
        Column("G-mean", ".4f"),
        Column(f"G-mean of the first {min(task.part, len(task)):,}", ".4f"),
    )


def _chart(name: str, measured: Sequence[tuple[str, Measured]], task: Task) -> Chart:
    """Each learner a point."""
    series = [
        Series(learner, (best.rows_per_second,), (best.gmean_of_part,), theirs=not learner.startswith("Deltaplane"))
        for learner, best in measured
    ]
    y = f"G-mean of the first {min(task.part, len(task)):,} rows"
    return Chart(name, "rows a second", y, tuple(series), log_x=True)


def experiment(moa_jars: Path | None) -> Experiment:
    """The experiment, with the directory of MOA's jars where there is one."""
    return Experiment(0, "peers", partial(run, moa_jars))
