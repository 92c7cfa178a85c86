"""Rows that cannot be learned are left out one by one, and hardly any cannot: a first batch of one row is enough."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from deltaplane.arrays import Floats, Labels
from deltaplane.errors import DeltaplaneError
from deltaplane.estimators import ExtremeSVM, ProximalSVM, RowsLeftOut, RowsRefused, SlidingProximalSVM

SEEDS = int(os.environ.get("ROW_BY_ROW_SEEDS", "3"))
"""So many streams of each law; 300 take some minutes."""

LAWS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "normal": lambda random: random.normal(size=(120, 3)),
    "lognormal": lambda random: random.lognormal(0.0, 2.0, size=(120, 3)),
    "Cauchy": lambda random: random.standard_cauchy(size=(120, 3)),
}
MAKERS: dict[str, Callable[..., Any]] = {
    "batch": lambda **given: ProximalSVM(C=1.0, **given),
    "sliding": lambda **given: SlidingProximalSVM(100, C=1.0, **given),
    "extreme": lambda **given: ExtremeSVM(8, C=1.0, **given),
}


def rows_of(seed: int, rows: int = 60) -> tuple[Floats, Labels]:
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, 3)), np.resize(np.array(["no", "yes"]), rows)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_row_at_a_time_from_the_first_on_none_is_refused(law: str, seed: int) -> None:
    X = LAWS[law](np.random.default_rng(seed))
    y = np.arange(len(X)) % 2
    for machine in (ProximalSVM(C=1.0), SlidingProximalSVM(50, C=1.0)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for at in range(len(X)):
                machine.partial_fit(X[at : at + 1], y[at : at + 1], classes=[0, 1])
                assert machine.refused_rows_ == ()
        assert sum(machine.class_counts_.values()) == (len(X) if isinstance(machine, ProximalSVM) else 50)


def test_a_grid_of_one_row_is_as_good_as_one_of_all_rows() -> None:
    random = np.random.default_rng(5)
    y = np.arange(400) % 2
    X = random.normal(size=(400, 4)) + 0.7 * y[:, None]
    X[0] = [1.0, 3.0, -2.0, 0.5]  # Whole by chance.
    whole = ProximalSVM(C=1.0).fit(X, y)
    grown = ProximalSVM(C=1.0)
    for at in range(len(X)):
        grown.partial_fit(X[at : at + 1], y[at : at + 1])
    assert np.mean(grown.predict(X) == whole.predict(X)) > 0.99


@pytest.mark.parametrize("kind", MAKERS)
def test_a_wild_row_is_left_out_alone_with_its_reason(kind: str) -> None:
    X, y = rows_of(3)
    machine, twin = MAKERS[kind]().fit(X, y), MAKERS[kind]().fit(X, y)
    more, labels = rows_of(4)
    more[17, 1], more[30, 0] = 1e200, -1e99
    with pytest.warns(RowsLeftOut, match=r"row 17 of 60: feature 'x1' is 1e\+200, outside .*\(2 such rows\)"):
        machine.partial_fit(more, labels)
    assert [(one.row, one.reason[:12]) for one in machine.refused_rows_] == [(17, "feature 'x1'"), (30, "feature 'x0'")]
    others = np.delete(np.arange(60), [17, 30])
    assert machine.digest() == twin.partial_fit(more[others], labels[others]).digest()
    assert twin.refused_rows_ == ()
    assert len(machine.predict(more)) == 60


@pytest.mark.parametrize("kind", MAKERS)
def test_who_asks_for_it_has_the_call_refused_and_nothing_learned(kind: str) -> None:
    X, y = rows_of(3)
    machine = MAKERS[kind](on_refused="raise").fit(X, y)
    digest, bits = machine.digest(), machine.coef_.tobytes()
    X[17, 1] = 1e200
    with pytest.raises(RowsRefused, match=r"row 17 of 60: feature 'x1' is .*, outside the grid's range") as refusal:
        machine.partial_fit(X, y)
    assert isinstance(refusal.value, ValueError)
    assert isinstance(refusal.value, DeltaplaneError)
    assert (machine.digest(), machine.coef_.tobytes()) == (digest, bits)
    with pytest.raises(DeltaplaneError, match="on_refused: expected 'warn' or 'raise', got 'no'"):
        MAKERS[kind](on_refused="no").fit(*rows_of(3))


def test_a_label_that_was_not_declared_costs_its_row_alone() -> None:
    X, y = rows_of(5)
    machine = ProximalSVM(C=1.0).partial_fit(X, y, classes=["no", "yes"])
    before = machine.digest()
    with pytest.warns(RowsLeftOut, match=r"row 1 of 2: expected the declared classes \['no', 'yes'\], got 'maybe'"):
        machine.partial_fit(X[:2], ["no", "maybe"])
    assert machine.digest() == machine.partial_fit(X[:1], ["no"]).retire(X[:1], ["no"]).digest()
    assert machine.retire(X[:1], ["no"]).digest() == before
    assert machine.classes_.tolist() == ["no", "yes"]


def test_test_then_train_predicts_a_wild_row_and_learns_the_others() -> None:
    X, y = rows_of(6, 460)
    machine = SlidingProximalSVM(50, C=1.0).partial_fit(X[:60], y[:60])
    twin = SlidingProximalSVM(50, C=1.0).partial_fit(X[:60], y[:60])
    wild = X.copy()
    wild[200, 2] = 1e150
    others = np.delete(np.arange(60, 460), 140)
    with pytest.warns(RowsLeftOut, match="row 140 of 400"):
        predicted = machine.predict_then_fit(wild[60:], y[60:])
    assert len(predicted) == 400
    assert np.delete(predicted, 140).tolist() == twin.predict_then_fit(X[others], y[others]).tolist()
    assert machine.digest() == twin.digest()


def test_a_row_beyond_two_to_the_thirtieth_comes_and_goes_without_a_trace() -> None:
    X, y = rows_of(7, 300)
    machine, never = (SlidingProximalSVM(100, C=1.0).partial_fit(X[:100], y[:100]) for _ in range(2))
    wide = X.copy()
    wide[110] = [9e7, -1e5, 5e7]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine.predict_then_fit(wide[100:], y[100:])
    never.partial_fit(X[100:], y[100:])
    assert machine.digest() == never.digest()
    assert machine.coef_.tobytes() == never.coef_.tobytes()


def test_what_a_layer_makes_of_a_value_beyond_the_grid_is_what_it_makes_of_one_near_its_end() -> None:
    X, y = rows_of(8)
    machine = ExtremeSVM(8, C=1.0).fit(X, y)
    near, beyond = X[:4].copy(), X[:4].copy()
    near[:, 0], beyond[:, 0] = 2.0**23, 1e300
    assert np.array_equal(machine.decision_function(near), machine.decision_function(beyond))


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("wrapped", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_a_later_call_with_a_number_that_is_none_raises_as_scikit_learn_does_and_learns_nothing(
    maker: str, value: float, wrapped: Callable[[Floats], Any]
) -> None:
    X, y = rows_of(3)
    machine = MAKERS[maker]().fit(X, y)
    before = machine.digest()
    more, labels = rows_of(4)
    # A row beyond the grid would be left out with a warning, and the call would count.
    more[7, 1], more[3, 0] = value, 1e300
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        machine.partial_fit(wrapped(more), labels)
    more[3, 0] = 0.0
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        getattr(machine, "predict_then_fit" if maker == "sliding" else "retire")(wrapped(more), labels)
    assert machine.digest() == before
    assert machine.refused_rows_ == ()
