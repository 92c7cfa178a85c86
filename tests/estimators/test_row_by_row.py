"""Test-then-train row by row: planes made many at a time are those made one after the other, bit for bit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from deltaplane.arrays import Floats, Labels
from deltaplane.errors import SolveRefused
from deltaplane.estimators import SlidingProximalSVM
from deltaplane.estimators.rows_given import Labelled
from deltaplane.estimators.sliding import _arriving
from deltaplane.estimators.statistics_classifier import Given
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.solve.sliding_planes import planes_before

FIRST = 60


def stream(seed: int) -> tuple[Floats, Labels, int]:
    """Rows of odd scales and places, their labels, and a window; now and then one class is gone for a while, and now
    and then the features are so many that not all planes are made at once.
    """
    random = np.random.default_rng(seed)
    features, count, window = int(random.integers(1, 9)), int(random.integers(5, 250)), int(random.integers(2, 120))
    if seed % 9 == 8:
        features, count = 40, 100
    scales, places = 10 ** random.uniform(-3, 3, size=features), 100 * random.normal(size=features)
    X = random.normal(size=(FIRST + count, features)) * scales + places
    y = (X[:, 0] + random.normal(size=len(X)) > np.median(X[:, 0])).astype(np.int64)
    if seed % 4 == 0:
        y[FIRST + 20 : FIRST + 140] = 0
    return X, y, window


def settings(seed: int) -> dict[str, Any]:
    """Every kind with every weighting by name, standardised and not, in any 18 consecutive seeds."""
    kind, bias = [("wlpsvm", "regularised"), ("lssvm", "free"), ("lssvm", "none")][seed % 3]
    weighting, standardize = ["inverse", "balanced", "none"][seed // 3 % 3], seed // 9 % 2 == 0
    return {"kind": kind, "bias": bias, "weighting": weighting, "standardize": standardize, "C": 10.0 ** (seed % 5 - 2)}


def begun(X: Floats, y: Labels, window: int, **of: Any) -> SlidingProximalSVM:
    return SlidingProximalSVM(window, grid=fit_grid(X), **of).partial_fit(X[:FIRST], y[:FIRST])


@pytest.mark.parametrize("seed", range(36))
def test_every_plane_every_prediction_and_what_is_held_at_the_end_are_those_of_one_row_at_a_time(seed: int) -> None:
    X, y, window = stream(seed)
    at_once, one_by_one, kept = (begun(X, y, window, **settings(seed)) for _ in range(3))
    try:
        kept._solved()
    except SolveRefused:
        pytest.fail(f"seed {seed} makes a stream without a plane to begin with")
    predicted = at_once.predict_then_fit(X[FIRST:], y[FIRST:])
    coming = Given(X[FIRST:], Labelled.of(y[FIRST:]), {})
    admitted = one_by_one._admitted(one_by_one._fitted(), coming)
    arriving = _arriving(admitted)
    assert predicted.tolist() == one_by_one._one_by_one(X[FIRST:], admitted).tolist()
    passage = kept._passage(arriving)
    assert passage is not None
    blocks = list(planes_before(passage, kept.grid_, kept._options()))
    weights, biases = np.vstack([block.weights for block in blocks]), np.concatenate([block.biases for block in blocks])
    refused = np.concatenate([block.refused for block in blocks])
    for row in range(FIRST, len(X)):
        try:
            plane = kept._solved().plane
            assert plane is not None
            assert not refused[row - FIRST]
            assert weights[row - FIRST].tobytes() == plane.weights[0].tobytes()
            assert biases[row - FIRST] == plane.biases[0]
        except SolveRefused:
            assert refused[row - FIRST]
        kept.partial_fit(X[row : row + 1], y[row : row + 1])
    assert at_once.refused_ == one_by_one.refused_ == np.count_nonzero(refused)
    assert at_once.digest() == one_by_one.digest() == kept.digest()


def test_some_of_these_streams_have_rows_whose_plane_is_refused() -> None:
    refused = 0
    for seed in range(0, 36, 4):
        X, y, window = stream(seed)
        estimator = begun(X, y, window, **settings(seed))
        estimator.predict_then_fit(X[FIRST:], y[FIRST:])
        refused += estimator.refused_
    assert refused > 0


@pytest.mark.parametrize("of", [{"C": "auto"}, {"weighting": {"0": 1.0, "1": 3.0}}, {"window": 20}])
def test_what_is_not_made_many_at_a_time_is_made_one_after_the_other(of: dict[str, Any]) -> None:
    X, y, _ = stream(1)
    X, y = X[: FIRST + 30], y[: FIRST + 30]
    begin = {"C": "auto"} if of == {"C": "auto"} else {"C": 1.0}
    estimator, other = (begun(X, y, 80, **begin).set_params(**of) for _ in range(2))
    coming = Given(X[FIRST:], Labelled.of(y[FIRST:]), {})
    assert estimator._passage(_arriving(estimator._admitted(estimator._fitted(), coming))) is None
    expected = []
    for row in range(FIRST, len(X)):
        expected.append(int(other.predict(X[row : row + 1])[0]))
        other.partial_fit(X[row : row + 1], y[row : row + 1])
    assert estimator.predict_then_fit(X[FIRST:], y[FIRST:]).tolist() == expected
    assert estimator.digest() == other.digest()


def test_three_classes_and_a_class_that_is_new_are_predicted_and_learned() -> None:
    X, _, _ = stream(2)
    names = np.array(["a", "b", "c"])[np.random.default_rng(2).integers(0, 3, size=len(X))]
    names[:FIRST][names[:FIRST] == "c"] = "a"
    estimator, other = begun(X, names, 50, C=1.0), begun(X, names, 50, C=1.0)
    predicted = estimator.predict_then_fit(X[FIRST:], names[FIRST:])
    expected = []
    for row in range(FIRST, len(X)):
        expected.append(str(other.predict(X[row : row + 1])[0]))
        other.partial_fit(X[row : row + 1], names[row : row + 1])
    assert predicted.tolist() == expected
    assert {"a", "b", "c"} == set(predicted.tolist())


def test_rows_so_large_that_their_sums_leave_int64_take_the_other_way() -> None:
    X, y, _ = stream(3)
    X = np.rint(X / np.abs(X).max(axis=0) * (2.0**30 - 1))
    grid = Grid(np.ones(X.shape[1]), np.zeros(X.shape[1]))
    estimator = SlidingProximalSVM(100, C=1.0, grid=grid).partial_fit(X[:FIRST], y[:FIRST])
    coming = Given(X[FIRST:], Labelled.of(y[FIRST:]), {})
    arriving = _arriving(estimator._admitted(estimator._fitted(), coming))
    assert estimator._passage(arriving) is None
    assert len(estimator.predict_then_fit(X[FIRST:], y[FIRST:])) == len(X) - FIRST


def test_a_copy_and_what_it_was_copied_from_slide_each_on_its_own() -> None:
    X, y, _ = stream(7)
    estimator = begun(X, y, 30, C=1.0)
    twin = copy.copy(estimator)
    twin.partial_fit(X[FIRST:], y[FIRST:])
    assert estimator.digest() == begun(X, y, 30, C=1.0).digest()
    assert estimator.partial_fit(X[FIRST:], y[FIRST:]).digest() == twin.digest()
