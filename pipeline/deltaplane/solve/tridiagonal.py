"""Solutions of symmetric systems under many ridges, at the cost of one reduction to tridiagonal form for each matrix.

With ``K = Q T Qᵀ`` and T tridiagonal, ``(K + ridge I)⁻¹ r = Q (T + ridge I)⁻¹ Qᵀ r`` takes time linear in the number of
unknowns for every further ridge, where :mod:`deltaplane.solve.cholesky` factorises anew. Solutions of the two differ by
rounding alone.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from deltaplane.arrays import Floats
from deltaplane.solve.cholesky import SMALLEST_INVERSE_CONDITION, Solutions

__all__ = ["solve_all"]

_BLOCK = 64
"""The number of columns that LAPACK reduces at a time."""


@np.errstate(all="ignore")  # What is not finite is refused.
def solve_all(matrices: Floats, penalties: Floats, ridges: Floats, right_sides: Floats, fitted: int) -> Solutions:
    """Solutions of the leading ``fitted`` equations of n·m systems of D unknowns; the other unknowns are zero.

    ``matrices`` float64[n, D, D] have ``ridges[m] * penalties[n]`` added to their diagonals. ``ridges`` is float64[m].
    ``penalties`` float64[n, D] are above zero, except that the last may be zero: that unknown is eliminated first.
    ``right_sides`` float64[n, D, p]. Unknowns are scaled to penalties of one. An unknown whose row of a matrix is zero
    must have the right side 0, and is 0.

    The condition is that of the tridiagonal matrix in the 1-norm, and exact: a positive definite tridiagonal matrix is
    an M-matrix after changes of the signs of unknowns, so one more solution gives the norm of its inverse.
    """
    (count, dimension, planes), choices = right_sides.shape, len(ridges)
    result = Solutions(
        values=np.zeros((count, choices, dimension, planes)),
        norms=np.zeros((count, choices)),
        inverse_conditions=np.zeros((count, choices)),
        failed_at=np.zeros((count, choices), dtype=np.int64),
        refused=np.ones((count, choices), dtype=np.bool_),
    )
    for at, (matrix, penalty, sides) in enumerate(zip(matrices, penalties, right_sides, strict=True)):
        of_one = Solutions(*(part[at] for part in result))
        if fitted == dimension and penalty[-1] == 0.0:
            weight, last = matrix[-1, -1], matrix[:-1, -1]
            reduced = matrix[:-1, :-1] - last[:, None] * (last / weight)
            _solve_path(reduced, penalty[:-1], ridges, sides[:-1] - last[:, None] * (sides[-1] / weight), of_one)
            of_one.values[:, -1] = (sides[-1] - np.einsum("d,mdp->mp", last, of_one.values[:, :-1])) / weight
        else:
            _solve_path(matrix[:fitted, :fitted], penalty[:fitted], ridges, sides[:fitted], of_one)
    result.refused[...] = ~(
        np.isfinite(result.norms) & (result.inverse_conditions > SMALLEST_INVERSE_CONDITION) & (result.failed_at == 0)
    )
    return result


def _solve_path(matrix: Floats, penalty: Floats, ridges: Floats, sides: Floats, result: Solutions) -> None:
    """Put the solutions for one matrix float64[d, d] into ``result``, which is for that matrix alone."""
    moved = np.flatnonzero(matrix.diagonal())
    if len(moved) < len(matrix):
        matrix, penalty, sides = matrix[np.ix_(moved, moved)], penalty[moved], sides[moved]
    if not len(moved):
        result.norms[:], result.inverse_conditions[:] = ridges, 1.0
        return
    (unknowns, planes), scale = sides.shape, 1.0 / np.sqrt(penalty)
    scaled = matrix * scale
    scaled *= scale[:, None]
    if unknowns == 1:
        result.norms[:] = scaled[0] + ridges
        result.inverse_conditions[:] = result.norms > 0.0
        result.values[:, moved] = (sides * scale**2) / result.norms[:, None, None]
        return
    scaled, diagonal, beside, scales, _ = lapack.dsytrd(scaled.T, lower=1, lwork=_BLOCK * unknowns, overwrite_a=1)
    # The reflectors are stored below the subdiagonal and do not change the first coordinate.
    reflectors = np.asfortranarray(scaled[1:, :-1])
    turned = np.multiply(sides, scale[:, None], order="F")
    turned[1:] = lapack.dormqr("L", "T", reflectors, scales, turned[1:], _BLOCK * planes)[0]
    # The solution for these signs has, in each row, the sum of the magnitudes of the inverse's entries.
    signs = np.cumprod(np.append(1.0, -np.copysign(1.0, beside)))
    both = np.asfortranarray(np.column_stack([turned, signs]))
    solved = np.zeros((unknowns, len(ridges), planes + 1))
    for at, ridge in enumerate(ridges):
        *_, solution, failed = lapack.dptsv(diagonal + ridge, beside, both)
        # By rounding, a semidefinite matrix may have an eigenvalue a little below zero.
        result.failed_at[at] = failed
        if not failed:
            solved[:, at] = solution
    beside = np.abs(beside)
    result.norms[:] = (diagonal + np.append(beside, 0.0) + np.append(0.0, beside)).max() + ridges
    result.inverse_conditions[:] = 1.0 / (result.norms * np.abs(solved[:, :, -1]).max(axis=0))
    flat = np.asfortranarray(solved[:, :, :-1].reshape(unknowns, -1))
    flat[1:] = lapack.dormqr("L", "N", reflectors, scales, flat[1:], _BLOCK * flat.shape[1])[0]
    flat *= scale[:, None]
    result.values[:, moved] = flat.reshape(unknowns, len(ridges), planes).transpose(1, 0, 2)
