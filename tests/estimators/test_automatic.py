"""The automatic mode as an estimator: the bits of a replay, rows that leave by id, merging, saving, and River."""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from sklearn.base import clone

import deltaplane
from automatic_rows import NAMES, alike, by_name, replayed, rows, saved
from deltaplane.arrays import Floats, Labels
from deltaplane.errors import DefinitionError, DefinitionMismatch, ExtraMissing, RowsRefused, SolveRefused, WireError
from deltaplane.estimators import AutomaticProximalSVM, RowsLeftOut
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.maps.feature_maps import FeatureMap
from mixed_table import mixed_table
from not_run import give_up

MAP_OF_TWO = FeatureMap("mixed", 20, 3, 1.0, (0, 0), (1000.0, 1000.0))


@pytest.mark.parametrize(
    ("seed", "chunk", "classes", "keywords"),
    [
        (0, 100, 2, {}),
        (0, 100, 2, {"feature_map": "linear"}),
        (6, 100, 2, {"objective": "kappa", "positive": "1", "classes": ["0", "1"]}),
        (1, 37, 2, {"max_window": 400}),
        (2, 100, 4, {}),
        (7, 100, 3, {"feature_map": "mixed", "max_window": 1600}),
        (8, 40, 2, {"feature_map": "mixed", "window": [150, 2000], "C": 0.5}),
        (9, 100, 2, {"max_window": 110}),
        (3, 50, 2, {"window": [200, 600], "C": 0.5}),
        (4, 100, 2, {"window": 300, "C": 1.0, "weighting": "balanced", "standardize": False}),
        (5, 7, 3, {"window": [150, 2000], "kind": "lssvm"}),
    ],
)
def test_models_predictions_and_digest_are_the_bits_of_a_replay_of_the_same_chunks(
    seed: int, chunk: int, classes: int, keywords: dict[str, Any]
) -> None:
    X, y = rows(seed, classes=classes)
    replay = replayed(X, y, chunk, **keywords)
    own = {name: value for name, value in keywords.items() if name not in ("positive", "classes")}
    model = AutomaticProximalSVM(chunk=chunk, grid=replay.definition.grid, **own)
    model._row_names = tuple(NAMES)
    predicted = model.predict_then_fit(X, y, classes=keywords.get("classes"))
    assert model.feature_map_ == replay.definition.feature_map
    asked, fixed = keywords.get("feature_map", "auto"), keywords.keys() & {"window", "C"}
    curved = asked == "mixed" or (asked == "auto" and not fixed and keywords.get("max_window") != 110)
    assert (model.feature_map_.kind == "mixed") == curved
    assert (model.flat_because_ is None) == (asked != "auto" or model.feature_map_.kind == "mixed")
    assert predicted.tolist() == replay.predictions.column("prediction").to_pylist()
    assert model.digest() == replay.digest
    theirs = replay._result.model
    assert model.model_.plane is not None
    assert model.model_.plane.weights.tobytes() == theirs.plane.weights.tobytes()
    assert model.model_.plane.biases.tobytes() == theirs.plane.biases.tobytes()
    assert model.model_.scores == theirs.scores
    inputs, _ = replay.definition.plane_inputs(X[:200])
    if classes == 2:
        assert np.abs(model.decision_function(X[:200])).tobytes() == np.abs(theirs.plane.decide(inputs)).tobytes()
    probabilities = model.predict_proba(X[:200])
    inputs, _ = replay.definition.plane_inputs(model.grid_.values(model.grid_.quantize(X[:200])[0]))
    expected = theirs.probabilities(theirs.plane.decide(inputs))
    order = [theirs.plane.classes.index(str(label)) for label in model.classes_]
    np.testing.assert_allclose(probabilities, expected[:, order], rtol=0.0, atol=1e-12)
    assert len(np.unique(probabilities[:, 0])) > 5
    if classes > 2:
        assert model.coef_.tobytes() == theirs.plane.weights.tobytes()


