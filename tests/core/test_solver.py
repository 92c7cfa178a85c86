"""The solver against the papers' formulas on raw rows, against exact rationals, and against itself transformed."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from deltaplane import limits
from deltaplane.arrays import Floats, Texts
from deltaplane.errors import DefinitionError, DefinitionMismatch, SolveRefused
from deltaplane.exact import centring
from deltaplane.exact.centring import Stack
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.triangle import layout_of
from deltaplane.log.confusion import Confusion, gmean
from deltaplane.solve.solver import Plane, Problem, solve
from deltaplane.solve.solver_options import SolverOptions
from exact_planes import exact_plane

RAW = SolverOptions(standardize=False, C=0.3)
SEEDS = pytest.mark.parametrize("seed", [1, 2, 3])


def make_rows(seed: int, shares: Mapping[str, int], features: int = 4) -> tuple[Floats, Texts]:
    """Grid rows [n, d] of classes that differ in their means, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(list(shares), list(shares.values()))
    means = {label: rng.normal(size=features) * 2000 for label in shares}
    quantized = [rng.normal(size=features) * 1000 + means[label] for label in labels.tolist()]
    return np.rint(np.array(quantized)), labels


def make_grid(features: int = 4) -> Grid:
    """Steps and offsets that differ between features, with raw values of a size near one."""
    steps: Floats = np.array([2.0 ** (-10 - j % 3) for j in range(features)])
    return Grid(steps, steps * np.arange(features) * 300)


def grams(quantized: Floats, labels: Texts) -> dict[str, Moments]:
    """Exact Gram matrices of each class."""
    return {label: Moments.of_rows(quantized[labels == label]) for label in np.unique(labels).tolist()}


def literal(X: Floats, y: Floats, sigma: Floats, C: float, prior: Floats | None = None) -> Floats:
    """Equation 18 of paper 1 as it stands, O = [w; b], with paper 5's prior: ``O0 + (I/C + EᵀNE)⁻¹ EᵀN(y - E O0)``."""
    E = np.column_stack([X, -np.ones(len(X))])
    start = np.zeros(E.shape[1]) if prior is None else prior
    weighted = E * sigma[:, None]
    change = np.linalg.solve(np.eye(E.shape[1]) / C + weighted.T @ E, weighted.T @ (y - E @ start))
    return np.asarray(start + change)


def assert_plane(plane: Plane, expected: Floats, index: int = 0, tolerance: float = 1e-9) -> None:
    """The plane with this index is [w; b]."""
    np.testing.assert_allclose(
        np.append(plane.weights[index], plane.biases[index]), expected, rtol=tolerance, atol=1e-12
    )


@SEEDS
@pytest.mark.parametrize(("weighting", "own", "rest"), [("inverse", 0.9, 0.1), ("none", 1, 1), ("balanced", 5, 5 / 9)])
def test_a_binary_plane_is_equation_21_of_paper_1(seed: int, weighting: str, own: float, rest: float) -> None:
    quantized, labels = make_rows(seed, {"no": 90, "yes": 10})
    options = SolverOptions(weighting=weighting, standardize=False, C=0.3)  # type: ignore[arg-type]
    plane = solve(grams(quantized, labels), make_grid(), options)
    y = np.where(labels == "yes", 1.0, -1.0)
    assert_plane(plane, literal(make_grid().values(quantized), y, np.where(y > 0, own, rest), 0.3))
    assert (plane.classes, plane.positive, plane.counts) == (("no", "yes"), "yes", {"no": 90, "yes": 10})
    assert plane.sigmas == pytest.approx({"yes": own, "no": rest})


@SEEDS
def test_each_class_against_the_rest_is_equation_4_23_of_the_thesis(seed: int) -> None:
    quantized, labels = make_rows(seed, {"a": 50, "b": 20, "c": 7})
    plane = solve(grams(quantized, labels), make_grid(), RAW)
    E = np.column_stack([make_grid().values(quantized), -np.ones(77)])
    M, v = E.T @ E, E.sum(axis=0)
    for index, label in enumerate(["a", "b", "c"]):
        E_own = E[labels == label]
        share, M_own, v_own = len(E_own) / 77, E_own.T @ E_own, E_own.sum(axis=0)
        S = np.eye(5) / RAW.C + share * M + (1 - 2 * share) * M_own
        assert_plane(plane, np.linalg.solve(S, v_own - share * v), index)
        assert plane.sigmas[label] == pytest.approx(1 - share)
    assert (plane.positive, plane.weights.shape, plane.biases.shape) == (None, (3, 4), (3,))


