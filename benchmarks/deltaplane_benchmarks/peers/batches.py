"""Learners that take a chunk at a time: scikit-learn's SGD, and training anew on the rows of the window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from deltaplane.arrays import Flags, Floats
from deltaplane_benchmarks.peers.task import CHUNKS, Learner, Ran, Run, Task, library, no_predictions

__all__ = ["LINEAR_SVC", "RIDGE", "SGD", "WINDOW_ROWS", "Predict", "Train", "ridge", "support_vectors"]

WINDOW_ROWS = 20_000

Predict = Callable[[Floats], Flags]
Train = Callable[[Floats, Flags], Predict]
"""Rows float64[n, d] and flags bool[n] of a window to what predicts further rows."""


@contextmanager
def _sgd(task: Task) -> Iterator[Run]:
    linear, preprocessing = library("sklearn.linear_model"), library("sklearn.preprocessing")

    def run() -> Ran:
        scaler, model = preprocessing.StandardScaler(), linear.SGDClassifier(loss="hinge", random_state=0)
        predicted = no_predictions(task)
        learned = False
        for rows in task.chunks():
            # A row's features, not its label, are known when it is predicted: they may scale it.
            scaled = scaler.partial_fit(task.features[rows]).transform(task.features[rows])
            if learned:
                predicted[rows] = model.predict(scaled)
            known = task.labelled(rows)
            if known.stop > known.start:
                told = scaled if known == rows else scaler.transform(task.features[known])
                model.partial_fit(told, task.flags[known], classes=[False, True])
                learned = True
        return Ran(partial(task.gmean_of, predicted))

    yield run


@contextmanager
def _anew(train: Train, task: Task) -> Iterator[Run]:
    """Train on the window after every chunk, and predict the next."""

    def run() -> Ran:
        predicted = no_predictions(task)
        predict: Predict | None = None
        for rows in task.chunks():
            if predict is not None:
                predicted[rows] = predict(task.features[rows])
            known = task.labelled(rows).stop
            window = slice(max(0, known - WINDOW_ROWS), known)
            flags = task.flags[window]
            if flags.any() and not flags.all():
                predict = train(task.features[window], flags)
        return Ran(partial(task.gmean_of, predicted))

    yield run


def _scale(rows: Floats) -> tuple[Floats, Floats]:
    """Means and deviations float64[d]; 1 where a column is constant."""
    deviations = rows.std(axis=0)
    return rows.mean(axis=0), np.where(deviations > 0.0, deviations, 1.0)


def ridge(rows: Floats, flags: Flags) -> Predict:
    """Least squares on ±1 with a penalty of 1 in standardized units, by SciPy's Cholesky."""
    linalg = library("scipy.linalg")
    means, deviations = _scale(rows)
    scaled = (rows - means) / deviations
    targets = np.where(flags, 1.0, -1.0)
    gram = scaled.T @ scaled
    gram[np.diag_indices_from(gram)] += 1.0
    weights = linalg.solve(gram, scaled.T @ (targets - targets.mean()), assume_a="pos") / deviations
    bias = targets.mean() - means @ weights
    return lambda further: np.asarray(further @ weights + bias > 0.0)


def support_vectors(rows: Floats, flags: Flags) -> Predict:
    """scikit-learn's LinearSVC as it is, on standardized rows."""
    svm: Any = library("sklearn.svm").LinearSVC(random_state=0)
    means, deviations = _scale(rows)
    svm.fit((rows - means) / deviations, flags)
    return lambda further: np.asarray(svm.predict((further - means) / deviations), dtype=np.bool_)


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
