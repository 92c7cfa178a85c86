"""The kernel machine that improves on new rows, against the linear system of paper 5 as it is printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deltaplane.arrays import Floats, Labels
from deltaplane.errors import DefinitionError, LimitExceeded
from deltaplane.estimators import RowsRefused, UpdatableKernelSVM, updatable_kernel
from estimators.estimator_rows import Rows, random_rows

Decide = Callable[[Floats], Floats]


def rows_of(seed: int, count: int, classes: int = 2) -> Rows:
    rows = random_rows(seed, count, classes)
    return Rows(rows.X - np.array([0.0, 2000.0, 0.0]), rows.y)


def kernel(X: Floats, Z: Floats, sigma: float | None) -> Floats:
    if sigma is None:
        return X @ Z.T
    return np.array([[np.exp(-np.sum((x - z) ** 2) / sigma**2) for z in Z] for x in X])


def updated(decide: Decide, X: Floats, y: Floats, gamma: float, sigma: float | None) -> Decide:
    """Paper 5, eq. 17, for labels ±1; with ``decide`` zero it is eq. 6."""
    n = len(y)
    matrix = np.zeros((n + 1, n + 1))
    matrix[0, 1:], matrix[1:, 0] = -y, y
    matrix[1:, 1:] = np.outer(y, y) * kernel(X, X, sigma) + np.eye(n) / gamma
    solution = np.linalg.solve(matrix, np.append(0.0, 1.0 - y * decide(X)))
    return lambda Z: decide(Z) + kernel(Z, X, sigma) @ (solution[1:] * y) + solution[0]


def nothing(Z: Floats) -> Floats:
    return np.zeros(len(Z))


@pytest.mark.parametrize("softness", [1.0, 10.0])
@pytest.mark.parametrize("sigma", [None, 0.8, 3.0])
def test_fits_and_repeated_updates_solve_the_system_that_the_paper_prints(sigma: float | None, softness: float) -> None:
    rows, gamma = rows_of(1, 90), 5.0
    y = np.where(rows.y == 1, 1.0, -1.0)
    machine = UpdatableKernelSVM(gamma, sigma or 1.0, kernel="rbf" if sigma else "linear", softness=softness)
    machine.fit(rows.X[:30], rows.y[:30])
    decide = updated(nothing, rows.X[:30], y[:30], gamma, sigma)
    np.testing.assert_allclose(machine.decision_function(rows.X), decide(rows.X), atol=1e-9)
    for start in (30, 60):
        machine.update(rows.X[start : start + 30], rows.y[start : start + 30])
        decide = updated(decide, rows.X[start : start + 30], y[start : start + 30], gamma / softness, sigma)
        np.testing.assert_allclose(machine.decision_function(rows.X), decide(rows.X), atol=1e-9)
    assert (machine.predict(rows.X) == (decide(rows.X) > 0)).all()
    assert machine.n_support_rows_ == 90


def test_more_classes_are_each_told_from_the_rest() -> None:
    rows = rows_of(2, 80, classes=3)
    machine = UpdatableKernelSVM(5.0, 2.0).fit(rows.X[:50], rows.y[:50]).update(rows.X[50:], rows.y[50:])
    for label in range(3):
        y = np.where(rows.y == label, 1.0, -1.0)
        decide = updated(nothing, rows.X[:50], y[:50], 5.0, 2.0)
        decide = updated(decide, rows.X[50:], y[50:], 0.5, 2.0)
        np.testing.assert_allclose(machine.decision_function(rows.X)[:, label], decide(rows.X), atol=1e-9)
    assert (machine.predict(rows.X) == machine.decision_function(rows.X).argmax(axis=1)).all()


def test_updates_bring_a_poor_start_close_to_a_fit_on_all_rows() -> None:
    chance = np.random.default_rng(3)
    X = chance.uniform(-2, 2, (900, 2))
    y = (np.hypot(*X.T) > 1.3).astype(int)
    start, new, test = slice(0, 40), slice(40, 500), slice(500, 900)
    machine = UpdatableKernelSVM(100.0, 1.0).fit(X[start], y[start])
    before = machine.score(X[test], y[test])
    after = machine.update(X[new], y[new]).score(X[test], y[test])
    whole = UpdatableKernelSVM(100.0, 1.0).fit(X[:500], y[:500]).score(X[test], y[test])
    assert before < after
    assert whole - after < 0.02


def test_an_update_may_bring_rows_of_one_class_alone() -> None:
    rows = rows_of(4, 100)
    machine = UpdatableKernelSVM(5.0, 2.0).fit(rows.X[:60], rows.y[:60])
    ones = rows[60:][rows.y[60:] == 1]
    before = machine.decision_function(ones.X)
    machine.update(ones.X, ones.y)
    assert (np.abs(machine.decision_function(ones.X) - 1.0)).sum() < np.abs(before - 1.0).sum()


def test_rows_are_decided_in_blocks_to_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(5, 120)
    machine = UpdatableKernelSVM().fit(rows.X[:70], rows.y[:70]).update(rows.X[70:], rows.y[70:])
    whole = machine.decision_function(rows.X)
    monkeypatch.setattr(updatable_kernel, "_KERNEL_ENTRIES", 500)
    np.testing.assert_allclose(machine.decision_function(rows.X), whole, rtol=1e-12)


def test_what_cannot_be_used_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(6, 40)
    unusable: list[dict[str, Any]] = [{"gamma": 0.0}, {"sigma": -1.0}, {"kernel": "sigmoid"}]
    for parameters in unusable:
        with pytest.raises(DefinitionError, match=next(iter(parameters))):
            UpdatableKernelSVM(**parameters).fit(rows.X, rows.y)
    machine = UpdatableKernelSVM().fit(rows.X, rows.y)
    with pytest.raises(RowsRefused, match="classes of the first call"):
        machine.update(rows.X[:1], [2])
    labels: Labels = rows.y
    monkeypatch.setattr(updatable_kernel, "SYSTEM_ROWS", 39)
    with pytest.raises(LimitExceeded, match="at most 39 rows at once, got 40"):
        machine.update(rows.X, labels)
