"""The extreme machine: a random layer whose outputs are as exact as features, and that bends the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.estimators import ExtremeSVM, ProximalSVM
from deltaplane.exact.statistics import Statistics
from deltaplane.maps.feature_maps import FeatureMap
from deltaplane.reference import exact_moments
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from estimators.estimator_rows import GRID, random_rows, state_of


def test_it_is_a_proximal_machine_on_what_the_layer_makes_of_the_rows() -> None:
    rows = random_rows(1, 300)
    machine = ExtremeSVM(20, seed=4, C=0.3, grid=GRID).fit(rows.X, rows.y)
    layer = machine.feature_map_
    mapped_grid = layer.grid(GRID)
    mapped = mapped_grid.values(layer.apply(GRID.quantize(rows.X)[0]))
    plain = ProximalSVM(0.3, grid=mapped_grid).fit(mapped, rows.y)
    assert machine.coef_.tobytes() == plain.coef_.tobytes()
    assert machine.coef_.shape == (1, 20)
    np.testing.assert_allclose(machine.decision_function(rows.X), plain.decision_function(mapped), rtol=1e-12)


def test_the_outputs_are_the_sigmoid_of_the_paper() -> None:
    rows = random_rows(1, 50)
    layer = ExtremeSVM(6, seed=4, C=1.0, sigma=1.0, grid=GRID).fit(rows.X, rows.y).feature_map_
    quantized = GRID.quantize(rows.X)[0]
    mapped = layer.grid(GRID).values(layer.apply(quantized))
    standardized = (quantized - np.array(layer.centers)) / np.array(layer.scales)
    logits = np.log(mapped / (1 - mapped))
    weights, _, rank, _ = np.linalg.lstsq(np.column_stack([standardized, np.ones(50)]), logits, rcond=None)
    assert rank == 4
    assert np.abs(np.column_stack([standardized, np.ones(50)]) @ weights - logits).max() < 1e-2


@pytest.mark.parametrize("layer", ["hidden", "fourier"])
def test_a_ring_inside_a_ring_is_learned_which_no_plane_can(layer: Any) -> None:
    chance = np.random.default_rng(5)
    angle, y = chance.uniform(0, 2 * np.pi, 600), np.arange(600) % 2
    radius = 1.0 + y + 0.1 * chance.normal(size=600)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    assert ExtremeSVM(100, layer=layer).fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.95
    assert ProximalSVM().fit(X[:400], y[:400]).score(X[400:], y[400:]) < 0.7


def test_machines_that_share_a_fitted_layer_merge_into_the_one_of_all_rows() -> None:
    rows = random_rows(2, 200)
    first = ExtremeSVM(15, seed=9).partial_fit(rows.X[:50], rows.y[:50])
    shared: dict[str, Any] = {"grid": first.grid_, "feature_map": first.feature_map_}
    second = ExtremeSVM(**shared).partial_fit(rows.X[50:], rows.y[50:])
    whole = ExtremeSVM(**shared).fit(rows.X, rows.y)
    assert state_of(first.merge(second)) == state_of(whole)


def test_the_digest_is_that_of_a_stream_with_the_same_feature_map() -> None:
    rows = random_rows(6, 150)
    machine = ExtremeSVM(10, grid=GRID).fit(rows.X, rows.y)
    layer, everything = machine.feature_map_, NestedWindows((Window("all"),))
    definition = StreamDefinition("s", ("x0", "x1", "x2"), GRID, everything, SolverOptions(), feature_map=layer)
    mapped = layer.apply(GRID.quantize(rows.X)[0]).astype(np.int64)
    grams = {(0, str(label)): exact_moments(mapped[rows.y == label]) for label in (0, 1)}
    assert machine.digest() == Statistics(11, grams).digest(definition.data_fingerprint)


def test_many_rows_are_mapped_piece_by_piece_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(7, 200)
    whole = ExtremeSVM(10, grid=GRID).fit(rows.X, rows.y)
    expected, decisions = state_of(whole), whole.decision_function(rows.X)
    monkeypatch.setattr(limits, "MAPPED_ENTRIES", 70)
    pieces = ExtremeSVM(10, grid=GRID).fit(rows.X, rows.y)
    assert state_of(pieces) == expected
    np.testing.assert_allclose(pieces.decision_function(rows.X), decisions, rtol=1e-12)


def test_equal_seeds_give_equal_layers_and_others_do_not() -> None:
    rows = random_rows(3, 100)
    digests = [ExtremeSVM(10, seed, grid=GRID).fit(rows.X, rows.y).digest() for seed in (0, 0, 1)]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_a_layer_over_other_features_is_refused() -> None:
    rows = random_rows(4, 100)
    with pytest.raises(DefinitionError, match="over 3 features, got one over 2"):
        ExtremeSVM(feature_map=FeatureMap("hidden", 4, 0, 1.0, (0, 0), (1.0, 1.0))).fit(rows.X, rows.y)
    with pytest.raises(DefinitionError, match="units"):
        ExtremeSVM(0).fit(rows.X, rows.y)
