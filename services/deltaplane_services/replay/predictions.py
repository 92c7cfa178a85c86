"""The prediction of each row before the row was learned (test, then train).

These are the worker's own predictions, which the confusion counts of a replay are made of; they are not recomputed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from deltaplane.arrays import Floats, Int32s, Int64s
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.replay.scored_batches import Names, ScoredBatch

__all__ = ["Predictions"]


class Predictions:
    """Collects predictions, 40 bytes a row, and ids if wanted. Only ``add`` changes it."""

    def __init__(self, definition: StreamDefinition, *, with_ids: bool) -> None:
        self._with_ids = with_ids
        self.names = Names(definition)
        self._rows: list[Int64s] = []
        self._ids: list[str] = []
        self._labels: list[Int32s] = []
        self._guesses: list[Int32s] = []
        self._values: list[Floats] = []
        self._probabilities: list[Floats] = []
        self._versions: list[Int64s] = []

    def add(self, batches: Iterable[ScoredBatch]) -> None:
        """Add the rows of batches, whose classes are numbers of ``names``."""
        for batch in batches:
            self._rows.append(batch.lines)
            self._ids += batch.samples.ids if self._with_ids else ()
            self._labels.append(batch.truths)
            self._guesses.append(batch.guesses)
            self._values.append(batch.values)
            self._probabilities.append(batch.probabilities)
            self._versions.append(np.full(len(batch.lines), batch.version))

    def table(self) -> Any:
        """An Arrow table in the order of the file, one row for each row that was not refused.

        The columns are ``row``, ``id`` if wanted, ``label``, ``prediction``, ``value``, ``probability`` and
        ``version``. Rows count from 1; in a text file they are lines. ``label`` is the true class. Rows without a
        prediction (those before the first plane, and those that taught nothing) have null in ``prediction``, ``value``
        and ``version``. ``value`` is the decision value: of the positive class if there are two classes, which is
        predicted above 0; of the predicted class if there are more. ``probability`` is that of the same class, and null
        as long as the model gives none. ``version`` is that of the model.
        """
        import pyarrow as pa

        rows = _joined(self._rows, np.int64)
        order = np.argsort(rows, kind="stable")
        labels, guesses = _joined(self._labels, np.int32), _joined(self._guesses, np.int32)
        names = pa.array(list(self.names), pa.string())
        table = {"row": pa.array(rows[order])}
        if self._with_ids:
            table["id"] = pa.array([self._ids[at] for at in order.tolist()], pa.string())
        unknown = guesses[order] < 0
        chances = _joined(self._probabilities, np.float64)[order]
        return pa.table(
            {
                **table,
                "label": names.take(pa.array(labels[order])),
                "prediction": names.take(pa.array(guesses[order], mask=unknown)),
                "value": pa.array(_joined(self._values, np.float64)[order], mask=unknown),
                "probability": pa.array(chances, mask=np.isnan(chances)),
                "version": pa.array(_joined(self._versions, np.int64)[order], mask=unknown),
            }
        )


def _joined(parts: Sequence[Any], kind: Any) -> Any:
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)
