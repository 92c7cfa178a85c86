"""Paper 1, Tables II and III: seconds to train, by worker processes, by share of the data, and for new rows alone.

Ours are from the word to the plane on this machine, each node on one core with its rows in memory: once statistics and
solving alone, and once end to end, from encoded messages to a published model, by the product's own worker and merger.
Theirs are Matlab's on a laptop of its time. The machines differ, so read across a row, not between columns: how time
falls with nodes and with rows. No target depends on a clock; that all ways end with the same digest is one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deltaplane.arrays import Floats, Texts
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane_benchmarks import linear
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.data_sources import Published, Sources, definition_for
from deltaplane_benchmarks.exhibit import Cell, Chart, Column, Exhibit, Series, Target
from deltaplane_benchmarks.experiments.equality import anonymous_web
from deltaplane_benchmarks.nodes import Nodes, Part, Trained

__all__ = [
    "END_TO_END",
    "NODES",
    "POSITIVE",
    "REPEATS",
    "TABLE_2",
    "TABLE_2_EXPERIMENT",
    "TABLE_3",
    "TABLE_3_EXPERIMENT",
    "WAYS",
    "caveats",
    "table_2",
    "table_3",
]

POSITIVE = "visited"
NODES = (1, 2)
REPEATS = 5

TABLE_2 = {
    100: (18.33, 10.36, 8.52, 7.90),
    75: (14.02, 8.00, 6.57, 6.07),
    50: (9.31, 5.48, 4.40, 4.05),
    25: (4.92, 2.94, 2.35, 2.15),
}
"""Percent of CoverType: their seconds on one to four cores."""

TABLE_3 = {
    30_000: (4.36, 4.36, 1.97, 1.97),
    15_000: (6.54, 2.20, 2.95, 1.01),
    7_500: (7.62, 1.09, 3.44, 0.49),
    3_750: (8.13, 0.56, 3.70, 0.25),
}
"""New rows, one after another: their seconds for batch, incremental, parallel, parallel incremental."""

END_TO_END = "end to end: workers decode messages, admit and learn them, and send deltas; the merger publishes a model"

WAYS = ("batch", "incremental", "parallel", "parallel incremental")


def caveats() -> tuple[str, ...]:
    """What must be said beside seconds: the hardware is another, and what else it is doing."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    cores = os.cpu_count() or 1
    others = f"; the machine's load was {load:.1f} at the end, so other work took part of them" if load > cores else ""
    return (
        f"other hardware and software than the paper's: here {cores} cores{others}",
        f"processes hold their rows before the clock starts; the fastest of {REPEATS} runs",
    )


