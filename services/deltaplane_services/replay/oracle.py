"""``--verify``: an independent recomputation from the same rows, compared with the model bit by bit."""

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
    """The comparison of a model with a fit from scratch on the live rows.

    ``digest`` is that of the live rows from scratch. ``max_difference`` is the largest absolute difference of a weight
    or bias; None if there are no two planes to compare. ``refused_alike``: the fit from scratch gives no plane either,
    for the same reason.
    """

    digest: str
    digests_equal: bool
    max_difference: float | None
    refused_alike: bool = False

    @property
    def passed(self) -> bool:
        """Whether the statistics are equal bit for bit, and so are the planes.

        Planes also count as equal if both solves were refused for the same reason.
        """
        return self.digests_equal and (self.max_difference == 0.0 or self.refused_alike)


class Oracle:
    """Collects what was published, and compares the result with a model at the end. It holds every live row."""

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self._reference = Reference(definition)

    def note(self, published: Published) -> None:
        """Note what was published."""
        for batch in published.batches:
            self._reference.add(batch.partition, batch.samples)
        for sample_id in published.retired:
            self._reference.retire(sample_id)

    def verify(self, model: Model) -> Verification:
        """Refit from the live rows alone, and compare with ``model``."""
        statistics = self._reference.statistics()
        digest = statistics.digest(self.definition.data_fingerprint)
        equal = digest == model.digest
        try:
            if self.definition.automatic and model.blend is None:
                # The first plane brings the shares; before it only the candidates can be fitted.
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
