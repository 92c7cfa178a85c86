"""Learners that take a row at a time: River's, and Vowpal Wabbit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deltaplane_benchmarks.peers.task import CHUNKS, ROWS, SCALED, Learner, Ran, Run, Task, library, no_predictions

__all__ = ["ALMA", "LOGISTIC", "LOGISTIC_MANY", "TREE", "VOWPAL_WABBIT", "VOWPAL_WABBIT_SCALED"]


@contextmanager
def _river(make: Callable[[], Any], task: Task) -> Iterator[Run]:
    """``predict_one``, then ``learn_one``, on dictionaries that are there beforehand."""
    names = [f"x{at}" for at in range(task.features.shape[1])]
    rows = [dict(zip(names, values, strict=True)) for values in task.features.tolist()]
    labels = task.flags.tolist()

    def run() -> Ran:
        model, predicted = make(), no_predictions(task)
        for at, row in enumerate(rows):
            predicted[at] = model.predict_one(row) is True
            if at >= task.late:
                model.learn_one(rows[at - task.late], labels[at - task.late])
        return Ran.of(task, predicted)

    yield run


@contextmanager
def _river_many(make: Callable[[], Any], task: Task) -> Iterator[Run]:
    """``predict_many``, then ``learn_many``, on tables of Arrow that are there beforehand.

    River's own scaler fails on many rows of a constant column, whose variance it finds a little below zero.
    """
    arrow, features = library("pyarrow"), task.scaled().features

    def table(rows: slice) -> Any:
        return arrow.table({f"x{at}": np.ascontiguousarray(one) for at, one in enumerate(features[rows].T)})

    chunks = []
    for rows in task.chunks():
        come, known = table(rows), task.labelled(rows)
        learned = come if known == rows else table(known)
        chunks.append((rows, come, learned, arrow.chunked_array([arrow.array(task.flags[known])])))

    def run() -> Ran:
        model, predicted = make(), no_predictions(task)
        knows = False
        for rows, come, learned, labels in chunks:
            if knows:
                predicted[rows] = model.predict_many(come).to_numpy(zero_copy_only=False)
            if len(labels):
                model.learn_many(learned, labels)
                knows = True
        return Ran.of(task, predicted)

    yield run


def _logistic() -> Any:
    return library("river.preprocessing").StandardScaler() | library("river.linear_model").LogisticRegression()


def _logistic_alone() -> Any:
    return library("river.linear_model").LogisticRegression()


def _alma() -> Any:
    return library("river.preprocessing").StandardScaler() | library("river.linear_model").ALMAClassifier()


def _tree() -> Any:
    return library("river.tree").HoeffdingTreeClassifier()


@contextmanager
def _vowpal_wabbit(task: Task, *, scaled: bool) -> Iterator[Run]:
    """Its own driver over its own cache: it predicts each row before it learns it, and writes what it predicted."""
    wabbit = library("vowpalwabbit")
    features = task.scaled().features if scaled else task.features
    with tempfile.TemporaryDirectory(prefix="deltaplane-bench-") as directory:
        data, cache, answers = (Path(directory) / name for name in ("rows.vw", "rows.cache", "answers"))
        with data.open("w", encoding="ascii") as file:
            for values, flag in zip(features.tolist(), task.flags.tolist(), strict=True):
                row = " ".join(f"{at}:{value:.9g}" for at, value in enumerate(values) if value)
                file.write(f"{1 if flag else -1} | {row}\n")
        source = ["--data", str(data), "--cache_file", str(cache), "--quiet"]
        wabbit.Workspace(arg_list=[*source, "--noop"]).finish()

        def run() -> Ran:
            wabbit.Workspace(arg_list=[*source, "--loss_function", "hinge", "--predictions", str(answers)]).finish()
            return Ran(lambda rows: task.gmean_of(np.loadtxt(answers, ndmin=1) > 0.0, rows))

        yield run


LOGISTIC = Learner(
    "River LogisticRegression",
    ROWS,
    "learn_one, behind its StandardScaler",
    "river",
    partial(_river, _logistic),
    slow=True,
)
ALMA = Learner(
    "River ALMAClassifier", ROWS, "learn_one, behind its StandardScaler", "river", partial(_river, _alma), slow=True
)
TREE = Learner("River HoeffdingTree", ROWS, "learn_one, rows as they are", "river", partial(_river, _tree), slow=True)
LOGISTIC_MANY = Learner(
    "River LogisticRegression",
    CHUNKS,
    f"learn_many, {SCALED}",
    "river",
    partial(_river_many, _logistic_alone),
)
VOWPAL_WABBIT = Learner(
    "Vowpal Wabbit",
    ROWS,
    "hinge, from its own cache of rows as they are, with its own scaling; a thread more reads it",
    "vowpalwabbit",
    partial(_vowpal_wabbit, scaled=False),
    waits=False,
)
VOWPAL_WABBIT_SCALED = Learner(
    "Vowpal Wabbit, standardized",
    ROWS,
    f"the same, {SCALED}",
    "vowpalwabbit",
    partial(_vowpal_wabbit, scaled=True),
    waits=False,
)