def test_rows_of_a_mixed_table_have_the_digest_of_their_replay() -> None:
    features, labels = mixed_table(600, seed=1, fraud=0.2)
    replay = deltaplane.replay({**features, "label": labels}, label="label")
    model = AutomaticProximalSVM(columns=replay.definition.columns, grid=replay.definition.grid)
    model.fit(features, np.array(labels))
    assert model.digest() == replay.digest
    assert model.score(features, np.array(labels)) > 0.5


def test_rows_one_by_one_are_learned_by_the_chunk_and_give_the_same_bits() -> None:
    X, y = rows(6)
    of = alike(X, y)
    at_once, one_by_one = AutomaticProximalSVM(**of), AutomaticProximalSVM(**of)
    at_once._row_names = tuple(NAMES)
    at_once.partial_fit(X, y)
    assert one_by_one.predict_one(dict(zip(NAMES, X[0].tolist(), strict=True))) is None
    by_name(one_by_one, X, y)
    assert one_by_one.digest() == at_once.digest()
    assert one_by_one.coef_.tobytes() == at_once.coef_.tobytes()
    row = dict(zip(reversed(NAMES), reversed(X[5].tolist()), strict=True))
    assert one_by_one.predict_one(row) == at_once.predict(X[5:6])[0]


def test_gathered_rows_are_learned_before_anything_is_retired_or_told() -> None:
    X, y = rows(7, count=130)
    model = AutomaticProximalSVM(grid=fit_grid(X))
    by_name(model, X, y)
    assert sum(model.model_.counts.values()) == 100
    model.retire(130)
    assert model.retirements_ == {"130": "retired"}
    assert sum(model.model_.counts.values()) == 129


def test_a_row_that_cannot_be_gathered_costs_the_others_nothing() -> None:
    X, y = rows(21, count=120)
    model = AutomaticProximalSVM(grid=fit_grid(X), on_refused="raise")
    good = dict(zip(NAMES, X[0].tolist(), strict=True))
    by_name(model, X[:50], y[:50])
    for bad, label in (({**good, "depth": 1.0}, "0"), ({"length": 1.0}, "0"), ({**good, "width": "x"}, "0")):
        with pytest.raises(DefinitionError, match="row: expected"):
            model.learn_one(bad, label)
    with pytest.raises(RowsRefused, match="expected a label"):
        model.learn_one(good, None)
    with pytest.raises(RowsRefused, match="expected texts or whole numbers"):
        model.learn_one(good, "0", id=1.5)  # type: ignore[arg-type]
    model.learn_one({**good, "width": 1e300}, "0")
    by_name(model, X[50:98], y[50:98])
    with pytest.raises(RowsRefused, match="row 50 of 100"):
        by_name(model, X[98:99], y[98:99])
    assert sum(model.retire([]).model_.counts.values()) == 99
    never = AutomaticProximalSVM(grid=fit_grid(X))
    by_name(never, X[:99], y[:99])
    assert model.digest() == never.retire([]).digest()


def test_a_retired_row_leaves_no_trace() -> None:
    X, y = rows(8, count=90)
    ids = [f"row {at}" for at in range(len(X))]
    of = alike(X, y)
    model = AutomaticProximalSVM(**of).partial_fit(X, y, ids=ids)
    model.retire(ids[:40])
    never = AutomaticProximalSVM(**of).partial_fit(X[40:], y[40:], ids=ids[40:])
    assert model.digest() == never.digest()
    assert model.coef_.shape == never.coef_.shape == (1, len(NAMES) + 160)
    model.retire(["row 0", "stranger"])
    assert model.retirements_ == {"row 0": "duplicate", "stranger": "waiting"}
    with pytest.warns(RowsLeftOut, match="was retired; use a new id"):
        model.partial_fit(X[:1], y[:1], ids=["row 0"])
    assert model.digest() == never.digest()
    assert [one.row for one in model.refused_rows_] == [0]


