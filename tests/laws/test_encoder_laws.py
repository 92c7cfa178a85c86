"""An encoder is a pure function of one row: alone, in blocks, in any order, by columns and by records."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from column_rows import ENCODER, RECORDS
from deltaplane.columns.encoder import Encoded, coded


def same(left: Encoded, right: Encoded) -> bool:
    reasons = [one.reason for one in left.refused] == [one.reason for one in right.refused]
    return reasons and left.features.tobytes() == right.features.tobytes() and left.fits.tolist() == right.fits.tolist()


@given(st.lists(RECORDS, min_size=1, max_size=12), st.data())
def test_a_row_has_the_same_features_alone_and_in_any_block_and_order(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = ENCODER.encode_records(records)
    order = data.draw(st.permutations(range(len(records))))
    shuffled = ENCODER.encode_records([records[row] for row in order])
    assert shuffled.features.tobytes() == whole.features[order].tobytes()
    assert shuffled.fits.tolist() == whole.fits[order].tolist()
    for row, record in enumerate(records):
        alone = ENCODER.encode_records([record])
        assert alone.features.tobytes() == whole.features[row].tobytes()
        assert alone.fits[0] == whole.fits[row]
        assert [one.reason for one in alone.refused] == [one.reason for one in whole.refused if one.row == row]


@given(st.lists(RECORDS, min_size=1, max_size=12))
def test_columns_coded_columns_and_records_are_encoded_alike(records: list[dict[str, Any]]) -> None:
    columns = {name: [record.get(name) for record in records] for name in ENCODER.columns}
    whole = ENCODER.encode_records(records)
    assert same(ENCODER.encode(columns), whole)
    assert same(ENCODER.encode({name: coded(cells) for name, cells in columns.items()}), whole)


@given(st.lists(RECORDS, min_size=1, max_size=12))
def test_every_row_fits_with_finite_features_or_is_refused_with_a_reason(records: list[dict[str, Any]]) -> None:
    encoded = ENCODER.encode_records(records)
    assert [one.row for one in encoded.refused] == np.flatnonzero(~encoded.fits).tolist()
    assert np.isfinite(encoded.features[encoded.fits]).all()
    assert all(repr(one.column) in one.reason and one.reason.count(";") for one in encoded.refused)


@given(st.lists(st.floats() | st.integers(-100, 100).map(float), min_size=1, max_size=12))
def test_an_array_of_numbers_is_encoded_as_a_list_of_them_and_as_texts(values: list[float]) -> None:
    columns: dict[str, Any] = {name: [None] * len(values) for name in ENCODER.columns} | {"kind": ["a"] * len(values)}
    listed = ENCODER.encode({**columns, "amount": values})
    assert same(ENCODER.encode({**columns, "amount": np.array(values)}), listed)
    texts = ENCODER.encode({**columns, "amount": [repr(value) for value in values]})
    assert texts.features.tobytes() == listed.features.tobytes()
