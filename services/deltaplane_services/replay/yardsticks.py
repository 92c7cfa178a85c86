"""What a replay gathers beside its confusion as rows go by: the scores behind curves, and baselines on those rows."""

from __future__ import annotations

from collections.abc import Sequence

from deltaplane.log.baselines import Baselines
from deltaplane.log.model import Model
from deltaplane.log.score_curve import ScoreTally
from deltaplane.log.scoring import ScoredRows
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.produce.feed import PublishedBatch

__all__ = ["Yardsticks"]


class Yardsticks:
    """Collects, in bounded memory, what the confusion of a replay does not tell; changed by ``add`` and ``learned``."""

    def __init__(self, definition: StreamDefinition) -> None:
        self._classes = definition.classes
        windows = definition.nested_windows.windows
        longest = windows[definition.nested_windows.longest]
        self.scores = ScoreTally()
        self.baselines = Baselines(longest.length if longest.counted else 0)

    def add(self, batches: Sequence[PublishedBatch], scored: Sequence[tuple[int, ScoredRows]]) -> None:
        """Note the rows that were published since the last call, at most one record a partition, and their scores."""
        for batch in batches:
            labels = [self._classes.class_of(label) or label for label in batch.samples.label_table]
            codes = batch.samples.label_codes.astype("int64")
            pieces = [piece for partition, piece in scored if partition == batch.partition]
            self.baselines.add(batch.partition, labels, codes, pieces)
            for piece in pieces:
                if piece.positive is not None:
                    self.scores.add(piece.positive, piece.values[:, 0], codes[piece.rows], dict(enumerate(labels)))

    def learned(self, rows: int, model: Model) -> None:
        """Note the model of the first ``rows``."""
        self.baselines.learned(rows, model.plane)
