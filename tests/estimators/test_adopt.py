"""What rows add up to elsewhere is adopted without another pass: the same bits as fitting on the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest

import deltaplane
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError, DefinitionMismatch
from deltaplane.estimators import ExtremeSVM, ProximalSVM
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.log.partial import Partial
from deltaplane.maps.feature_maps import FeatureMap
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.stream.sample import Samples

ROWS, FEATURES = 400, 3


def rows() -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.str_]]]:
    random = np.random.default_rng(5)
    labels = np.where(random.random(ROWS) < 0.3, "yes", "no")
    return random.normal(size=(ROWS, FEATURES)) + (labels == "yes")[:, None], labels


def definition_on(grid: Grid, feature_map: FeatureMap | None = None, missing: str = "refuse") -> StreamDefinition:
    names = tuple(f"x{j}" for j in range(FEATURES))
    windows = NestedWindows((Window("all"),))
    more = {} if feature_map is None else {"feature_map": feature_map}
    return StreamDefinition("history", names, grid, windows, SolverOptions(), missing=missing, **more)  # type: ignore[arg-type]


def partials_of(definition: StreamDefinition, parts: int) -> list[Partial]:
    X, y = rows()
    table = ("no", "yes")
    codes = np.array([table.index(label) for label in y], dtype=np.int32)
    return [
        Partial.of(definition, Samples.of_record(["-"] * len(X[at::parts]), 0, table, codes[at::parts], X[at::parts]))
        for at in range(parts)
    ]


@pytest.mark.parametrize("weighting", ["inverse", "none", "balanced"])
def test_what_is_adopted_gives_the_bits_that_fitting_on_the_rows_gives(weighting: str) -> None:
    X, y = rows()
    grid = fit_grid(X)
    definition = definition_on(grid)
    fitted = ProximalSVM(C=1.0, weighting=weighting, grid=grid).fit(X, y)  # type: ignore[arg-type]
    adopted = ProximalSVM(C=1.0, weighting=weighting).adopt(definition, *partials_of(definition, 3))  # type: ignore[arg-type]
    assert adopted.digest() == fitted.digest()
    assert adopted.coef_.tobytes() == fitted.coef_.tobytes()
    assert adopted.intercept_.tobytes() == fitted.intercept_.tobytes()
    assert (adopted.predict(X) == fitted.predict(X)).all()
    adopted.retire(X[:50], y[:50])
    assert adopted.digest() == fitted.retire(X[:50], y[:50]).digest()


def test_c_is_chosen_by_the_parts_that_are_given() -> None:
    X, _ = rows()
    definition = definition_on(fit_grid(X))
    adopted = ProximalSVM().adopt(definition, *partials_of(definition, 5))
    assert adopted.choice_ is not None
    assert adopted.C_ == adopted.choice_.C
    with pytest.raises(DefinitionError, match="at least 5 parts of the rows, got 4"):
        ProximalSVM().adopt(definition, *partials_of(definition, 4))


def test_a_layer_of_the_definition_is_adopted_with_it() -> None:
    X, y = rows()
    fitted = ExtremeSVM(units=20, C=1.0).fit(X, y)
    definition = definition_on(fitted.grid_, fitted.feature_map_)
    adopted = ExtremeSVM(C=1.0).adopt(definition, *partials_of(definition, 2))
    assert adopted.digest() == fitted.digest()
    assert adopted.decision_function(X).tobytes() == fitted.decision_function(X).tobytes()


def test_what_cannot_be_adopted_is_refused_and_changes_nothing() -> None:
    X, y = rows()
    grid = fit_grid(X)
    model = ProximalSVM(C=1.0, grid=grid).fit(X, y)
    before = model.digest()
    filled = definition_on(grid, missing="offset")
    with pytest.raises(DefinitionMismatch, match="refuses missing values"):
        model.adopt(filled, *partials_of(filled, 2))
    with pytest.raises(DefinitionMismatch, match="got others"):
        model.adopt(definition_on(Grid(np.ones(FEATURES), np.zeros(FEATURES))), *partials_of(definition_on(grid), 2))
    with pytest.raises(DefinitionError, match="columns='auto'"):
        deltaplane.ProximalSVM(C=1.0, columns="auto").adopt(definition_on(grid), *partials_of(definition_on(grid), 2))
    assert model.digest() == before
