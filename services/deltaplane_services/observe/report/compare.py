"""Several runs side by side: what tells them apart, their measures, and which of them is best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deltaplane_services.observe.report.record import ReportError, Run, read_run
from deltaplane_services.observe.report.value_tables import Table, cell

__all__ = ["BEST_IS_LARGEST", "MOST_RUNS", "NAMES", "Runs", "best", "comparison", "read_runs"]

MOST_RUNS = 12
"""Curves in one picture that can still be followed, and columns of a table that can still be read."""

Runs = Mapping[str, Run]
"""The runs by the names that tell them apart."""

BEST_IS_LARGEST = ("gmean", "sensitivity", "specificity", "f_measure", "accuracy")
NAMES = {
    "gmean": "G-mean",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "f_measure": "F-measure",
    "relative_sensitivity": "relative sensitivity",
    "accuracy": "accuracy",
}


def read_runs(paths: Sequence[Path]) -> dict[str, Run]:
    """The runs by name: the file's, with as much of its path as tells it from the others. Raises ReportError."""
    if not 2 <= len(paths) <= MOST_RUNS:
        raise ReportError(f"compare: expected 2 to {MOST_RUNS} files that replay --json has written, got {len(paths)}")
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise ReportError(f"compare: {str(twice)!r} is given twice")
    runs = [read_run(path) for path in paths]
    return dict(zip(_names(paths), runs, strict=True))


def _names(paths: Sequence[Path]) -> list[str]:
    full = [path.with_suffix("").parts for path in paths]
    for length in range(1, max(map(len, full)) + 1):
        names = ["/".join(parts[-length:]) for parts in full]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def comparison(runs: Runs) -> Table:
    """Measures down, runs across."""
    rows = [("source", *(run.source for run in runs.values()))]
    rows += [("stream", *(run.stream for run in runs.values()))]
    rows += [("window", *(", ".join(run.windows) for run in runs.values()))]
    rows += [("plane", *(_plane(run) for run in runs.values()))]
    rows += [("rows scored", *(f"{run.scored:,}" for run in runs.values()))]
    for key, name in NAMES.items():
        rows.append((name, *(cell(run.measures[key]) for run in runs.values())))
    others: dict[str, Callable[[Run], str]] = {
        "imbalance ratio": lambda run: cell(run.imbalance_ratio, 2),
        "rows/s": lambda run: "–" if math.isnan(run.rows_per_second) else f"{run.rows_per_second:,.0f}",
        "retired": lambda run: f"{run.outcomes.get('retirements retired', 0):,}",
        "refused": lambda run: f"{run.rejected:,}",
        "verified": lambda run: {True: "yes", False: "NO", None: "–"}[run.verified],
        "digest": lambda run: f"{run.digest[:16]}…" if len(run.digest) > 16 else run.digest,
    }
    rows += [(name, *(show(run) for run in runs.values())) for name, show in others.items()]
    return Table(("", *runs), tuple(rows))


def _plane(run: Run) -> str:
    weighting = run.model.get("weighting")
    parts = [str(run.model.get("kind", "")), weighting if isinstance(weighting, str) else "explicit weights"]
    c = run.model.get("C")
    return ", ".join([*parts, f"C = {c:g}" if isinstance(c, float) else f"C = {c}"])


def best(runs: Runs) -> set[tuple[str, str]]:
    """(measure's name, run's name) of the largest of each measure of which larger is better; all of several equals."""
    winners = set()
    for key in BEST_IS_LARGEST:
        values = {name: run.measures[key] for name, run in runs.items() if math.isfinite(run.measures[key])}
        if len(values) > 1:
            winners |= {(NAMES[key], name) for name, value in values.items() if value == max(values.values())}
    return winners
