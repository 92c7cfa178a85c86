"""Many ridges from one tridiagonal form: the solutions, refusals and conditions of each system done alone."""

from __future__ import annotations

import numpy as np
import pytest

from deltaplane.arrays import Floats
from deltaplane.solve import cholesky
from deltaplane.solve.tridiagonal import solve_all

RIDGES = np.array([1e-3, 0.5, 20.0])


def systems(unknowns: int, count: int = 3) -> tuple[Floats, Floats, Floats]:
    """Semidefinite matrices float64[n, D, D], penalties float64[n, D], and right sides float64[n, D, 2] in reach."""
    random = np.random.default_rng(unknowns)
    sizes = 10.0 ** random.uniform(-3, 3, size=(count, unknowns))
    rows = random.normal(size=(count, 3 * unknowns, unknowns)) * sizes[:, None, :]
    return rows.swapaxes(1, 2) @ rows, sizes**2, rows.swapaxes(1, 2) @ random.normal(size=(count, 3 * unknowns, 2))


def by_cholesky(matrices: Floats, penalties: Floats, right_sides: Floats, fitted: int) -> cholesky.Solutions:
    diagonals = matrices.diagonal(axis1=1, axis2=2)[:, None] + penalties[:, None] * RIDGES[:, None]
    return cholesky.solve_all(matrices, diagonals, right_sides, fitted)


@pytest.mark.parametrize("eliminated", [False, True])
@pytest.mark.parametrize("left_out", [0, 1])
@pytest.mark.parametrize("unknowns", [2, 3, 8, 140])
def test_solutions_are_those_of_cholesky(unknowns: int, left_out: int, eliminated: bool) -> None:  # noqa: FBT001
    matrices, penalties, right_sides = systems(unknowns)
    if eliminated:
        penalties[:, -1] = 0.0
    found = solve_all(matrices, penalties, RIDGES, right_sides, unknowns - left_out)
    expected = by_cholesky(matrices, penalties, right_sides, unknowns - left_out)
    sizes = np.sqrt(matrices.diagonal(axis1=1, axis2=2))[:, None, :, None]
    np.testing.assert_allclose(found.values * sizes, expected.values * sizes, rtol=1e-9, atol=1e-9)
    assert not found.refused.any()
    assert not found.values[:, :, unknowns - left_out :].any()


@pytest.mark.parametrize("unknowns", [1, 2, 3, 9])
def test_the_condition_of_the_tridiagonal_form_lies_between_those_of_the_norms_around_it(unknowns: int) -> None:
    matrices, penalties, right_sides = systems(unknowns)
    found = solve_all(matrices, penalties, RIDGES, right_sides, unknowns)
    for n, m in np.ndindex(found.norms.shape):
        scale = 1.0 / np.sqrt(penalties[n])
        system = matrices[n] * scale * scale[:, None] + RIDGES[m] * np.eye(unknowns)
        condition = np.linalg.cond(system, 2)
        # An orthogonal change of coordinates keeps the 2-norm; a symmetric matrix's 1-norm is never below it.
        assert condition * 0.999 < 1.0 / found.inverse_conditions[n, m] < 3.001 * condition


def test_the_inverse_of_a_tridiagonal_matrix_has_exactly_the_norm_that_is_reported() -> None:
    matrix = np.array([[4.0, 1.5], [1.5, 1.0]])
    (found,) = solve_all(matrix[None], np.ones((1, 2)), np.array([0.25]), np.ones((1, 2, 1)), 2).inverse_conditions
    assert found[0] == pytest.approx(1.0 / np.linalg.cond(matrix + 0.25 * np.eye(2), 1), rel=1e-14)


def test_an_unknown_that_no_row_moves_is_zero_and_spoils_no_condition() -> None:
    matrices, penalties, right_sides = systems(6)
    matrices[:, 2], matrices[:, :, 2], right_sides[:, 2] = 0.0, 0.0, 0.0
    penalties[:, 2] = 1e-300
    found = solve_all(matrices, penalties, RIDGES, right_sides, 6)
    rest = [0, 1, 3, 4, 5]
    alone = solve_all(matrices[:, rest][:, :, rest], penalties[:, rest], RIDGES, right_sides[:, rest], 5)
    assert not found.values[:, :, 2].any()
    np.testing.assert_allclose(found.values[:, :, rest], alone.values, rtol=1e-9)
    np.testing.assert_allclose(found.inverse_conditions, alone.inverse_conditions, rtol=0.5)


@pytest.mark.parametrize("value", [-1e3, np.nan, np.inf])
def test_what_is_not_positive_definite_or_not_finite_is_refused_and_others_are_not(value: float) -> None:
    matrices, penalties, right_sides = systems(5)
    matrices[1] = np.diag(penalties[1] + value)
    found = solve_all(matrices, penalties, RIDGES, right_sides, 5)
    assert found.refused.tolist() == [[False] * 3, [True] * 3, [False] * 3]


def test_what_is_all_but_singular_is_refused() -> None:
    ones = np.full((1, 4, 4), 1e6)
    found = solve_all(ones, np.ones((1, 4)), np.array([1e-12, 1.0]), np.ones((1, 4, 1)), 4)
    assert found.refused.tolist() == [[True, False]]
