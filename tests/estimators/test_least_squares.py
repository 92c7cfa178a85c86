"""The machine that keeps w and C, against paper 2's own formulas and fits from scratch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

from deltaplane.arrays import Floats, Labels
from deltaplane.errors import DefinitionError, StateMismatch
from deltaplane.estimators import LeastSquaresSVM, RowsRefused
from deltaplane.estimators.least_squares_state import BATCH_ROWS, LeastSquaresState
from estimators.estimator_rows import Rows, random_rows


def rows_of(seed: int, count: int, features: int = 6, classes: int = 2) -> Rows:
    rows = random_rows(seed, count, classes, features)
    return Rows(rows.X - np.array([0.0, 2000.0, *[0.0] * (features - 2)]), rows.y)


def formulas(X: Floats, y: Labels, rho: float) -> tuple[Floats, Floats]:
    """W and C by paper 2, eq. 3 and 4, as printed, for labels 0 and 1."""
    Phi, signs = X.T, np.where(y == 1, 1.0, -1.0)
    inner = np.linalg.inv(Phi.T @ Phi + rho * np.eye(len(X)))
    return Phi @ inner @ signs, Phi @ inner @ Phi.T


def theorem(w: Floats, C: Floats, added: Rows, removed: Rows, rho: float) -> tuple[Floats, Floats]:
    """Paper 2, eq. 5 and 6, as printed, both at once."""
    y_added, y_removed = (np.where(rows.y == 1, 1.0, -1.0) for rows in (added, removed))
    Phi_c = np.hstack([added.X.T, removed.X.T])
    Phi_s = np.hstack([added.X.T, -removed.X.T])
    D = C - np.eye(len(C))
    K = D @ Phi_c @ np.linalg.inv(rho * np.eye(Phi_c.shape[1]) - Phi_s.T @ D @ Phi_c)
    return w + K @ (Phi_s.T @ w - np.append(y_added, -y_removed)), C + K @ Phi_s.T @ D


def close_to(machine: LeastSquaresSVM, other: LeastSquaresSVM, rtol: float = 1e-9) -> None:
    scale = np.abs(other.coef_).max()
    np.testing.assert_allclose(machine.coef_, other.coef_, atol=rtol * scale)
    np.testing.assert_allclose(machine.intercept_, other.intercept_, atol=rtol * scale)
    np.testing.assert_allclose(machine.auxiliary_, other.auxiliary_, atol=rtol)
    assert machine.n_rows_ == other.n_rows_


@pytest.mark.parametrize("rho", [0.01, 1.0, 30.0])
def test_a_fit_has_the_w_and_the_matrix_that_the_paper_prints(rho: float) -> None:
    rows = rows_of(1, 60)
    machine = LeastSquaresSVM(rho).fit(rows.X, rows.y)
    w, C = formulas(rows.X, rows.y, rho)
    np.testing.assert_allclose(machine.coef_[0], w, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(machine.auxiliary_, C, atol=1e-10)


@pytest.mark.parametrize(("adding", "removing"), [(1, 0), (0, 1), (7, 0), (0, 7), (1, 1), (9, 4)])
def test_one_update_is_the_theorem_of_the_paper(adding: int, removing: int) -> None:
    rows, rho = rows_of(2, 80), 0.5
    old, added, removed = rows[:60], rows[60 : 60 + adding], rows[:removing]
    machine = LeastSquaresSVM(rho).fit(old.X, old.y)
    w, C = theorem(machine.coef_[0], machine.auxiliary_, added, removed, rho)
    machine.partial_fit(
        added.X if adding else None, added.y if adding else None, remove=(removed.X, removed.y) if removing else None
    )
    np.testing.assert_allclose(machine.coef_[0], w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(machine.auxiliary_, C, atol=1e-10)
    left = rows[removing : 60 + adding]
    close_to(machine, LeastSquaresSVM(rho).fit(left.X, left.y))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@given(st.integers(0, 10_000), st.data())
@settings(max_examples=20)
def test_rows_may_come_and_go_in_any_batches(classes: int, fit_intercept: bool, seed: int, data: st.DataObject) -> None:  # noqa: FBT001
    rows = rows_of(seed, 60, classes=classes)
    machine = LeastSquaresSVM(0.3, fit_intercept=fit_intercept)
    cut = data.draw(st.integers(1, 59))
    machine.partial_fit(rows.X[:cut], rows.y[:cut], classes=range(classes))
    leaving = np.array(sorted(data.draw(st.sets(st.integers(0, 59), max_size=50))), dtype=int)
    gone = rows[leaving]
    machine.partial_fit(rows.X[cut:], rows.y[cut:], remove=(gone.X, gone.y) if len(gone) else None)
    staying = rows[np.setdiff1d(np.arange(60), leaving)]
    whole = LeastSquaresSVM(0.3, fit_intercept=fit_intercept)
    whole.partial_fit(staying.X[:5], staying.y[:5], classes=range(classes)).refresh(staying.X, staying.y)
    close_to(machine, whole)
    assert machine.exact_


def test_ten_thousand_random_steps_stay_within_a_hundred_millionth_of_a_fit_from_scratch() -> None:
    chance, rho = np.random.default_rng(7), 1.0
    rows = rows_of(7, 10_300, features=12)
    targets = np.where(rows.y == 1, 1.0, -1.0)[:, None]
    live, coming = list(range(300)), 300
    state = LeastSquaresState.of(rho, rows.X[live], targets[live])
    for _ in range(10_000):
        if chance.random() < 0.5 and coming < len(rows):
            state = state.changed(rows.X[coming : coming + 1], targets[coming : coming + 1])
            live.append(coming)
            coming += 1
        elif live:
            at = live.pop(int(chance.integers(len(live))))
            state = state.changed(rows.X[at : at + 1], targets[at : at + 1], leave=True)
    fresh = LeastSquaresState.of(rho, rows.X[live], targets[live])
    assert np.linalg.norm(state.w - fresh.w) <= 1e-8 * np.linalg.norm(fresh.w)
    assert state.drift() <= 1e-8


@pytest.mark.parametrize("rho", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize(("scale", "live"), [(1.0, 100), (10.0, 100), (1.0, 14), (10.0, 14), (100.0, 100), (1e4, 100)])
def test_the_drift_that_is_reported_covers_the_error_there_is(rho: float, scale: float, live: int) -> None:
    rows = rows_of(8, 200, features=12)
    whole = LeastSquaresSVM(rho).fit(rows.X[:live], rows.y[:live])
    machine = LeastSquaresSVM(rho).fit(rows.X[:live], rows.y[:live])
    for at in range(100, 160):
        passing = scale * rows.X[at : at + 1], rows.y[at : at + 1]
        machine.partial_fit(*passing).partial_fit(remove=passing)
    error = np.linalg.norm(machine.coef_ - whole.coef_) / np.linalg.norm(whole.coef_)
    assert error <= 2.0 * machine.drift_
    assert machine.exact_ == (machine.drift_ <= 1e-8)
    if scale == 1e4:
        assert not machine.exact_
    elif (scale, live) == (1.0, 100):
        assert machine.exact_


def test_an_outlier_that_has_left_is_told_by_the_drift_and_cured_by_refreshing() -> None:
    rows = rows_of(9, 100)
    machine = LeastSquaresSVM().fit(rows.X, rows.y)
    assert machine.exact_
    outlier = (np.full((1, 6), 1e7), [1])
    machine.partial_fit(*outlier).partial_fit(remove=outlier)
    whole = LeastSquaresSVM().fit(rows.X, rows.y)
    assert np.linalg.norm(machine.coef_ - whole.coef_) > 1e-3 * np.linalg.norm(whole.coef_)
    assert not machine.exact_
    machine.refresh(rows.X, rows.y)
    assert machine.exact_
    close_to(machine, whole, rtol=1e-12)


def test_a_removed_row_that_is_known_to_a_tenth_moves_the_weights_by_less_than_a_hundredth() -> None:
    rows, chance = rows_of(10, 1000), np.random.default_rng(10)
    for at in range(20):
        row = rows[at : at + 1]
        error = chance.normal(size=row.X.shape)
        rough = row.X + 0.1 * error / np.linalg.norm(error) * np.linalg.norm(row.X)
        machine = LeastSquaresSVM().fit(rows.X, rows.y).retire(rough, row.y)
        others = np.arange(1000) != at
        exact = LeastSquaresSVM().fit(rows.X[others], rows.y[others])
        apart = np.linalg.norm(machine.coef_ - exact.coef_) / np.linalg.norm(exact.coef_)
        assert 0.0 < apart < 0.01


def test_a_batch_beyond_a_thousand_rows_is_split_and_means_the_same() -> None:
    rows = rows_of(11, 2 * BATCH_ROWS + 500)
    start = rows[:50]
    machine = LeastSquaresSVM().fit(start.X, start.y)
    machine.partial_fit(rows.X[50:], rows.y[50:])
    close_to(machine, LeastSquaresSVM().fit(rows.X, rows.y))
    most = rows[: 2 * BATCH_ROWS]
    machine.retire(most.X, most.y)
    left = rows[2 * BATCH_ROWS :]
    close_to(machine, LeastSquaresSVM().fit(left.X, left.y))


def test_when_all_rows_have_left_nothing_is_left() -> None:
    rows = rows_of(12, 40)
    machine = LeastSquaresSVM().fit(rows.X, rows.y).retire(rows.X, rows.y)
    assert not machine.coef_.any()
    assert not machine.auxiliary_.any()
    assert machine.drift_ == 0.0


# Cross-validation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("folds", [3, KFold(7), StratifiedKFold(4, shuffle=True, random_state=5), KFold(90)], ids=str)
def test_folds_that_are_removed_score_as_folds_that_never_were_in(folds: Any, classes: int) -> None:
    rows = rows_of(13, 90, classes=classes)
    machine = LeastSquaresSVM(0.2, fit_intercept=True)
    accuracies = machine.cross_validate(rows.X, rows.y, folds)
    expected = cross_val_score(LeastSquaresSVM(0.2, fit_intercept=True), rows.X, rows.y, cv=folds)
    np.testing.assert_allclose(accuracies, expected)
    assert not hasattr(machine, "state_")


def test_folds_that_leave_rows_out_of_both_parts_are_refused() -> None:
    rows = rows_of(14, 30)
    with pytest.raises(ValueError, match="all that are not held out"):
        LeastSquaresSVM().cross_validate(rows.X, rows.y, [(np.arange(10), np.arange(10, 20))])


# Features ------------------------------------------------------------------------------------------------------------


def test_an_intercept_is_the_weight_of_a_feature_that_is_always_one() -> None:
    rows = rows_of(15, 80)
    machine = LeastSquaresSVM(0.7, fit_intercept=True).fit(rows.X + 3.0, rows.y)
    plain = LeastSquaresSVM(0.7).fit(np.column_stack([rows.X + 3.0, np.ones(80)]), rows.y)
    np.testing.assert_allclose(np.append(machine.coef_, machine.intercept_), plain.coef_[0], rtol=1e-12)


def squares(X: Floats) -> Floats:
    return np.hstack([X, X**2])


def test_a_feature_map_is_applied_wherever_rows_are_given() -> None:
    rows = rows_of(16, 80)
    machine = LeastSquaresSVM(feature_map=squares).fit(rows.X[:50], rows.y[:50])
    machine.partial_fit(rows.X[50:], rows.y[50:], remove=(rows.X[:10], rows.y[:10]))
    plain = LeastSquaresSVM().fit(squares(rows.X[10:]), rows.y[10:])
    close_to(machine, plain)
    np.testing.assert_allclose(
        machine.decision_function(rows.X), plain.decision_function(squares(rows.X)), rtol=1e-7, atol=1e-10
    )


# Refusals ------------------------------------------------------------------------------------------------------------


def test_rows_that_cannot_have_been_in_are_not_removed_and_nothing_changes() -> None:
    rows = rows_of(17, 40)
    machine = LeastSquaresSVM().fit(rows.X, rows.y)
    before = machine.coef_.tobytes(), machine.auxiliary_.tobytes()
    with pytest.raises(StateMismatch, match="cannot have been among the 41"):
        machine.partial_fit(rows.X[:1], rows.y[:1], remove=(100.0 * rows.X[:1], rows.y[:1]))
    with pytest.raises(StateMismatch, match="at most the 40 rows"):
        machine.retire(np.zeros((41, 6)), np.zeros(41, dtype=int))
    assert (machine.coef_.tobytes(), machine.auxiliary_.tobytes()) == before


def test_what_cannot_be_used_is_refused_by_name() -> None:
    rows = rows_of(18, 40)
    for rho in (0.0, -1.0, np.inf, "1", True):
        with pytest.raises(DefinitionError, match="rho"):
            LeastSquaresSVM(rho).fit(rows.X, rows.y)  # type: ignore[arg-type]
    machine = LeastSquaresSVM().fit(rows.X, rows.y)
    with pytest.raises(RowsRefused, match="classes of the first call"):
        machine.partial_fit(rows.X[:1], [2])
    with pytest.raises(ValueError, match="rows to add"):
        machine.partial_fit()
    with pytest.raises(ValueError, match="rows to add"):
        LeastSquaresSVM().partial_fit(remove=(rows.X, rows.y))
    with pytest.raises(ValueError, match="first call"):
        machine.partial_fit(rows.X, rows.y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="two classes"):
        LeastSquaresSVM().partial_fit(rows.X[:1], rows.y[:1])