def test_a_row_that_left_every_window_is_expired_and_cannot_be_retired() -> None:
    X, y = rows(9, count=600)
    model = AutomaticProximalSVM(window=200, C=1.0).partial_fit(X, y)
    assert model.retire([1]).retirements_ == {"1": "expired"}


@pytest.mark.parametrize("seed", range(4))
def test_merging_is_as_if_one_had_been_given_the_live_rows_of_both(seed: int) -> None:
    X, y = rows(seed, count=900, classes=2 + seed % 2)
    ids, grid = np.array([f"r{at}" for at in range(900)]), fit_grid(X)
    of: dict[str, Any] = {"window": [100, 700], "C": 1.0}
    here = AutomaticProximalSVM(grid=grid, **of).partial_fit(X[:500], y[:500], ids=ids[:500])
    there = AutomaticProximalSVM(grid=grid, **of).partial_fit(X[500:], y[500:], ids=ids[500:])
    here.retire(ids[:20])
    there.retire(ids[510:530])
    before, told = copy.deepcopy(there), there.digest()
    one = AutomaticProximalSVM(grid=grid, **of).partial_fit(X[:500], y[:500], ids=ids[:500]).retire(ids[:20])
    left = np.array([row for row in range(500, 900) if row not in range(510, 530)])
    one.partial_fit(X[left], y[left], ids=ids[left])
    assert here.merge(there).digest() == one.digest()
    assert there.digest() == told == before.digest()
    hits = here.model_.blend
    assert hits is not None
    assert all(np.isfinite(candidates.shares).all() for candidates in hits.of.values())


def test_a_row_that_both_hold_is_there_once_and_one_that_either_retired_is_not() -> None:
    X, y = rows(22, count=300)
    ids, grid = np.array([f"r{at}" for at in range(300)]), fit_grid(X)
    here = AutomaticProximalSVM(5000, 1.0, grid=grid).partial_fit(X[:200], y[:200], ids=ids[:200]).retire(ids[150:160])
    there = AutomaticProximalSVM(5000, 1.0, grid=grid).partial_fit(X[100:], y[100:], ids=ids[100:]).retire(ids[120:130])
    with pytest.warns(RowsLeftOut, match="10 such rows"):
        here.partial_fit(X[150:160], y[150:160], ids=ids[150:160])
    left = np.array([row for row in range(300) if row not in range(120, 130) and row not in range(150, 160)])
    assert (
        here.merge(there).digest() == AutomaticProximalSVM(5000, 1.0, grid=grid).partial_fit(X[left], y[left]).digest()
    )
    assert (
        here.merge(there).digest() == AutomaticProximalSVM(5000, 1.0, grid=grid).partial_fit(X[left], y[left]).digest()
    )


def test_numbered_rows_get_the_numbers_that_come_next() -> None:
    X, y = rows(10, count=300)
    of = alike(X, y)
    here = AutomaticProximalSVM(**of).partial_fit(X[:200], y[:200])
    there = AutomaticProximalSVM(**of).partial_fit(X[200:], y[200:])
    assert here.merge(there).digest() == AutomaticProximalSVM(**of).partial_fit(X, y).digest()
    assert here.retire([300]).retirements_ == {"300": "retired"}


def test_what_cannot_be_merged_is_refused_and_changes_nothing() -> None:
    X, y = rows(11, count=200)
    model = AutomaticProximalSVM(grid=fit_grid(X)).partial_fit(X, y)
    told = model.digest()
    with pytest.raises(DefinitionMismatch, match="give both one grid"):
        model.merge(AutomaticProximalSVM(grid=Grid(np.ones(3), np.zeros(3))).partial_fit(X, y))
    with pytest.raises(RowsRefused, match="give ids to both"):
        model.merge(AutomaticProximalSVM(grid=model.grid_).partial_fit(X, y, ids=range(200)))
    with pytest.raises(DefinitionMismatch, match="expected another"):
        model.merge(deltaplane.ProximalSVM(grid=model.grid_).fit(X, y))
    assert model.digest() == told


