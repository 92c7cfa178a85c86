"""What every learner is given, how it is run, and what it answers with."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from deltaplane.arrays import Flags, Floats
from deltaplane.limits import GRID_FIT_ROWS
from deltaplane.log.confusion import Confusion, gmean

__all__ = [
    "CHUNKS",
    "CHUNK_ROWS",
    "EXTRA",
    "LABELS",
    "REPEATED_BELOW_SECONDS",
    "ROWS",
    "SCALED",
    "Judge",
    "Learner",
    "Measured",
    "Ran",
    "Run",
    "Task",
    "library",
    "measure",
    "no_predictions",
]

LABELS = ("rest", "positive")
CHUNK_ROWS = 1000
CHUNKS, ROWS = "chunks", "rows"
EXTRA = "not installed: pip install 'deltaplane[peers]'"
SCALED = f"standardized by the first {GRID_FIT_ROWS:,} rows"


@dataclass(frozen=True, eq=False)
class Task:
    """Rows float64[n, d] in order, and which are of the positive class, bool[n].

    ``chunk`` rows are predicted, then learned. ``part``: so many rows, whole chunks, are all that slow learners get,
    and those on which all can be compared. ``label_delay``: the label of a row is known when the row that comes so many
    rows later is predicted; by chunks they come so much later than otherwise.
    """

    features: Floats
    flags: Flags
    chunk: int
    part: int
    label_delay: int = 0
    levels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        assert self.part % self.chunk == 0 or self.part >= len(self.flags), "a part that ends within a chunk"

    def __len__(self) -> int:
        return len(self.flags)

    def first_part(self) -> Task:
        """The same, cut off after the part."""
        return replace(self, features=self.features[: self.part], flags=self.flags[: self.part])

    def chunks(self, rows: int | None = None) -> Iterator[slice]:
        """The chunks in order; of another number of rows where one is given."""
        step = rows or self.chunk
        return (slice(start, min(start + step, len(self))) for start in range(0, len(self), step))

    @property
    def late(self) -> int:
        """How many rows later labels come than they must at least."""
        return max(0, self.label_delay - 1)

    def labelled(self, rows: slice) -> slice:
        """The rows whose labels come once ``rows`` have been predicted."""
        return slice(max(0, rows.start - self.late), max(0, rows.stop - self.late))

    def scaled(self) -> Task:
        """The same rows with the means and deviations of the first of them taken out: those that our grid is fitted on.

        For learners that have no scaling of their own, or none that centres.
        """
        first = self.features[:GRID_FIT_ROWS]
        deviations = first.std(axis=0)
        scaled = (self.features - first.mean(axis=0)) / np.where(deviations > 0.0, deviations, 1.0)
        return replace(self, features=scaled)

    def encoded(self) -> Task:
        """The same rows as numbers alone: each feature of words becomes an indicator for each of its levels."""
        if not any(self.levels):
            return self
        columns = [
            column[:, None] == np.arange(levels) if levels else column[:, None]
            for column, levels in zip(self.features.T, self.levels, strict=True)
        ]
        return replace(self, features=np.hstack(columns).astype(np.float64), levels=())

    def gmean_of(self, predicted: Flags, rows: int) -> float:
        """The G-mean of the predictions bool[n] of the first so many rows, the first chunk left out."""
        counted = slice(self.chunk, rows)
        truth, guess = self.flags[counted].astype(np.int64), predicted[counted].astype(np.int64)
        return gmean(Confusion.of(truth, guess, LABELS))


Judge = Callable[[int], float]
"""The G-mean of the first so many rows, the first chunk left out."""


@dataclass(frozen=True, eq=False)
class Ran:
    """A run that is over. ``own_seconds``: measured by the learner itself, where it runs as a program of its own.

    ``predicted`` bool[n] and ``scores`` float64[n], the larger the likelier a row is positive, of all rows; None where
    the learner tells no more than its figures.
    """

    judge: Judge
    own_seconds: float | None = None
    predicted: Flags | None = None
    scores: Floats | None = None

    @classmethod
    def of(cls, task: Task, predicted: Flags, scores: Floats | None = None, own_seconds: float | None = None) -> Ran:
        """A run that has predicted every row; with no scores, those predicted as positive have the larger one."""
        told = predicted.astype(np.float64) if scores is None else scores
        return cls(partial(task.gmean_of, predicted), own_seconds, predicted, told)


Run = Callable[[], Ran]
"""Begins with a learner that knows nothing and goes through all rows: what the clock runs over."""


@dataclass(frozen=True)
class Learner:
    """A learner, what it learns at a time (``by``), ``how`` it is used, and the ``package`` it needs, None for ours.

    ``waits``: whether it can be told labels late; what reads and learns by itself cannot.

    ``prepare`` puts the rows into the form that the learner wants, off the clock. ``slow`` learners get a part of them.
    """

    name: str
    by: str
    how: str
    package: str | None
    prepare: Callable[[Task], AbstractContextManager[Run]]
    slow: bool = False
    waits: bool = True

    @property
    def installed(self) -> bool:
        """Whether its package is there."""
        return self.package is None or find_spec(self.package) is not None


@dataclass(frozen=True)
class Measured:
    """The best of several runs: seconds of the clock, processor seconds of this process, rows, and the G-means."""

    rows: int
    seconds: float
    cpu_seconds: float
    gmean: float
    gmean_of_part: float

    @property
    def rows_per_second(self) -> float:
        """Each predicted and learned."""
        return self.rows / self.seconds


REPEATED_BELOW_SECONDS = 5.0


def measure(learner: Learner, task: Task, repeats: int) -> Measured:
    """Run a learner; what takes more than :data:`REPEATED_BELOW_SECONDS` runs once.

    On one thread of BLAS, so that learners are compared and not their libraries' ways to share a machine.
    """
    from threadpoolctl import threadpool_limits

    mine = task.first_part() if learner.slow else task
    runs: list[Measured] = []
    with threadpool_limits(1), learner.prepare(mine) as run:
        while len(runs) < repeats and (not runs or runs[-1].seconds < REPEATED_BELOW_SECONDS):
            cpu, began = time.process_time(), time.perf_counter()
            ran = run()
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            if ran.own_seconds is not None:
                seconds = cpu = ran.own_seconds
            runs.append(Measured(len(mine), seconds, cpu, ran.judge(len(mine)), ran.judge(min(mine.part, len(mine)))))
    return min(runs, key=lambda measured: measured.seconds)


def library(name: str) -> Any:
    """A module of an optional package, whose types are not looked at: it may not be there."""
    return importlib.import_module(name)


def no_predictions(task: Task) -> Flags:
    """Where predictions go; False where a learner knew nothing yet."""
    return np.zeros(len(task), dtype=np.bool_)
