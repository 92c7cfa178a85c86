"""The automatic mode as an estimator, with curved candidates beside flat ones, as exact as without them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from automatic_rows import NAMES, alike, rows, saved
from deltaplane.arrays import Floats, Labels
from deltaplane.errors import RowsRefused
from deltaplane.estimators import AutomaticProximalSVM
from deltaplane.exact.grid import fit_grid
from deltaplane.wire.saved_streams import read_saved_stream, write_saved_stream


def test_merging_curved_estimators_adds_rows_and_hits() -> None:
    X, y = rows(23, count=900)
    ids, of = np.array([f"r{at}" for at in range(900)]), alike(X, y)
    here = AutomaticProximalSVM(**of).partial_fit(X[:500], y[:500], ids=ids[:500])
    there = AutomaticProximalSVM(**of).partial_fit(X[500:], y[500:], ids=ids[500:])
    mine, theirs = (next(iter(one.model_.blend.of.values())).rows for one in (here, there))  # type: ignore[union-attr]
    here.merge(there)
    assert here.digest() == AutomaticProximalSVM(**of).partial_fit(X, y, ids=ids).digest()
    assert next(iter(here.model_.blend.of.values())).rows.tobytes() == (mine + theirs).tobytes()  # type: ignore[union-attr]


def test_rows_of_an_estimator_with_another_map_are_mapped_by_the_one_that_takes_them_in() -> None:
    X, y = rows(24, count=600)
    ids, grid = np.array([f"r{at}" for at in range(600)]), fit_grid(X)
    here = AutomaticProximalSVM(grid=grid).partial_fit(X[:300], y[:300], ids=ids[:300])
    there = AutomaticProximalSVM(grid=grid).partial_fit(X[300:], y[300:], ids=ids[300:])
    flat = AutomaticProximalSVM(grid=grid, feature_map=None).partial_fit(X[:50], y[:50], ids=ids[:50])
    assert here.feature_map_ != there.feature_map_
    whole = AutomaticProximalSVM(grid=grid, feature_map=here.feature_map_).partial_fit(X, y, ids=ids)
    hits = next(iter(here.model_.blend.of.values())).hits  # type: ignore[union-attr]
    here.merge(there)
    assert here.digest() == whole.digest()
    assert next(iter(here.model_.blend.of.values())).hits.tobytes() == hits.tobytes()  # type: ignore[union-attr]
    plain = AutomaticProximalSVM(grid=grid, feature_map="linear").partial_fit(X, y, ids=ids)
    assert flat.merge(whole).digest() == plain.digest()


@pytest.mark.parametrize("asked", ["auto", "linear", None])
def test_reasons_add_up_to_the_decision_value_of_the_class(asked: Any) -> None:
    X, y = rows(25, count=800)
    model = AutomaticProximalSVM(feature_map=asked).fit(X, y)
    told = model.reasons(X[:20], most=len(NAMES))
    assert all({column for column, _ in one} == {"x0", "x1", "x2"} for one in told)
    sums = np.array([sum(value for _, value in one) for one in told])
    toward = np.where(model.predict(X[:20]) == model.classes_[1], 1.0, -1.0) * model.decision_function(X[:20])
    bases = toward - sums
    for side in (True, False):
        np.testing.assert_allclose(np.ptp(bases[(model.predict(X[:20]) == model.classes_[1]) == side]), 0.0, atol=1e-9)
    with pytest.raises(RowsRefused, match="row 0 of 1"):
        model.reasons(np.array([[1e300, 0.0, 0.0]]))


def why_flat(model: AutomaticProximalSVM, X: Floats, y: Labels) -> str:
    model.partial_fit(X, y)
    assert model.feature_map_.kind == "none"
    return str(model.flat_because_)


def test_where_auto_has_no_curved_candidates_the_reason_is_told() -> None:
    X, y = rows(26, count=300)
    wide = np.random.default_rng(0).normal(size=(300, 101))
    assert "window or C is fixed" in why_flat(AutomaticProximalSVM(C=1.0), X, y)
    assert "window or C is fixed" in why_flat(AutomaticProximalSVM(window=200), X, y)
    assert "one of 128 rows or more" in why_flat(AutomaticProximalSVM(max_window=127), X, y)
    assert "this one has 101 features" in why_flat(AutomaticProximalSVM(), wide, y)
    assert "there are 9, more than 8" in why_flat(AutomaticProximalSVM(), X, np.arange(300) % 9)
    assert "1 first rows tell no scales" in why_flat(AutomaticProximalSVM(), X[:1], y[:1])
    assert AutomaticProximalSVM().partial_fit(X, y).flat_because_ is None
    assert AutomaticProximalSVM().partial_fit(X, np.arange(300) % 8).flat_because_ is None
    assert AutomaticProximalSVM(feature_map=None).partial_fit(X, y).flat_because_ is None
    assert AutomaticProximalSVM(feature_map="mixed").partial_fit(wide, y).feature_map_.units == 160


def test_rows_from_the_very_first_one_on_are_learned_with_and_without_a_map() -> None:
    X, y = rows(27, count=400)
    of = alike(X, y)
    for feature_map in (of["feature_map"], "auto"):
        one, at_once = (AutomaticProximalSVM(grid=of["grid"], feature_map=feature_map) for _ in range(2))
        for at in range(10):
            one.partial_fit(X[at : at + 1], y[at : at + 1])
        at_once.partial_fit(X[:1], y[:1]).partial_fit(X[1:10], y[1:10])
        assert one.digest() == at_once.digest()


def test_sparse_rows_get_the_map_of_the_same_rows_dense() -> None:
    X, y = rows(28, count=400)
    X[np.abs(X) < 0.8] = 0.0
    dense, thin = AutomaticProximalSVM().fit(X, y), AutomaticProximalSVM().fit(sparse.csr_matrix(X), y)
    assert thin.digest() == dense.digest()
    assert thin.feature_map_ == dense.feature_map_
    assert thin.predict(sparse.csr_matrix(X)).tolist() == dense.predict(X).tolist()
    assert thin.reasons(sparse.csr_matrix(X[:3])) == dense.reasons(X[:3])


def test_a_curved_boundary_is_found_and_a_file_of_before_the_maps_is_flat() -> None:
    random = np.random.default_rng(29)
    X = random.normal(size=(2500, 3))
    y = (np.hypot(X[:, 0], X[:, 1]) > 1.2).astype(int)
    curved, flat = AutomaticProximalSVM().fit(X, y), AutomaticProximalSVM(feature_map="linear").fit(X, y)
    assert curved.score(X, y) > 0.9
    assert flat.score(X, y) < 0.75
    facts, _ = read_saved_stream(saved(flat))
    del facts["parameters"]["feature_map"], facts["map_given"], facts["flat_because"]
    again = AutomaticProximalSVM.load(io.BytesIO(write_saved_stream(flat._state.stream, facts)))
    assert again.feature_map == "linear"
    assert again.partial_fit(X[:100], y[:100]).digest() == flat.partial_fit(X[:100], y[:100]).digest()


def test_a_given_map_is_saved_and_cloned() -> None:
    X, y = rows(30, count=300)
    model = AutomaticProximalSVM(**alike(X, y)).fit(X, y)
    again = AutomaticProximalSVM.load(io.BytesIO(saved(model)))
    assert again.get_params() == model.get_params()
    assert again.digest() == model.digest() == clone(model).fit(X, y).digest()