@pytest.mark.parametrize("labels", [str, int, float, bool, object])
def test_a_saved_estimator_goes_on_with_the_same_bits(labels: type) -> None:
    X, y = rows(12, count=800)
    y = y.astype(object) if labels is object else y.astype(int).astype(labels)
    model = AutomaticProximalSVM(max_window=300, chunk=40).partial_fit(X[:500], y[:500]).retire([480, 490])
    again = AutomaticProximalSVM.load(io.BytesIO(saved(model)))
    assert again.get_params() == model.get_params()
    for one in (model, again):
        one.partial_fit(X[500:], y[500:]).retire([700])
    assert again.digest() == model.digest()
    assert again.coef_.tobytes() == model.coef_.tobytes()
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.classes_.dtype == model.classes_.dtype


def test_rows_by_name_and_replaced_ids_are_saved_too() -> None:
    X, y = rows(13, count=250)
    model = AutomaticProximalSVM()
    by_name(model, X[:150], y[:150])
    again = AutomaticProximalSVM.load(io.BytesIO(saved(model)))
    by_name(model, X[150:], y[150:])
    by_name(again, X[150:], y[150:])
    assert again.digest() == model.digest()
    named = AutomaticProximalSVM().partial_fit(X, y, ids=np.arange(250) % 120)
    again = AutomaticProximalSVM.load(io.BytesIO(saved(named)))
    for one in (named, again):
        one.partial_fit(X[:20], y[:20], ids=range(110, 130))
    assert again.digest() == named.digest()


def test_what_is_no_saved_estimator_or_was_damaged_is_refused_by_name() -> None:
    X, y = rows(14, count=120)
    good = saved(AutomaticProximalSVM().partial_fit(X, y))
    for bad in (b"", b"pickle", good[:-1], good[:200] + b"x" + good[201:]):
        with pytest.raises(WireError, match=r"saved stream: .*give what save"):
            AutomaticProximalSVM.load(io.BytesIO(bad))


def test_the_first_rows_have_no_prediction_and_one_class_no_plane() -> None:
    X, y = rows(15, count=250)
    predicted = AutomaticProximalSVM().predict_then_fit(X, y)
    assert predicted[:100].tolist() == [None] * 100
    assert None not in predicted[100:].tolist()
    model = AutomaticProximalSVM().partial_fit(X, np.zeros(250, dtype=int))
    with pytest.raises(SolveRefused, match="two"):
        model.predict(X)
    assert model.predict_one(dict(zip(["x0", "x1", "x2"], X[0].tolist(), strict=True))) is None


def test_a_row_that_is_refused_costs_the_others_nothing() -> None:
    X, y = rows(16, count=300)
    X[7, 1] = 1e300
    grid = fit_grid(np.delete(X, 7, axis=0))
    with pytest.warns(RowsLeftOut, match="row 7"):
        model = AutomaticProximalSVM(grid=grid).partial_fit(X, y)
    assert [one.row for one in model.refused_rows_] == [7]
    assert sum(model.model_.counts.values()) == 299
    with pytest.raises(RowsRefused):
        AutomaticProximalSVM(grid=grid, on_refused="raise").partial_fit(X, y)