@SEEDS
@pytest.mark.parametrize("kind", ["wlpsvm", "lssvm"])
def test_explicit_weights_stay_with_their_own_class_in_every_plane(seed: int, kind: str) -> None:
    quantized, labels = make_rows(seed, {"a": 50, "b": 20, "c": 7})
    weights = {"a": 0.5, "b": 2.0, "c": 7.0, "not live": 9.0}
    bias = "free" if kind == "lssvm" else "default"
    options = SolverOptions(kind=kind, weighting=weights, standardize=False, C=0.3, bias=bias)  # type: ignore[arg-type]
    plane = solve(grams(quantized, labels), make_grid(), options)
    sigma = np.array([weights[label] for label in labels.tolist()])
    E = np.column_stack([make_grid().values(quantized), -np.ones(77)])
    penalty = np.diag([1.0] * 4 + [float(kind == "wlpsvm")]) / 0.3
    for index, label in enumerate(["a", "b", "c"]):
        y = np.where(labels == label, 1.0, -1.0)
        assert_plane(plane, np.linalg.solve((E * sigma[:, None]).T @ E + penalty, E.T @ (sigma * y)), index)
    assert plane.sigmas == {"a": 0.5, "b": 2.0, "c": 7.0}


@SEEDS
def test_least_squares_without_bias_is_equation_2_of_paper_2(seed: int) -> None:
    quantized, labels = make_rows(seed, {"no": 30, "yes": 20})
    plane = solve(grams(quantized, labels), make_grid(), SolverOptions(kind="lssvm", standardize=False, C=0.5))
    Phi, y = make_grid().values(quantized).T, np.where(labels == "yes", 1.0, -1.0)
    assert_plane(plane, np.append(Phi @ np.linalg.solve(Phi.T @ Phi + 2.0 * np.eye(50), y), 0.0))
    assert plane.biases.tolist() == [0.0]


@SEEDS
def test_least_squares_with_a_free_bias_solves_the_dual_system_of_suykens(seed: int) -> None:
    quantized, labels = make_rows(seed, {"no": 30, "yes": 20})
    options = SolverOptions(kind="lssvm", bias="free", standardize=False, C=0.5)
    X, y = make_grid().values(quantized), np.where(labels == "yes", 1.0, -1.0)
    system = np.block([[np.zeros((1, 1)), y[None, :]], [y[:, None], np.outer(y, y) * (X @ X.T) + np.eye(50) / 0.5]])
    b, *alpha = np.linalg.solve(system, np.append(0.0, np.ones(50)))
    assert_plane(solve(grams(quantized, labels), make_grid(), options), np.append(X.T @ (alpha * y), -b))


@SEEDS
@pytest.mark.parametrize("kind", ["wlpsvm", "lssvm"])
def test_standardizing_is_solving_on_standardized_rows(seed: int, kind: str) -> None:
    quantized, labels = make_rows(seed, {"no": 30, "yes": 20})
    plane = solve(grams(quantized, labels), make_grid(), SolverOptions(kind=kind, C=0.5))  # type: ignore[arg-type]
    X, y = make_grid().values(quantized), np.where(labels == "yes", 1.0, -1.0)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = literal(Z, y, np.where(y > 0, 0.6, 0.4), 0.5)
    if kind == "lssvm":
        expected = np.append(np.linalg.solve(2.0 * np.eye(4) + Z.T @ Z, Z.T @ y), 0.0)
    np.testing.assert_allclose(plane.decide(X)[:, 0], Z @ expected[:-1] - expected[-1], rtol=1e-9, atol=1e-12)


