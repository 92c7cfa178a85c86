"""Test, then train: what a model makes of samples that it has not learned.

A worker scores every batch with the model it has when the batch comes, and a delta carries the counts. Only what is
learned for the first time counts: a sample that was sent twice is not scored twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deltaplane.log.confusion import Confusion
from deltaplane.log.model import Model
from deltaplane.solve.candidates import Trials
from deltaplane.stream.sample import AdmittedSamples

__all__ = ["score"]


def score(model: Model | None, samples: AdmittedSamples, left_out: Sequence[int]) -> tuple[Confusion, Trials | None]:
    """Truth against prediction of all rows but those ``left_out``, by the plane, and by each candidate of a blend."""
    kept = np.ones(len(samples), dtype=np.bool_)
    kept[list(left_out)] = False
    scores, trials = Confusion(), None
    if model is None or model.plane is None or not kept.any():
        return scores, trials
    plane, whole = model.plane, bool(kept.all())
    every = tuple(sorted({*plane.classes, *samples.labels}))
    place = {label: at for at, label in enumerate(every)}
    truth = np.array([place[label] for label in samples.labels], dtype=np.int64)[samples.codes]
    guess = np.array([place[label] for label in plane.classes], dtype=np.int64)
    for piece, inputs in samples.inputs():
        rows, codes, truths = inputs, samples.codes[piece], truth[piece]
        if not whole:
            rows, codes, truths = rows[kept[piece]], codes[kept[piece]], truths[kept[piece]]
        scores = scores + Confusion.of(truths, guess[plane.predict(rows)], every)
        tried = None if model.blend is None else model.blend.try_out(rows, codes, samples.labels)
        trials = tried if trials is None or tried is None else trials + tried
    return scores, trials
