"""Learners of mixed tables, test-then-train: ours, scikit-learn's pipeline trained anew on the last rows, River's.

All predict a chunk, then learn it. A learner answers with what it predicted of each row; ``""`` before it knew
anything.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import deltaplane
from deltaplane.arrays import Texts
from deltaplane.log.confusion import Confusion, gmean
from deltaplane_benchmarks.data.mixed_tables import MixedTable
from deltaplane_benchmarks.peers.task import library
from deltaplane_services.replay.in_python import Replayed

__all__ = [
    "LEARNERS",
    "WINDOW_ROWS",
    "MixedLearner",
    "deltaplane_replay",
    "gmean_of",
    "predictions_of",
    "replayed",
    "river_rows",
    "sklearn_anew",
]

WINDOW_ROWS = 20_000


@dataclass(frozen=True)
class MixedLearner:
    """A learner, ``how`` it is used, the ``package`` it needs (None: ours), and what runs it."""

    name: str
    how: str
    package: str | None
    run: Callable[[MixedTable], Texts]

    @property
    def installed(self) -> bool:
        """Whether its package is there."""
        return self.package is None or find_spec(self.package) is not None


def gmean_of(table: MixedTable, predicted: Texts) -> float:
    """The G-mean of all rows that were predicted; the first chunk, at least, was not."""
    names, truth = np.unique(table.labels, return_inverse=True)
    known = predicted != ""
    guess = np.searchsorted(names, predicted[known])
    return gmean(Confusion.of(truth[known], guess, tuple(names.tolist())))


def replayed(table: MixedTable, **keywords: Any) -> Replayed:
    """What came of a replay of the file as it is, with nothing but the name of its label and these keywords."""
    with tempfile.TemporaryDirectory(prefix="deltaplane-bench-") as directory:
        place = Path(directory) / f"table{table.ending}"
        place.write_bytes(table.content)
        found: Replayed = deltaplane.replay(place, **table.keywords, **keywords)
        return found


def deltaplane_replay(table: MixedTable) -> Texts:
    """The file as it is, and nothing but the name of its label."""
    return predictions_of(replayed(table, chunk=table.chunk))


def predictions_of(found: Replayed) -> Texts:
    """What a replay predicted of each row, in the order in which it took them; ``""`` before it knew anything."""
    return np.array([guess or "" for guess in found.predictions["prediction"].to_pylist()])


def sklearn_anew(table: MixedTable) -> Texts:
    """One-hot, medians with indicators, scaling and a class-weighted logistic regression, anew after every chunk."""
    compose, impute = library("sklearn.compose"), library("sklearn.impute")
    linear, pipeline, prepare = (library(f"sklearn.{name}") for name in ("linear_model", "pipeline", "preprocessing"))
    numbers = [
        np.array([np.nan if cell is None else float(cell) for cell in column])
        for column, is_number in zip(table.cells, table.numeric, strict=True)
        if is_number
    ]
    words = [
        ["missing" if cell is None else cell for cell in column]
        for column, is_number in zip(table.cells, table.numeric, strict=True)
        if not is_number
    ]
    if are_plain := not words and not any(np.isnan(column).any() for column in numbers):
        rows = np.column_stack(numbers)
    else:
        rows = np.empty((len(table), len(numbers) + len(words)), dtype=object)
        for at, column in enumerate([*numbers, *words]):
            rows[:, at] = column
    of_numbers = pipeline.make_pipeline(
        prepare.FunctionTransformer(_as_floats),
        impute.SimpleImputer(strategy="median", add_indicator=True),
        prepare.StandardScaler(),
    )
    of_words = prepare.OneHotEncoder(handle_unknown="ignore")

    def train(window: slice) -> Any:
        model = linear.LogisticRegression(class_weight="balanced", max_iter=1000)
        if are_plain:
            # Where there are no words and no gaps the rest of the pipeline does nothing, and takes most of the time.
            return pipeline.make_pipeline(prepare.StandardScaler(), model).fit(rows[window], table.labels[window])
        parts = [("numbers", of_numbers, list(range(len(numbers))))] if numbers else []
        parts += [("words", of_words, list(range(len(numbers), rows.shape[1])))] if words else []
        return pipeline.make_pipeline(compose.ColumnTransformer(parts), model).fit(rows[window], table.labels[window])

    predicted = np.full(len(table), "", dtype=table.labels.dtype)
    model: Any = None
    for start in range(0, len(table), table.chunk):
        chunk = slice(start, min(start + table.chunk, len(table)))
        if model is not None:
            predicted[chunk] = model.predict(rows[chunk])
        window = slice(max(0, chunk.stop - WINDOW_ROWS), chunk.stop)
        if len(set(table.labels[window].tolist())) > 1:
            model = train(window)
    return predicted


def _as_floats(values: Any) -> Any:
    return values.astype(np.float64)


def river_rows(table: MixedTable) -> Texts:
    """The ten lines that people write: one-hot words, scaled numbers with their means, logistic regression."""
    compose, prepare, linear = (library(f"river.{name}") for name in ("compose", "preprocessing", "linear_model"))
    numbers = compose.SelectType(float) | prepare.StatImputer() | prepare.StandardScaler()
    words = compose.SelectType(str) | prepare.OneHotEncoder()
    model: Any = (numbers + words) | linear.LogisticRegression()
    rows = [
        {
            str(at): (None if cell is None else float(cell)) if table.numeric[at] else cell or "missing"
            for at, cell in enumerate(cells)
        }
        for cells in zip(*table.cells, strict=True)
    ]
    positive, other = sorted(set(table.labels.tolist()))
    predicted = np.full(len(table), "", dtype=table.labels.dtype)
    for start in range(0, len(table), table.chunk):
        chunk = range(start, min(start + table.chunk, len(table)))
        for at in chunk if start else ():
            predicted[at] = positive if model.predict_one(rows[at]) is True else other
        for at in chunk:
            model.learn_one(rows[at], bool(table.labels[at] == positive))
    return predicted


LEARNERS = (
    MixedLearner("Deltaplane", "replay of the file, with the name of its label and no more", None, deltaplane_replay),
    MixedLearner(
        "scikit-learn, anew",
        "OneHotEncoder; SimpleImputer (median, indicators) and StandardScaler; LogisticRegression (balanced), trained"
        f" on the last {WINDOW_ROWS:,} rows after each chunk",
        "sklearn",
        sklearn_anew,
    ),
    MixedLearner(
        "River",
        "OneHotEncoder; StatImputer and StandardScaler; LogisticRegression, learn_one on each row of a chunk",
        "river",
        river_rows,
    ),
)
