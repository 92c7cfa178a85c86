"""The same hard rows through the estimators: what is retired, or has slid away, leaves no bit behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deltaplane.errors import SolveRefused
from deltaplane.estimators import ExtremeSVM, ProximalSVM, SlidingProximalSVM
from deltaplane.exact.grid import Grid
from torture.torture_stream import cloud

GRID = Grid(np.array([16.0, 16.0]), np.zeros(2))
OUTLIERS = np.array([[1e10, -1e10], [-1e10, -1e10]])
Maker = Callable[[], Any]
MAKERS: dict[str, Maker] = {
    "fixed C": lambda: ProximalSVM(C=1.0, grid=GRID),
    "automatic C": lambda: ProximalSVM(grid=GRID),
    "least squares": lambda: ProximalSVM(C=1.0, kind="lssvm", grid=GRID),
    "extreme": lambda: ExtremeSVM(units=20, seed=3, C=1.0, grid=GRID),
}


def rows_of(seed: int, rows: int) -> tuple[Any, Any]:
    values, labels = cloud(seed, rows)
    return values * 16.0, np.array(labels)


@pytest.mark.parametrize("kind", MAKERS)
def test_outliers_of_1e10_that_were_retired_leave_no_bit_behind(kind: str) -> None:
    X, y = rows_of(1, 80)
    one, other = MAKERS[kind]().fit(X, y), MAKERS[kind]().fit(X, y)
    one.partial_fit(OUTLIERS, np.array(["no", "yes"]))
    assert one.digest() != other.digest()
    one.retire(OUTLIERS, np.array(["no", "yes"]))
    assert one.digest() == other.digest()
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert one.intercept_.tobytes() == other.intercept_.tobytes()


def test_outliers_of_1e10_that_slid_out_of_fifty_rows_leave_no_bit_behind() -> None:
    X, y = rows_of(2, 120)
    sliding = SlidingProximalSVM(50, C=1.0, grid=GRID).partial_fit(X[:60], y[:60])
    sliding.partial_fit(OUTLIERS, np.array(["no", "yes"]))
    for at in range(60, 120, 7):
        sliding.partial_fit(X[at : at + 7], y[at : at + 7])
    batch = ProximalSVM(C=1.0, grid=GRID).fit(X[70:], y[70:])
    assert sliding.digest() == batch.digest()
    assert sliding.coef_.tobytes() == batch.coef_.tobytes()


@pytest.mark.parametrize("kind", MAKERS)
def test_when_all_rows_of_a_class_are_retired_asking_for_a_plane_is_refused(kind: str) -> None:
    X, y = rows_of(4, 60)
    estimator = MAKERS[kind]().fit(X, y)
    estimator.retire(X[y == "yes"], y[y == "yes"])
    with pytest.raises((SolveRefused, ValueError), match=r"two classes|one class"):
        estimator.predict(X)


@pytest.mark.parametrize("kind", ["fixed C", "automatic C", "least squares"])
def test_constant_features_weigh_nothing_and_repeated_ones_share(kind: str) -> None:
    X, y = rows_of(5, 60)
    grid = Grid(np.full(4, 16.0), np.zeros(4))
    wide = np.column_stack([X[:, 0], 2.0 * X[:, 0], np.full(60, 160.0), X[:, 1]])
    coef = MAKERS[kind]().set_params(grid=grid).fit(wide, y).coef_[0]
    assert coef[2] == 0.0
    np.testing.assert_allclose(coef[0], 2.0 * coef[1], rtol=1e-9)


@pytest.mark.parametrize("kind", MAKERS)
def test_more_features_than_rows_identical_rows_and_one_row_of_a_class(kind: str) -> None:
    X, _ = cloud(6, 6, features=12)
    wide = MAKERS[kind]().set_params(grid=None).fit(X, np.array(["no", "yes"] * 3))
    assert np.isfinite(wide.coef_).all()
    same = MAKERS[kind]().fit(np.full((20, 2), 32.0), np.array(["no", "yes"] * 10))
    assert np.abs(same.coef_).max() < 1e-9
    X, _ = rows_of(7, 30)
    X[3] = 16.0 * np.array([6000.0, 7000.0])
    one = MAKERS[kind]().fit(X, np.where(np.arange(30) == 3, "yes", "no"))
    if kind != "least squares":  # It has no class weights, and a class of one row drowns.
        assert one.predict(X[3:4]).tolist() == ["yes"]
