"""Several runs side by side: how they differ, their measures, and which run is best."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from deltaplane_services.observe.report.baselines import ends
from deltaplane_services.observe.report.json_fields import ReportError
from deltaplane_services.observe.report.labels import how_late
from deltaplane_services.observe.report.record import LATER_MEASURES, Run, read_run
from deltaplane_services.observe.report.value_tables import Table, cell, settings_table

__all__ = [
    "BEST_IS_LARGEST",
    "MOST_RUNS",
    "NAMES",
    "Runs",
    "best",
    "check_same_rows",
    "comparison",
    "read_runs",
    "remarks",
]

MOST_RUNS = 12
"""The most runs: more curves in one picture, or columns of a table, cannot be read."""

Runs = Mapping[str, Run]
"""Name to run; the names tell the runs apart."""

NAMES = {
    "gmean": "G-mean",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "precision": "precision",
    "f_measure": "F-measure",
    "kappa": "Cohen's kappa",
    "matthews": "Matthews correlation",
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
    "false_alarms_per_1000_rows": "false alarms per 1,000 rows",
    "relative_sensitivity": "relative sensitivity",
    "accuracy": "accuracy",
}
_OF_NO_CLASS = ("gmean", "accuracy")
BEST_IS_LARGEST = tuple(key for key in NAMES if key not in ("relative_sensitivity", "false_alarms_per_1000_rows"))
"""Measures whose largest value is best. Relative sensitivity has no best value, and whoever finds nothing has the
fewest false alarms."""

_NEARLY = 0.01
"""The share of the scored rows by which runs may differ; beyond it none is called best."""


def read_runs(paths: Sequence[Path]) -> dict[str, Run]:
    """Name to run. Raises ReportError.

    A name is that of the file, with as much of its path as tells it from the others.
    """
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


def check_same_rows(runs: Runs) -> None:
    """Raise :class:`ReportError` if the runs are over different rows, because then none is better than another."""
    if len(by_data := _by_data(runs)) > 1:
        told = "; ".join(f"{', '.join(names)}: {data}" for data, names in by_data.items())
        raise ReportError(
            f"compare: the runs are over different rows, so that none is better than another ({told});"
            " compare runs of one file, or add --different-rows to see them side by side all the same, without stars"
        )


def _by_data(runs: Runs) -> dict[str, list[str]]:
    """Text that identifies the rows to the names of the runs over them.

    If a run lacks that text (it is of an earlier version, or continues another replay), all runs are identified by the
    number of their rows and the name of the file.
    """
    every = [run.data for run in runs.values()]
    found: dict[str, list[str]] = {}
    for name, run in runs.items():
        data = run.data
        if data is None or None in every:
            rows = run.rows + run.rejected + run.thinned
            data = f"{rows:,} rows of {Path(run.source).name}"
        found.setdefault(data, []).append(name)
    return found


def remarks(runs: Runs) -> list[str]:
    """What the reader must know before calling one run better than another."""
    found = []
    if len(_by_data(runs)) > 1:
        found.append("The runs are over different rows: no figure of one is better than that of another.")
    elif any(run.data is None for run in runs.values()):
        found.append("Some runs do not tell their rows apart from others: whether they are the same is taken on trust.")
    if len({run.positive for run in runs.values()}) > 1:
        told = ", ".join(f"{name}: {run.positive or 'none'}" for name, run in runs.items())
        found.append(f"The positive class differs ({told}): of its figures none is called best.")
    scored = [run.scored for run in runs.values()]
    if len(set(scored)) > 1:
        much = max(scored) - min(scored) > _NEARLY * max(scored)
        then = "which is too many to call one best" if much else "a few more or less at the beginning"
        found.append(f"The runs scored {min(scored):,} to {max(scored):,} rows, {then}.")
    if len({run.label_delay for run in runs.values()}) > 1:
        found.append(
            "Labels came later in some runs than in others: what their models were worth to whoever asked is the G-mean"
            " as served; the other figures are of rows that were predicted once more when they were learned."
        )
    return found + _close(runs)


def _close(runs: Runs) -> list[str]:
    """A remark if the interval of the best G-mean overlaps with those of other runs; else nothing."""
    names = [name for measure, name in best(runs) if measure == NAMES["gmean"]]
    if len(names) != 1 or not (ends := runs[names[0]].intervals.get("gmean")):
        return []
    near = [name for name, run in runs.items() if name != names[0] and run.intervals.get("gmean", (0, 0))[1] >= ends[0]]
    if not near:
        return []
    words = f"The G-mean of {names[0]} is the largest, but its interval and that of {', '.join(near)} overlap"
    return [f"{words}: the difference may be chance."]


def comparison(runs: Runs) -> Table:
    """A table with measures as rows and runs as columns."""
    rows = [("source", *(run.source for run in runs.values()))]
    rows += [("stream", *(run.stream for run in runs.values()))]
    rows += [("window", *(", ".join(run.windows) for run in runs.values()))]
    rows += [("plane", *(_plane(run) for run in runs.values()))]
    rows += [("rows scored", *(f"{run.scored:,}" for run in runs.values()))]
    for key, name in NAMES.items():
        if key not in LATER_MEASURES or any(math.isfinite(run.measures[key]) for run in runs.values()):
            rows.append((name, *(cell(run.measures[key]) for run in runs.values())))
        if any(told := [ends(run, key) for run in runs.values()]):
            rows.append((f"{name}, 95 %", *(text or "–" for text in told)))
    rows += _without(runs)
    others: dict[str, Callable[[Run], str]] = {
        "imbalance ratio": lambda run: cell(run.imbalance_ratio, 2),
        "rows/s": lambda run: "–" if math.isnan(run.rows_per_second) else f"{run.rows_per_second:,.0f}",
        "retired": lambda run: f"{run.outcomes.get('retirements retired', 0):,}",
        "refused": lambda run: f"{run.rejected:,}",
        "verified": lambda run: {True: "yes", False: "NO", None: "–"}[run.verified],
        "digest": lambda run: f"{run.digest[:16]}…" if len(run.digest) > 16 else run.digest,
    }
    rows += [(name, *(show(run) for run in runs.values())) for name, show in others.items()]
    return Table(("", *runs), tuple(rows + _differences(runs, {row[0] for row in rows})))


def _without(runs: Runs) -> list[tuple[str, ...]]:
    """The G-means that the same rows have without a model that goes on learning, and as served if labels came late."""
    rows = []
    if any(run.served for run in runs.values()):
        rows.append(("G-mean as served", *(cell(run.served.get("gmean", math.nan)) for run in runs.values())))
    for name, shown in _BASELINES.items():
        gmeans = [run.baselines.get(name, {}).get("gmean", math.nan) for run in runs.values()]
        if any(map(math.isfinite, gmeans)):
            rows.append((f"G-mean of {shown}", *map(cell, gmeans)))
    if any(run.label_delay is not None for run in runs.values()):
        late = [None if run.label_delay is None else how_late(run.label_delay) for run in runs.values()]
        rows.append(("labels come", *(text or "with their rows" for text in late)))
    return rows


_BASELINES = {
    "majority": "the majority class",
    "last_label": "the last known label",
    "frozen": "the first plane, frozen",
}


def _differences(runs: Runs, shown: Collection[str]) -> list[tuple[str, ...]]:
    """A row for each setting in which the runs differ."""
    settings = [{row[0]: row[1] for row in settings_table(run).body} for run in runs.values()]
    names = dict.fromkeys(name for one in settings for name in one if name not in shown)
    rows = [(name, *(one.get(name, "–") for one in settings)) for name in names if not _FOLLOWS.search(name)]
    return [row for row in rows if len(set(row[1:])) > 1][:_MOST_DIFFERENCES]


_FOLLOWS = re.compile("fingerprint|^label_delay$|^model (version|condition)|^grid[.]|[.](centers|scales)$")
"""Settings that follow from other settings and from the rows, or that are shown in words."""

_MOST_DIFFERENCES = 40


def _plane(run: Run) -> str:
    weighting = run.model.get("weighting")
    parts = [str(run.model.get("kind", "")), weighting if isinstance(weighting, str) else "explicit weights"]
    c = run.model.get("C")
    return ", ".join([*parts, f"C = {c:g}" if isinstance(c, float) else f"C = {c}"])


def best(runs: Runs) -> set[tuple[str, str]]:
    """(measure, run) for each measure in :data:`BEST_IS_LARGEST` and each run that has its largest value.

    Empty if the runs are over different rows, or if their numbers of scored rows differ too much. If the positive class
    differs, only measures that concern no single class have a best run.
    """
    scored = [run.scored for run in runs.values()]
    if len(_by_data(runs)) > 1 or max(scored) - min(scored) > _NEARLY * max(scored):
        return set()
    winners = set()
    keys = BEST_IS_LARGEST if len({run.positive for run in runs.values()}) == 1 else _OF_NO_CLASS
    for key in keys:
        values = {name: run.measures[key] for name, run in runs.items() if math.isfinite(run.measures[key])}
        if len(values) > 1:
            winners |= {(NAMES[key], name) for name, value in values.items() if value == max(values.values())}
    return winners
