"""Reasons for a decision value: the contribution of each column, compared with the mean of the live rows; pure.

Without a feature map, a decision value is a sum, and so is its difference from that of the mean of the live rows: a
column contributes its weight times its difference from the mean. The features that an encoder makes of one column give
one contribution.

With a map, columns have no terms of their own. Columns are moved one after the other from the centre of the map to
their values in the row. The contribution of a column is the change of the decision value, averaged over two orders:
that of the columns and its reverse. These contributions add up, too, and depend on the two orders alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats, Int64s, Positions
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition

__all__ = ["LARGEST", "Reasons", "reasons", "source_columns"]

LARGEST = 4
"""The number of contributions in an answer if reasons are asked for."""


@dataclass(frozen=True, eq=False)
class Reasons:
    """The contributions of c columns to the decision values of n rows, each for the class that was predicted.

    ``contributions`` float64[n, c], NaN if a row has no answer. ``bases`` float64[n]: the decision value of the mean of
    the live rows, or with a map that of its centre. A base and the contributions of its row add up to the decision
    value, except for rounding.
    """

    columns: tuple[str, ...]
    bases: Floats
    contributions: Floats

    def largest(self, row: int, most: int = LARGEST) -> list[tuple[str, float]]:
        """The ``most`` columns with the largest contributions to one row, of either sign, the largest first."""
        values = self.contributions[row]
        order = np.argsort(-np.abs(np.nan_to_num(values)), kind="stable")[:most]
        told = [(self.columns[at], float(values[at])) for at in order.tolist()]
        return [(column, value) for column, value in told if value and not np.isnan(value)]


def source_columns(definition: StreamDefinition) -> tuple[tuple[str, ...], Positions]:
    """The columns of the table that rows come from, and for each feature the index of its column, intp[d]."""
    if definition.columns is None:
        return definition.features, np.arange(len(definition.features))
    rules = definition.columns.rules
    return definition.columns.columns, np.repeat(np.arange(len(rules)), [len(rule.features) for rule in rules])


def reasons(plane: Plane, definition: StreamDefinition, rows: Floats, chosen: Int64s) -> Reasons | None:
    """The reasons why raw rows float64[n, d] have the classes ``chosen`` int64[n], -1 if a row has none.

    None if there is no map and the plane has no means of the live rows, as in models of earlier versions.
    """
    columns, of_column = source_columns(definition)
    if definition.feature_map.kind == "none" and plane.means is None:
        return None
    there = np.flatnonzero(chosen >= 0)
    bases, parts = np.full(len(rows), np.nan), np.full((len(rows), len(columns)), np.nan)
    filled, _ = definition.filled(rows)
    with np.errstate(over="ignore", invalid="ignore"):  # Contributions that overflow are left as they are.
        for at in np.unique(chosen[there]).tolist():
            of_class = there[chosen[there] == at]
            toward = _toward(plane, at)
            if definition.feature_map.kind == "none":
                assert plane.means is not None, "looked at above"
                terms = (filled[of_class] - plane.means) * toward.weights[0]
                bases[of_class] = toward.decide(plane.means[None])[0, 0]
                sums = np.zeros((len(of_class), len(columns)))
                np.add.at(sums.T, of_column, terms.T)
                parts[of_class] = sums
            else:
                for row in of_class.tolist():
                    bases[row], parts[row] = _moved(toward, definition, filled[row], of_column)
    return Reasons(columns, bases, parts)


def _toward(plane: Plane, at: int) -> Plane:
    """The one plane with the class at index ``at`` on its positive side."""
    found = plane.row_of(plane.classes[at])
    assert found is not None, "a class of the plane has a plane"
    label, rest = plane.classes[at], next(other for other in plane.classes if other != plane.classes[at])
    weights, bias = found
    return Plane(
        classes=tuple(sorted((label, rest))),
        positive=label,
        weights=weights[None],
        biases=np.array([bias]),
        sigmas={},
        C=plane.C,
        condition=plane.condition,
        counts={},
    )


def _moved(plane: Plane, definition: StreamDefinition, row: Floats, of_column: Positions) -> tuple[float, Floats]:
    """(decision value of the centre of the map, contribution float64[c] of each column as it moves to the row)."""
    centre = definition.grid.values(np.array([definition.feature_map.centers], dtype=np.int64))[0]
    columns = int(of_column.max()) + 1
    total, base = np.zeros(columns), 0.0
    for order in (np.arange(columns), np.arange(columns)[::-1]):
        rank = np.empty(columns, dtype=np.intp)
        rank[order] = np.arange(columns)
        # Row s of these has the row's values in the first s columns of the order, and the centre in the others.
        stages = np.where(rank[of_column][None, :] < np.arange(columns + 1)[:, None], row, centre)
        inputs, _ = definition.plane_inputs(stages)
        decisions = plane.decide(inputs)[:, 0]
        total[order] += np.diff(decisions)
        base = float(decisions[0])
    return base, total / 2.0
