"""What a replay gathers beside its confusion as rows go by: the scores behind curves, baselines, and drift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deltaplane.arrays import Floats, Int64s
from deltaplane.log.baselines import Baselines
from deltaplane.log.confusion import Confusion
from deltaplane.log.drift import Drift, DriftWatch
from deltaplane.log.feature_sums import MOST_CLASSES, OTHERS, FeatureSums, joined
from deltaplane.log.model import Model
from deltaplane.log.prequential import Gathered
from deltaplane.log.score_curve import ScoreTally
from deltaplane.log.scoring import ScoredRows
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.produce.feed import PublishedBatch
from deltaplane_services.replay.held_rows import Labelled

__all__ = ["Yardsticks"]


class Yardsticks:
    """Collects, in bounded memory, what the confusion of a replay does not tell; changed by its methods.

    ``delayed``: labels come late, so that there are scores of what was predicted when rows came (``served``).
    """

    def __init__(self, definition: StreamDefinition, *, delayed: bool = False) -> None:
        self._classes = definition.classes
        windows = definition.nested_windows.windows
        longest = windows[definition.nested_windows.longest]
        self.scores = ScoreTally()
        self.served = Confusion() if delayed else None
        self._served_since = Confusion()
        self.drifts: list[Drift] = []
        self._watch = DriftWatch(len(definition.features))
        self._sums: dict[str, FeatureSums] = {}
        self._apart: set[str] = set()
        self.baselines = Baselines(longest.length if longest.counted else 0)

    def add(
        self,
        batches: Sequence[PublishedBatch],
        scored: Sequence[tuple[int, ScoredRows]],
        labelled: Labelled | None = None,
    ) -> None:
        """Note the rows that were published since the last call, at most one record a partition, and their scores.

        ``labelled``: the same rows, if their labels have come late.
        """
        if labelled is not None and self.served is not None:
            self.served += labelled.served
            self._served_since += labelled.served
        for batch in batches:
            labels = [self._classes.class_of(label) or label for label in batch.samples.label_table]
            codes = batch.samples.label_codes.astype("int64")
            self._look_at(batch.samples.features, labels, codes)
            pieces = [piece for partition, piece in scored if partition == batch.partition]
            known_then = None if labelled is None else labelled.known_then.of_rows(batch.places)
            self.baselines.add(batch.partition, labels, codes, pieces, known_then)
            for piece in pieces:
                if piece.positive is not None:
                    self.scores.add(piece.positive, piece.values[:, 0], codes[piece.rows], dict(enumerate(labels)))

    def _look_at(self, features: Floats, labels: Sequence[str], codes: Int64s) -> None:
        """Note features float64[n, d]; for drift whatever their labels, in sums by these."""
        self.drifts += self._watch.add(features)
        for code in np.unique(codes).tolist():
            label = labels[code]
            if label not in self._apart and len(self._apart) < MOST_CLASSES:
                self._apart.add(label)
            found = {label if label in self._apart else OTHERS: FeatureSums.of(features[codes == code])}
            self._sums = joined((self._sums, found))

    def take(self) -> Gathered:
        """The sums of features by class of all rows since the last call, and the scores of them as they came."""
        sums, self._sums = self._sums, {}
        served, self._served_since = self._served_since, Confusion()
        return Gathered(sums or None, None if self.served is None else served)

    @property
    def knows_rows(self) -> bool:
        """Whether rows were predicted here, so that there are curves and baselines."""
        return bool(self.baselines.frozen)

    def learned(self, rows: int, model: Model) -> None:
        """Note the model of the first ``rows``."""
        self.baselines.learned(rows, model.plane)
