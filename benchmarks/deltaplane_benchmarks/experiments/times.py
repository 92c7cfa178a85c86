"""Paper 1, Tables II and III: seconds to train, by worker processes, by share of the data, and for new rows alone.

Ours are from the word to the plane on this machine, statistics and solving alone, each node on one core with its rows
in memory; theirs are Matlab's on a laptop of its time. The machines differ, so read across a row, not between columns:
how time falls with nodes and with rows. No target depends on a clock; that all ways end with the same digest is one.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from deltaplane.grid import Grid, fit_grid
from deltaplane_benchmarks import linear
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.exhibit import Cell, Chart, Column, Exhibit, Series, Target
from deltaplane_benchmarks.experiments.equality import FINGERPRINT, anonymous_web
from deltaplane_benchmarks.nodes import Nodes, Part

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
    seconds: dict[tuple[int, int], list[float]] = {}
    digests: dict[int, set[str]] = {}
    for count in NODES:
        bench.say(f"Table II: {count} worker process{'es' if count > 1 else ''}")
        with Nodes(table.features, table.labels, grid, count) as nodes:
            for percent in TABLE_2:
                parts: list[Part] = [(0, held * percent // 100) for held in nodes.held]
                for _ in range(REPEATS):
                    trained = nodes.train(parts, linear.PAPER_OPTIONS, "2")
                    seconds.setdefault((percent, count), []).append(trained.seconds)
                    if percent == 100:
                        digests.setdefault(count, set()).add(trained.statistics.digest(FINGERPRINT))
    rows: list[tuple[Cell, ...]] = []
    for percent, theirs in TABLE_2.items():
        ours = [min(seconds[percent, count]) for count in NODES]
        rate = len(table.labels) * percent / 100 / ours[0]
        rows.append((percent, *ours, *theirs, ours[0] / ours[1], theirs[0] / theirs[1], rate))
    target = Target("one process and two end with the same digest", len(set.union(*digests.values())) == 1, "")
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
            caveats(),
        )
    ]


_COLUMNS_2 = (
    Column("rows %"),
    *(Column(f"ours, {count} process{'es' if count > 1 else ''} s", ".3f") for count in NODES),
    *(Column(f"paper, {count} core{'s' if count > 1 else ''} s", ".2f") for count in (1, 2, 3, 4)),
    Column("our speedup, 2", ".2f"),
    Column("paper's speedup, 2", ".2f"),
    Column("our rows/s, 1 process", ",.0f"),
)


def _chart_2(rows: list[tuple[Cell, ...]]) -> Chart:
    x = tuple(float(row[0] or 0) for row in rows)
    curves = [(f"{column.name.removesuffix(' s')}", at) for at, column in enumerate(_COLUMNS_2) if 0 < at < 7]
    series = tuple(
        Series(name, x, tuple(float(row[at] or 0) for row in rows), theirs=name.startswith("paper"))
        for name, at in curves
    )
    return Chart("Table II", "rows %", "seconds", series, log_y=True)


def table_3(bench: Bench) -> list[Exhibit]:
    """Table III: the training set grows by new rows; incremental training looks at those alone."""
    total = sum(TABLE_3)
    table = anonymous_web(bench, total)
    grid = fit_grid(table.features)
    found = {count: _grown(table, grid, count, bench) for count in NODES}
    rows: list[tuple[Cell, ...]] = []
    same = True
    for at, (new, theirs) in enumerate(TABLE_3.items()):
        ours = [seconds for count in NODES for seconds in found[count][at][:2]]
        same = same and len({digest for count in NODES for digest in found[count][at][2]}) == 1
        rows.append((new, *ours, *theirs))
    names = [f"ours {way} s" for way in WAYS] + [f"paper {way} s" for way in WAYS]
    columns = (Column("new rows", ",d"), *(Column(name, ".3f" if name.startswith("ours") else ".2f") for name in names))
    notes = (
        *caveats(),
        "the paper does not name its data; ours are generated 0/1 rows with 294 features; parallel is two processes",
    )
    target = Target("batch, incremental and parallel end with the same digest", same, "equal" if same else "different")
    series = tuple(
        Series(
            name.removesuffix(" s"), tuple(map(float, TABLE_3)), tuple(float(row[at + 1] or 0) for row in rows), at > 3
        )
        for at, name in enumerate(names)
    )
    chart = Chart("Table III", "new rows", "seconds", series, log_x=True, log_y=True)
    title = "Seconds to train when new rows come"
    data = (f"{table.name}: {table.note}",)
    return [Exhibit(1, "Table III", title, columns, tuple(rows), (chart,), (target,), data, notes)]


def _grown(table: DataSet, grid: Grid, count: int, bench: Bench) -> list[tuple[float, float, set[str]]]:
    """For each growth: seconds of training on all rows so far, on the new ones alone, and the digests of both."""
    found = []
    # Each node holds its share of every growth, one after another, so that "all so far" is a run of its rows.
    order = np.argsort(_node_of(count), kind="stable")
    with Nodes(table.features[order], table.labels[order], grid, count) as nodes:
        known, start = None, 0
        for new in TABLE_3:
            bench.say(f"Table III: {new:,} new rows, {count} worker process{'es' if count > 1 else ''}")
            stop = start + new // count
            whole = [nodes.train([(0, stop)] * count, linear.PAPER_OPTIONS, "visited") for _ in range(REPEATS)]
            step = [
                nodes.train([(start, stop)] * count, linear.PAPER_OPTIONS, "visited", known) for _ in range(REPEATS)
            ]
            known, start = step[0].statistics, stop
            digests = {one.statistics.digest(FINGERPRINT) for one in (*whole, *step)}
            times = [min(one.seconds for one in some) for some in (whole, step)]
            found.append((times[0], times[1], digests))
    return found


def _node_of(count: int) -> np.ndarray:
    return np.concatenate([np.arange(new) % count for new in TABLE_3])


TABLE_2_EXPERIMENT = Experiment(1, "times by processes", table_2)
TABLE_3_EXPERIMENT = Experiment(1, "times of new rows", table_3)
