"""The predictions of the rows of each published batch, which both tables and files of predictions are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats, Int32s, Int64s
from deltaplane.log.model import Model
from deltaplane.log.scoring import ScoredRows
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane_services.produce.feed import PublishedBatch

__all__ = ["Names", "ScoredBatch", "scored_batches"]


class Names:
    """The classes so far, numbered in the order of their first appearance. Only ``code`` and ``truths`` add to them."""

    def __init__(self, definition: StreamDefinition) -> None:
        self._classes = definition.classes
        self._codes: dict[str, int] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def code(self, labels: Sequence[str]) -> Int32s:
        """The numbers int32[n] of classes; a new class gets the next number."""
        return np.array([self._codes.setdefault(label, len(self._codes)) for label in labels], dtype=np.int32)

    def truths(self, samples: Samples) -> Int32s:
        """The numbers int32[n] of the true classes of samples; a label of no class is a class of its own."""
        labels = self.code([self._classes.class_of(label) or label for label in samples.label_table])
        return np.asarray(labels[samples.label_codes], dtype=np.int32)


@dataclass(frozen=True, eq=False)
class ScoredBatch:
    """n rows of one batch. Classes are numbers of :class:`Names`.

    ``guesses`` int32[n] are -1 for rows that were not predicted; there ``values`` and ``probabilities`` float64[n] are
    NaN. Both are those of the positive class if there are two classes, else those of the predicted class. ``version``
    is that of the model that predicted the rows, 0 if there was none.
    """

    samples: Samples
    lines: Int64s
    truths: Int32s
    guesses: Int32s
    values: Floats
    probabilities: Floats
    version: int


def scored_batches(
    batches: Sequence[PublishedBatch], scored: Sequence[tuple[int, ScoredRows]], model: Model | None, names: Names
) -> Iterator[ScoredBatch]:
    """The predictions of ``model`` for batches that were published together, at most one for each partition."""
    for batch in batches:
        count = len(batch.samples)
        guesses, values, chances = np.full(count, -1, dtype=np.int32), np.full(count, np.nan), np.full(count, np.nan)
        truths = names.truths(batch.samples)
        for partition, piece in scored:
            if partition == batch.partition:
                guesses[piece.rows] = names.code(piece.classes)[piece.chosen]
                values[piece.rows] = _of_the_chosen(piece.values, piece.chosen)
                chances[piece.rows] = _chances(piece, model)
        version = 0 if model is None else model.version
        yield ScoredBatch(batch.samples, batch.line_numbers, truths, guesses, values, chances, version)


def _of_the_chosen(values: Floats, chosen: Int64s) -> Floats:
    """float64[n]: the only decision value of each row, or that of the chosen class."""
    return values[:, 0] if values.shape[1] == 1 else np.take_along_axis(values, chosen[:, None], axis=1)[:, 0]


def _chances(piece: ScoredRows, model: Model | None) -> Floats:
    """float64[n]: the probability of the positive class, or of each row's chosen class; NaN if the model gives none."""
    plane = None if model is None else model.plane
    found = None if model is None else model.probabilities(piece.values)
    if plane is None or found is None or plane.classes != piece.classes:
        return np.full(len(piece.chosen), np.nan)
    if plane.positive is not None:
        return found[:, plane.classes.index(plane.positive)]
    return _of_the_chosen(found, piece.chosen)
