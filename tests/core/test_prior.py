"""A prior plane in the definition: read, written, checked, and what new planes are drawn to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deltaplane.errors import DefinitionError
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.merger import fit_candidates, plane_of
from deltaplane.solve.solver import Plane, solve
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.component_tables import prior_of, prior_table
from deltaplane.stream.declared import DeclaredPrior
from deltaplane.stream.definition import StreamDefinition
from strategies_streams import definition_of

BINARY: dict[str, Any] = {"classes": ["down", "up"], "positive": "up", "weights": [[2.0, -1.0]], "biases": [0.5]}
THREE: dict[str, Any] = {
    "classes": ["a", "b", "c"],
    "weights": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "biases": [1, 2, 3],
}
ROWS = {"down": [[5, 7], [7, 1], [4, 2]], "up": [[-5, 3], [-6, 1], [3, -3]]}


def statistics() -> Statistics:
    return Statistics(3, {(0, label): Moments.of_rows(np.array(rows)) for label, rows in ROWS.items()})


def plane(table: dict[str, Any]) -> Plane:
    found = prior_of(DeclaredPrior.of(table), ("x", "y"))
    assert found is not None
    return found


@pytest.mark.parametrize("table", [BINARY, THREE])
def test_a_table_makes_a_plane_and_the_plane_the_table(table: dict[str, Any]) -> None:
    assert prior_table(plane(table), ("x", "y")) == {**table, "features": ["x", "y"]}


def test_without_a_table_there_is_no_prior() -> None:
    assert prior_of(DeclaredPrior(), ("x", "y")) is None


def test_weights_are_taken_by_the_names_of_their_features() -> None:
    assert plane({**BINARY, "features": ["y", "x"]}).weights.tolist() == [[-1.0, 2.0]]
    assert plane({**BINARY, "features": ["y"], "weights": [[7.0]]}).weights.tolist() == [[0.0, 7.0]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": ["up"]}, "expected two or more in sorted order"),
        ({"classes": ["up", "down"]}, "expected two or more in sorted order"),
        ({"classes": ["a", "b", "c"]}, r"\(two with positive\)"),
        ({"positive": "left"}, "prior.positive: expected one of down, up, got 'left'"),
        ({"features": ["x", "z"]}, "the stream has no feature 'z'"),
        ({"weights": [[1.0]]}, r"expected 1 rows of 2 weights and 1 biases, got 1 of \[1\] and 1"),
        ({"weights": [[1.0, 2.0]] * 2}, "got 2 of"),
        ({"biases": []}, "and 0"),
        ({"biases": [float("nan")]}, "expected finite weights and biases"),
        ({"weights": [["1", 2.0]]}, "prior.weights: expected a number, got '1'"),
    ],
)
def test_a_prior_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        prior_of(DeclaredPrior.of({**BINARY, **changes}), ("x", "y"))


def test_new_planes_are_drawn_to_the_prior_of_the_definition() -> None:
    weak = replace(definition_of("all", features=2), solver=SolverOptions(C=1e-9), prior=plane(BINARY))
    drawn = plane_of(statistics(), weak)
    np.testing.assert_allclose(drawn.weights, [[2.0, -1.0]], rtol=1e-6)
    np.testing.assert_allclose(drawn.biases, [0.5], rtol=1e-6)
    strong = replace(weak, solver=SolverOptions(C=1e9))
    alone = solve(statistics().grams(), strong.plane_grid, strong.solver)
    np.testing.assert_allclose(plane_of(statistics(), strong).weights, alone.weights, rtol=1e-6)


def test_the_candidates_of_the_automatic_mode_are_drawn_to_it_too() -> None:
    weak = replace(definition_of("all", features=2), solver=SolverOptions(C=1e-9), choices=(1e-10, 1e-9))
    with_prior = replace(weak, prior=plane(BINARY))
    fitted = fit_candidates(statistics(), with_prior)
    np.testing.assert_allclose(fitted.weights["up"][0, :], [[2.0, -1.0]] * 2, rtol=1e-6)


def test_the_prior_is_in_the_tables_and_in_no_fingerprint() -> None:
    without = definition_of("all", features=2)
    tables = json.loads(json.dumps({**without.to_tables(), "prior": {**BINARY, "features": ["f0", "f1"]}}))
    stream = StreamDefinition.from_tables(tables)
    assert stream.to_tables() == tables
    assert stream.stream_fingerprint == without.stream_fingerprint


def test_a_prior_of_another_number_of_features_is_refused() -> None:
    with pytest.raises(DefinitionError, match="prior: expected weights of 1 features, got 2"):
        replace(definition_of("all"), prior=plane(BINARY))
