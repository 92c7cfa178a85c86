"""What was predicted of each row before it was learned, row by row: test, then train.

The counts of a replay are made of these predictions, and nothing else is: they are those of the worker, not made again.
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
    """Collects predictions, 40 bytes a row, and ids if wanted; changed by ``add`` only."""

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
        """Note the rows of batches, whose classes are numbers of ``names``."""
        for batch in batches:
            self._rows.append(batch.lines)
            self._ids += batch.samples.ids if self._with_ids else ()
            self._labels.append(batch.truths)
            self._guesses.append(batch.guesses)
            self._values.append(batch.values)
            self._probabilities.append(batch.probabilities)
            self._versions.append(np.full(len(batch.lines), batch.version))

    def table(self) -> Any:
        """An Arrow table in the order of the file: ``row``, ``id`` where wanted, ``label``, ``prediction``, ``value``,
        ``probability``, ``version``.

        Rows count from 1, as everywhere; of text they are lines. ``label`` is the class that the row is of. What was
        not predicted is null: rows before the first plane, and those that taught nothing. ``value`` is the decision
        value: of two classes that of the positive one, which is predicted above 0; of more, that of the predicted one.
        ``probability`` is that of the same class, null until the model knows any; ``version`` the model's.
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
