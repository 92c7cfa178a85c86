"""Estimators on tables of mixed columns: however a table is given, and beside scikit-learn's own way with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from deltaplane.columns.inference import infer
from deltaplane.errors import DefinitionError, DefinitionMismatch
from deltaplane.estimators import ExtremeSVM, ProximalSVM, RowsLeftOut, RowsRefused, SlidingProximalSVM
from mixed_table import mixed_table

Table = dict[str, list[Any]]
NUMBERS, TEXTS = ("amount", "account_age_days"), ("country", "channel", "merchant", "known_device", "chip")


def rows_of(table: Table, rows: slice) -> Table:
    return {name: cells[rows] for name, cells in table.items()}


def gmean(truth: np.ndarray[Any, Any], predicted: np.ndarray[Any, Any]) -> float:
    recalls = [float((predicted[truth == label] == label).mean()) for label in np.unique(truth)]
    return float(np.sqrt(np.prod(recalls)))


class Frame:
    """What an estimator asks of a data frame of pandas, which the tests do without."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.columns = list(table)
        self.dtypes = [np.dtype(object)] * len(table)
        self.iloc = self

    def __getitem__(self, at: tuple[slice, int]) -> Any:
        class Series(list[Any]):
            dtype = np.dtype(object)

            def astype(self, _: type) -> list[Any]:
                return list(self)

        return Series(self._table[self.columns[at[1]]])


@pytest.fixture(scope="module")
def made() -> tuple[Table, np.ndarray[Any, Any]]:
    table, labels = mixed_table(2000, 0, fraud=1 / 20)
    return table, np.array(labels)


def test_a_mixed_table_is_told_apart_no_worse_than_by_scikit_learns_column_transformer() -> None:
    # Retrained on the last rows by chunk: the same rows, in the same order, for both.
    table, labels = mixed_table(24_000, 11)
    truth, ours, theirs = np.array(labels), [], []
    window, chunk = 8000, 4000
    encoder = infer(rows_of(table, slice(0, window)), labels[:window]).encoder
    rows = np.array(list(zip(*(table[name] for name in NUMBERS + TEXTS), strict=True)), dtype=object)
    rows[:, : len(NUMBERS)] = np.where(rows[:, : len(NUMBERS)] == None, np.nan, rows[:, : len(NUMBERS)])  # noqa: E711
    rows[:, len(NUMBERS) :] = np.where(rows[:, len(NUMBERS) :] == None, "", rows[:, len(NUMBERS) :])  # noqa: E711
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    places = list(range(len(NUMBERS))), list(range(len(NUMBERS), len(NUMBERS) + len(TEXTS)))
    columns = ColumnTransformer([("n", numbers, places[0]), ("t", OneHotEncoder(handle_unknown="ignore"), places[1])])
    linear = make_pipeline(columns, SGDClassifier(class_weight="balanced", random_state=0))
    for begin in range(window, len(labels), chunk):
        last, now = slice(begin - window, begin), slice(begin, begin + chunk)
        svm = ProximalSVM(columns=encoder).fit(rows_of(table, last), truth[last])
        ours.append(svm.predict(rows_of(table, now)))
        theirs.append(clone(linear).fit(rows[last], truth[last]).predict(rows[now]))
    reached = gmean(truth[window:], np.concatenate(ours)), gmean(truth[window:], np.concatenate(theirs))
    print(f"seed 11: G-mean {reached[0]:.4f}, scikit-learn {reached[1]:.4f}")  # noqa: T201 - both are to be seen.
    assert reached[0] >= reached[1], reached


@pytest.mark.parametrize("model", [ProximalSVM(1.0), SlidingProximalSVM(500, 1.0), ExtremeSVM(20, C=1.0)])
def test_a_table_is_the_same_rows_however_it_is_given(
    model: ProximalSVM | SlidingProximalSVM, made: tuple[Table, np.ndarray[Any, Any]]
) -> None:
    table, labels = made
    records = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    digests, predictions = set(), set()
    for given in (table, pa.table(table), Frame(table), records):
        fitted = clone(model).set_params(columns="auto").fit(given, labels)
        digests.add(fitted.digest())
        predictions.add(fitted.predict(given).tobytes())
    assert len(digests) == len(predictions) == 1


