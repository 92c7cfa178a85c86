"""The proximal machines against the papers' formulas in plain float64, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deltaplane.arrays import Floats, Labels
from deltaplane.errors import DefinitionError, DefinitionMismatch, SolveRefused, StateMismatch
from deltaplane.estimators import ExtremeSVM, ProximalSVM, RowsRefused, SlidingProximalSVM
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.statistics import Statistics
from deltaplane.reference import exact_moments
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from estimators.estimator_rows import GRID, random_rows, state_of


def extended(X: Floats) -> Floats:
    return np.column_stack([X, -np.ones(len(X))])


def plane(X: Floats, y: Labels, C: float, *, weighted: bool) -> Floats:
    """Paper 1, eq. 21, as it is printed: ``(I/C + σ₊M₊ + σ₋M₋)⁻¹ (σ₊v₊ - σ₋v₋)``."""
    own, rest = extended(X[y == 1]), extended(X[y != 1])
    sigma_own, sigma_rest = (len(rest) / len(X), len(own) / len(X)) if weighted else (1.0, 1.0)
    matrix = np.eye(X.shape[1] + 1) / C + sigma_own * own.T @ own + sigma_rest * rest.T @ rest
    return np.linalg.solve(matrix, sigma_own * own.sum(axis=0) - sigma_rest * rest.sum(axis=0))


@pytest.mark.parametrize("weighting", ["inverse", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_two_classes_give_the_plane_that_the_paper_prints(weighting: Any, seed: int) -> None:
    rows = random_rows(seed, 300, features=4)
    X = rows.X - np.array([0.0, 2000.0, 0.0, 0.0])
    grid = fit_grid(X)
    X = grid.values(grid.quantize(X)[0])
    machine = ProximalSVM(0.7, weighting=weighting, standardize=False, grid=grid).fit(X, rows.y)
    expected = plane(X, rows.y, 0.7, weighted=weighting == "inverse")
    np.testing.assert_allclose(np.append(machine.coef_[0], -machine.intercept_), expected, rtol=1e-9)
    np.testing.assert_allclose(machine.decision_function(X), extended(X) @ expected, rtol=1e-7, atol=1e-9)
    assert (machine.predict(X) == (extended(X) @ expected > 0)).all()


@pytest.mark.parametrize("seed", range(3))
def test_more_classes_are_each_told_from_the_rest_in_standardized_units(seed: int) -> None:
    rows = random_rows(seed, 300, classes=4)
    machine = ProximalSVM(0.05, grid=fit_grid(rows.X)).fit(rows.X, rows.y)
    standardized = (rows.X - rows.X.mean(axis=0)) / rows.X.std(axis=0)
    planes = [plane(standardized, (rows.y == label).astype(int), 0.05, weighted=True) for label in range(4)]
    decisions = extended(standardized) @ np.array(planes).T
    np.testing.assert_allclose(machine.decision_function(rows.X), decisions, atol=1e-5)
    assert (machine.predict(rows.X) == decisions.argmax(axis=1)).mean() > 0.99


def test_labels_of_any_kind_are_given_back_and_numbers_are_told_apart_in_their_own_order() -> None:
    rows = random_rows(1, 200, classes=3)
    names = np.array(["zebra", "ant", "mouse"])
    named = ProximalSVM(1.0, grid=GRID).fit(rows.X, names[rows.y])
    assert named.classes_.tolist() == ["ant", "mouse", "zebra"]
    numbered = ProximalSVM(1.0, grid=GRID).fit(rows.X, np.array([2, 10, 100])[rows.y])
    assert numbered.classes_.tolist() == [2, 10, 100]
    same = names[np.searchsorted([2, 10, 100], numbered.predict(rows.X))]
    assert named.predict(rows.X).tolist() == same.tolist()
    assert (same == names[rows.y]).mean() > 0.6


def test_whole_numbers_mean_the_same_label_as_integers_and_as_floats() -> None:
    rows = random_rows(1, 100)
    whole = ProximalSVM(1.0, grid=GRID).fit(rows.X, rows.y)
    assert ProximalSVM(1.0, grid=GRID).fit(rows.X, rows.y.astype(float)).digest() == whole.digest()


def test_the_digest_is_that_of_a_stream_that_has_seen_the_same_rows() -> None:
    rows = random_rows(5, 150)
    labels = np.array(["no", "yes"])[rows.y]
    definition = StreamDefinition("s", ("x0", "x1", "x2"), GRID, NestedWindows((Window("all"),)), SolverOptions())
    quantized = np.rint((rows.X - GRID.offsets) / GRID.steps).astype(np.int64)
    grams = {(0, label): exact_moments(quantized[labels == label]) for label in ("no", "yes")}
    expected = Statistics(4, grams).digest(definition.data_fingerprint)
    assert ProximalSVM(grid=GRID).fit(rows.X, labels).digest() == expected
    assert ProximalSVM(3.0, grid=GRID, weighting="none").fit(rows.X, labels).digest() == expected
    assert SlidingProximalSVM(150, grid=GRID).fit(rows.X, labels).digest() == expected


def test_a_fitted_grid_does_not_depend_on_the_order_of_the_rows_of_a_fit() -> None:
    rows = random_rows(2, 200)
    assert state_of(ProximalSVM().fit(rows.X[::-1], rows.y[::-1])) == state_of(ProximalSVM().fit(rows.X, rows.y))


# Classes -------------------------------------------------------------------------------------------------------------


def test_classes_come_and_go_with_their_rows() -> None:
    rows = random_rows(3, 200, classes=3)
    machine = ProximalSVM(grid=GRID)
    machine.partial_fit(rows.X[rows.y == 1], rows.y[rows.y == 1])
    assert machine.classes_.tolist() == [1]
    with pytest.raises(SolveRefused, match="two classes"):
        machine.predict(rows.X)
    machine.partial_fit(rows.X[rows.y == 0], rows.y[rows.y == 0])
    two = state_of(machine)
    assert machine.coef_.shape == (1, 3)
    machine.partial_fit(rows.X[rows.y == 2], rows.y[rows.y == 2])
    assert machine.coef_.shape == (3, 3)
    assert set(machine.predict(rows.X)) == {0, 1, 2}
    machine.retire(rows.X[rows.y == 2], rows.y[rows.y == 2])
    assert state_of(machine) == two


def test_a_declared_class_without_rows_is_never_predicted() -> None:
    rows = random_rows(3, 200, classes=2)
    machine = ProximalSVM(grid=GRID)
    machine.partial_fit(rows.X[rows.y == 0], rows.y[rows.y == 0], classes=[0, 1, 2])
    assert set(machine.predict(rows.X)) == {0}
    machine.partial_fit(rows.X[rows.y == 1], rows.y[rows.y == 1], classes=[0, 1, 2])
    assert machine.classes_.tolist() == [0, 1, 2]
    assert machine.decision_function(rows.X).shape == (200, 3)
    assert np.isneginf(machine.decision_function(rows.X)[:, 2]).all()
    both = ProximalSVM(grid=GRID).fit(rows.X, rows.y)
    assert (machine.predict(rows.X) == both.predict(rows.X)).all()
    only = ProximalSVM(grid=GRID).partial_fit(rows.X[rows.y == 1], rows.y[rows.y == 1], classes=[0, 1])
    assert set(only.predict(rows.X)) == {1}
    with pytest.raises(ValueError, match="first call"):
        machine.partial_fit(rows.X, rows.y, classes=[0, 1])


def test_class_weights_are_given_by_the_labels_themselves() -> None:
    rows = random_rows(4, 200)
    plain = ProximalSVM(1.0, grid=GRID).fit(rows.X, rows.y)
    counts = plain.class_counts_
    weights = {0: counts[1] / 200, 1: counts[0] / 200}
    weighted = ProximalSVM(1.0, weighting=weights, grid=GRID).fit(rows.X, rows.y)
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-10)
    with pytest.raises(SolveRefused, match="no weight"):
        ProximalSVM(weighting={0: 1.0}, grid=GRID).fit(rows.X, rows.y)


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", ["auto", 1.0])
def test_rows_that_cannot_have_been_added_are_not_retired(C: Any) -> None:
    rows = random_rows(6, 100)
    machine = ProximalSVM(C, grid=GRID).fit(rows.X, rows.y)
    before = state_of(machine)
    with pytest.raises(StateMismatch, match="sum of squares of feature 0"):
        machine.retire(rows.X[:1] + np.array([500.0, 0.0, 0.0]), rows.y[:1])
    with pytest.raises(StateMismatch, match="rows"):
        machine.retire(np.repeat(rows.X[:1], 200, axis=0), np.repeat(rows.y[:1], 200))
    with pytest.raises(RowsRefused, match="never added"):
        machine.retire(rows.X[:1], [7])
    assert state_of(machine) == before


def test_estimators_over_different_things_do_not_merge() -> None:
    rows = random_rows(7, 100)
    machine = ProximalSVM(grid=GRID).fit(rows.X, rows.y)
    other_grid = Grid(GRID.steps * 2, np.zeros(3))
    with pytest.raises(DefinitionMismatch, match="same grid"):
        machine.merge(ProximalSVM(grid=other_grid).fit(rows.X, rows.y))
    with pytest.raises(DefinitionMismatch, match="in both or in neither"):
        machine.merge(ProximalSVM(1.0, grid=GRID).fit(rows.X, rows.y))
    with pytest.raises(DefinitionMismatch, match="another ProximalSVM, got ExtremeSVM"):
        machine.merge(ExtremeSVM(5, grid=GRID).fit(rows.X, rows.y))
    with pytest.raises(DefinitionMismatch, match="same feature map"):
        ExtremeSVM(5, grid=GRID).fit(rows.X, rows.y).merge(ExtremeSVM(5, 1, grid=GRID).fit(rows.X, rows.y))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": "best"}, "'auto'"),
        ({"C": -1.0}, "above zero"),
        ({"weighting": "heavy"}, "weighting"),
        ({"kind": "svm"}, "kind"),
        ({"kind": "lpsvm", "weighting": "inverse"}, "no class weights"),
        ({"standardize": "yes"}, "standardize"),
        ({"grid": "fine"}, "grid"),
        ({"grid": Grid(np.ones(2), np.zeros(2))}, "over 3 features"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused_by_name(parameters: dict[str, Any], words: str) -> None:
    rows = random_rows(8, 50)
    with pytest.raises(DefinitionError, match=words):
        ProximalSVM(**parameters).fit(rows.X, rows.y)


def test_c_cannot_become_automatic_on_statistics_without_folds() -> None:
    rows = random_rows(8, 50)
    machine = ProximalSVM(1.0, grid=GRID).fit(rows.X, rows.y).set_params(C="auto")
    machine.partial_fit(rows.X, rows.y)
    with pytest.raises(SolveRefused, match="fit anew"):
        machine.predict(rows.X)


@pytest.mark.parametrize("window", [0, -1, 2.5, True, "all"])
def test_a_window_must_be_a_number_of_rows(window: Any) -> None:
    rows = random_rows(8, 50)
    with pytest.raises(DefinitionError, match="window"):
        SlidingProximalSVM(window, grid=GRID).fit(rows.X, rows.y)


# Forgetting ----------------------------------------------------------------------------------------------------------


def test_an_outlier_that_has_left_leaves_nothing_behind() -> None:
    rows = random_rows(9, 100)
    wide = Grid(np.array([1.0, 1.0, 1.0]), np.zeros(3))
    machine = ProximalSVM(grid=wide).fit(rows.X, rows.y)
    before = state_of(machine)
    machine.partial_fit([[1e9, -1e9, 1e9]], [1])
    assert state_of(machine) != before
    assert state_of(machine.retire([[1e9, -1e9, 1e9]], [1])) == before


def test_sums_of_squares_that_no_rows_have_are_seen_even_where_they_are_positive() -> None:
    line = Grid(np.ones(1), np.zeros(1))
    machine = ProximalSVM(1.0, grid=line).fit([[10.0], [12.0], [0.0]], [1, 1, 0])
    with pytest.raises(StateMismatch, match="feature 0 in class '1' would be less than any rows have"):
        machine.retire([[4.0]], [1])  # One row with the sum 18 would be left, and the sum of squares 228.
    machine.retire([[10.0]], [1])
    assert machine.class_counts_ == {0: 1, 1: 1}
