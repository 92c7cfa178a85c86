"""``--verify``: a second, independent account of the same rows, and the proof that both are the same bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.errors import SolveRefused
from deltaplane.log.merger import fit_candidates, plane_of
from deltaplane.log.model import Model
from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.produce.feed import Published

__all__ = ["Oracle", "Verification"]


@dataclass(frozen=True)
class Verification:
    """``digest`` is that of the live rows from scratch; ``max_difference`` the largest distance of a weight or bias.

    It is None where there are no two planes to compare. ``refused_alike``: the live rows give no plane, from scratch
    neither, for the same reason.
    """

    digest: str
    digests_equal: bool
    max_difference: float | None
    refused_alike: bool = False

    @property
    def passed(self) -> bool:
        """Whether the pipeline's statistics are those of the batch, bit for bit, and so is what the solver says."""
        return self.digests_equal and (self.max_difference == 0.0 or self.refused_alike)


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
        equal = digest == model.digest
        try:
            if self.definition.automatic and model.blend is None:
                # Without shares, which the first plane brings, there is nothing but the candidates.
                fit_candidates(statistics, self.definition)
                return Verification(digest, equal, None)
            batch = plane_of(statistics, self.definition, model.blend)
        except SolveRefused as refused:
            return Verification(digest, equal, None, str(refused) == model.refusal)
        difference = None
        if model.plane is not None and model.refusal is None and batch.classes == model.plane.classes:
            weights = np.abs(batch.weights - model.plane.weights).max()
            difference = float(max(weights, np.abs(batch.biases - model.plane.biases).max()))
        return Verification(digest, equal, difference)
