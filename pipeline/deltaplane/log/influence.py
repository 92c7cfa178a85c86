"""The influence of live rows on a plane and its decision values: the change if the rows were retired; pure.

The plane is a function of the Gram matrices alone, and these are integers. So the plane without some rows is not an
estimate: their products are subtracted, exactly, and the system is solved again. It is the plane that the stream has
when the rows are really retired, and no pass over the other rows is needed. (In the automatic mode, the shares of
candidates are those of the live model: later rows may change them.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.exact.statistics import Statistics, moments_by_class
from deltaplane.log.answers import answer
from deltaplane.log.merger import plane_of
from deltaplane.solve.candidates import Blend
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition

__all__ = ["Influence", "influence", "statistics_of_rows"]


@dataclass(frozen=True, eq=False)
class Influence:
    """The plane with some rows, ``before``, and without them, ``after``; ``statistics`` are without them."""

    definition: StreamDefinition
    before: Plane
    after: Plane
    statistics: Statistics

    def on(self, rows: Floats) -> Floats:
        """float64[n, p]: the changes of the decision values of raw rows float64[n, d]; NaN if a row is refused.

        Raises :class:`DefinitionError` if the two planes are of different classes.
        """
        if self.before.targets != self.after.targets:
            raise DefinitionError(
                f"influence: without these rows the planes are of {list(self.after.targets)}, with them of"
                f" {list(self.before.targets)}; their decision values cannot be compared"
            )
        without, with_them = (answer(plane, self.definition, rows).values for plane in (self.after, self.before))
        return without - with_them


def influence(
    statistics: Statistics, leaving: Statistics, definition: StreamDefinition, blend: Blend | None = None
) -> Influence:
    """The influence of the rows of ``leaving``, which are among those of ``statistics``.

    ``blend``: in the automatic mode, that of the live model. Raises :class:`deltaplane.errors.SolveRefused` if the
    statistics with or without the rows determine no plane.
    """
    left = statistics - leaving
    return Influence(definition, plane_of(statistics, definition, blend), plane_of(left, definition, blend), left)


def statistics_of_rows(
    rows: Floats, labels: Sequence[str], definition: StreamDefinition, windows: Sequence[int] | None = None
) -> Statistics:
    """The statistics of raw rows float64[n, d] with their classes, in the nested ``windows``; None means all windows.

    Raises :class:`DefinitionError` if a row is not on the grid, or if the stream does not have its class.
    """
    filled, _ = definition.filled(np.asarray(rows, dtype=np.float64))
    quantized, fits = definition.grid.quantize(filled)
    classes = [definition.classes.class_of(label) for label in labels]
    if not fits.all() or None in classes:
        raise DefinitionError("influence: expected rows that the stream admits, got others; give live rows")
    names = sorted({str(label) for label in classes})
    codes = np.array([names.index(str(label)) for label in classes], dtype=np.int32)
    parts = moments_by_class(definition.feature_map.apply(quantized), codes, names)
    every = range(len(definition.nested_windows.windows)) if windows is None else windows
    return Statistics(
        definition.dimension, {(window, label): moments for window in every for label, moments in parts.items()}
    )