def test_rows_of_a_table_come_and_go_and_merge_without_a_trace(made: tuple[Table, np.ndarray[Any, Any]]) -> None:
    table, labels = made
    first = ProximalSVM(1.0, columns="auto").fit(table, labels)
    grid, encoder = first.grid_, first.encoder_
    first.retire(rows_of(table, slice(0, 500)), labels[:500])
    fresh = ProximalSVM(1.0, columns=encoder, grid=grid).fit(rows_of(table, slice(500, None)), labels[500:])
    assert first.digest() == fresh.digest()
    assert first.coef_.tobytes() == fresh.coef_.tobytes()
    part = ProximalSVM(1.0, columns=encoder, grid=grid)
    part.partial_fit(rows_of(table, slice(500, 900)), labels[500:900])
    rest = ProximalSVM(1.0, columns=encoder, grid=grid).fit(rows_of(table, slice(900, None)), labels[900:])
    assert part.merge(rest).digest() == fresh.digest()
    features = ProximalSVM(1.0, grid=grid).fit(fresh.encoder_.encode(table).features, labels)  # type: ignore[union-attr]
    with pytest.raises(DefinitionMismatch):
        fresh.merge(features)


@pytest.mark.parametrize("kind", [ProximalSVM, SlidingProximalSVM, ExtremeSVM])
def test_a_row_that_cannot_be_encoded_is_left_out_alone(kind: Any, made: tuple[Table, np.ndarray[Any, Any]]) -> None:
    table, labels = made
    svm = kind(C=1.0, columns="auto").fit(rows_of(table, slice(0, 1000)), labels[:1000])
    settings = {"C": 1.0, "columns": svm.encoder_, "grid": svm.grid_}
    if kind is ExtremeSVM:
        settings["feature_map"] = svm.live_.space.feature_map
    wrong = {**table, "amount": ["lots", *table["amount"][1:]]}
    with pytest.warns(RowsLeftOut, match=r"row 0 of 2000: column 'amount' is no number: 'lots'.*\(1 such rows\)"):
        left = kind(**settings).fit(wrong, labels)
    assert [one.row for one in left.refused_rows_] == [0]
    others = kind(**settings).fit(rows_of(table, slice(1, None)), labels[1:])
    assert left.digest() == others.digest()
    with pytest.warns(RowsLeftOut, match="row 0 of 2000"):
        svm.partial_fit(wrong, labels)
    with pytest.raises(RowsRefused, match=r"row 0 of 2000: column 'amount' is no number") as refusal:
        svm.predict(wrong)
    assert list(refusal.value.refusals) == [0]


def test_who_asks_for_it_has_the_call_refused_for_a_row_that_cannot_be_encoded(
    made: tuple[Table, np.ndarray[Any, Any]],
) -> None:
    table, labels = made
    svm = ProximalSVM(1.0, columns="auto", on_refused="raise").fit(table, labels)
    before, encoder = svm.digest(), svm.encoder_
    wrong = {**table, "amount": ["lots", *table["amount"][1:]]}
    with pytest.raises(RowsRefused, match=r"row 0 of 2000: column 'amount' is no number: 'lots'"):
        svm.partial_fit(wrong, labels)
    with pytest.raises(RowsRefused, match=r"row 0 of 2000"):
        svm.fit(wrong, labels)
    assert (svm.digest(), svm.encoder_) == (before, encoder)
    assert len(svm.predict(table)) == 2000


def test_a_table_is_refused_where_it_is_none_and_rows_of_numbers_stay_what_they_are() -> None:
    numbers = np.random.default_rng(0).normal(size=(100, 3))
    labels = np.arange(100) % 2
    with pytest.raises(DefinitionError, match="expected 'auto', an Encoder or None"):
        ProximalSVM(columns="all").fit(numbers, labels)  # type: ignore[arg-type]
    with pytest.raises(RowsRefused, match="expected a data frame"):
        ProximalSVM(columns="auto").fit([1.0, 2.0], labels)
    named = ProximalSVM(1.0, columns="auto").fit(numbers, labels)
    assert named.encoder_ is not None
    assert named.encoder_.features == ("x0", "x1", "x2")
    assert ProximalSVM(1.0).fit(numbers, labels).encoder_ is None
