"""``bench tables`` and ``bench keel``: mixed tables as their files have them, beside what people build by hand."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable

from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data import mixed_tables
from deltaplane_benchmarks.data.mixed_tables import KEEL_TABLES, MIXED_TABLES, MixedTable
from deltaplane_benchmarks.exhibit import Cell, Column, Exhibit, Target
from deltaplane_benchmarks.peers.mixed import LEARNERS, MixedLearner, gmean_of
from deltaplane_benchmarks.peers.task import EXTRA

__all__ = ["KEEL", "TABLES", "exhibit_of"]

_NOTES = (
    "Test, then train: a chunk is predicted, then learned. Rows before a learner's first model are not counted.",
    "Deltaplane is given the file and the name of its label; others have columns sorted by hand, words from numbers.",
    "Rows of KEEL's tables are in the order of their files.",
)


def exhibit_of(name: str, title: str, tables: Iterable[MixedTable], say: Callable[[str], None]) -> Exhibit:
    """Every learner that is installed on every table."""
    rows: list[tuple[Cell, ...]] = []
    targets, sources = [], []
    for table in tables:
        found: dict[str, float] = {}
        for learner in LEARNERS:
            if not learner.installed:
                rows.append((table.name, f"{learner.name}: {EXTRA}", None, None, None, None, None))
                continue
            say(f"{name}: {table.name}, {learner.name}")
            found[learner.name], seconds = _measured(learner, table)
            speed = len(table) / seconds
            cells = (len(table), len(table.cells), table.chunk, found[learner.name], speed)
            rows.append((table.name, learner.name, *cells))
        targets.append(_target(table, found))
        sources.append(table.source)
    columns = (
        Column("table"),
        Column("learner"),
        Column("rows", ",d"),
        Column("columns", ",d"),
        Column("chunk", ",d"),
        Column("G-mean", ".4f"),
        Column("rows/s", ",.0f"),
    )
    hows = tuple(f"{learner.name}: {learner.how}." for learner in LEARNERS)
    return Exhibit(
        paper=0,
        name=name,
        title=title,
        columns=columns,
        rows=tuple(rows),
        targets=tuple(targets),
        data=tuple(sources),
        notes=(*_NOTES, *hows),
    )


def _measured(learner: MixedLearner, table: MixedTable) -> tuple[float, float]:
    """The G-mean of a learner, and the seconds that it took from the rows to the last prediction."""
    with warnings.catch_warnings():
        # What a learner says of its own convergence, or of the order of a file, is no fault of the measurement.
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        predicted = learner.run(table)
        return gmean_of(table, predicted), time.perf_counter() - began


def _target(table: MixedTable, found: dict[str, float]) -> Target:
    """That ours reaches coding by hand: what was measured of it, rounded to three digits, or scikit-learn's here."""
    ours, peer = found["Deltaplane"], found.get("scikit-learn, anew", math.nan)
    if table.hand is not None:
        text = f"{table.name}: at least the {table.hand:.3f} of one-hot coding by hand"
        return Target(text, round(ours, 3) >= table.hand, f"{ours:.4f}")
    return Target(f"{table.name}: at least scikit-learn's pipeline", ours >= peer, f"{ours:.4f} against {peer:.4f}")


def _experiment(
    name: str, title: str, tables: Iterable[str], made: Callable[[], list[MixedTable]] = list
) -> Experiment:
    """``tables`` are fetched, and ``made`` ones are there in any case."""

    def run(bench: Bench) -> list[Exhibit]:
        loaded = [bench.get(one, lambda one=one: mixed_tables.load(one, bench.cache)) for one in tables]  # type: ignore[misc]
        there = [*made(), *(table for table in loaded if table is not None)]
        return [exhibit_of(name, title, there, bench.say)] if there else []

    return Experiment(0, name, run)


TABLES = _experiment(
    "tables", "Mixed tables of people, as their files have them", MIXED_TABLES, lambda: [mixed_tables.made_payments()]
)
KEEL = _experiment("keel", "Tables of words and numbers of KEEL, as their files have them", KEEL_TABLES)
