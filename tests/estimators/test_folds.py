"""C chosen from the statistics alone, against the same folds done with rows, refits and decision values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from scipy.special import log_ndtr

import strategies
from deltaplane.arrays import Int64s, Labels, Quantized
from deltaplane.errors import SolveRefused
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.moments import Moments
from deltaplane.solve.cross_validation import CANDIDATES, FOLDS, choose_c, folds_of, row_hashes
from deltaplane.solve.solver import Problem, solve
from deltaplane.solve.solver_options import SolverOptions
from estimators.estimator_rows import Rows, random_rows

OPTIONS = [
    SolverOptions(),
    SolverOptions(standardize=False),
    SolverOptions("lpsvm"),
    SolverOptions("wlpsvm", "balanced"),
    SolverOptions("wlpsvm", {"c0": 0.3, "c1": 2.0, "c2": 1.0}),
    SolverOptions("lssvm"),
    SolverOptions("lssvm", standardize=False),
    SolverOptions("lssvm", bias="free"),
    SolverOptions("lssvm", "balanced", standardize=False, bias="free"),
]


def by_fold(quantized: Quantized, labels: Labels, folds: Any) -> list[dict[str, Moments]]:
    return [
        {
            str(label): Moments.of_rows(quantized[(folds == fold) & (labels == label)])
            for label in set(labels[folds == fold])
        }
        for fold in range(FOLDS)
    ]


def gmean_by_rows(rows: Rows, grid: Grid, options: SolverOptions, folds: Any = None) -> float:
    """The implied G-mean of one C: every fold held out in turn, its rows decided one by one, all pooled."""
    quantized = grid.quantize(rows.X)[0]
    folds, values = folds_of(quantized) if folds is None else folds, grid.values(quantized)
    classes = sorted(set(rows.y))
    decisions = np.zeros((len(rows), len(classes)))
    for fold in range(FOLDS):
        training = {c: Moments.of_rows(quantized[(folds != fold) & (rows.y == c)]) for c in classes}
        decided = solve(training, grid, options).decide(values[folds == fold])
        decisions[folds == fold] = decided if len(classes) > 2 else np.column_stack([np.zeros(len(decided)), decided])
    logarithm = 0.0
    for own, label in enumerate(classes):
        for other, rival in enumerate(classes):
            if own == other:
                continue
            margins = decisions[rows.y == label][:, own] - decisions[rows.y == label][:, other]
            rivals = decisions[rows.y == rival][:, other] - decisions[rows.y == rival][:, own]
            spread, spread_of_rivals = margins.var() * len(margins), rivals.var() * len(rivals)
            shared = (spread + spread_of_rivals) / (len(margins) + len(rivals))
            deviation = np.sqrt((spread + shared) / (len(margins) + 1))
            logarithm += log_ndtr(margins.mean() / deviation)
    return float(np.exp(logarithm / len(classes)))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_every_candidate_has_the_gmean_that_refits_without_each_fold_give(options: SolverOptions, classes: int) -> None:
    rows = random_rows(11, 120, classes)
    rows = Rows(rows.X, np.array(["c0", "c1", "c2"])[rows.y])
    grid = fit_grid(rows.X)
    quantized = grid.quantize(rows.X)[0]
    candidates = (1e-3, 0.1, 30.0)
    choice = choose_c(by_fold(quantized, rows.y, folds_of(quantized)), grid, options, candidates)
    for candidate, gmean in zip(candidates, choice.implied_gmeans, strict=True):
        with_c = SolverOptions(options.kind, options.weighting, candidate, options.standardize, options.bias)
        assert gmean == pytest.approx(gmean_by_rows(rows, grid, with_c), rel=1e-6)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_matrices_of_several_blocks_have_the_gmeans_that_refits_give_too(options: SolverOptions) -> None:
    rows = random_rows(16, 500, 3, features=130)
    rows = Rows(rows.X, np.array(["c0", "c1", "c2"])[rows.y])
    grid = fit_grid(rows.X)
    quantized = grid.quantize(rows.X)[0]
    choice = choose_c(by_fold(quantized, rows.y, folds_of(quantized)), grid, options, (0.1,))
    with_c = SolverOptions(options.kind, options.weighting, 0.1, options.standardize, options.bias)
    assert choice.implied_gmeans[0] == pytest.approx(gmean_by_rows(rows, grid, with_c), rel=1e-6)


@pytest.mark.parametrize("reach", [2**18, 2**29, 2**30 - 1])
def test_held_out_matrices_are_those_about_the_centre_of_the_others_exactly(reach: int) -> None:
    random = np.random.default_rng(5)
    training, held_out = (
        random.integers(reach // 4, reach, size=(40, 7)),
        -random.integers(reach // 2, reach, size=(90, 7)),
    )
    labels = np.arange(40) % 2
    problem = Problem.of(
        [{"ab"[own]: Moments.of_rows(training[labels == own]) for own in (0, 1)}], Grid(np.ones(7), np.zeros(7))
    )
    middle = np.append((2 * training.sum(axis=0) + 40) // 80, 0)
    whole = np.column_stack([held_out, np.full(90, -1)]).astype(object) - middle
    expected = (whole.T @ whole).astype(np.float64)
    found = problem.grams_inside(0, [Moments.of_rows(held_out), Moments.zero(8)])
    assert np.array_equal(found[0], expected)
    assert not found[1].any()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("spread", [0, 1, 40])
def test_a_feature_that_is_constant_or_nearly_so_in_the_training_folds_is_taken_as_the_solver_takes_it(
    options: SolverOptions, spread: int
) -> None:
    chance = np.random.default_rng(21)
    labels = np.array(["c0", "c1"])[chance.integers(0, 2, 200)]
    quantized = chance.integers(-500, 500, size=(200, 3))
    quantized[:, 0] += 300 * (labels == "c0")
    folds = np.arange(200) % FOLDS
    quantized[:, 1] = np.where(folds == 0, 2**29, spread * (labels == "c1") * chance.integers(0, 2, 200))
    grid = Grid(np.full(3, 2.0**-9), np.zeros(3))
    rows = Rows(grid.values(quantized), labels)
    choice = choose_c(by_fold(quantized, labels, folds), grid, options, (0.1, 30.0))
    for candidate, gmean in zip(choice.candidates, choice.implied_gmeans, strict=True):
        expected = gmean_by_rows(rows, grid, replace(options, C=float(candidate)), folds)
        assert gmean == pytest.approx(expected, rel=1e-6)


def test_one_feature_is_enough_to_choose_by() -> None:
    rows = random_rows(12, 200, features=1)
    grid = fit_grid(rows.X)
    quantized = grid.quantize(rows.X)[0]
    labels = np.array(["a", "b"])[rows.y]
    choice = choose_c(by_fold(quantized, labels, folds_of(quantized)), grid, SolverOptions(), (1.0,))
    expected = gmean_by_rows(Rows(rows.X, labels), grid, SolverOptions())
    assert choice.implied_gmeans[0] == pytest.approx(expected, rel=1e-9)


def test_a_large_mean_costs_no_digits_even_where_sums_need_128_bits() -> None:
    rows = random_rows(13, 400)
    labels = np.array(["a", "b"])[rows.y]
    near = Grid(np.full(3, 2.0**-20), np.array([0.0, 2000.0, 0.0]))
    far = Grid(np.full(3, 2.0**-20), np.array([-900.0, 1100.0, 900.0]))
    choices = []
    for grid in (near, far):
        quantized = grid.quantize(rows.X)[0]
        folds = folds_of(near.quantize(rows.X)[0])
        choices.append(choose_c(by_fold(quantized, labels, folds), grid, SolverOptions()))
    np.testing.assert_allclose(choices[0].implied_gmeans, choices[1].implied_gmeans, rtol=1e-9)
    assert choices[0].C == choices[1].C


def test_noise_asks_for_a_smaller_c_than_a_clear_signal() -> None:
    chance = np.random.default_rng(14)
    X = chance.normal(size=(150, 60))
    noisy = np.where(X[:, 0] + 3 * chance.normal(size=150) > 0, "a", "b")
    clear = np.where(X[:, :30].sum(axis=1) > 0, "a", "b")
    grid = fit_grid(X)
    quantized = grid.quantize(X)[0]
    folds = folds_of(quantized)
    of_noise, of_signal = (choose_c(by_fold(quantized, y, folds), grid, SolverOptions()) for y in (noisy, clear))
    assert of_noise.C < 1.0
    assert of_signal.implied_gmeans.max() > of_noise.implied_gmeans.max() + 0.1
    assert of_noise.C in CANDIDATES


def test_where_no_fold_can_be_held_out_the_given_c_stays() -> None:
    quantized = np.array([[1.0], [5.0]])
    folds = [{"a": Moments.of_rows(quantized[:1]), "b": Moments.of_rows(quantized[1:])}, {}, {}, {}, {}]
    choice = choose_c(folds, Grid(np.ones(1), np.zeros(1)), SolverOptions(C=7.0))
    assert choice.C == 7.0
    assert np.isnan(choice.implied_gmeans).all()


def test_fewer_than_two_classes_leave_nothing_to_choose() -> None:
    with pytest.raises(SolveRefused, match="two classes"):
        choose_c([{"a": Moments.of_rows(np.ones((3, 1)))}], Grid(np.ones(1), np.zeros(1)), SolverOptions())


def test_a_fold_without_rows_of_a_class_is_held_out_all_the_same() -> None:
    rows = random_rows(17, 200, 3)
    y = np.array(["a", "b", "c"])[rows.y]
    quantized = fit_grid(rows.X).quantize(rows.X)[0]
    folds = np.arange(200) % FOLDS
    folds[(y == "a") & (folds == 2)] = 3
    without = by_fold(quantized, y, folds)
    empty = [{"a": Moments.zero(quantized.shape[1] + 1), **fold} for fold in without]
    choices = [choose_c(each, fit_grid(rows.X), SolverOptions()) for each in (without, empty)]
    assert np.isfinite(choices[0].implied_gmeans).all()
    np.testing.assert_array_equal(choices[0].implied_gmeans, choices[1].implied_gmeans)


def test_a_class_of_two_rows_is_still_judged() -> None:
    rows = random_rows(15, 100)
    y = np.full(100, "many")
    y[:2] = "few"
    quantized = fit_grid(rows.X).quantize(rows.X)[0]
    folds = np.arange(100) % FOLDS
    choice = choose_c(by_fold(quantized, y, folds), fit_grid(rows.X), SolverOptions())
    assert (choice.implied_gmeans > 0.0).all()
    assert (choice.implied_gmeans < 1.0).all()


# The hash ------------------------------------------------------------------------------------------------------------


@given(strategies.grid_rows(max_rows=20))
def test_a_row_hashes_as_plain_integer_arithmetic_says(quantized: Int64s) -> None:
    mask = 2**64 - 1

    def mixed(word: int) -> int:
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & mask
        word = (word ^ word >> 27) * 0x94D049BB133111EB & mask
        return word ^ word >> 31

    multipliers = [mixed((j + 1) * 0x9E3779B97F4A7C15 & mask) | 1 for j in range(quantized.shape[1])]
    expected = [
        mixed(sum(a * q for a, q in zip(multipliers, row, strict=True)) + 0xD1B54A32D192ED03 & mask)
        for row in quantized.tolist()
    ]
    assert row_hashes(quantized).tolist() == expected
    assert row_hashes(quantized.astype(np.float64)).tolist() == expected
    assert folds_of(quantized).tolist() == [(word >> 32) * FOLDS >> 32 for word in expected]


def test_the_hash_of_a_row_is_the_same_on_every_machine_and_for_ever() -> None:
    quantized = np.array([[0, 0, 0], [1, -2, 3], [2**30 - 1, 1 - 2**30, 7]])
    assert [f"{word:016x}" for word in row_hashes(quantized).tolist()] == [
        "8209b480faed1b10",
        "69fa77e3872d5d84",
        "2bde9aca44e60e82",
    ]


@pytest.mark.parametrize("features", [1, 2, 54])
def test_folds_are_of_about_equal_size_for_rows_that_differ_in_one_small_integer(features: int) -> None:
    quantized = np.zeros((20_000, features))
    quantized[:, -1] = np.arange(20_000)
    for rows in (quantized, quantized * 2.0**15):
        counts = np.bincount(folds_of(rows), minlength=FOLDS)
        assert abs(counts - 4000).max() < 5 * np.sqrt(20_000 * 0.16)
