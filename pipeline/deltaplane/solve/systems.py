"""The linear systems of planes in standardized units, and the two methods to solve them.

:mod:`deltaplane.solve.cholesky` factorises each matrix for each C. :mod:`deltaplane.solve.tridiagonal` reduces each
matrix once for any number of C. Both take the same systems and refuse by the same rules; their solutions differ by
rounding alone.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.solve import cholesky, tridiagonal

__all__ = ["Method", "System", "Units", "at_mean", "solve_system"]

Method = Literal["cholesky", "tridiagonal"]
"""How a system is solved: ``cholesky`` is faster for one or two choices of C, ``tridiagonal`` for more."""


class System(NamedTuple):
    """The systems of n sets of rows: ``gram`` float64[n, D, D] = Σ σ_c M_c and ``right_sides`` float64[n, D, p].

    Both are for rows [q - centre, -1] ("inside"). ``name``: what errors call it. ``planes``: which of a problem's
    targets it is for. ``sigmas``: label to float64[n].
    """

    name: str
    planes: slice
    gram: Floats
    right_sides: Floats
    sigmas: dict[str, Floats]


class Units(NamedTuple):
    """The penalties in standardized units of m choices of C, for planes inside.

    ``middle`` float64[n, D]: the raw bias of a plane inside is ``middle · plane``. ``penalties`` float64[n, D] times
    each of ``ridges`` float64[m], which are 1/C, are added to the diagonal. Unknowns from ``fitted`` on stay zero.
    """

    middle: Floats
    penalties: Floats
    ridges: Floats
    fitted: int


def at_mean(system: System, fraction: Floats) -> System:
    """The systems for rows moved by ``fraction`` float64[n, D], from the centre to the mean. Overwrites ``gram``."""
    # A move by f adds a fᵀ + f aᵀ with a = G_d + f G_dd / 2, where G_d is the column of the entries -1.
    gram = system.gram
    pairs = np.empty((len(gram), 2, gram.shape[1]))
    pairs[:, 0] = gram[:, -1] + (gram[:, -1, -1:] / 2.0) * fraction
    pairs[:, 1] = fraction
    gram += pairs.swapaxes(1, 2) @ pairs[:, ::-1]
    return system._replace(right_sides=system.right_sides + fraction[:, :, None] * system.right_sides[:, -1:])


def solve_system(gram: Floats, right_sides: Floats, units: Units, method: Method) -> cholesky.Solutions:
    """The solutions, whose ``values`` float64[n, m, D, p] minimise ``½ |change|² + C/2 Σ σ e²`` (paper 5).

    They are changes of linear planes inside, except for the last unknown, which is the change of the raw bias.
    """
    if method == "tridiagonal":
        solutions = tridiagonal.solve_all(gram, units.penalties, units.ridges, right_sides, units.fitted)
    else:
        penalties = units.penalties[:, None, :] * units.ridges[:, None]
        diagonals = gram.diagonal(axis1=1, axis2=2)[:, None] + penalties
        solutions = cholesky.solve_all(gram, diagonals, right_sides, units.fitted)
    solutions.values[:, :, -1] = (units.middle[:, None, None, :] @ solutions.values)[:, :, 0]
    return solutions
