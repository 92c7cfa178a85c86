"""What was predicted of each row before it was learned, row by row: test, then train.

The counts of a replay are made of these predictions, and nothing else is: they are those of the worker, not made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deltaplane.arrays import Floats, Int32s, Int64s
from deltaplane.log.scoring import ScoredRows
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.produce.feed import PublishedBatch

__all__ = ["Predictions"]


class Predictions:
    """Collects predictions, 24 bytes a row, and ids if wanted; changed by ``add`` only."""

    def __init__(self, definition: StreamDefinition, *, with_ids: bool) -> None:
        self._with_ids = with_ids
        self._classes = definition.classes
        self._codes: dict[str, int] = {}
        self._rows: list[Int64s] = []
        self._ids: list[str] = []
        self._labels: list[Int32s] = []
        self._guesses: list[Int32s] = []
        self._values: list[Floats] = []

    def add(self, batches: Sequence[PublishedBatch], scored: Sequence[tuple[int, ScoredRows]]) -> None:
        """Note the rows that were published since the last call, at most one record a partition, and their scores."""
        for batch in batches:
            samples = batch.samples
            guesses, values = np.full(len(samples), -1, dtype=np.int32), np.full(len(samples), np.nan)
            for partition, piece in scored:
                if partition == batch.partition:
                    guesses[piece.rows] = self._coded(piece.classes)[piece.chosen]
                    values[piece.rows] = _of_the_chosen(piece)
            labels = self._coded([self._classes.class_of(label) or label for label in samples.label_table])
            self._rows.append(batch.line_numbers)
            self._ids += samples.ids if self._with_ids else ()
            self._labels.append(labels[samples.label_codes])
            self._guesses.append(guesses)
            self._values.append(values)

    def _coded(self, labels: Sequence[str]) -> Int32s:
        return np.array([self._codes.setdefault(label, len(self._codes)) for label in labels], dtype=np.int32)

    def table(self) -> Any:
        """An Arrow table in the order of the file: ``row``, ``id`` where wanted, ``label``, ``prediction``, ``value``.

        Rows count from 1, as everywhere; of text they are lines. ``label`` is the class that the row is of. What was
        not predicted is null: rows before the first plane, and those that taught nothing. ``value`` is the decision
        value: of two classes that of the positive one, which is predicted above 0; of more, that of the predicted one.
        """
        import pyarrow as pa

        rows = _joined(self._rows, np.int64)
        order = np.argsort(rows, kind="stable")
        labels, guesses = _joined(self._labels, np.int32), _joined(self._guesses, np.int32)
        names = pa.array(list(self._codes), pa.string())
        table = {"row": pa.array(rows[order])}
        if self._with_ids:
            table["id"] = pa.array([self._ids[at] for at in order.tolist()], pa.string())
        unknown = guesses[order] < 0
        return pa.table(
            {
                **table,
                "label": names.take(pa.array(labels[order])),
                "prediction": names.take(pa.array(guesses[order], mask=unknown)),
                "value": pa.array(_joined(self._values, np.float64)[order], mask=unknown),
            }
        )


def _of_the_chosen(piece: ScoredRows) -> Floats:
    """float64[n]: the one decision value of each row, or that of its class."""
    if piece.values.shape[1] == 1:
        return piece.values[:, 0]
    return np.take_along_axis(piece.values, piece.chosen[:, None], axis=1)[:, 0]


def _joined(parts: Sequence[Any], kind: Any) -> Any:
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)
