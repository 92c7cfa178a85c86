"""How true probabilities are on real streams, test-then-train, beside online Platt scaling of the same scores.

Both say what they say of a chunk before they hear of its classes. Online Platt scaling is logistic regression on the
score, learned row by row by an online Newton step, which is the usual one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.exhibit import Column, Exhibit, Target
from deltaplane_benchmarks.experiments.streams import QUICK_ROWS, TASKS, StreamTask, definition_of, fed_chunks
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, RunnerOptions

__all__ = [
    "EXPERIMENT",
    "ROWS_BEFORE",
    "OnlinePlatt",
    "Probabilities",
    "expected_error",
    "log_loss",
    "run",
    "run_stream",
]

ROWS_BEFORE = 2000
"""The first rows, on which nobody can know much, are not counted."""

_LARGEST_ERROR = 0.02

_BINS = 15
_LEAST = 1e-6
"""No probability is below this in a logarithm."""


class OnlinePlatt:
    """Logistic regression of one class on its score, by online Newton steps; changed by ``learn`` only."""

    _PACE = 0.1

    def __init__(self) -> None:
        self._slope, self._shift = 1.0, 0.0
        self._squares = [1.0, 0.0, 1.0]

    def probabilities(self, scores: Floats) -> Floats:
        """float64[n]: those of the class."""
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(self._slope * scores + self._shift, -30.0, 30.0))))

    def learn(self, scores: Floats, own: Flags) -> None:
        """Take n rows, one after the other; ``own``: which are of the class."""
        a, b, c = self._squares
        slope, shift = self._slope, self._shift
        for score, truth in zip(scores.tolist(), own.tolist(), strict=True):
            apart = 1.0 / (1.0 + exp(-max(-30.0, min(30.0, slope * score + shift)))) - truth
            first, second = apart * score, apart
            a, b, c = a + first * first, b + first * second, c + second * second
            determinant = (a * c - b * b) * self._PACE
            slope -= (c * first - b * second) / determinant
            shift -= (a * second - b * first) / determinant
        self._slope, self._shift, self._squares = slope, shift, [a, b, c]


@dataclass(frozen=True, eq=False)
class Probabilities:
    """What was said of n rows before their classes were known: ``ours`` and ``platt`` float64[n, k].

    ``truths`` int64[n] are the columns of the classes that they are of.
    """

    ours: Floats
    platt: Floats
    truths: Int64s


def expected_error(probabilities: Floats, truths: Int64s) -> float:
    """The expected calibration error, by 15 bins of equal width: how far what was said is from what came, on average.

    Of two classes, of what is said of the second; of more, of the likeliest.
    """
    if probabilities.shape[1] == 2:
        told, came = probabilities[:, 1], truths == 1
    else:
        told, came = probabilities.max(axis=1), probabilities.argmax(axis=1) == truths
    bins = np.minimum((told * _BINS).astype(np.int64), _BINS - 1)
    apart = np.bincount(bins, told - came, minlength=_BINS)
    return float(np.abs(apart).sum() / len(told))


def log_loss(probabilities: Floats, truths: Int64s) -> float:
    """The mean of minus the logarithm of what was said of the class that came."""
    return float(-np.log(np.maximum(probabilities[np.arange(len(truths)), truths], _LEAST)).mean())


def run_stream(data: DataSet, task: StreamTask) -> Probabilities:
    """Send the rows through the embedded pipeline, a chunk a round."""
    parts = list(_chunks(data, task))
    ours, platt, truths = (np.concatenate([part[at] for part in parts]) for at in range(3))
    return Probabilities(ours, platt, truths)


def _chunks(data: DataSet, task: StreamTask) -> Iterator[tuple[Floats, Floats, Int64s]]:
    definition = definition_of(data, task)
    options = RunnerOptions(records_per_poll=2**31, keep_scored=True, decode=False)
    runner = EmbeddedRunner(definition, options=options)
    learners: dict[str, OnlinePlatt] = {}
    for start, names, codes, model in fed_chunks(runner, data, task):
        for _, piece in runner.take_scored():
            assert model is not None, "rows are scored by the model before them"
            plane, said = model.plane, model.probabilities(piece.values)
            if plane is None or plane.units is None or said is None:
                continue
            place = {label: at for at, label in enumerate(plane.classes)}
            classes = [definition.classes.class_of(name) for name in names]
            truths = np.array([place.get(str(name), -1) for name in classes])[codes[piece.rows]]
            scores = (piece.values - plane.units[:, 0]) / plane.units[:, 1]
            beside = np.empty(said.shape)
            for at, target in enumerate(plane.targets):
                learner = learners.setdefault(target, OnlinePlatt())
                beside[:, place[target]] = learner.probabilities(scores[:, at])
                learner.learn(scores[:, at], truths == place[target])
            if plane.positive is not None:
                beside[:, 1 - place[plane.positive]] = 1.0 - beside[:, place[plane.positive]]
            beside = beside / beside.sum(axis=1, keepdims=True)
            # A class that is not live has no plane for the moment, and nothing is said of it.
            kept = (truths >= 0) & (piece.rows + start >= ROWS_BEFORE)
            told = _columns(task, definition.classes.rest, names)
            yield (
                _as_told(said[kept], plane.classes, told),
                _as_told(beside[kept], plane.classes, told),
                np.array([told.index(plane.classes[at]) for at in truths[kept].tolist()], dtype=np.int64),
            )


def _columns(task: StreamTask, rest: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """All classes; of two the positive one is the last."""
    return names if task.positive is None else (rest, task.positive)


def _as_told(probabilities: Floats, classes: tuple[str, ...], told: tuple[str, ...]) -> Floats:
    """The probabilities of some classes as those of all, float64[n, k]."""
    every = np.zeros((len(probabilities), len(told)))
    every[:, [told.index(label) for label in classes]] = probabilities
    return every


_COLUMNS = (
    Column("stream"),
    Column("rows", ",d"),
    Column("calibration error", ".4f"),
    Column("log-loss", ".4f"),
    Column("Platt: calibration error", ".4f"),
    Column("Platt: log-loss", ".4f"),
)

_NOTE = (
    f"Test, then train, in the automatic mode, without the first {ROWS_BEFORE:,} rows. The expected calibration error"
    " is over 15 bins: of two classes, of the probability of the positive one; of more, of that of the likeliest."
    " Online Platt scaling has the same scores, and hears of a chunk's classes when ours does."
)


def run(bench: Bench) -> list[Exhibit]:
    """All streams that can be had."""
    rows, targets, sources = [], [], []
    for task in TASKS:
        data = bench.table(task.table)
        if data is None:
            continue
        bench.say(f"stream {task.name}")
        quick = bench.settings.quick
        found = run_stream(data, replace(task, most_rows=min(task.most_rows, QUICK_ROWS)) if quick else task)
        error, loss = expected_error(found.ours, found.truths), log_loss(found.ours, found.truths)
        platt = expected_error(found.platt, found.truths), log_loss(found.platt, found.truths)
        rows.append((task.name, len(found.truths), error, loss, *platt))
        sources.append(f"{data.name}: {data.source} {data.note}".strip())
        told = f"{task.name}: a calibration error of at most {_LARGEST_ERROR}"
        targets.append(Target(told, error <= _LARGEST_ERROR, f"{error:.4f}"))
        told = f"{task.name}: a log-loss not above online Platt scaling's"
        targets.append(Target(told, loss <= platt[1], f"{loss:.4f} against {platt[1]:.4f}"))
    if not rows:
        return []
    return [
        Exhibit(
            paper=0,
            name="calibration",
            title="How true probabilities are on real streams, in file order",
            columns=_COLUMNS,
            rows=tuple(rows),
            targets=tuple(targets),
            data=tuple(dict.fromkeys(sources)),
            notes=(_NOTE,),
        )
    ]


EXPERIMENT = Experiment(0, "calibration", run)