@pytest.mark.parametrize(
    ("do", "told"),
    [
        (lambda X, y: AutomaticProximalSVM(chunk=0).fit(X, y), "chunk: expected a whole number of rows"),
        (lambda X, y: AutomaticProximalSVM(window=0).fit(X, y), "window: expected 'auto'"),
        (lambda X, y: AutomaticProximalSVM(window=cast("Any", "7d")).fit(X, y), "window: expected 'auto'"),
        (lambda X, y: AutomaticProximalSVM(objective="luck").fit(X, y), "objective"),
        (lambda X, y: AutomaticProximalSVM(feature_map=cast("Any", "round")).fit(X, y), "feature_map: expected 'auto'"),
        (lambda X, y: AutomaticProximalSVM(feature_map=MAP_OF_TWO).fit(X, y), "over 3 features, got one over 2"),
        (lambda X, y: AutomaticProximalSVM(100, feature_map="mixed").fit(X, y), "leave the map out"),
        (lambda X, y: AutomaticProximalSVM().partial_fit(X, y, ids=[1]), "ids: expected one for each of 150 rows"),
        (lambda X, y: AutomaticProximalSVM().partial_fit(X, y, ids=[1.5] * 150), "ids: expected texts or whole"),
        (lambda X, y: AutomaticProximalSVM().fit(X, y).partial_fit(X, y, ids=range(150)), "numbers them itself"),
    ],
)
def test_what_cannot_be_is_refused_by_name(do: Callable[[Floats, Labels], Any], told: str) -> None:
    with pytest.raises((DefinitionError, RowsRefused), match=told):
        do(*rows(17, count=150))


def test_an_objective_and_declared_classes_are_those_of_the_stream() -> None:
    X, y = rows(18)
    model = AutomaticProximalSVM(objective="kappa").fit(X, y)
    assert str(model.model_.objective) == "kappa"
    declared = AutomaticProximalSVM().partial_fit(X[:50], y[:50], classes=["0", "1", "2"])
    assert declared.classes_.tolist() == ["0", "1", "2"]
    with pytest.raises(ValueError, match="classes: expected those of the first call"):
        declared.partial_fit(X[50:], y[50:], classes=["0", "1"])


def test_before_rows_were_scored_and_of_declared_classes_without_rows_probabilities_are_known_all_the_same() -> None:
    X, y = rows(3)
    first = AutomaticProximalSVM().fit(X[:60], y[:60])
    shares = np.array([np.mean(y[:60] == label) for label in first.classes_])
    np.testing.assert_allclose(first.predict_proba(X[:5]), np.tile(shares, (5, 1)))
    model = AutomaticProximalSVM().partial_fit(X, y, classes=[*np.unique(y), "never"])
    at = model.classes_.tolist().index("never")
    found = model.predict_proba(X)
    assert found.shape == (len(X), 3)
    assert not found[:, at].any()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    likely = found.argmax(axis=1) == np.searchsorted(model.classes_, y)
    assert likely.mean() > max(np.mean(y == label) for label in np.unique(y))


def test_a_clone_knows_nothing_and_a_second_fit_forgets() -> None:
    X, y = rows(19, count=400)
    model = AutomaticProximalSVM(grid=fit_grid(X)).fit(X[:200], y[:200])
    assert not hasattr(clone(model), "live_")
    again = model.fit(X[200:], y[200:]).digest()
    assert again == AutomaticProximalSVM(grid=fit_grid(X)).fit(X[200:], y[200:]).digest()


def test_without_river_its_wrapper_says_in_one_line_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "deltaplane.estimators.river_classifier", raising=False)
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(ExtraMissing, match=r"for_river needs river: pip install 'deltaplane\[river\]'"):
        AutomaticProximalSVM().for_river()


def test_rivers_own_evaluation_takes_it_and_counts_what_a_replay_counts() -> None:
    try:
        from river import evaluate, metrics  # noqa: PLC0415 - an extra that the tests do without.
    except ImportError:
        give_up("RIVER", "River is an extra of its own: deltaplane[river]", on_continuous_integration=False)

    X, y = rows(20)
    model = AutomaticProximalSVM(grid=fit_grid(X))
    stream = ((dict(zip(NAMES, row, strict=True)), label) for row, label in zip(X.tolist(), y.tolist(), strict=True))
    accuracy = evaluate.progressive_val_score(stream, model.for_river(), metrics.Accuracy())
    replay = replayed(X, y, 100)
    assert accuracy.get() == pytest.approx(replay.summary["accuracy"], abs=1e-12)