@SEEDS
@pytest.mark.parametrize("standardize", [True, False])
def test_a_prior_is_what_the_penalty_draws_towards(seed: int, *, standardize: bool) -> None:
    quantized, labels = make_rows(seed, {"no": 30, "yes": 20})
    X, y = make_grid().values(quantized), np.where(labels == "yes", 1.0, -1.0)
    options = SolverOptions(standardize=standardize, C=0.02)
    prior = solve(grams(*make_rows(seed + 10, {"no": 30, "yes": 20})), make_grid(), options)
    plane = solve(grams(quantized, labels), make_grid(), options, prior=prior)
    centre, scale = (X.mean(axis=0), X.std(axis=0)) if standardize else (np.zeros(4), np.ones(4))
    start = np.append(prior.weights[0] * scale, prior.biases[0] - prior.weights[0] @ centre)
    expected = literal((X - centre) / scale, y, np.where(y > 0, 0.6, 0.4), 0.02, start)
    weights = expected[:-1] / scale
    assert_plane(plane, np.append(weights, expected[-1] + weights @ centre))


@SEEDS
def test_a_prior_is_matched_by_class_and_a_class_it_does_not_know_starts_from_zero(seed: int) -> None:
    quantized, labels = make_rows(seed, {"a": 30, "b": 20, "c": 10})
    options = SolverOptions(weighting="none", standardize=False, C=0.02)
    prior = Plane(("a", "b"), "b", np.array([[3.0, -1.0, 0.5, 2.0]]), np.array([0.25]), {}, 1.0, 1.0, {})
    plane = solve(grams(quantized, labels), make_grid(), options, prior=prior)
    start = np.append(prior.weights[0], 0.25)
    for index, (label, its_start) in enumerate([("a", -start), ("b", start), ("c", 0.0 * start)]):
        y = np.where(labels == label, 1.0, -1.0)
        assert_plane(plane, literal(make_grid().values(quantized), y, np.ones(60), 0.02, its_start), index)


def test_a_prior_of_nothing_changes_nothing_and_a_strong_one_changes_everything() -> None:
    quantized, labels = make_rows(4, {"no": 30, "yes": 20})
    plane = solve(grams(quantized, labels), make_grid(), RAW)
    nothing = Plane(("no", "yes"), "yes", np.zeros((1, 4)), np.zeros(1), {}, 1.0, 1.0, {})
    assert solve(grams(quantized, labels), make_grid(), RAW, prior=nothing).weights.tobytes() == plane.weights.tobytes()
    held = SolverOptions(C=1e-12, standardize=False)
    strong = Plane(("no", "yes"), "yes", np.array([[3.0, -1.0, 0.5, 2.0]]), np.array([0.25]), {}, 1.0, 1.0, {})
    assert_plane(
        solve(grams(quantized, labels), make_grid(), held, prior=strong), np.array([3, -1, 0.5, 2, 0.25]), 0, 1e-6
    )


# Accuracy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean_over_deviation", [0, 10, 1e3, 1e6, 1e8])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize(
    ("kind", "bias"), [("wlpsvm", "regularised"), ("lpsvm", "regularised"), ("lssvm", "none"), ("lssvm", "free")]
)
def test_no_digit_is_lost_to_a_mean_far_from_zero(
    mean_over_deviation: float, kind: str, bias: str, *, standardize: bool
) -> None:
    rng = np.random.default_rng(8)
    own = np.arange(24) % 4 == 0
    deviation = 8.0 if mean_over_deviation > 1e6 else 1000.0
    quantized = np.rint((rng.normal(size=(24, 3)) + own[:, None] + mean_over_deviation) * deviation)
    grid = Grid(np.array([1.0, 2.0**-10, 8.0]), np.array([0.0, 3.0, -800.0]))
    options = SolverOptions(kind=kind, bias=bias, standardize=standardize, C=0.7)  # type: ignore[arg-type]
    plane = solve({"no": Moments.of_rows(quantized[~own]), "yes": Moments.of_rows(quantized[own])}, grid, options)
    assert_plane(plane, exact_plane(quantized, own, grid, options), 0, 1e-12)


_placed = strategies.magnitudes(bits=30) | strategies.magnitudes(bits=45)


@given(rows=st.lists(st.tuples(_placed, _placed), min_size=1, max_size=8), centre=st.tuples(_placed, _placed))
def test_moving_a_gram_matrix_is_exact_whatever_its_size(rows: list[tuple[int, int]], centre: tuple[int, int]) -> None:
    moments = Moments.of_rows(np.array(rows, dtype=np.float64))
    moved = centring.centred(moments, np.array([*centre, 0]), layout_of(3))
    extended = [(a - centre[0], b - centre[1], -1) for a, b in rows]
    for i in range(3):
        for j in range(i, 3):
            assert moved.entry(i, j) == sum(row[i] * row[j] for row in extended)


