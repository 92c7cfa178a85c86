"""What a plane says of raw rows: one rule for whoever asks, so that all of them are told the same.

The scorer, a client's own model and whoever reads an exported one ask about a row as it would be learned. A missing
value is filled in where the definition says so, and a row that no sample could have (a value that is not a number, is
infinite, or lies outside the grid) is refused by name: nothing like it has been learned, and a plane would still say
something.

A decision value is a sum in a fixed order: the products of values and weights, from the first feature to the last, and
then the intercept, each step rounded once to float64. So it is the same bits for one row as for many, on every machine,
and in every language that has float64. A matrix product is not: it adds in an order that follows the number of rows,
and may differ in the last bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltaplane.errors import DefinitionError
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_ENTRIES = 2**16
"""Values looked at in one go: few enough for the cache."""

_MANY_ROWS = 16
"""From so many rows on a turn for each feature is cheaper than one for each row. The bits are the same."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What a plane says of n rows.

    ``chosen`` int64[n] are indices into the plane's classes, -1 where a row is refused; ``values`` float64[n, p] the
    decision values, NaN where it is; ``refusals`` has the reason for each row that is refused, by its place.
    """

    plane: Plane
    chosen: Integers
    values: Floats
    refusals: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def classes(self) -> list[str | None]:
        """The class of each row, None where it is refused."""
        return [None if at < 0 else self.plane.classes[at] for at in self.chosen.tolist()]

    def decisions(self, row: int) -> dict[str, float]:
        """Class label to decision value of one row; of a binary problem the second class has the first one's negative.

        Empty where the row is refused.
        """
        if row in self.refusals:
            return {}
        values = self.values[row].tolist()
        if self.plane.positive is None:
            return dict(zip(self.plane.classes, values, strict=True))
        return {label: values[0] if label == self.plane.positive else -values[0] for label in self.plane.classes}


def answer(plane: Plane, definition: StreamDefinition, rows: Floats) -> Answers:
    """What a plane of the definition's stream says of raw rows float64[n, d], in the order of its features.

    Raises :class:`DefinitionError` for rows of another number of features.
    """
    features = len(definition.features)
    if rows.ndim != 2 or rows.shape[1] != features:
        raise DefinitionError(
            f"rows: expected numbers [n, {features}], got {list(rows.shape)}; give the features in the definition's"
            " order"
        )
    values, chosen = np.full((len(rows), len(plane.biases)), np.nan), np.full(len(rows), -1, dtype=np.int64)
    refusals: dict[int, str] = {}
    for piece in definition.feature_map.pieces(len(rows)):
        part = rows[piece]
        if definition.missing == "offset":
            part = np.where(np.isnan(part), definition.grid.offsets, part)
        _, fits = definition.grid.place(part)
        kept = np.flatnonzero(fits)
        decided = decision_values(plane, definition.plane_inputs(part[kept])[0])
        # Nothing that was learned leads there: a weight has been found on values of this grid.
        finite = np.isfinite(decided).all(axis=1)
        values[piece.start + kept[finite]] = decided[finite]
        chosen[piece.start + kept[finite]] = plane.choose(decided[finite])
        for row in np.flatnonzero(~fits).tolist():
            refusals[piece.start + row] = definition.grid.fault(part[row], definition.features)
        for row in kept[~finite].tolist():
            refusals[piece.start + row] = "the decision value is beyond float64; look at the weights of the model"
    return Answers(plane, chosen, values, refusals)


def decision_values(plane: Plane, inputs: Floats) -> Floats:
    """Decision values float64[n, p] of what a plane is asked about, float64[n, D-1], added in the fixed order."""
    values = np.empty((len(inputs), len(plane.biases)))
    rows = max(1, _ENTRIES // inputs.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(inputs), rows):
            block = inputs[start : start + rows]
            add = _by_feature if len(block) >= _MANY_ROWS else _by_row
            values[start : start + rows] = add(block, plane.weights) - plane.biases
    return values


def _by_feature(rows: Floats, weights: Floats) -> Floats:
    """The sums float64[n, p], a feature of all rows at a time: fast where there are many rows."""
    total = np.multiply.outer(rows[:, 0], weights[:, 0])
    for column, of_planes in zip(np.ascontiguousarray(rows.T)[1:], weights.T[1:], strict=True):
        total += np.multiply.outer(column, of_planes)
    return total


def _by_row(rows: Floats, weights: Floats) -> Floats:
    """The same sums, a plane at a time: fast where there are few rows. An accumulated sum is added one by one."""
    return np.stack([np.add.accumulate(rows * of_plane, axis=1)[:, -1] for of_plane in weights], axis=1)
