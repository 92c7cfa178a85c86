"""Planes in rational arithmetic: what a solver in floats is held against."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from deltaplane.arrays import Flags, Floats, Quantized
from deltaplane.exact.grid import Grid
from deltaplane.solve.solver_options import SolverOptions

as_fractions = np.vectorize(Fraction, otypes=[object])


def exact_plane(
    quantized: Quantized, own: Flags, grid: Grid, options: SolverOptions, times: Sequence[int] | None = None
) -> Floats:
    """[w; b] in raw units, in rational arithmetic, rounded at the very end; for inverse weights or none.

    ``quantized`` are grid rows [n, d], each of them there so many ``times``; ``own`` says which are of the positive
    side.
    """
    often = as_fractions(np.ones(len(own)) if times is None else np.array(times, dtype=np.float64))
    rows = often.sum()
    X = as_fractions(grid.offsets) + as_fractions(grid.steps) * as_fractions(quantized)
    middle, spread = as_fractions(np.zeros(X.shape[1])), as_fractions(np.ones(X.shape[1]))
    if options.standardize:
        middle = (often[:, None] * X).sum(axis=0) / rows
        spread = (often[:, None] * (X - middle) ** 2).sum(axis=0) / rows
        # A constant column's deviation is one step.
        spread = np.where(spread == 0, as_fractions(grid.steps) ** 2, spread)
    unknowns = X.shape[1] + (options.bias != "none")
    E = np.column_stack([X - middle, as_fractions(-np.ones(len(X)))])[:, :unknowns]
    sigma = as_fractions(np.ones(len(own)))
    if options.weighting == "inverse":
        share = often[own].sum() / rows
        sigma[own], sigma[~own] = 1 - share, share
    sigma = sigma * often
    penalty = np.append(spread, as_fractions(options.bias == "regularised"))[:unknowns] / Fraction(options.C)
    system = np.column_stack([(E.T * sigma) @ E + np.diag(penalty), (E.T * sigma) @ np.where(own, 1, -1)])
    for i in range(unknowns):  # Gauss and Jordan; a positive definite matrix needs no pivots.
        system[i] = system[i] / system[i, i]
        for row in set(range(unknowns)) - {i}:
            system[row] = system[row] - system[row, i] * system[i]
    w, b = system[: len(middle), -1], system[-1, -1] if unknowns > len(middle) else Fraction(0)
    return np.append(w, b + w @ middle).astype(np.float64)
