"""A plane before every row: the planes of a sliding window of two classes, many at a time.

The problem: test-then-train row by row needs as many planes as rows, and a plane takes a hundred small array operations
whose cost is the call, not the arithmetic. How it is solved: integers may be added in any order, so the statistics
before every row of a block are one running sum, and the planes of a block are those of one
:class:`deltaplane.solve.solver.Problem`. Each plane is the one that it would be alone, bit for bit.

Only the common case is covered: two classes, no explicit class weights, and sums that fit int64 (:func:`fits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s, Steps
from deltaplane.exact.centring import Stack
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.triangle import layout_of
from deltaplane.solve.decision_values import values_by_own_planes
from deltaplane.solve.last_rows import Rows
from deltaplane.solve.solver import Problem
from deltaplane.solve.solver_options import SolverOptions

__all__ = ["Passage", "Planes", "decide", "fits", "planes_before"]

_BLOCK_ENTRIES = 2**17
"""Entries of the Gram matrices of one side in a block: a megabyte, or eight rows if these have more."""


_SIDES = ("own", "rest")

_LARGEST_SUM = 2.0**61
"""The bound of a sum of squares in floats: below it every entry fits int64, by the Cauchy-Schwarz inequality and with
room for rounding."""


@dataclass(frozen=True, eq=False)
class Passage:
    """Rows that enter a window one after the other, and the rows that they push out.

    ``own`` and ``rest``: the statistics of the window at first, of the rows labelled ``positive`` and of all others.
    ``coming``: the n rows that enter, in their order. ``going``: the k rows that the last k of these push out, in their
    order.
    """

    own: Moments
    rest: Moments
    coming: Rows
    going: Rows
    positive: int | str

    def sides(self, rows: Rows) -> tuple[Flags, Flags]:
        """Two arrays bool[n]: which of n rows are on the positive side, and which are not."""
        own = rows.labels == self.positive
        return own, ~own


@dataclass(frozen=True, eq=False)
class Planes:
    """The planes before each of n rows that enter: ``weights`` float64[n, d] and ``biases`` float64[n] in raw units.

    ``refused`` bool[n]: whether the statistics determine no plane; then its numbers mean nothing.
    """

    weights: Floats
    biases: Floats
    refused: Flags


def fits(options: SolverOptions, passage: Passage) -> bool:
    """Whether :func:`planes_before` can be used with these options and rows."""
    if not isinstance(options.weighting, str):
        return False
    diagonal = layout_of(passage.own.dimension).diagonal
    squares = np.square(passage.coming.quantized, dtype=np.float64).sum(axis=0)
    for side in (passage.own, passage.rest):
        squares += side.in_floats(diagonal)[:-1]
    return bool(squares.max() < _LARGEST_SUM)


def planes_before(passage: Passage, grid: Grid, options: SolverOptions) -> Iterator[Planes]:
    """The planes of the window before each row that enters, block by block. :func:`fits` must be true."""
    sums = [side.low.view(np.int64) for side in (passage.own, passage.rest)]
    step = max(8, _BLOCK_ENTRIES // (grid.features + 1) ** 2)
    for begin in range(0, len(passage.coming), step):
        end = min(begin + step, len(passage.coming))
        before = []
        for side, changes in enumerate(_changes(passage, begin, end)):
            running = np.empty((end - begin + 1, len(sums[side])), dtype=np.int64)
            running[0] = sums[side]
            np.cumsum(changes, axis=0, out=running[1:])
            running[1:] += sums[side]
            sums[side] = running[-1]
            before.append(running[:-1])
        yield _planes(before[0], before[1], grid, options)


def decide(
    passage: Passage, rows: Floats, grid: Grid, options: SolverOptions, last: tuple[Floats, float]
) -> tuple[Floats, Flags]:
    """The decision values float64[n] of the raw ``rows`` [n, d] that enter, each by the plane before it; and bool[n].

    The flags say which planes were refused. For such a row the last plane before it decides, at first ``last``:
    (w float64[d], b).
    """
    decisions, refused, begin = np.empty(len(rows)), np.empty(len(rows), dtype=np.bool_), 0
    for planes in planes_before(passage, grid, options):
        weights, biases, part = planes.weights, planes.biases, slice(begin, begin + len(planes.biases))
        for at in np.flatnonzero(planes.refused).tolist():
            weights[at], biases[at] = (weights[at - 1], biases[at - 1]) if at else last
        decisions[part] = values_by_own_planes(rows[part], weights, biases)
        refused[part] = planes.refused
        begin, last = part.stop, (weights[-1], float(biases[-1]))
    return decisions, refused


def _changes(passage: Passage, begin: int, end: int) -> list[Int64s]:
    """The changes int64[n, P] of the sums of each side by each row from ``begin`` to ``end``: it enters, one leaves."""
    unmoved = len(passage.coming) - len(passage.going)  # This number of rows enters before any leaves.
    first = min(max(begin, unmoved), end)
    entering, leaving = passage.coming[begin:end], passage.going[first - unmoved : end - unmoved]
    products, products_gone = _products(entering.quantized), _products(leaving.quantized)
    changes = []
    for entering_side, leaving_side in zip(passage.sides(entering), passage.sides(leaving), strict=True):
        change = np.where(entering_side[:, None], products, 0)
        change[first - begin :] -= np.where(leaving_side[:, None], products_gone, 0)
        changes.append(change)
    return changes


def _products(rows: Steps) -> Int64s:
    """The packed products int64[n, P] of rows [q, -1] with themselves."""
    extended = np.full((len(rows), rows.shape[1] + 1), -1, dtype=np.int64)
    extended[:, :-1] = rows
    left, right = np.triu_indices(extended.shape[1])
    return extended[:, left] * extended[:, right]


def _planes(own: Int64s, rest: Int64s, grid: Grid, options: SolverOptions) -> Planes:
    """The n planes of the packed Gram matrices int64[n, P] of both sides."""
    live = {side: Stack(entries) for side, entries in zip(_SIDES, (own, rest), strict=True)}
    solved = Problem(live, Stack(own + rest), grid, _SIDES[0]).solve_each(options, [options.C])
    empty = (own[:, -1] <= 0) | (rest[:, -1] <= 0)
    return Planes(solved.weights[:, 0, 0], solved.biases[:, 0, 0], solved.refused[:, 0] | empty)
