"""``bench statistics``, second table: what a new model costs once the statistics are there.

A solve from the exact Gram matrices against one Cholesky factorisation of a matrix as large, which is what any solver
needs; and C by five folds and 17 candidates against a solve with C given. Paired, in rounds, on one thread:
milliseconds are by the clock, the best of all rounds, and ratios those of processor time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.moments import Moments
from deltaplane.solve.cross_validation import FOLDS, choose_c, folds_of
from deltaplane.solve.solver import solve
from deltaplane.solve.solver_options import SolverOptions
from deltaplane_benchmarks.speed.made_rows import make_rows
from deltaplane_benchmarks.speed.pairs import Ratio, in_rounds

__all__ = [
    "LEAST_ROWS",
    "ROWS_A_FEATURE",
    "SECONDS_AT_MOST",
    "Grams",
    "Refreshed",
    "Weighting",
    "refresh",
    "statistics_by_fold",
]

ROWS_A_FEATURE, LEAST_ROWS = 4, 3_000
SECONDS_AT_MOST = 3.0

Grams = dict[str, Moments]
Weighting = Literal["inverse", "none"]


@dataclass(frozen=True)
class Refreshed:
    """Milliseconds, the best of all rounds, and ratios of the work that stood side by side in a round."""

    features: int
    classes: int
    weighting: str
    cholesky: float
    solve: float
    choose: float
    solve_to_cholesky: Ratio
    choose_to_solve: Ratio
    chosen: float


def statistics_by_fold(features: int, classes: int, seed: int) -> tuple[list[Grams], Grid]:
    """For each fold, the Gram matrix of each class, of rows made from a seed."""
    table = make_rows(max(ROWS_A_FEATURE * features, LEAST_ROWS), features, seed)
    # More classes than two: those that the plane tells apart, each parted at random.
    codes = table.codes + 2 * np.random.default_rng(seed).integers(0, (classes + 1) // 2, len(table))
    codes %= classes
    grid = fit_grid(table.features)
    quantized = grid.quantize(table.features)[0]
    folds = folds_of(quantized)
    labels = range(classes)
    by_fold = [
        {str(label): Moments.of_rows(quantized[(folds == fold) & (codes == label)]) for label in labels}
        for fold in range(FOLDS)
    ]
    return by_fold, grid


def refresh(features: int, classes: int, weighting: Weighting, rounds: int, seed: int) -> Refreshed:
    """Time one kind of stream."""
    folds, grid = statistics_by_fold(features, classes, seed)
    whole = folds[0]
    for fold in folds[1:]:
        whole = {label: whole[label] + moments for label, moments in fold.items()}
    options = SolverOptions(kind="lpsvm" if weighting == "none" else "wlpsvm", weighting=weighting)
    random = np.random.default_rng(seed).standard_normal((features, features))
    definite = np.asfortranarray(random @ random.T + features * np.eye(features))
    with threadpool_limits(1):
        short = in_rounds(
            {
                "cholesky": lambda: lapack.dpotrf(definite.copy(order="F"), overwrite_a=1),
                "solve": lambda: solve(whole, grid, options),
            },
            20 * rounds,
            SECONDS_AT_MOST,
        )
        long = in_rounds(
            {"solve": lambda: solve(whole, grid, options), "choose": lambda: choose_c(folds, grid, options)},
            rounds,
            SECONDS_AT_MOST,
        )
        chosen = choose_c(folds, grid, options).C
    return Refreshed(
        features,
        classes,
        weighting,
        1e3 * short.best("cholesky"),
        1e3 * short.best("solve"),
        1e3 * long.best("choose"),
        short.ratio_of_work("solve", "cholesky"),
        long.ratio_of_work("choose", "solve"),
        chosen,
    )