@SEEDS
def test_narrow_and_wide_integers_give_the_same_bytes(seed: int) -> None:
    quantized, labels = make_rows(seed, {"a": 50, "b": 20, "c": 7})
    live = grams(quantized + 900_000, labels)
    total = functools.reduce(Moments.__add__, live.values())
    assert total.fits_int64
    stacks = {label: Stack.of([moments], int64=False) for label, moments in live.items()}
    wide = Problem(stacks, Stack.of([total], int64=False), make_grid()).solve_each(RAW, [RAW.C])
    assert solve(live, make_grid(), RAW).weights.tobytes() == wide.weights.tobytes()


def test_sums_of_squares_that_fit_64_bits_only_without_a_sign_are_wide() -> None:
    own = np.arange(12) % 2 == 0
    quantized = np.where(own, 2.0**30 - 1, 1 - 2.0**30)[:, None]
    grid, options = Grid(np.full(1, 2.0**-30), np.zeros(1)), SolverOptions()
    plane = solve({"no": Moments.of_rows(quantized[~own]), "yes": Moments.of_rows(quantized[own])}, grid, options)
    assert_plane(plane, exact_plane(quantized, own, grid, options), 0, 1e-14)


def test_a_constant_column_is_known_exactly_and_one_step_in_one_row_is_not_constant() -> None:
    quantized, labels = make_rows(3, {"no": 30, "yes": 20})
    quantized[:, 1] = 2**30 - 7
    assert solve(grams(quantized, labels), make_grid(), SolverOptions()).weights[0, 1] == 0.0
    quantized[-1, 1] += 1
    almost_constant = solve(grams(quantized, labels), make_grid(), SolverOptions())
    assert_plane(almost_constant, exact_plane(quantized, labels == "yes", make_grid(), SolverOptions()), 0, 1e-12)
    assert abs(almost_constant.weights[0, 1]) > 100.0


def test_two_points_have_the_plane_that_a_pencil_finds() -> None:
    quantized, labels = np.array([[-1.0], [1.0]]), np.array(["no", "yes"])
    for C in (0.25, 1.0, 8.0):
        plane = solve(
            grams(quantized, labels), Grid(np.ones(1), np.zeros(1)), SolverOptions(kind="lpsvm", standardize=False, C=C)
        )
        assert_plane(plane, np.array([2.0 / (1.0 / C + 2.0), 0.0]), 0, 1e-15)


# Laws ----------------------------------------------------------------------------------------------------------------


@SEEDS
@pytest.mark.parametrize("shares", [{"no": 30, "yes": 20}, {"a": 50, "b": 20, "c": 7}])
def test_under_standardizing_the_unit_of_a_feature_does_not_matter(seed: int, shares: dict[str, int]) -> None:
    quantized, labels = make_rows(seed, shares)
    grid = make_grid()
    scaled = Grid(grid.steps * [1.0, 8.0, 0.25, 1.0], grid.offsets * [1.0, 8.0, 0.25, 1.0])
    one, other = (solve(grams(quantized, labels), each, SolverOptions()) for each in (grid, scaled))
    assert (other.weights * [1.0, 8.0, 0.25, 1.0]).tobytes() == one.weights.tobytes()
    assert other.biases.tobytes() == one.biases.tobytes()
    tripled = solve(grams(quantized * [1, 3, 1, 1], labels), grid, SolverOptions())
    X, X_tripled = grid.values(quantized), grid.values(quantized * [1, 3, 1, 1])
    np.testing.assert_allclose(tripled.decide(X_tripled), one.decide(X), rtol=1e-9, atol=1e-12)
    assert tripled.predict(X_tripled).tolist() == one.predict(X).tolist()


@SEEDS
def test_under_standardizing_the_origin_of_a_feature_does_not_matter(seed: int) -> None:
    quantized, labels = make_rows(seed, {"no": 30, "yes": 20})
    one = solve(grams(quantized, labels), make_grid(), SolverOptions())
    other = solve(grams(quantized + 12345, labels), make_grid(), SolverOptions())
    assert other.weights.tobytes() == one.weights.tobytes()
    np.testing.assert_allclose(
        other.decide(make_grid().values(quantized + 12345)), one.decide(make_grid().values(quantized)), atol=1e-9
    )


