"""Many systems at once are each the system alone, bit for bit, and each is judged by itself."""

from __future__ import annotations

import numpy as np
import pytest

from deltaplane.arrays import Floats
from deltaplane.solve import cholesky
from deltaplane.solve.cholesky import solve_all


def systems(seed: int, count: int, unknowns: int) -> tuple[Floats, Floats]:
    """Positive definite matrices float64[n, D, D] whose rows differ in size, and right sides float64[n, D, 2]."""
    random = np.random.default_rng(seed)
    sizes = 10.0 ** random.uniform(-4, 4, size=(count, unknowns))
    rows = random.normal(size=(count, 2 * unknowns, unknowns)) * sizes[:, None, :]
    return rows.swapaxes(1, 2) @ rows, random.normal(size=(count, unknowns, 2))


@pytest.mark.parametrize("unknowns", [1, 2, 7, 33])
def test_a_system_among_many_has_the_solution_that_it_has_alone_bit_for_bit(unknowns: int) -> None:
    matrices, right_sides = systems(unknowns, 5, unknowns)
    diagonals = matrices.diagonal(axis1=1, axis2=2)[:, None] * np.array([[1.5], [4.0]])
    together = solve_all(matrices, diagonals, right_sides, unknowns)
    for n, m in np.ndindex(5, 2):
        one, choice = slice(n, n + 1), slice(m, m + 1)
        alone = solve_all(matrices[one], diagonals[one, choice], right_sides[one], unknowns)
        assert alone.values.tobytes() == together.values[one, choice].tobytes()
        assert alone.inverse_conditions == together.inverse_conditions[one, choice]
        assert not together.refused[n, m]
        matrix = matrices[n].copy()
        np.fill_diagonal(matrix, diagonals[n, m])
        residual = matrix @ together.values[n, m] - right_sides[n]
        assert np.abs(residual).max() < 1e-9 * np.abs(right_sides[n]).max() * np.abs(matrix).max()


@pytest.mark.parametrize("most", [1, 36, 71, 72, 100, 216, 10_000])
def test_how_many_systems_are_scaled_at_once_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    matrices, right_sides = systems(3, 4, 6)
    diagonals = matrices.diagonal(axis1=1, axis2=2)[:, None] * np.array([[1.1], [2.0], [5.0]])
    expected = solve_all(matrices, diagonals, right_sides, 6)
    monkeypatch.setattr(cholesky, "_ENTRIES_AT_ONCE", most)
    found = solve_all(matrices, diagonals, right_sides, 6)
    assert found.values.tobytes() == expected.values.tobytes()
    assert found.norms.tobytes() == expected.norms.tobytes()


def test_unknowns_that_are_not_fitted_are_zero_and_the_others_those_of_the_smaller_system() -> None:
    matrices, right_sides = systems(4, 3, 5)
    diagonals = matrices.diagonal(axis1=1, axis2=2)[:, None]
    part = solve_all(matrices, diagonals, right_sides, 4)
    small = solve_all(matrices[:, :4, :4].copy(), diagonals[..., :4].copy(), right_sides[:, :4].copy(), 4)
    assert not part.values[:, :, 4].any()
    assert part.values[:, :, :4].tobytes() == small.values.tobytes()


def test_a_bad_system_is_refused_and_says_where_and_the_good_ones_beside_it_are_solved() -> None:
    matrices, right_sides = systems(5, 4, 3)
    good = solve_all(matrices, matrices.diagonal(axis1=1, axis2=2)[:, None], right_sides, 3)
    matrices[1] = 1.0  # Three equal rows.
    matrices[2, 0, 2] = matrices[2, 2, 0] = np.nan
    diagonals = matrices.diagonal(axis1=1, axis2=2)[:, None].copy()
    diagonals[3, 0, 1] = -1.0
    found = solve_all(matrices, diagonals, right_sides, 3)
    assert found.refused[:, 0].tolist() == [False, True, True, True]
    assert found.failed_at[1, 0] == 2
    assert found.values[0].tobytes() == good.values[0].tobytes()
