"""Deviations of features from Gram matrices, and weights that can be ranked by them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import strategies
from deltaplane.arrays import Int64s
from deltaplane.exact.deviations import deviations, ranked, standardized
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.solve.solver import solve
from deltaplane.solve.solver_options import SolverOptions


def unit_grid(features: int) -> Grid:
    return Grid(np.ones(features), np.zeros(features), range_bits=45)


@given(strategies.grid_rows())
@example(np.array([[2**29 + 1], [2**29]]))
def test_the_deviation_is_the_root_of_the_exact_variance(rows: Int64s) -> None:
    found = deviations([Moments.of_rows(rows)], unit_grid(rows.shape[1]))
    for column, deviation in zip(rows.T.tolist(), found.tolist(), strict=True):
        mean = Fraction(sum(column), len(column)) if column else Fraction(0)
        variance = sum(((value - mean) ** 2 for value in column), Fraction(0)) / max(1, len(column))
        assert deviation == math.sqrt(float(variance))


@given(strategies.row_sets(3))
def test_only_the_rows_count_and_not_how_they_lie_in_classes_or_what_has_left(rows: tuple[Int64s, ...]) -> None:
    grid = unit_grid(rows[0].shape[1])
    parts = [Moments.of_rows(part) for part in rows]
    whole = deviations([Moments.of_rows(np.concatenate(rows))], grid)
    assert deviations(parts, grid).tobytes() == whole.tobytes()
    assert deviations(reversed(parts), grid).tobytes() == whole.tobytes()
    left = deviations([parts[0] + parts[1] - parts[1]], grid)
    assert left.tobytes() == deviations(parts[:1], grid).tobytes()


@given(strategies.grid_rows(), st.integers(-(2**29), 2**29))
def test_where_a_feature_lies_does_not_change_how_far_it_spreads(rows: Int64s, shift: int) -> None:
    grid, rows = unit_grid(rows.shape[1]), rows // 2
    near, far = deviations([Moments.of_rows(rows)], grid), deviations([Moments.of_rows(rows + shift)], grid)
    assert near.tobytes() == far.tobytes()


def test_a_constant_feature_has_none_and_neither_has_a_stream_without_rows() -> None:
    rows = np.full((7, 2), 2**29 - 1)
    assert deviations([Moments.of_rows(rows)], unit_grid(2)).tolist() == [0.0, 0.0]
    assert deviations([], unit_grid(2)).tolist() == [0.0, 0.0]


@given(st.integers(0, 2**32 - 1), st.integers(-40, 40))
def test_standardized_weights_do_not_depend_on_the_unit_of_a_feature(seed: int, power: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(-1000, 1000, (40, 2))
    grams = {"a": Moments.of_rows(rows[:15]), "b": Moments.of_rows(rows[15:])}
    found = []
    for grid in (Grid(np.ones(2), np.zeros(2)), Grid(np.array([1.0, 2.0**power]), np.zeros(2))):
        plane = solve(grams, grid, SolverOptions())
        found.append(standardized(plane.weights, deviations(grams.values(), grid)))
    assert found[0].tobytes() == found[1].tobytes()


def test_a_wide_feature_that_decides_is_above_narrow_ones_that_do_not() -> None:
    random = np.random.default_rng(20)
    wide = np.concatenate([random.normal(-20_000, 8_000, 200), random.normal(20_000, 8_000, 200)])
    noise = random.normal(0.0, 0.01, (400, 11))
    grid = Grid(np.array([2.0**-3, *[2.0**-20] * 11]), np.zeros(12))
    quantized, fits = grid.quantize(np.column_stack([wide, noise]))
    assert fits.all()
    grams = {"a": Moments.of_rows(quantized[:200]), "b": Moments.of_rows(quantized[200:])}
    weights = solve(grams, grid, SolverOptions()).weights[0]
    assert np.abs(weights).argmin() == 0, "in raw units it looks the least of all"
    assert ranked(standardized(weights, deviations(grams.values(), grid))[None])[0] == 0


def test_features_are_ranked_by_the_largest_weight_of_any_plane_and_equal_ones_stay_in_order() -> None:
    assert ranked(np.array([[1.0, -5.0, 1.0, 0.0], [2.0, 0.0, -2.0, 3.0]])).tolist() == [1, 3, 0, 2]