@SEEDS
def test_planes_follow_their_classes_and_features_whatever_their_names_and_order(seed: int) -> None:
    quantized, labels = make_rows(seed, {"a": 50, "b": 20, "c": 7})
    plane = solve(grams(quantized, labels), make_grid(), SolverOptions())
    renamed = np.array([{"a": "z", "b": "b", "c": "a"}[label] for label in labels.tolist()])
    other = solve(grams(quantized, renamed), make_grid(), SolverOptions())
    assert other.weights[[2, 1, 0]].tobytes() == plane.weights.tobytes()
    grid = make_grid()
    turned = solve(grams(quantized[:, ::-1], labels), Grid(grid.steps[::-1], grid.offsets[::-1]), SolverOptions())
    np.testing.assert_allclose(turned.weights[:, ::-1], plane.weights, rtol=1e-9)


@SEEDS
@pytest.mark.parametrize("options", [SolverOptions(), RAW, SolverOptions(kind="lssvm", bias="free")])
def test_the_plane_of_the_other_class_is_the_plane_turned_round(seed: int, options: SolverOptions) -> None:
    quantized, labels = make_rows(seed, {"no": 30, "yes": 20})
    yes, no = (solve(grams(quantized, labels), make_grid(), options, label) for label in ("yes", "no"))
    assert (no.positive, yes.positive, no.classes) == ("no", "yes", yes.classes)
    assert_plane(no, -np.append(yes.weights[0], yes.biases[0]), 0, 1e-12)
    assert no.predict(make_grid().values(quantized)).tolist() == yes.predict(make_grid().values(quantized)).tolist()


@SEEDS
@pytest.mark.parametrize("standardize", [True, False])
def test_weightings_differ_from_each_other_by_a_known_factor(seed: int, *, standardize: bool) -> None:
    def plane(shares: dict[str, int], weighting: str, C: float, kind: str = "wlpsvm") -> Floats:
        options = SolverOptions(kind, weighting, C, standardize)  # type: ignore[arg-type]
        solved = solve(grams(*make_rows(seed, shares)), make_grid(), options)
        return np.append(solved.weights[0], solved.biases[0])

    even, uneven = {"no": 25, "yes": 25}, {"no": 40, "yes": 10}
    np.testing.assert_allclose(plane(even, "inverse", 0.8), plane(even, "none", 0.4, "lpsvm"), rtol=1e-10)
    np.testing.assert_allclose(plane(even, "balanced", 0.8), plane(even, "none", 0.8), rtol=1e-10)
    factor = 2 * 0.8 * 0.2  # balanced = n / (2 l) is the other side's share over 2 l+ l- / n**2.
    np.testing.assert_allclose(plane(uneven, "balanced", 0.8 * factor), plane(uneven, "inverse", 0.8), rtol=1e-10)


@SEEDS
@pytest.mark.parametrize("standardize", [True, False])
def test_every_row_twice_is_twice_the_c(seed: int, *, standardize: bool) -> None:
    one = grams(*make_rows(seed, {"no": 30, "yes": 20}))
    twice = {label: moments + moments for label, moments in one.items()}
    single = solve(one, make_grid(), SolverOptions("lpsvm", C=0.6, standardize=standardize))
    double = solve(twice, make_grid(), SolverOptions("lpsvm", C=0.3, standardize=standardize))
    assert_plane(double, np.append(single.weights[0], single.biases[0]), 0, 1e-12)


