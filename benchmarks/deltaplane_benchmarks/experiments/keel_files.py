"""``bench keel``, its second table: every file of KEEL's repository, mixed by several seeds, beside scikit-learn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data import keel_files
from deltaplane_benchmarks.data.catalogue import KEEL
from deltaplane_benchmarks.data.keel_files import LEAST_CHUNK, MOST_CHUNK, imbalance_of
from deltaplane_benchmarks.data.mixed_tables import MixedTable
from deltaplane_benchmarks.exhibit import Cell, Column, Exhibit, Target
from deltaplane_benchmarks.peers.mixed import WINDOW_ROWS, gmean_of, predictions_of, replayed, sklearn_anew
from deltaplane_services.readers import shuffled
from deltaplane_services.readers.row_blocks import RowBlock
from deltaplane_services.replay.in_python import Replayed

__all__ = ["AHEAD", "KEEL_FILES", "QUICK_STEP", "SHUFFLES", "FileResult", "exhibit_of", "measured", "order_of"]

SHUFFLES = 5
QUICK_STEP = 12
"""Of so many files one is taken, where a run is to be quick."""

AHEAD = 0.01
"""A difference of G-means that counts."""

_COLUMNS = (
    Column("file"),
    Column("rows", ",d"),
    Column("columns", ",d"),
    Column("classes", ",d"),
    Column("imbalance ratio", ".1f"),
    Column("chunk", ",d"),
    Column("in file order", ".4f"),
    Column("Deltaplane", ".4f"),
    Column("scikit-learn", ".4f"),
    Column("difference", "+.4f"),
    Column("why not, or why to doubt it"),
)
_NOTES = (
    "The files have no header: replay is given the place of the label and nothing more; the columns are its to decide.",
    "In file order: replay with its own chunk of 100 rows. What follows is of --shuffle with each seed, a mean.",
    f"Test, then train, by chunks of a tenth of the file, from {LEAST_CHUNK} to {MOST_CHUNK:,} rows, for both.",
    "scikit-learn: the same rows in the same order, columns sorted by hand, words from numbers.",
    "Its pipeline: OneHotEncoder; SimpleImputer (median, indicators), StandardScaler; LogisticRegression (balanced).",
    f"It is trained anew after each chunk, on all rows so far, at most {WINDOW_ROWS:,}.",
    "G-mean: of rows that both had a model for; of several classes, the root of the product of all recalls.",
    "A shuffle in which some class was never predicted has no G-mean, and is left out of the mean.",
)


@dataclass(frozen=True)
class FileResult:
    """G-means of a file, undefined ones NaN: in file order, and the means over the shuffles that had one.

    ``shuffles``: for how many of the seeds both have a G-mean. ``said``: what replay says against its figures.
    """

    in_order: float
    ours: float
    theirs: float
    shuffles: int
    said: str

    @property
    def difference(self) -> float:
        """Ours less theirs."""
        return self.ours - self.theirs


def measured(table: MixedTable, seeds: range) -> FileResult:
    """One file in its own order, then mixed by each seed."""
    with warnings.catch_warnings():
        # What a learner says of its own convergence, or of the order of a file, is no fault of the measurement.
        warnings.simplefilter("ignore")
        first = replayed(table)
        pairs, reasons = [], [f"in file order: {_brief(text)}" for text in first.warnings]
        for seed in seeds:
            found = replayed(table, chunk=table.chunk, shuffle=seed)
            pairs.append(_pair(table, found, seed))
            why = [_brief(text) for text in found.warnings]
            if math.isnan(pairs[-1][0]) and not why:
                why = ["some class was in no row that both predicted"]
            reasons += [f"seed {seed}: {text}" for text in why]
        refused = first.summary["rejected"]
    reasons += [f"{refused:,} rows refused: {first.summary['rejections']['reasons'][0]['reason']}"] if refused else []
    both = [pair for pair in pairs if not any(map(math.isnan, pair))]
    ours, theirs = np.mean(both, axis=0).tolist() if both else (math.nan, math.nan)
    return FileResult(first.gmean, ours, theirs, len(both), "; ".join(reasons))


def _pair(table: MixedTable, found: Replayed, seed: int) -> tuple[float, float]:
    """The G-means of ours and scikit-learn's, of the rows that a replay took, in the order in which it took them."""
    order = order_of(found.predictions.num_rows, seed)
    rows = np.array(found.predictions["row"].to_pylist(), dtype=np.int64)[order]
    labels = np.array(found.predictions["label"].to_pylist())[order]
    taken = table.take(rows - 1, labels)
    ours, theirs = predictions_of(found)[order], sklearn_anew(taken)
    assert not (np.diff((ours != "").astype(np.int8)) < 0).any(), "rows without a prediction come before all others"
    known = (ours != "") & (theirs != "")
    if set(labels[known].tolist()) != set(labels.tolist()):
        return math.nan, math.nan
    return gmean_of(taken, np.where(known, ours, "")), gmean_of(taken, np.where(known, theirs, ""))


