"""Sparse matrices of every form are the rows that they stand for, bit for bit, in bounded memory; and NaN."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import get_tags

from deltaplane.estimators import ExtremeSVM, ProximalSVM, RowsLeftOut, RowsRefused, SlidingProximalSVM, sparse_rows

FORMS = ("csr", "csc", "coo", "lil", "dok", "bsr")
KINDS = [
    ProximalSVM(1.0),
    ProximalSVM(),
    SlidingProximalSVM(150, 1.0),
    SlidingProximalSVM(1000, 1.0),
    ExtremeSVM(20, C=1.0),
]


def made(rows: int = 400, features: int = 12, seed: int = 0) -> tuple[Any, np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    dense = np.where(random.random((rows, features)) < 0.2, random.normal(size=(rows, features)) * 3, 0.0)
    labels = np.where(dense[:, 0] + dense[:, 1] + 0.3 * random.normal(size=rows) > 0, "b", "a")
    return dense, labels


@pytest.fixture(autouse=True)
def few_entries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Several blocks of rows and of features, none of the same size as the others.
    monkeypatch.setattr(sparse_rows, "DENSE_ENTRIES", 900)


@pytest.mark.parametrize("model", KINDS, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_sparse_rows_are_the_dense_ones(model: ProximalSVM | SlidingProximalSVM, form: str) -> None:
    dense, labels = made()
    kinds: list[Any] = [sparse.csr_matrix(dense).asformat(form), sparse.csr_array(dense).asformat(form)]
    want = type(model)(**model.get_params()).fit(dense, labels)
    for given in kinds:
        got = type(model)(**model.get_params()).fit(given, labels)
        assert got.digest() == want.digest()
        assert got.coef_.tobytes() == want.coef_.tobytes()
        assert got.decision_function(given).tobytes() == want.decision_function(dense).tobytes()
        assert (got.predict(given) == want.predict(dense)).all()


@pytest.mark.parametrize("model", KINDS[:4], ids=str)
def test_sparse_calls_and_dense_ones_go_on_from_each_other(model: ProximalSVM | SlidingProximalSVM) -> None:
    dense, labels = made(600)
    given: Any = sparse.csr_matrix(dense)
    settings = model.get_params() | {"grid": ProximalSVM(1.0).fit(dense, labels).grid_}
    want, got = type(model)(**settings), type(model)(**settings)
    for part in (slice(0, 90), slice(90, 400), slice(400, 600)):
        want.partial_fit(dense[part], labels[part])
        got.partial_fit(given[part] if part.start != 90 else dense[part], labels[part])
    assert got.digest() == want.digest()
    if isinstance(got, ProximalSVM) and isinstance(want, ProximalSVM):
        assert got.retire(given[:90], labels[:90]).digest() == want.retire(dense[:90], labels[:90]).digest()
    elif isinstance(want, SlidingProximalSVM) and isinstance(got, SlidingProximalSVM):
        answers = want.predict_then_fit(dense[:70], labels[:70]), got.predict_then_fit(given[:70], labels[:70])
        assert (answers[0] == answers[1]).all()
        assert got.digest() == want.digest()


@pytest.mark.parametrize("model", [ProximalSVM(1.0), SlidingProximalSVM(150, 1.0)], ids=str)
def test_a_row_that_cannot_be_learned_is_left_out_by_its_number_in_whatever_block_it_is(
    model: ProximalSVM | SlidingProximalSVM,
) -> None:
    dense, labels = made()
    grid = ProximalSVM(1.0).fit(dense, labels).grid_
    dense[[7, 200, 399], 3] = 1e300
    settings = model.get_params() | {"grid": grid}
    with pytest.warns(RowsLeftOut, match=r"row 7 of 400: .*\(3 such rows\)") as warned:
        got = type(model)(**settings).fit(sparse.csr_matrix(dense), labels)
    assert warned[0].filename == __file__
    assert [one.row for one in got.refused_rows_] == [7, 200, 399]
    with pytest.warns(RowsLeftOut):
        assert got.digest() == type(model)(**settings).fit(dense, labels).digest()
    with pytest.raises(RowsRefused, match="row 7 of 400"):
        type(model)(**settings | {"on_refused": "raise"}).fit(sparse.csr_matrix(dense), labels)
    with pytest.raises(RowsRefused) as refusal:
        got.set_params(on_refused="raise").partial_fit(sparse.csr_matrix(dense), labels)
    assert sorted(refusal.value.refusals) == [7, 200, 399]


def test_no_more_than_a_block_is_made_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_rows, "DENSE_ENTRIES", 2**16)
    rows, features = 20_000, 200
    random = np.random.default_rng(1)
    given: Any = sparse.random_array((rows, features), density=0.01, format="csr", rng=random)
    labels = random.integers(0, 2, rows)
    ProximalSVM(1.0).fit(given[:200], labels[:200])
    tracemalloc.start()
    try:
        model = ProximalSVM(1.0).fit(given, labels)
        model.predict(given)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Dense, these rows have 32 MB; their entries take less than one.
    assert peak < 16e6, peak


def test_tags_say_what_is_taken() -> None:
    numbers, tables = get_tags(ProximalSVM()).input_tags, get_tags(ProximalSVM(columns="auto")).input_tags
    assert (numbers.sparse, numbers.allow_nan) == (True, False)
    assert (tables.sparse, tables.allow_nan) == (False, True)
    dense, labels = made()
    with pytest.raises(TypeError, match="sparse data is not supported where columns have rules; leave columns out"):
        ProximalSVM(columns="auto").fit(sparse.csr_matrix(dense), labels)


@pytest.mark.parametrize("model", [ProximalSVM(1.0), SlidingProximalSVM(500, 1.0), ExtremeSVM(20, C=1.0)], ids=str)
def test_rows_with_texts_are_refused_with_the_option_that_takes_them(
    model: ProximalSVM | SlidingProximalSVM,
) -> None:
    rows = [[1.0, "blue"], [2.0, "red"]] * 50
    with pytest.raises(ValueError, match=r"could not convert string[\s\S]*With columns='auto' a table may hold texts"):
        model.fit(rows, ["p", "q"] * 50)


@pytest.mark.parametrize("model", [ProximalSVM(1.0), SlidingProximalSVM(500, 1.0), ExtremeSVM(20, C=1.0)], ids=str)
def test_what_is_missing_among_numbers_is_filled_in_where_columns_have_rules(
    model: ProximalSVM | SlidingProximalSVM,
) -> None:
    dense, labels = made()
    dense[::5, 3] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN[\s\S]*With columns='auto' what is missing is filled in"):
        type(model)(**model.get_params()).fit(dense, labels)
    filled = type(model)(**model.get_params() | {"columns": "auto"}).fit(dense, labels)
    assert filled.encoder_ is not None
    assert "x3 missing" in filled.encoder_.features
    assert filled.n_features_in_ == 12
    assert filled.refused_rows_ == ()
    assert len(filled.predict(dense)) == 400
    with pytest.raises(ValueError, match="X has 11 features, but"):
        filled.predict(dense[:, 1:])
