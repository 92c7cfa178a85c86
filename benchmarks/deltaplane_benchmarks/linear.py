"""Rows to a plane by the product's own path, grid, exact statistics, solver, in the few steps the experiments need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deltaplane.arrays import Flags, Floats, Int32s, Texts
from deltaplane.exact.grid import Grid
from deltaplane.exact.statistics import Statistics, moments_by_class
from deltaplane.log.confusion import Confusion, Measures, summary
from deltaplane.solve.solver import Plane, solve
from deltaplane.solve.solver_options import SolverOptions

__all__ = [
    "PAPER_OPTIONS",
    "UNWEIGHTED_OPTIONS",
    "coded",
    "flags",
    "in_chunks",
    "measures",
    "plane_of",
    "statistics_of",
    "statistics_of_codes",
]

PAPER_OPTIONS = SolverOptions(kind="wlpsvm", C=1.0, standardize=False)
"""The papers' own setting: weighted by the other class's share, C = 1, penalised in raw units."""

UNWEIGHTED_OPTIONS = SolverOptions(kind="lpsvm", C=1.0, standardize=False)


def statistics_of(rows: Floats, labels: Texts, grid: Grid) -> Statistics:
    """The exact statistics of raw rows float64[n, d]; all must fit the grid."""
    return statistics_of_codes(rows, *coded(labels), grid)


def coded(labels: Texts) -> tuple[Int32s, list[str]]:
    """Labels as indices int32[n] into a sorted list of names."""
    names, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.int32), names.tolist()


def statistics_of_codes(rows: Floats, codes: Int32s, names: list[str], grid: Grid) -> Statistics:
    """The same for labels given as indices into ``names``."""
    quantized, inside = grid.quantize(rows)
    assert inside.all(), "a benchmark's grid is fitted on all of its rows"
    moments = moments_by_class(quantized, codes, names)
    return Statistics(rows.shape[1] + 1, {(0, label): value for label, value in moments.items()})


def in_chunks(rows: Floats, labels: Texts, grid: Grid, cuts: Sequence[int]) -> Statistics:
    """The same, learned chunk by chunk: ``cuts`` are where a new chunk begins."""
    total = Statistics(rows.shape[1] + 1)
    for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        total += statistics_of(rows[start:stop], labels[start:stop], grid)
    return total


def plane_of(statistics: Statistics, grid: Grid, options: SolverOptions, positive: str | None = None) -> Plane:
    """The plane that the statistics imply."""
    return solve(statistics.grams(), grid, options, positive)


def measures(truth: Flags, predicted: Flags) -> Measures:
    """The measures of paper 4, with the true flags as the positive class."""
    return summary(Confusion.of(truth.astype(np.int64), predicted.astype(np.int64), ("rest", "positive")), "positive")


def flags(plane: Plane, rows: Floats, positive: str) -> Flags:
    """bool[n]: which raw rows a plane of two classes takes for the positive one."""
    return np.asarray(np.array(plane.classes)[plane.predict(rows)] == positive)
