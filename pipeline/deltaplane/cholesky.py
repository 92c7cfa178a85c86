"""Solves symmetric positive definite systems by Cholesky, many at a time, and says how well each is conditioned.

What is done entry by entry is done for all matrices at once, and only LAPACK is called one by one: many small array
operations a system cost more than its arithmetic. Each number goes through the same operations however many systems
there are, so that one alone has the same solution, bit for bit, as one among many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

Floats = npt.NDArray[np.float64]

SMALLEST_INVERSE_CONDITION = float(np.finfo(np.float64).eps)
"""LAPACK's own bound for singular to working precision: below it no digit of a solution is known."""


class Solutions(NamedTuple):
    """What n systems came to.

    ``values`` float64[n, D, p], zero where a matrix is not positive definite: then ``failed_at`` has the unknown at
    which that was found, counted from 1, else 0. ``norms`` are 1-norms and ``inverse_conditions`` LAPACK's estimates of
    the scaled matrices. ``refused``: those not positive definite, too ill-conditioned, or not finite.
    """

    values: Floats
    norms: list[float]
    inverse_conditions: list[float]
    failed_at: list[int]
    refused: list[bool]


@np.errstate(all="ignore")  # What is not finite is refused.
def solve_all(matrices: Floats, diagonals: Floats, right_sides: Floats, fitted: int) -> Solutions:
    """Solve the leading ``fitted`` equations of n systems of D, the other unknowns zero.

    ``matrices`` is float64[n, D, D], with ``diagonals`` float64[n, D] in place of their own, and ``right_sides`` is
    float64[n, D, p]; where all systems have the same, float64[1, D, D] and float64[1, D, p] will do. Rows and columns
    are scaled to a unit diagonal first: within a factor D of the best condition that scaling can give.
    """
    count, dimension = diagonals.shape
    if fitted < dimension:
        matrices, diagonals, right_sides = matrices[:, :fitted, :fitted], diagonals[:, :fitted], right_sides[:, :fitted]
    scales = 1.0 / np.sqrt(diagonals)
    scaled = scales[:, :, None] * scales[:, None, :]
    scaled *= matrices
    scaled.reshape(count, -1)[:, :: fitted + 1] = scales * scales * diagonals
    right_sides = scales[:, :, None] * right_sides
    values = np.zeros((count, dimension, right_sides.shape[2]))
    norms, inverse_conditions, failed_at, refused = [], [], [], []
    for at in range(count):
        matrix = scaled[at].T
        norm = lapack.dlange("1", matrix)
        factor, failed = lapack.dpotrf(matrix, clean=0, overwrite_a=1)
        inverse_condition = 0.0
        if not failed:
            inverse_condition = lapack.dpocon(factor, norm)[0]
            values[at, :fitted] = lapack.dpotrs(factor, right_sides[at])[0]
        norms.append(norm)
        inverse_conditions.append(inverse_condition)
        failed_at.append(failed)
        refused.append(not (math.isfinite(norm) and inverse_condition > SMALLEST_INVERSE_CONDITION))
    values[:, :fitted] *= scales[:, :, None]
    return Solutions(values, norms, inverse_conditions, failed_at, refused)