@SEEDS
def test_the_share_printed_in_equation_29_of_paper_1_would_collapse_the_gmean(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.repeat(["no", "yes"], [950, 50])
    quantized = np.rint(rng.normal(size=(1000, 3)) * 1000 + 1600 * (labels == "yes")[:, None])
    grid = Grid(np.full(3, 2.0**-10), np.zeros(3))
    truth = (labels == "yes").astype(np.int64)

    def quality(weighting: object) -> float:
        plane = solve(grams(quantized, labels), grid, SolverOptions(weighting=weighting))  # type: ignore[arg-type]
        return gmean(Confusion.of(truth, plane.predict(grid.values(quantized)), plane.classes))

    assert quality("inverse") > 0.9
    assert quality({"yes": 0.05, "no": 0.95}) < 0.3


@SEEDS
@pytest.mark.parametrize("weighting", ["inverse", "balanced", "none"])
def test_a_positive_class_against_several_is_the_binary_plane_of_merged_statistics(seed: int, weighting: str) -> None:
    separate = grams(*make_rows(seed, {"a": 50, "b": 20, "c": 7}))
    merged = {"b": separate["b"], "not b": separate["a"] + separate["c"]}
    options = SolverOptions(weighting=weighting)  # type: ignore[arg-type]
    one, other = solve(separate, make_grid(), options, "b"), solve(merged, make_grid(), options, "b")
    assert one.weights.tobytes() + one.biases.tobytes() == other.weights.tobytes() + other.biases.tobytes()
    assert (one.classes, one.counts, one.sigmas) == (("b", "not b"), {"b": 20, "not b": 57}, other.sigmas)
    weights = {"a": 1.0, "b": 3.0, "c": 2.0}
    weighted = solve(separate, make_grid(), SolverOptions(weighting=weights), "b")
    assert weighted.sigmas == pytest.approx({"b": 3.0, "not b": (50 * 1.0 + 7 * 2.0) / 57})


@SEEDS
@pytest.mark.parametrize(
    "options", [SolverOptions(), RAW, SolverOptions(weighting="none"), SolverOptions(kind="lssvm")]
)
def test_equal_statistics_give_equal_bytes_however_they_came_about(seed: int, options: SolverOptions) -> None:
    quantized, labels = make_rows(seed, {"a": 50, "b": 20, "c": 7})
    whole = grams(quantized, labels)
    order = np.random.default_rng(seed).permutation(77)
    first, second = grams(quantized[order[:40]], labels[order[:40]]), grams(quantized[order[40:]], labels[order[40:]])
    parts = {label: first.get(label, Moments.zero(5)) + second.get(label, Moments.zero(5)) for label in ("c", "b", "a")}
    one, other = solve(whole, make_grid(), options), solve({**parts, "gone": Moments.zero(5)}, make_grid(), options)
    assert (one.classes, one.sigmas, one.condition) == (other.classes, other.sigmas, other.condition)
    assert one.weights.tobytes() + one.biases.tobytes() == other.weights.tobytes() + other.biases.tobytes()


@pytest.mark.parametrize(
    "others",
    [{}, {"standardize": False}, {"weighting": {"x": 2.0, "y": 1.0, "z": 0.5}}, {"kind": "lssvm", "bias": "free"}],
)
def test_a_problem_solved_before_gives_the_bytes_of_one_that_was_not(others: dict[str, Any]) -> None:
    statistics, grid = grams(*make_rows(3, {"x": 20, "y": 9, "z": 14})), make_grid()
    again = Problem.of([statistics], grid)
    for options in (SolverOptions(C=0.1), SolverOptions(C=0.1, **others), SolverOptions(C=10.0, **others)):
        first, second = solve(statistics, grid, options), again.solve_each(options, [options.C])
        assert first.weights.tobytes() == second.weights.tobytes()
        assert first.biases.tobytes() == second.biases.tobytes()
        assert first.condition == second.conditions


@SEEDS
def test_the_condition_reported_is_that_of_the_scaled_matrix(seed: int) -> None:
    quantized, labels = make_rows(seed, {"no": 30, "yes": 20})
    quantized[:, 3] = quantized[:, 2] + np.arange(50) % 2
    plane = solve(grams(quantized, labels), make_grid(), SolverOptions("lpsvm", C=1e3))
    E = np.column_stack([(quantized - quantized.mean(axis=0)) / quantized.std(axis=0), -np.ones(50)])
    S = np.eye(5) / 1e3 + E.T @ E
    exact = float(np.linalg.cond(S / np.sqrt(np.outer(S.diagonal(), S.diagonal())), 1))
    assert exact / 3 < plane.condition < exact * 1.001


# Planes --------------------------------------------------------------------------------------------------------------


def test_zero_belongs_to_the_rest_and_the_first_of_equals_wins() -> None:
    one = Plane(("a", "b"), "a", np.array([[1.0]]), np.array([2.0]), {}, 1.0, 1.0, {})
    assert one.predict(np.array([[1.0], [2.0], [3.0]])).tolist() == [1, 1, 0]
    other = Plane(("a", "b"), "b", np.array([[1.0]]), np.array([2.0]), {}, 1.0, 1.0, {})
    assert other.predict(np.array([[1.0], [2.0], [3.0]])).tolist() == [0, 0, 1]
    several = Plane(("a", "b", "c"), None, np.array([[1.0], [-1.0], [0.0]]), np.zeros(3), {}, 1.0, 1.0, {})
    assert several.predict(np.array([[1.0], [-1.0], [0.0]])).tolist() == [0, 1, 0]
    assert several.predict(np.zeros((0, 1))).dtype == np.int64
    assert several.decide(np.array([[2.0]])).tolist() == [[2.0, -2.0, 0.0]]


# Refusals ------------------------------------------------------------------------------------------------------------


def test_statistics_that_determine_no_plane_are_refused_with_their_numbers() -> None:
    quantized, labels = make_rows(1, {"a": 5, "b": 4})
    live = grams(quantized, labels)
    with pytest.raises(SolveRefused, match=r"two classes, got \{'a': 5\}"):
        solve({"a": live["a"], "b": Moments.zero(5)}, make_grid(), SolverOptions())
    with pytest.raises(SolveRefused, match=r"two classes, got \{\}"):
        solve({}, make_grid(), SolverOptions())
    with pytest.raises(SolveRefused, match="two classes"):
        solve({"a": live["a"], "b": -live["b"]}, make_grid(), SolverOptions())
    with pytest.raises(SolveRefused, match="positive class 'c'"):
        solve(live, make_grid(), SolverOptions(), "c")
    with pytest.raises(SolveRefused, match="class 'b' has live rows but no weight"):
        solve(live, make_grid(), SolverOptions(weighting={"a": 1.0}))
    with pytest.raises(DefinitionMismatch, match="dimension 4"):
        solve(live, make_grid(3), SolverOptions())


def test_a_matrix_without_digits_is_refused_and_one_with_digits_is_solved() -> None:
    quantized, labels = make_rows(1, {"a": 50, "b": 40})
    quantized[:, 3] = quantized[:, 2]
    with pytest.raises(SolveRefused, match=r"all but singular|not positive definite"):
        solve(grams(quantized, labels), make_grid(), SolverOptions(C=1e18))
    plane = solve(grams(quantized, labels), make_grid(), SolverOptions(C=1e3))
    assert plane.condition > 1e4
    np.testing.assert_allclose(plane.weights[0, 3] * make_grid().steps[3], plane.weights[0, 2] * make_grid().steps[2])


def test_numbers_beyond_float64_are_refused_without_a_warning() -> None:
    grid = Grid(np.full(4, limits.STEP_SMALLEST), np.zeros(4))
    with pytest.raises(SolveRefused, match="condition inf, expected up to"):
        solve(grams(*make_rows(1, {"a": 50, "b": 40})), grid, SolverOptions(standardize=False, C=1e-200))


def test_a_prior_that_does_not_fit_is_refused() -> None:
    live = grams(*make_rows(1, {"a": 5, "b": 4}))
    with pytest.raises(SolveRefused, match="over 3 features"):
        solve(live, make_grid(), RAW, prior=Plane(("a", "b"), "b", np.zeros((1, 3)), np.zeros(1), {}, 1.0, 1.0, {}))
    with pytest.raises(SolveRefused, match=r"knows one of \['b'\]"):
        solve(live, make_grid(), RAW, prior=Plane(("c", "d"), "d", np.zeros((1, 4)), np.zeros(1), {}, 1.0, 1.0, {}))


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        ({"kind": "svm"}, "kind must be one of"),
        ({"weighting": "inversed"}, "weighting must be one of"),
        ({"bias": "Free"}, "bias must be one of"),
        ({"kind": "lpsvm", "weighting": "inverse"}, "'lpsvm' has no class weights"),
        ({"kind": "lpsvm", "weighting": {"a": 1.0}}, "'lpsvm' has no class weights"),
        ({"kind": "wlpsvm", "bias": "free"}, "'wlpsvm' cannot have bias 'free'"),
        ({"kind": "lssvm", "bias": "regularised"}, "'lssvm' cannot have bias 'regularised'"),
        ({"C": 0.0}, "C must be a finite number above zero, got 0.0"),
        ({"C": float("nan")}, "C must be a finite number"),
        ({"C": float("inf")}, "C must be a finite number"),
        ({"C": True}, "C must be a finite number"),
        ({"C": "auto"}, "C must be a finite number"),
        ({"standardize": 1}, "standardize must be one of"),
        ({"weighting": {}}, "by class label"),
        ({"weighting": {1: 1.0}}, "by class label"),
        ({"weighting": {"a": -1.0}}, "the weight of class 'a'"),
    ],
)
def test_options_that_contradict_themselves_are_refused_by_name(given_options: dict[str, object], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        SolverOptions(**given_options)  # type: ignore[arg-type]


def test_options_that_mean_the_same_are_equal() -> None:
    assert SolverOptions() == SolverOptions(weighting="inverse", bias="regularised")
    assert SolverOptions("lpsvm") == SolverOptions("lpsvm", "none", 1)
    assert SolverOptions("lssvm") == SolverOptions("lssvm", "none", bias="none")
    assert SolverOptions(weighting={"b": 1, "a": 2}).weighting == {"a": 2.0, "b": 1.0}


@pytest.mark.parametrize(
    "options",
    [
        SolverOptions(),
        SolverOptions(weighting="balanced"),
        SolverOptions(weighting={"a": 1.0, "b": 3.0, "c": 0.5}),
        RAW,
        SolverOptions(kind="lssvm", bias="free", standardize=False),
        SolverOptions(kind="lssvm"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("positive", [None, "b"])
@pytest.mark.parametrize("prior_c", [None, 7.0])
def test_several_windows_and_c_at_once_have_the_planes_that_each_has_alone_bit_for_bit(
    options: SolverOptions, positive: str | None, prior_c: float | None
) -> None:
    grid, choices = make_grid(), [1e-3, 0.3, 1.0, 50.0]
    windows = [grams(*make_rows(seed, {"a": 30, "b": 12 + seed, "c": 5})) for seed in range(7, 10)]
    prior = None if prior_c is None else solve(windows[0], grid, replace(options, C=prior_c), positive)
    problem = Problem.of(windows, grid, positive)
    together = problem.solve_each(options, choices, prior)
    assert not together.refused.any()
    for (n, window), (m, C) in itertools.product(enumerate(windows), enumerate(choices)):
        plane = solve(window, grid, replace(options, C=C), positive, prior)
        assert together.weights[n, m].tobytes() == plane.weights.tobytes()
        assert together.biases[n, m].tobytes() == plane.biases.tobytes()
        assert together.conditions[n, m] == plane.condition
        assert {label: sigmas[n] for label, sigmas in together.sigmas.items()} == plane.sigmas
        assert problem.counts(n) == plane.counts
        for label in problem.targets:
            weights, biases = problem.towards(label, together)
            row = plane.row_of(label)
            assert row is not None
            assert weights[n, m].tobytes() == row[0].tobytes()
            assert biases[n, m] == row[1]


@pytest.mark.parametrize("shift", [0, 2**29])
def test_windows_of_which_one_is_too_large_for_a_word_have_the_planes_that_they_have_alone(shift: int) -> None:
    """A sum of 77 squares of 2**29 is above 2**62, and takes the others along to integers of any length."""
    quantized, labels = make_rows(4, {"a": 50, "b": 20, "c": 7})
    windows = [grams(quantized, labels), grams(quantized + shift, labels)]
    together = Problem.of(windows, make_grid()).solve_each(SolverOptions(), [1.0])
    for at, window in enumerate(windows):
        assert together.weights[at, 0].tobytes() == solve(window, make_grid(), SolverOptions()).weights.tobytes()


def test_a_c_that_is_refused_leaves_the_others_of_the_same_call_their_planes() -> None:
    quantized, labels = make_rows(8, {"a": 20, "b": 20})
    good = grams(quantized, labels)
    quantized[:, 1] = quantized[:, 0]  # Two equal columns: without a penalty worth the name there is no one plane.
    bad, grid = grams(quantized, labels), make_grid()
    solved = Problem.of([good, bad], grid).solve_each(SolverOptions(), [1.0, 1e18])
    assert solved.refused.tolist() == [[False, False], [False, True]]
    assert list(solved.refusals) == [(1, 1)]
    assert solved.weights[1, 0].tobytes() == solve(bad, grid, SolverOptions()).weights.tobytes()
    assert solved.weights[0, 1].tobytes() == solve(good, grid, SolverOptions(C=1e18)).weights.tobytes()
    with pytest.raises(SolveRefused, match="inverse condition") as refused:
        solve(bad, grid, SolverOptions(C=1e18))
    assert str(refused.value) == solved.refusals[1, 1]
