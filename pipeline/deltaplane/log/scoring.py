"""Test, then train: what a model makes of samples that it has not learned.

A worker scores every batch with the model it has when the batch comes, and a delta carries the counts. Only what is
learned for the first time counts: a sample that was sent twice is not scored twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from deltaplane.arrays import Floats, Int64s
from deltaplane.log.confusion import Confusion
from deltaplane.solve.calibration import Calibration, Tallies, tally_plane
from deltaplane.solve.candidates import Blend
from deltaplane.solve.prequential_counts import PrequentialCounts
from deltaplane.solve.solver import Plane
from deltaplane.stream.sample import AdmittedSamples

__all__ = ["NoteScored", "PlaneAlone", "Predicts", "Quality", "ScoredRows", "score"]


class Predicts(Protocol):
    """What rows are scored by: a published model, or a plane alone."""

    @property
    def plane(self) -> Plane | None:
        """What predicts."""

    @property
    def blend(self) -> Blend | None:
        """The candidates that are tried out on the same rows."""

    @property
    def calibration(self) -> Calibration | None:
        """None if scores are not counted."""


class PlaneAlone(NamedTuple):
    """A plane that nobody has published: no candidates are tried out beside it, and its scores are not counted."""

    plane: Plane | None
    blend: Blend | None = None
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """What was predicted of n rows before they were learned.

    ``rows`` int64[n] are their places in the record that they came in; ``chosen`` int64[n] index ``classes``, of which
    one plane of two has the ``positive`` one above zero, and several planes none;
    ``values`` float64[n, p] are the decision values of p planes, of the ``inputs`` float64[n, d] of each row: raw
    values of its features, or mapped ones.
    """

    rows: Int64s
    classes: tuple[str, ...]
    chosen: Int64s
    values: Floats
    inputs: Floats
    positive: str | None


NoteScored: TypeAlias = Callable[[ScoredRows], None]
"""Is told of each piece of rows that is scored. The scores are the same whether or not there is one."""


class Quality(NamedTuple):
    """The counts of some rows: truth against prediction, the same by each candidate of a blend, and the plane's scores.

    ``tallies``: if the model is calibrated, how many rows have their score in each bin; else empty.
    """

    scores: Confusion
    prequential_counts: PrequentialCounts | None
    tallies: Tallies


def score(
    model: Predicts | None, samples: AdmittedSamples, left_out: Sequence[int], note: NoteScored | None = None
) -> Quality:
    """The counts of a model's predictions for all rows but those ``left_out``."""
    kept = np.ones(len(samples), dtype=np.bool_)
    kept[list(left_out)] = False
    scores, prequential_counts, tallies = Confusion(), None, Tallies()
    if model is None or model.plane is None or not kept.any():
        return Quality(scores, prequential_counts, tallies)
    plane, whole = model.plane, bool(kept.all())
    every = tuple(sorted({*plane.classes, *samples.labels}))
    place = {label: at for at, label in enumerate(every)}
    truth = np.array([place[label] for label in samples.labels], dtype=np.int64)[samples.codes]
    guess = np.array([place[label] for label in plane.classes], dtype=np.int64)
    for piece, inputs in samples.inputs():
        rows, codes, truths = inputs, samples.codes[piece], truth[piece]
        if not whole:
            rows, codes, truths = rows[kept[piece]], codes[kept[piece]], truths[kept[piece]]
        values = plane.decide(rows)
        chosen = plane.choose(values)
        scores = scores + Confusion.of(truths, guess[chosen], every)
        if model.calibration is not None:
            tallies = tallies + tally_plane(plane, values, truths, place)
        if note is not None:
            note(ScoredRows(samples.rows[piece][kept[piece]], plane.classes, chosen, values, rows, plane.positive))
        tried = None if model.blend is None else model.blend.try_out(rows, codes, samples.labels)
        prequential_counts = tried if prequential_counts is None or tried is None else prequential_counts + tried
    return Quality(scores, prequential_counts, tallies)
