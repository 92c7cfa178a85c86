"""Decision values: added in one order, so that a row at the boundary has one class, whatever rows are beside it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from deltaplane.arrays import Floats
from deltaplane.estimators import ExtremeSVM, ProximalSVM, SlidingProximalSVM
from deltaplane.exact.grid import Grid
from deltaplane.solve.decision_values import decision_values, values_by_own_planes
from deltaplane.solve.solver import Plane


def sum_of(row: Floats, weights: Floats) -> float:
    """The products from the first to the last, in numbers of the language."""
    total = float(row[0]) * float(weights[0])
    for value, weight in zip(row[1:].tolist(), weights[1:].tolist(), strict=True):
        total += value * weight
    return total


@pytest.mark.parametrize("features", [1, 2, 7, 54, 300])
@pytest.mark.parametrize("planes", [1, 3])
def test_values_are_sums_from_the_first_feature_to_the_last(features: int, planes: int) -> None:
    random = np.random.default_rng(features + planes)
    rows, weights = random.normal(size=(40, features)), random.normal(size=(planes, features))
    biases = random.normal(size=planes)
    expected = [
        [sum_of(row, of_plane) - bias for of_plane, bias in zip(weights, biases.tolist(), strict=True)] for row in rows
    ]
    assert decision_values(rows, weights, biases).tolist() == expected
    for few in (1, 2, 15):
        assert decision_values(rows[:few], weights, biases).tolist() == expected[:few]
    own = np.repeat(weights[:1], len(rows), axis=0)
    assert values_by_own_planes(rows, own, np.full(len(rows), biases[0])).tolist() == [one[0] for one in expected]


@pytest.mark.parametrize("count", [1, 3, 200])
def test_a_row_on_the_boundary_is_on_it_alone_and_among_others(count: int) -> None:
    random = np.random.default_rng(count)
    rows, weights = random.normal(size=(count, 54)), random.normal(size=54)
    for at in range(0, count, 7):
        plane = Plane(("a", "b"), "b", weights[None], np.array([sum_of(rows[at], weights)]), {}, 1.0, 1.0, {})
        assert plane.decide(rows)[at, 0] == 0.0
        assert plane.predict(rows)[at] == plane.predict(rows[at : at + 1])[0] == 0


@pytest.mark.parametrize("machine", [ProximalSVM(C=1.0), SlidingProximalSVM(400, C=1.0), ExtremeSVM(20, C=1.0)])
@pytest.mark.parametrize("classes", [2, 3])
def test_an_estimator_decides_the_same_for_a_row_alone_and_among_others(machine: ProximalSVM, classes: int) -> None:
    X, y = make_classification(300, n_features=20, n_informative=10, n_classes=classes, random_state=1)
    decided = machine.fit(X, y).decision_function(X)
    assert decided.tolist() == [machine.decision_function(row[None])[0].tolist() for row in X]


def test_faults_of_many_rows_are_those_of_each() -> None:
    grid = Grid(np.array([1.0, 0.5]), np.array([3.0, 0.0]))
    rows = np.array([[np.nan, 0.0], [0.0, 1e300], [np.inf, np.nan], [2.0**31, 0.0]])
    names = ("x", "y")
    assert grid.faults(rows, names) == [grid.fault(row, names) for row in rows]
    assert len(set(grid.faults(rows, names))) == len(rows)
