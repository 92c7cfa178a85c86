"""Learners that take a chunk at a time: scikit-learn's SGD, and training anew on the rows of the window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from deltaplane.arrays import Flags, Floats
from deltaplane_benchmarks.peers.task import CHUNKS, Learner, Ran, Run, Task, library

__all__ = [
    "LIGHTGBM",
    "LINEAR_SVC",
    "RIDGE",
    "SGD",
    "WEIGHTED_SGD",
    "WINDOW_ROWS",
    "Score",
    "Train",
    "boosted_trees",
    "ridge",
    "support_vectors",
]

WINDOW_ROWS = 20_000
_ROWS_BETWEEN = 1_000
"""After so many rows what is slow to train is trained anew."""

Score = Callable[[Floats], Floats]
Train = Callable[[Floats, Flags], Score]
"""Rows float64[n, d] and flags bool[n] of a window to what scores further rows: those above 0 are positive."""


@contextmanager
def _sgd(given: Task, *, weighted: bool = False) -> Iterator[Run]:
    linear, preprocessing = library("sklearn.linear_model"), library("sklearn.preprocessing")
    task = given.encoded()

    def run() -> Ran:
        scaler, model = preprocessing.StandardScaler(), linear.SGDClassifier(loss="hinge", random_state=0)
        scores = np.zeros(len(task))
        learned = False
        for rows in task.chunks():
            # A row's features, not its label, are known when it is predicted: they may scale it.
            scaled = scaler.partial_fit(task.features[rows]).transform(task.features[rows])
            if learned:
                scores[rows] = model.decision_function(scaled)
            known = task.labelled(rows)
            if known.stop > known.start:
                told = scaled if known == rows else scaler.transform(task.features[known])
                weights = _balanced(task.flags[: known.stop])[known] if weighted else None
                model.partial_fit(told, task.flags[known], classes=[False, True], sample_weight=weights)
                learned = True
        return Ran.of(task, scores > 0.0, scores)

    yield run


def _balanced(flags: Flags) -> Floats:
    """float64[n]: the weights of rows, by which both classes so far weigh the same; 1 where there is one class."""
    own = int(np.count_nonzero(flags))
    if own in {0, len(flags)}:
        return np.ones(len(flags))
    return np.where(flags, len(flags) / (2.0 * own), len(flags) / (2.0 * (len(flags) - own)))


@contextmanager
def _anew(train: Train, given: Task, *, every: int = 1) -> Iterator[Run]:
    """Train on the window after every chunk, or after ``every`` so many rows, and predict the next."""
    task = given.encoded()

    def run() -> Ran:
        scores = np.zeros(len(task))
        score: Score | None = None
        trained = 0
        for rows in task.chunks():
            if score is not None:
                scores[rows] = score(task.features[rows])
            known = task.labelled(rows).stop
            window = slice(max(0, known - WINDOW_ROWS), known)
            flags = task.flags[window]
            if flags.any() and not flags.all() and (score is None or known - trained >= every):
                score, trained = train(task.features[window], flags), known
        return Ran.of(task, scores > 0.0, scores)

    yield run


def _scale(rows: Floats) -> tuple[Floats, Floats]:
    """Means and deviations float64[d]; 1 where a column is constant."""
    deviations = rows.std(axis=0)
    return rows.mean(axis=0), np.where(deviations > 0.0, deviations, 1.0)


def ridge(rows: Floats, flags: Flags) -> Score:
    """Least squares on ±1 with a penalty of 1 in standardized units, by SciPy's Cholesky."""
    linalg = library("scipy.linalg")
    means, deviations = _scale(rows)
    scaled = (rows - means) / deviations
    targets = np.where(flags, 1.0, -1.0)
    gram = scaled.T @ scaled
    gram[np.diag_indices_from(gram)] += 1.0
    weights = linalg.solve(gram, scaled.T @ (targets - targets.mean()), assume_a="pos") / deviations
    bias = targets.mean() - means @ weights
    return lambda further: np.asarray(further @ weights + bias)


def support_vectors(rows: Floats, flags: Flags) -> Score:
    """scikit-learn's LinearSVC as it is, on standardized rows."""
    svm: Any = library("sklearn.svm").LinearSVC(random_state=0)
    means, deviations = _scale(rows)
    svm.fit((rows - means) / deviations, flags)
    return lambda further: np.asarray(svm.decision_function((further - means) / deviations))


def boosted_trees(rows: Floats, flags: Flags) -> Score:
    """LightGBM as it is, on rows as they are; the score is the logarithm of the odds."""
    model: Any = library("lightgbm").LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)
    # Its scikit-learn form warns of arrays without names of columns, whichever way it was trained; its core does not.
    booster = model.fit(rows, flags).booster_
    return lambda further: np.asarray(booster.predict(further, raw_score=True))


SGD = Learner(
    "scikit-learn SGDClassifier",
    CHUNKS,
    "partial_fit, hinge, no class weights, behind StandardScaler.partial_fit",
    "sklearn",
    _sgd,
)
RIDGE = Learner(
    "SciPy least squares, anew",
    CHUNKS,
    "on the last 20,000 rows after each chunk, standardized, no class weights",
    "scipy",
    partial(_anew, ridge),
)
LINEAR_SVC = Learner(
    "scikit-learn LinearSVC, anew",
    CHUNKS,
    "on the last 20,000 rows after each chunk, standardized, no class weights",
    "sklearn",
    partial(_anew, support_vectors),
    slow=True,
)
WEIGHTED_SGD = Learner(
    "scikit-learn SGDClassifier, weighted",
    CHUNKS,
    "partial_fit, hinge, both classes so far weigh the same, behind StandardScaler.partial_fit",
    "sklearn",
    partial(_sgd, weighted=True),
)
LIGHTGBM = Learner(
    "LightGBM, anew",
    CHUNKS,
    f"LGBMClassifier as it is, on the last {WINDOW_ROWS:,} rows after every {_ROWS_BETWEEN:,}",
    "lightgbm",
    partial(_anew, boosted_trees, every=_ROWS_BETWEEN),
)
