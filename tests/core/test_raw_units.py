"""Penalties in raw units over all scales and offsets: equal to rational arithmetic, or refused by name."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaplane.arrays import Flags, Floats, Steps
from deltaplane.errors import SolveRefused
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.moments import Moments
from deltaplane.solve import candidates, last_rows, raw_units, sliding_planes
from deltaplane.solve.cross_validation import choose_c, folds_of
from deltaplane.solve.solver import Plane, solve
from deltaplane.solve.solver_options import SolverOptions
from exact_planes import exact_plane

TOLERANCE = 1e-6
"""Of the range of the decision values: what a plane's may be off by."""

KINDS = [("wlpsvm", "regularised"), ("lpsvm", "regularised"), ("lssvm", "none"), ("lssvm", "free")]


def rows_of(seed: int, features: int = 1) -> tuple[Floats, Flags]:
    """Rows float64[60, d] of a size near one, a third of them of the own side, and which these are."""
    rng, own = np.random.default_rng(seed), np.arange(60) < 20
    return np.where(own, 1.0, -1.0)[:, None] + 2.0 * rng.normal(size=(60, features)), own


def plane_of(X: Floats, own: Flags, options: SolverOptions) -> tuple[Plane, Grid, Steps]:
    grid = fit_grid(X)
    quantized, fits = grid.quantize(X)
    assert fits.all()
    grams = {"no": Moments.of_rows(quantized[~own]), "yes": Moments.of_rows(quantized[own])}
    return solve(grams, grid, options, "yes"), grid, quantized


def assert_right(plane: Plane, expected: Floats, rows: Floats) -> None:
    """Decision values are those of [w; b], worked out without rounding, but for a millionth of their range."""
    exact = [
        sum(Fraction(w) * Fraction(x) for w, x in zip(expected[:-1].tolist(), row, strict=True))
        - Fraction(float(expected[-1]))
        for row in rows.tolist()
    ]
    allowed = Fraction(TOLERANCE) * (max(exact) - min(exact))
    for value, got in zip(exact, plane.decide(rows)[:, 0].tolist(), strict=True):
        assert abs(value - Fraction(got)) <= allowed
        assert abs(value) <= allowed or (value > 0) == (got > 0)


@given(
    exponents=st.lists(st.integers(-470, 980), min_size=1, max_size=3),
    far=st.sampled_from([0.0, 0.0, 3.0, 2024.0, 2.0**20, 2.0**27]),
    c_exponent=st.integers(-40, 60),
    kind=st.sampled_from(KINDS),
    weighting=st.sampled_from(["inverse", "none"]),
    seed=st.integers(0, 2**16),
)
@example([-30], 0.0, 0, KINDS[0], "inverse", 1)
@example([-30], 0.0, -10, KINDS[0], "none", 1)
@example([-1, 300], 2.0**27, -10, KINDS[0], "inverse", 1)
def test_a_plane_of_any_scale_and_offset_is_the_rational_one_or_is_refused_by_its_condition(
    exponents: list[int], far: float, c_exponent: int, kind: tuple[str, str], weighting: str, seed: int
) -> None:
    X, own = rows_of(seed, len(exponents))
    X = np.ldexp(X + far, np.array(exponents))
    weighting = "none" if kind[0] == "lpsvm" else weighting
    options = SolverOptions(kind[0], weighting, 2.0**c_exponent, standardize=False, bias=kind[1])  # type: ignore[arg-type]
    try:
        plane, grid, quantized = plane_of(X, own, options)
    except SolveRefused as refused:
        assert "condition" in str(refused)  # noqa: PT017
        return
    assert 1.0 <= plane.condition <= 1.0 / np.finfo(np.float64).eps
    assert_right(plane, exact_plane(quantized, own, grid, options), grid.values(quantized))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [0, 1, 10, 30, 100, 400])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_small_features_have_planes_wherever_floats_can_hold_them(kind: tuple[str, str], k: int, C: float) -> None:
    X, own = rows_of(k)
    weighting = "none" if kind[0] == "lpsvm" else "inverse"
    options = SolverOptions(kind[0], weighting, C, standardize=False, bias=kind[1])  # type: ignore[arg-type]
    X = X * 2.0**-k
    if weighting == "none" and k >= 30:
        with pytest.raises(SolveRefused, match=r"raw units .* standardize = true"):
            plane_of(X, own, options)
        return
    plane, grid, quantized = plane_of(X, own, options)
    assert_right(plane, exact_plane(quantized, own, grid, options), grid.values(quantized))


@pytest.mark.parametrize("k", [1, 30, 200, 480])
def test_a_scale_of_two_to_the_k_and_its_square_in_c_change_no_bit(k: int) -> None:
    X, own = rows_of(3, 2)
    options = SolverOptions("lssvm", standardize=False, C=1.0, bias="free")
    one, _, _ = plane_of(X, own, options)
    other, _, _ = plane_of(X * 2.0**-k, own, replace(options, C=4.0**k))
    assert (other.weights * 2.0**-k).tobytes() == one.weights.tobytes()
    assert other.biases.tobytes() == one.biases.tobytes()
    assert other.condition == one.condition


def test_the_condition_says_how_many_digits_of_a_decision_are_lost() -> None:
    options = SolverOptions(weighting="none", standardize=False)
    X, own = rows_of(5)
    known = [plane_of(X * 10.0**-power, own, options)[0].condition for power in range(5)]
    # Decisions fall with the square of the scale, the bias does not.
    assert known[4] / known[3] == pytest.approx(100.0, rel=0.05)
    assert known[4] > 1e4
    with pytest.raises(SolveRefused, match=r"condition \S+, expected up to 2\.15e\+09; C = 1"):
        plane_of(X * 1e-9, own, options)