def table_2(bench: Bench) -> list[Exhibit]:
    """Table II: the whole of CoverType, and parts of it."""
    table = bench.table("CoverType")
    if table is None:
        return []
    if bench.settings.quick:
        table = replace(table, features=table.features[::10], labels=table.labels[::10])
    table = table.against_rest("2")
    grid = fit_grid(table.features)
    seconds: dict[tuple[int, int, bool], list[float]] = {}
    digests: set[str] = set()
    for count in NODES:
        bench.say(f"Table II: {count} worker process{'es' if count > 1 else ''}")
        with Sources(table.features, table.labels, grid, count, "2") as sources:
            fingerprint = sources.definition.data_fingerprint
            for percent in TABLE_2:
                parts: list[Part] = [(0, round(held * percent / 100)) for held in sources.held]
                ended = [sources.train(parts) for _ in range(REPEATS)]
                seconds[percent, count, True] = [one.seconds for one in ended]
                digests |= {one.digest for one in ended if percent == 100}
        with Nodes(table.features, table.labels, grid, count) as nodes:
            for percent in TABLE_2:
                parts = [(0, held * percent // 100) for held in nodes.held]
                trained = [nodes.train(parts, linear.PAPER_OPTIONS, "2") for _ in range(REPEATS)]
                seconds[percent, count, False] = [one.seconds for one in trained]
                digests |= {one.statistics.digest(fingerprint) for one in trained if percent == 100}
    rows: list[tuple[Cell, ...]] = []
    for percent, theirs in TABLE_2.items():
        ours = [min(seconds[percent, count, whole]) for whole in (False, True) for count in NODES]
        rate = len(table.labels) * percent / 100 / ours[0]
        rows.append((percent, *ours, *theirs, ours[0] / ours[1], ours[2] / ours[3], theirs[0] / theirs[1], rate))
    target = Target("one process and two, end to end and not, end with the same digest", len(digests) == 1, "")
    return [
        Exhibit(
            1,
            "Table II",
            "Seconds to train on CoverType by worker processes and share of the rows",
            _COLUMNS_2,
            tuple(rows),
            (_chart_2(rows),),
            (replace(target, measured="equal" if target.met else "different"),),
            (f"CoverType: {table.source}, {len(table.labels):,} rows, class 2 against the rest",),
            (*caveats(), END_TO_END),
        )
    ]


_COLUMNS_2 = (
    Column("rows %"),
    *(Column(f"ours, {count} process{'es' if count > 1 else ''} s", ".3f") for count in NODES),
    *(Column(f"ours end to end, {count} process{'es' if count > 1 else ''} s", ".3f") for count in NODES),
    *(Column(f"paper, {count} core{'s' if count > 1 else ''} s", ".2f") for count in (1, 2, 3, 4)),
    Column("our speedup, 2", ".2f"),
    Column("end to end, 2", ".2f"),
    Column("paper's speedup, 2", ".2f"),
    Column("our rows/s, 1 process", ",.0f"),
)


def _chart_2(rows: list[tuple[Cell, ...]]) -> Chart:
    x = tuple(float(row[0] or 0) for row in rows)
    series = tuple(
        Series(column.name.removesuffix(" s"), x, tuple(float(row[at] or 0) for row in rows), "paper" in column.name)
        for at, column in enumerate(_COLUMNS_2)
        if column.name.endswith(" s")
    )
    return Chart("Table II", "rows %", "seconds", series, log_y=True)


def table_3(bench: Bench) -> list[Exhibit]:
    """Table III: the training set grows by new rows; incremental training looks at those alone."""
    total = sum(TABLE_3)
    table = anonymous_web(bench, total)
    grid = fit_grid(table.features)
    alone = {count: _grown(table, grid, count, bench) for count in NODES}
    whole = {count: _grown_end_to_end(table, grid, count, bench) for count in NODES}
    rows: list[tuple[Cell, ...]] = []
    for at, (new, theirs) in enumerate(TABLE_3.items()):
        ours = [seconds for found in (alone, whole) for count in NODES for seconds in found[count][at].seconds]
        rows.append((new, *ours, *theirs))
    same = all(
        len({digest for found in (alone, whole) for count in NODES for digest in found[count][at].digests}) == 1
        for at in range(len(TABLE_3))
    )
    names = [f"{whose} {way} s" for whose in ("ours", "ours end to end", "paper") for way in WAYS]
    columns = (Column("new rows", ",d"), *(Column(name, ".3f" if name.startswith("ours") else ".2f") for name in names))
    notes = (
        *caveats(),
        END_TO_END,
        "the paper does not name its data; ours are generated 0/1 rows with 294 features; parallel is two processes",
    )
    target = Target("batch, incremental and parallel end with the same digest", same, "equal" if same else "different")
    x = tuple(map(float, TABLE_3))
    series = tuple(
        Series(name.removesuffix(" s"), x, tuple(float(row[at] or 0) for row in rows), name.startswith("paper"))
        for at, name in enumerate(names, start=1)
    )
    chart = Chart("Table III", "new rows", "seconds", series, log_x=True, log_y=True)
    title = "Seconds to train when new rows come"
    data = (f"{table.name}: {table.note}",)
    return [Exhibit(1, "Table III", title, columns, tuple(rows), (chart,), (target,), data, notes)]


@dataclass(frozen=True)
class _Growth:
    """Seconds of training on all rows so far, and on the new ones alone; and the digests of both."""

    seconds: tuple[float, float]
    digests: set[str]


def _grown(table: DataSet, grid: Grid, count: int, bench: Bench) -> list[_Growth]:
    """Each growth, statistics and solving alone."""
    found = []
    rows, labels = _dealt(table, count)
    fingerprint = definition_for(grid, np.unique(labels).tolist(), POSITIVE, 1).data_fingerprint
    with Nodes(rows, labels, grid, count) as nodes:
        known, start = None, 0
        for new in TABLE_3:
            bench.say(f"Table III: {new:,} new rows, {count} worker process{'es' if count > 1 else ''}")
            stop = start + new // count
            whole = [nodes.train([(0, stop)] * count, linear.PAPER_OPTIONS, POSITIVE) for _ in range(REPEATS)]
            step = [nodes.train([(start, stop)] * count, linear.PAPER_OPTIONS, POSITIVE, known) for _ in range(REPEATS)]
            known, start = step[0].statistics, stop
            digests = {one.statistics.digest(fingerprint) for one in (*whole, *step)}
            found.append(_Growth((_fastest(whole), _fastest(step)), digests))
    return found


def _grown_end_to_end(table: DataSet, grid: Grid, count: int, bench: Bench) -> list[_Growth]:
    """Each growth, from messages to a published model."""
    found = []
    rows, labels = _dealt(table, count)
    # Every growth is a whole number of messages of every node.
    message = math.gcd(*(new // count for new in TABLE_3))
    with Sources(rows, labels, grid, count, POSITIVE, message) as sources:
        start = 0
        for new in TABLE_3:
            bench.say(f"Table III: {new:,} new rows end to end, {count} worker process{'es' if count > 1 else ''}")
            stop = start + new // count // message
            whole = [sources.train([(0, stop)] * count) for _ in range(REPEATS)]
            step = [sources.train([(start, stop)] * count, [(0, start)] * count) for _ in range(REPEATS)]
            start = stop
            found.append(_Growth((_fastest(whole), _fastest(step)), {one.digest for one in (*whole, *step)}))
    return found


def _dealt(table: DataSet, count: int) -> tuple[Floats, Texts]:
    """Rows and labels, in an order in which each node's share of every growth is a run of the rows that it holds."""
    order = np.argsort(_node_of(count), kind="stable")
    return table.features[order], table.labels[order]


def _fastest(runs: Sequence[Trained | Published]) -> float:
    return min(one.seconds for one in runs)


def _node_of(count: int) -> np.ndarray:
    return np.concatenate([np.arange(new) % count for new in TABLE_3])


TABLE_2_EXPERIMENT = Experiment(1, "times by processes", table_2)
TABLE_3_EXPERIMENT = Experiment(1, "times of new rows", table_3)