def order_of(count: int, seed: int) -> Int64s:
    """The places int64[count] of rows in the order in which ``--shuffle`` takes them, as predictions do not show it."""
    block = RowBlock(np.zeros((count, 1)), [""] * count, None, None, np.arange(count, dtype=np.int64))
    return np.concatenate([part.line_numbers for part in shuffled([block], seed)])


def _brief(warning: str) -> str:
    """What is wrong, without the counts, and without what to do about it; where there is no G-mean, with why."""
    what, _, why = warning.partition(": ")
    return why.partition("; ")[0] if what.startswith("no row was scored") else what


def exhibit_of(tables: Mapping[str, MixedTable], seeds: range, say: Callable[[str], None]) -> Exhibit:
    """A line for each file, and a last one for all of them."""
    results: dict[str, FileResult] = {}
    for name, table in tables.items():
        say(f"keel files: {name}")
        results[name] = measured(table, seeds)
    rows: list[tuple[Cell, ...]] = []
    for name, result in results.items():
        table = tables[name]
        what = (len(table), len(table.cells), len(set(table.labels.tolist())), imbalance_of(table), table.chunk)
        fewer = f"{result.shuffles} of {len(seeds)} shuffles; " if result.shuffles < len(seeds) else ""
        means = (result.in_order, result.ours, result.theirs, result.difference)
        rows.append((name, *what, *means, fewer + result.said))
    have = [result for result in results.values() if result.shuffles]
    rows.append(_last_row(have, len(results), sum(map(len, tables.values()))))
    without = [name for name, one in results.items() if math.isnan(one.in_order) or one.shuffles < len(seeds)]
    silent = [name for name in without if not results[name].said]
    ours, theirs = _mean([one.ours for one in have]), _mean([one.theirs for one in have])
    targets = (
        Target("a G-mean for every file, or the reason why not", not silent, ", ".join(silent) or "all"),
        Target("mean over the files: at least scikit-learn's", ours >= theirs, f"{ours:.4f} against {theirs:.4f}"),
    )
    return Exhibit(
        paper=0,
        name="keel files",
        title="Every file of KEEL's repository, mixed",
        columns=_COLUMNS,
        rows=tuple(rows),
        targets=targets,
        data=(f"{KEEL.package} {KEEL.version} (MIT), {len(tables)} files, shuffled with seeds {_listed(seeds)}",),
        notes=_NOTES,
    )


def _last_row(have: list[FileResult], count: int, rows: int) -> tuple[Cell, ...]:
    ahead = sum(result.difference > AHEAD for result in have)
    behind = sum(result.difference < -AHEAD for result in have)
    words = f"ahead by more than {AHEAD}: {ahead}; behind: {behind}; neither: {len(have) - ahead - behind}"
    means = [_mean([getattr(result, name) for result in have]) for name in ("ours", "theirs", "difference")]
    in_order: Cell = None
    return (f"{len(have)} of {count} files", rows, None, None, None, None, in_order, *means, words)


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _listed(seeds: range) -> str:
    return ", ".join(map(str, seeds))


def _run(bench: Bench) -> list[Exhibit]:
    tables = bench.get("keel files", lambda: keel_files.files(bench.cache))
    if tables is None:
        return []
    seed = bench.settings.seed
    if bench.settings.quick:
        return [exhibit_of(dict(list(tables.items())[::QUICK_STEP]), range(seed, seed + 1), bench.say)]
    return [exhibit_of(tables, range(seed, seed + SHUFFLES), bench.say)]


KEEL_FILES = Experiment(0, "keel files", _run)
