"""Solutions of symmetric positive definite systems by Cholesky, many at a time, with their condition estimates.

Elementwise operations run on all matrices at once, and only LAPACK is called for each one: many small array operations
per system would cost more than its arithmetic. Each number goes through the same operations however many systems there
are, so a system has the same solution, bit for bit, alone and among many.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.exact.blocks import tiles

__all__ = ["SMALLEST_INVERSE_CONDITION", "Solutions", "solve_all"]

SMALLEST_INVERSE_CONDITION = float(np.finfo(np.float64).eps)
"""LAPACK's bound for "singular to working precision": below it, no digit of a solution is certain."""

_ENTRIES_AT_ONCE = 2**17
"""Entries of the scaled matrices held at once: a megabyte, or one matrix if it is larger."""


class Solutions(NamedTuple):
    """Solutions of n·m linear systems: m diagonals for each of n matrices.

    ``values`` float64[n, m, D, p], zero if a matrix is not positive definite. ``failed_at`` int64[n, m]: the unknown at
    which that was found, counted from 1, else 0. ``norms`` float64[n, m]: 1-norms of the scaled matrices.
    ``inverse_conditions`` float64[n, m]: their inverse condition numbers, as LAPACK estimates them. ``refused``
    bool[n, m]: whether the matrix is not positive definite, too ill-conditioned, or not finite.
    """

    values: Floats
    norms: Floats
    inverse_conditions: Floats
    failed_at: Int64s
    refused: Flags

    def refusal(self, name: str, at: tuple[int, int], fitted: int) -> str:
        """The reason why the system ``at`` (n, m), called ``name`` and with ``fitted`` unknowns, has no solution."""
        failed_at = self.failed_at[at]
        what = f"not positive definite at unknown {failed_at} of {fitted}" if failed_at else "all but singular"
        return (
            f"solve: the matrix of {name} is {what} (1-norm {self.norms[at]:.3g}, inverse condition "
            f"{self.inverse_conditions[at]:.3g}, expected above {SMALLEST_INVERSE_CONDITION:.3g}); lower C, or leave"
            " out features that repeat others"
        )


@np.errstate(all="ignore")  # What is not finite is refused.
def solve_all(matrices: Floats, diagonals: Floats, right_sides: Floats, fitted: int) -> Solutions:
    """Solutions of the leading ``fitted`` equations of n·m systems of D unknowns; the other unknowns are zero.

    Each of ``matrices`` float64[n, D, D] is solved with each of its ``diagonals`` float64[n, m, D] in place of its own,
    for ``right_sides`` float64[n, D, p]. Rows and columns are scaled to a unit diagonal first: that gives a condition
    within a factor D of the best that scaling can give.
    """
    count, choices, dimension = diagonals.shape
    if fitted < dimension:
        matrices, diagonals, right_sides = (
            matrices[:, :fitted, :fitted],
            diagonals[..., :fitted],
            right_sides[:, :fitted],
        )
    values = np.zeros((count, choices, dimension, right_sides.shape[2]))
    norms, inverse_conditions = np.zeros((2, count, choices))
    failed_at = np.zeros((count, choices), dtype=np.int64)
    scales = 1.0 / np.sqrt(diagonals)
    for sets, chosen in tiles(count, choices, fitted * fitted, _ENTRIES_AT_ONCE):
        part = scales[sets, chosen]
        scaled = part[..., :, None] * part[..., None, :]
        scaled *= matrices[sets, None]
        scaled.reshape(*part.shape[:2], -1)[..., :: fitted + 1] = part * part * diagonals[sets, chosen]
        scaled_right_sides = part[..., None] * right_sides[sets, None]
        for n, m in itertools.product(range(len(part)), range(part.shape[1])):
            at, matrix = (sets.start + n, chosen.start + m), scaled[n, m].T
            norms[at] = norm = lapack.dlange("1", matrix)
            factor, failed = lapack.dpotrf(matrix, clean=0, overwrite_a=1)
            failed_at[at] = failed
            if not failed:
                inverse_conditions[at] = lapack.dpocon(factor, norm)[0]
                values[at][:fitted] = lapack.dpotrs(factor, scaled_right_sides[n, m])[0]
    values[..., :fitted, :] *= scales[..., None]
    refused = ~(np.isfinite(norms) & (inverse_conditions > SMALLEST_INVERSE_CONDITION))
    return Solutions(values, norms, inverse_conditions, failed_at, refused)
