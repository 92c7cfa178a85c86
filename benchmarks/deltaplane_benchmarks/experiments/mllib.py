"""``bench mllib``: the linear classifiers of Spark's MLlib and ours, on the same rows and splits.

Three classes of CoverType, of which one has four fifths of the rows. Both sides learn from the same training rows and
are asked about the same others. Ours adds the rows up once, in five folds; map, weighting and C then cost no pass. That
no side is ahead is no target: who is, is printed.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from deltaplane.arrays import Floats, Int32s, Int64s
from deltaplane.blas_threads import blas_threads
from deltaplane.estimators import ProximalSVM
from deltaplane.exact.grid import fit_grid
from deltaplane.log.confusion import Confusion, gmean
from deltaplane.log.partial import Partial
from deltaplane.solve.cross_validation import FOLDS
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.component_tables import feature_map_of, fit_feature_map
from deltaplane.stream.declared import DeclaredMap
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.stream.sample import Samples
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.exhibit import Column, Exhibit
from deltaplane_benchmarks.linear import coded
from deltaplane_benchmarks.speed.processes import cost_of, spark_process

__all__ = ["CLASSES", "SPLITS", "UNITS", "Learned", "Split", "exhibit", "experiment", "ours", "splits_of", "theirs"]

CLASSES = ("2", "3", "7")
SPLITS = 5
UNITS = 200
"""Units of the hidden layer."""

_TRAINING_PART = 0.8
_BLOCK_ROWS = 20_000
_ROWS_OF_A_PARTITION = 25_000
_MOST_ROWS_OF_STANDARDS = 10_000
_WEIGHTINGS: tuple[tuple[str, Literal["none", "inverse"]], ...] = (("default", "none"), ("weighted", "inverse"))


@dataclass(frozen=True)
class Split:
    """Training rows and test rows of one draw; ``codes`` are indices into ``classes``."""

    classes: tuple[str, ...]
    rows: Floats
    codes: Int32s
    folds: Int64s
    test_rows: Floats
    test_codes: Int32s

    def gmean_of(self, predicted: Int64s) -> float:
        """The G-mean of predicted codes of the test rows."""
        return gmean(Confusion.of(self.test_codes.astype(np.int64), predicted, self.classes))


@dataclass(frozen=True)
class Learned:
    """One learner on one split, and the C that it ``said``; ``cpu_seconds`` is NaN where nobody sees its process."""

    learner: str
    weighting: str
    seconds: float
    cpu_seconds: float
    gmean: float
    said: str = ""


def splits_of(table: DataSet, rows: int, bench: Bench) -> Iterator[Split]:
    """The splits: of each, so many rows of :data:`CLASSES` are drawn, of which a fifth is for the test."""
    places = np.flatnonzero(np.isin(table.labels, CLASSES))
    for number in range(SPLITS):
        generator = bench.generator("mllib", number)
        drawn = generator.permutation(places)[:rows]
        features, (codes, names) = table.features[drawn], coded(table.labels[drawn])
        end = int(_TRAINING_PART * len(drawn))
        folds = generator.integers(0, FOLDS, end)
        yield Split(tuple(names), features[:end], codes[:end], folds, features[end:], codes[end:])


def ours(split: Split, seed: int) -> Iterator[Learned]:
    """Ours, flat and behind a hidden layer: the sums once each, then a plane for each weighting."""
    for name, units in (("ours, linear", 0), (f"ours, {UNITS} hidden units", UNITS)):
        definition = _definition_of(split, units, seed)
        before = time.perf_counter(), time.process_time()
        with blas_threads(os.cpu_count() or 1):
            partials = [_sum_of(definition, split, split.folds == fold) for fold in range(FOLDS)]
            summed = time.perf_counter() - before[0], time.process_time() - before[1]
            for word, weighting in _WEIGHTINGS:
                begin = time.perf_counter(), time.process_time()
                model = ProximalSVM(weighting=weighting).adopt(definition, *partials)
                model.predict(split.test_rows[:1])
                took = time.perf_counter() - begin[0] + summed[0], time.process_time() - begin[1] + summed[1]
                predicted = model.predict(split.test_rows)
                codes = np.array([split.classes.index(str(label)) for label in predicted], dtype=np.int64)
                yield Learned(name, word, *took, split.gmean_of(codes), f"C {model.C_:g}")


def _definition_of(split: Split, units: int, seed: int) -> StreamDefinition:
    grid = fit_grid(split.rows)
    names = tuple(f"f{feature}" for feature in range(split.rows.shape[1]))
    more: dict[str, Any] = {}
    if units:
        hidden = DeclaredMap(kind="hidden", units=units, seed=seed)
        complete = fit_feature_map(hidden, grid, split.rows[:_MOST_ROWS_OF_STANDARDS])
        more["feature_map"] = feature_map_of(complete, grid.features)
    windows = NestedWindows((Window("all"),))
    return StreamDefinition("mllib", names, grid, windows, SolverOptions(), missing="refuse", **more)


def _sum_of(definition: StreamDefinition, split: Split, chosen: Any) -> Partial:
    total, places = Partial.zero(definition), np.flatnonzero(chosen)
    for begin in range(0, len(places), _BLOCK_ROWS):
        at = places[begin : begin + _BLOCK_ROWS]
        samples = Samples.of_record(["-"] * len(at), 0, split.classes, split.codes[at], split.rows[at])
        total = total + Partial.of(definition, samples)
    return total


def theirs(split: Split, session: Any) -> Iterator[Learned]:
    """MLlib's, with its defaults, and with each row weighted by the share of its class; rows lie in Spark's memory."""
    from pyspark.ml.classification import LinearSVC, LogisticRegression, OneVsRest

    models: dict[str, Callable[[dict[str, str]], Any]] = {
        "MLlib LinearSVC": lambda weight: OneVsRest(classifier=LinearSVC(), **weight),
        "MLlib LogisticRegression": lambda weight: LogisticRegression(**weight),
    }
    process = spark_process(session)
    with tempfile.TemporaryDirectory() as place:
        training = _frame_of(session, Path(place) / "training.parquet", split.rows, split.codes)
        test = _frame_of(session, Path(place) / "test.parquet", split.test_rows, split.test_codes)
        for name, make in models.items():
            for word, weight in (("default", {}), ("weighted", {"weightCol": "weight"})):
                began, before = time.perf_counter(), _cpu_seconds(process)
                fitted = make(weight).fit(training)
                seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds(process) - before
                told = {row["row"]: int(row["prediction"]) for row in _predicted(fitted, test)}
                predicted = np.array([told[row] for row in range(len(split.test_codes))], dtype=np.int64)
                yield Learned(name, word, seconds, cpu_seconds, split.gmean_of(predicted))
        training.unpersist()
        test.unpersist()


def _predicted(fitted: Any, test: Any) -> Any:
    return fitted.transform(test).select("row", "prediction").collect()


def _cpu_seconds(process: Any) -> float:
    return math.nan if process is None else cost_of(process.pid).cpu_seconds


def _frame_of(session: Any, path: Path, rows: Floats, codes: Int32s) -> Any:
    """The rows as MLlib wants them, in memory: ``features``, ``label``, ``weight``, and the number of the ``row``."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.ml.feature import VectorAssembler

    counts = np.bincount(codes)
    weights = len(codes) / (np.count_nonzero(counts) * counts[codes])
    names = [f"f{feature}" for feature in range(rows.shape[1])]
    columns = {name: rows[:, at] for at, name in enumerate(names)}
    more = {"label": codes.astype(np.float64), "weight": weights, "row": np.arange(len(codes))}
    pq.write_table(pa.table({**columns, **more}), path)
    # Each step of MLlib is a job of Spark: few rows take less time in one task than in several.
    partitions = min(int(session.sparkContext.defaultParallelism), max(1, len(codes) // _ROWS_OF_A_PARTITION))
    frame = session.read.parquet(str(path)).repartition(partitions)
    assembled = VectorAssembler(inputCols=names, outputCol="features").transform(frame)
    kept = assembled.select("features", "label", "weight", "row").cache()
    kept.count()
    return kept


def exhibit(table: DataSet, rows: int, bench: Bench, session: Any) -> Exhibit:
    """All learners on all splits: means of the splits, the least and the most G-mean, and who is ahead."""
    found: dict[tuple[str, str], list[Learned]] = {}
    loads, counted = [], 0
    for number, split in enumerate(splits_of(table, rows, bench)):
        counted = len(split.codes) + len(split.test_codes)
        loads.append(os.getloadavg()[0])
        for learned in (*ours(split, bench.settings.seed), *theirs(split, session)):
            found.setdefault((learned.learner, learned.weighting), []).append(learned)
            said = f"{learned.learner}, {learned.weighting}: {learned.gmean:.4f} in {learned.seconds:.1f} s"
            bench.say(f"mllib: split {number + 1} of {SPLITS}, {said}")
    cells = [(*key, *_means(of_key)) for key, of_key in found.items()]
    return Exhibit(
        paper=0,
        name="mllib",
        title=f"MLlib's linear classifiers and ours: {counted:,} rows, {SPLITS} splits, {len(CLASSES)} classes",
        columns=(
            Column("learner"),
            Column("weights"),
            Column("seconds", ".1f"),
            Column("cpu seconds", ".1f"),
            Column("G-mean", ".4f"),
            Column("least", ".4f"),
            Column("most", ".4f"),
            Column("C"),
        ),
        rows=tuple(cells),
        data=(f"{table.name}, classes {', '.join(CLASSES)}: {table.source} {table.note}".strip(),),
        notes=(
            _who_is_ahead(found),
            "Seconds are from rows in memory to a plane; of ours they have the sums of all rows in them each time.",
            f"cpu seconds of MLlib are those of the JVM. Load of the machine: {min(loads):.0f} to {max(loads):.0f}.",
            "Weighted: MLlib's rows by n / (k · rows of their class), ours by the other classes' share (inverse).",
            "C of ours is chosen by folds from the sums; MLlib has its defaults. LinearSVC is one against the rest.",
        ),
    )


def _means(learned: list[Learned]) -> tuple[float | str, ...]:
    gmeans = [one.gmean for one in learned]
    seconds, cpu = (float(np.mean([getattr(one, name) for one in learned])) for name in ("seconds", "cpu_seconds"))
    said = ", ".join(dict.fromkeys(one.said.removeprefix("C ") for one in learned if one.said)) or "–"
    return seconds, cpu, float(np.mean(gmeans)), min(gmeans), max(gmeans), said


def _who_is_ahead(found: dict[tuple[str, str], list[Learned]]) -> str:
    """The best of theirs beside the best of ours, flat and curved, by the mean G-mean."""
    means = {key: float(np.mean([one.gmean for one in learned])) for key, learned in found.items()}
    best = max((key for key in means if key[0].startswith("MLlib")), key=means.__getitem__)
    said = [f"best of MLlib: {best[0]}, {best[1]}, {means[best]:.4f}"]
    for name in dict.fromkeys(learner for learner, _ in means if learner.startswith("ours")):
        mine = max((key for key in means if key[0] == name), key=means.__getitem__)
        points = 100 * (means[mine] - means[best])
        said.append(f"{name}, {mine[1]}: {abs(points):.1f} points {'ahead of' if points > 0 else 'behind'} it")
    return "; ".join(said) + "."


def experiment(rows: int, session: Any) -> Experiment:
    """The comparison over so many rows a split, in a session of Spark."""

    def run(bench: Bench) -> list[Exhibit]:
        table = bench.table("CoverType")
        return [] if table is None else [exhibit(table, rows // 5 if bench.settings.quick else rows, bench, session)]

    return Experiment(0, "mllib", run)
