"""C is chosen by the planes that the solver has: one rule for units, constant features and refusals, two methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import strategies
from deltaplane.arrays import Int64s
from deltaplane.errors import SolveRefused
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.solve.solver import Plane, Problem, solve
from deltaplane.solve.solver_options import SolverOptions

LABELS = ("a", "b", "c")
CHOICES = (1e-4, 0.03, 1.0, 1e4)
WELL_CONDITIONED = 1e12


@st.composite
def sets_of_rows(draw: st.DrawFn) -> dict[str, Int64s]:
    """Grid rows of two or three classes; some features are constant, and some but for one row."""
    features = draw(st.integers(1, 5))
    rows = {label: draw(strategies.grid_rows(features, 12, min_rows=1)) for label in LABELS[: draw(st.integers(2, 3))]}
    for feature in range(features):
        kind = draw(st.sampled_from(["any", "constant", "constant but for one row"]))
        if kind != "any":
            value = draw(strategies.grid_values())
            for part in rows.values():
                part[:, feature] = value
        if kind == "constant but for one row":
            rows["a"][0, feature] = draw(strategies.grid_values())
    return rows


@st.composite
def solver_options(draw: st.DrawFn) -> SolverOptions:
    options = draw(strategies.solver_options())
    if not isinstance(options.weighting, str):
        weights = draw(st.fixed_dictionaries({label: st.floats(0.1, 10.0) for label in LABELS}))
        options = replace(options, weighting=weights)
    return options


def alone(grams: dict[str, Moments], grid: Grid, options: SolverOptions) -> Plane | None:
    try:
        return solve(grams, grid, options)
    except SolveRefused:
        return None


@given(sets_of_rows(), solver_options())
def test_planes_for_all_choices_of_c_are_those_of_the_solver_at_each_c(
    rows: dict[str, Int64s], options: SolverOptions
) -> None:
    features = rows["a"].shape[1]
    grams, grid = (
        {label: Moments.of_rows(part) for label, part in rows.items()},
        Grid(np.ones(features), np.zeros(features)),
    )
    quantized = np.concatenate(list(rows.values()))
    many = Problem.of([grams], grid).solve_each(options, CHOICES, method="tridiagonal")
    compared = 0
    for at, C in enumerate(CHOICES):
        plane = alone(grams, grid, replace(options, C=C))
        conditions = [] if plane is None else [plane.condition]
        conditions += [] if many.refused[0, at] else [float(many.conditions[0, at])]
        condition = max(conditions, default=np.inf)
        if condition > WELL_CONDITIONED:
            continue
        assert plane is not None
        assert not many.refused[0, at]
        compared += 1
        found = replace(plane, weights=many.weights[0, at], biases=many.biases[0, at])
        size = np.abs(plane.weights) @ np.abs(quantized).max(axis=0) + np.abs(plane.biases) + 1.0
        np.testing.assert_array_less(
            np.abs(found.decide(quantized) - plane.decide(quantized)) / size, 1e-14 * condition
        )
        constant = (quantized == quantized[0]).all(axis=0)
        if options.standardize:
            assert not found.weights[:, constant].any()
            assert not plane.weights[:, constant].any()
    assume(compared)