@pytest.mark.parametrize("weights", [{"no": 1.0 / 3.0, "yes": 2.0 / 3.0}, {"no": 0.1, "yes": 0.2}])
def test_explicit_weights_that_nearly_balance_are_summed_without_rounding(weights: dict[str, float]) -> None:
    X, own = rows_of(6)
    options = SolverOptions(weighting=weights, standardize=False)
    plane, grid, quantized = plane_of(X * 1e-7, own, options)
    values = [[Fraction(x) for x in row] + [Fraction(-1)] for row in grid.values(quantized).tolist()]
    sigma = [Fraction(weights["yes" if mine else "no"]) for mine in own]
    target = [Fraction(1 if mine else -1) for mine in own]
    a, b, d = (
        sum(s * row[i] * row[j] for s, row in zip(sigma, values, strict=True)) + (i == j)
        for i, j in ((0, 0), (0, 1), (1, 1))
    )
    r, q = (sum(s * y * row[i] for s, y, row in zip(sigma, target, values, strict=True)) for i in (0, 1))
    expected = np.array([float((d * r - b * q) / (a * d - b * b)), float((a * q - b * r) / (a * d - b * b))])
    assert_right(plane, expected, grid.values(quantized))


@pytest.mark.parametrize("scale", [2.0**-30, 2.0**-200, 1.0, 2.0**300])
def test_c_is_chosen_as_refits_choose_it_whatever_the_scale(scale: float) -> None:
    """With a free bias, C times the square of a scale is the same choice: the same G-means, to the last digits."""
    X, own = rows_of(7, 2)
    options = SolverOptions("lssvm", "inverse", standardize=False, bias="free")
    tried = (1e-3, 0.1, 10.0)

    def chosen(factor: float) -> Floats:
        grid = fit_grid(X * factor)
        quantized = grid.quantize(X * factor)[0]
        folds = [
            {
                name: Moments.of_rows(quantized[(folds_of(quantized) == at) & side])
                for name, side in (("no", ~own), ("yes", own))
            }
            for at in range(5)
        ]
        return choose_c(folds, grid, options, [C / factor / factor for C in tried]).implied_gmeans

    np.testing.assert_allclose(chosen(scale), chosen(1.0), rtol=1e-9)
    assert not np.isnan(chosen(scale)).any()


def test_no_c_is_chosen_by_planes_that_tell_no_rows_apart() -> None:
    X, own = rows_of(8)
    grid = fit_grid(X * 1e-9)
    quantized = grid.quantize(X * 1e-9)[0]
    folds = [
        {
            name: Moments.of_rows(quantized[(folds_of(quantized) == at) & side])
            for name, side in (("no", ~own), ("yes", own))
        }
        for at in range(5)
    ]
    options = SolverOptions(weighting="none", standardize=False, C=7.0)
    choice = choose_c(folds, grid, options, (1.0, 1e18))
    assert np.isnan(choice.implied_gmeans[0])
    assert choice.implied_gmeans[1] > 0.5
    assert choice.C == 1e18


@pytest.mark.parametrize("scale", [2.0**-30, 1.0])
def test_planes_row_by_row_are_those_of_the_solver_at_any_scale(scale: float) -> None:
    X, own = rows_of(9)
    grid = fit_grid(X * scale)
    quantized = grid.quantize(X * scale)[0]
    options = SolverOptions(standardize=False)
    order = np.argsort(np.random.default_rng(1).random(len(X)))
    coming = last_rows.Rows(quantized[order][30:], own[order][30:].astype(np.int64))
    begun, sides = quantized[order][:30], own[order][:30]
    passage = sliding_planes.Passage(
        Moments.of_rows(begun[sides]), Moments.of_rows(begun[~sides]), coming, coming[:0], positive=1
    )
    (planes,) = sliding_planes.planes_before(passage, grid, options)
    assert not planes.refused.any()
    for at in (0, 13, 29):
        seen, theirs = quantized[order][: 30 + at], own[order][: 30 + at]
        expected = exact_plane(seen, theirs, grid, options)
        np.testing.assert_allclose([*planes.weights[at], planes.biases[at]], expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [2.0**-300, 2.0**-30, 1.0])
def test_the_best_cut_has_no_unit(scale: float) -> None:
    means, deviations = np.array([[0.3, -0.5], [0.02, 0.01]]), np.array([[0.2, 0.1], [0.001, 0.004]])
    cut = candidates.gaussian_threshold(means * scale, deviations * scale)
    assert (cut / scale).tolist() == candidates.gaussian_threshold(means, deviations).tolist()


def test_candidates_of_small_features_are_right_and_those_that_are_not_are_left_out() -> None:
    X, own = rows_of(10)
    grid = fit_grid(X * 1e-9)
    quantized = grid.quantize(X * 1e-9)[0]
    grams = {"no": Moments.of_rows(quantized[~own]), "yes": Moments.of_rows(quantized[own])}
    options = [
        SolverOptions(weighting=weighting, C=C, standardize=False)  # type: ignore[arg-type]
        for weighting, C in product(("inverse", "none"), (1.0, 1e17))
    ]
    fitted = candidates.fit([grams], 0, grid, options)
    assert np.isnan(fitted.biases["yes"][0, :, 0]).tolist() == [False, False, True, False]
    assert len(fitted.refusals) == 1
    assert "standardize = true" in fitted.refusals[0]
    for at in (0, 1, 3):
        found = np.append(fitted.weights["yes"][0, at], fitted.biases["yes"][0, at, 0])
        expected = exact_plane(quantized, own, grid, options[at])
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert fitted.condition <= raw_units.LARGEST_CONDITION
