"""Ours: the whole embedded pipeline, as ``replay`` runs it, on rows in memory; and the estimator, row by row.

A chunk is published as a record, admitted, placed on the grid, scored by the newest model, learned exactly, and leaves
the window again when it is old; then the merger solves and publishes a model. The G-mean is the one the model carries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.estimators import SlidingProximalSVM
from deltaplane.exact.grid import fit_grid
from deltaplane.limits import GRID_FIT_ROWS
from deltaplane.log import confusion
from deltaplane.log.answers import answer
from deltaplane.maps.feature_maps import NO_MAP
from deltaplane.solve.candidates import AUTOMATIC_C, AUTOMATIC_WEIGHTINGS
from deltaplane.solve.objectives import GMEAN, Objective
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.component_tables import feature_map_of, fit_feature_map
from deltaplane.stream.declared import DeclaredMap
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import AUTOMATIC_LONGEST, NestedWindows
from deltaplane.stream.sample import Samples
from deltaplane_benchmarks.peers.task import CHUNKS, LABELS, ROWS, Learner, Ran, Run, Task, no_predictions
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.replay.by_row import ROWS_AT_ONCE, ByRowPipeline
from deltaplane_services.replay.pipeline import EmbeddedPipeline

__all__ = [
    "AUTOMATIC",
    "AUTOMATIC_BY_ROW",
    "ESTIMATOR_BY_ROW",
    "PLAIN",
    "PLAIN_BY_ROW",
    "WINDOW",
    "automatic",
    "automatic_definition",
    "definition_of",
]

WINDOW = "20000"


def definition_of(task: Task, window: str, choice_of_c: float | str) -> StreamDefinition:
    """The stream as a definition file would have it; its grid fitted on the first rows, as ``replay`` does."""
    features = task.features.shape[1]
    grid = fit_grid(task.features[:GRID_FIT_ROWS])
    tables = {
        "name": "peers",
        "features": {"names": [f"x{at}" for at in range(features)]},
        "grid": {"steps": grid.steps.tolist(), "offsets": grid.offsets.tolist()},
        "classes": {"names": list(LABELS), "positive": LABELS[1]},
        "window": {"length": window},
        "solver": {"C": choice_of_c},
    }
    return StreamDefinition.from_tables(tables)


def automatic_definition(
    features: Floats, positive: str | None, *, curved: bool, objective: Objective = GMEAN
) -> StreamDefinition:
    """The stream as ``replay`` defines it without a flag, or with ``--feature-map linear`` if not ``curved``."""
    first, nested_windows = features[:GRID_FIT_ROWS], NestedWindows.automatic(AUTOMATIC_LONGEST)
    grid = fit_grid(first)
    mapped = (
        feature_map_of(fit_feature_map(DeclaredMap(kind="auto"), grid, first, nested_windows), grid.features)
        if curved
        else NO_MAP
    )
    return StreamDefinition(
        name="bench",
        features=tuple(f"x{column}" for column in range(features.shape[1])),
        grid=grid,
        feature_map=mapped,
        nested_windows=nested_windows,
        solver=SolverOptions(C=AUTOMATIC_C[1]),
        objective=objective,
        classes=ClassDefinition(positive=positive),
        choices=AUTOMATIC_C,
        weightings=AUTOMATIC_WEIGHTINGS,
    )


@contextmanager
def _pipeline(task: Task, *, window: str, choice_of_c: float | str, by_row: bool) -> Iterator[Run]:
    definition = definition_of(task, window, choice_of_c)
    if task.late:
        yield partial(_served, task, definition, 1 if by_row else task.chunk)
        return
    # The automatic mode has no planes made many at a time: there each row is a record.
    together = by_row and not definition.automatic
    step = ROWS_AT_ONCE if together else 1 if by_row else task.chunk
    chunks = [_samples(task, rows) for rows in task.chunks(step)]
    marks = {min(task.part, len(task)), len(task)}

    def run() -> Ran:
        pipeline = ByRowPipeline(definition, 0) if together else EmbeddedPipeline(definition, 0)
        gmeans, rows = {}, 0
        first = None
        for samples in chunks:
            pipeline.publish([codec_of(definition).sample_batch(0, samples)], 0)
            pipeline.advance(0)
            rows += len(samples)
            if rows in marks or rows == task.chunk:
                model = pipeline.model
                scores = confusion.Confusion() if model is None else model.scores
                first = scores if rows == task.chunk else first
                gmeans[rows] = confusion.gmean(_without(scores, first))
        pipeline.close()
        return Ran(gmeans.__getitem__)

    yield run


def _served(task: Task, definition: StreamDefinition, step: int) -> Ran:
    """With labels that come late: rows are predicted by the newest model when they come, and learned later.

    The score of a row is its probability, or what its decision value is worth as one as long as a model has none.
    """
    pipeline, predicted, scores = EmbeddedPipeline(definition, 0), no_predictions(task), np.zeros(len(task))
    for rows in task.chunks(step):
        model = pipeline.model
        if model is not None and model.plane is not None:
            told = answer(model.plane, definition, task.features[rows]).of_model(model)
            predicted[rows] = [one == LABELS[1] for one in told.classes]
            chances = told.probabilities
            guessed = 0.5 + 0.5 * np.tanh(told.values[:, 0])
            own = guessed if chances is None else chances[:, told.plane.classes.index(LABELS[1])]
            scores[rows] = np.where(np.isnan(own), 0.0, own)
        known = task.labelled(rows)
        if known.stop > known.start:
            samples = _samples(task, known)
            pipeline.publish([codec_of(definition).sample_batch(0, samples)], 0)
            pipeline.advance(0)
    pipeline.close()
    return Ran.of(task, predicted, scores)


@contextmanager
def _automatic(task: Task, *, objective: str, curved: bool) -> Iterator[Run]:
    """The stream as ``replay`` defines it, whatever the delay of labels."""
    mine = task.encoded()
    definition = automatic_definition(mine.features, LABELS[1], curved=curved, objective=Objective.parse(objective))
    yield partial(_served, mine, definition, task.chunk)


@contextmanager
def _estimator(task: Task) -> Iterator[Run]:
    grid, truth, begin = fit_grid(task.features[:GRID_FIT_ROWS]), task.flags, task.chunk

    def run() -> Ran:
        learner = SlidingProximalSVM(int(WINDOW), C=1.0, grid=grid)
        predicted = no_predictions(task)
        learner.partial_fit(task.features[:begin], truth[:begin])
        predicted[begin:] = learner.predict_then_fit(task.features[begin:], truth[begin:])
        return Ran.of(task, predicted)

    yield run


def _without(scores: confusion.Confusion, first: confusion.Confusion | None) -> confusion.Confusion:
    """The counts of a stream but for those of its first chunk, of which a model after every row has some."""
    if first is None:
        return scores
    counts = {pair: count - first.counts.get(pair, 0) for pair, count in scores.counts.items()}
    return confusion.Confusion(counts)


def _samples(task: Task, rows: slice) -> Samples:
    features, codes = task.features[rows], task.flags[rows].astype(np.int32)
    ids = list(map(str, range(rows.start, rows.start + len(codes))))
    return Samples.of_record(ids, 0, LABELS, codes, features)


PLAIN = Learner(
    "Deltaplane, plain",
    CHUNKS,
    "window 20,000, C 1, weighted; a new model after each chunk",
    None,
    partial(_pipeline, window=WINDOW, choice_of_c=1.0, by_row=False),
)
AUTOMATIC = Learner(
    "Deltaplane, automatic",
    CHUNKS,
    "windows, C and weighting chosen on the way; a new model after each chunk",
    None,
    partial(_pipeline, window="auto", choice_of_c="auto", by_row=False),
)
PLAIN_BY_ROW = Learner(
    "Deltaplane, plain",
    ROWS,
    "the same; a plane after every row, made many at a time, and a model on the log after every hundred",
    None,
    partial(_pipeline, window=WINDOW, choice_of_c=1.0, by_row=True),
    waits=False,
)
ESTIMATOR_BY_ROW = Learner(
    "Deltaplane, SlidingProximalSVM",
    ROWS,
    "predict_then_fit, window 20,000, C 1, weighted; the plane after every row, no log and no broker",
    None,
    _estimator,
    waits=False,
)


def automatic(objective: str, *, curved: bool = True) -> Learner:
    """The default of ``replay``, asked for an objective; without curved candidates if so said."""
    how = f"replay as it is, with --objective {objective}" if curved else "replay with --feature-map linear"
    name = f"Deltaplane, {objective}" if curved else f"Deltaplane, linear, {objective}"
    return Learner(name, CHUNKS, how, None, partial(_automatic, objective=objective, curved=curved))


AUTOMATIC_BY_ROW = Learner(
    "Deltaplane, automatic",
    ROWS,
    "the same; a new model after every row",
    None,
    partial(_pipeline, window="auto", choice_of_c="auto", by_row=True),
    slow=True,
)
