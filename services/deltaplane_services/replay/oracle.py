"""``--verify``: a second, independent account of the same rows, and the proof that both are the same bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.definition import StreamDefinition
from deltaplane.merger import plane_of
from deltaplane.model import Model
from deltaplane.reference import Reference
from deltaplane_services.replay.feed import Published


@dataclass(frozen=True)
class Verification:
    """``digest`` is that of the live rows from scratch; ``max_difference`` the largest distance of a weight or bias."""

    digest: str
    digests_equal: bool
    max_difference: float

    @property
    def passed(self) -> bool:
        """Whether the pipeline's statistics and plane are those of the batch, bit for bit."""
        return self.digests_equal and self.max_difference == 0.0


class Oracle:
    """Is told what was published and compares the end with the model; it holds every live row."""

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self._reference = Reference(definition)

    def note(self, published: Published) -> None:
        """What went onto the topics."""
        for batch in published.batches:
            self._reference.add(batch.partition, batch.samples)
        for sample_id in published.retired:
            self._reference.retire(sample_id)

    def verify(self, model: Model) -> Verification:
        """Refit from the live rows alone, and compare."""
        statistics = self._reference.statistics()
        digest = statistics.digest(self.definition.data_fingerprint)
        difference = float("nan")
        if model.plane is not None and model.refusal is None:
            batch = plane_of(statistics, self.definition, model.blend)
            if batch.classes == model.plane.classes:
                weights = np.abs(batch.weights - model.plane.weights).max()
                difference = float(max(weights, np.abs(batch.biases - model.plane.biases).max()))
        return Verification(digest, digest == model.digest, difference)
