"""Rows of cells on their way into the store and out of it: the same rows, whatever their texts hold."""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.stream.rows_by_name import features_by_name
from deltaplane_services.intake.row_cells import RowColumns, as_texts, from_texts
from services.intake_shop import shop

CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(width=st.integers(0, 4), data=st.data())
def test_rows_come_out_of_their_texts_as_they_went_in_each_by_itself(width: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=6))
    texts = as_texts(rows)
    assert [json.loads(text) for text in texts] == rows == from_texts(texts)


def test_line_feeds_commas_and_brackets_in_texts_part_nothing() -> None:
    rows = [["a,\nb", "],["], ['",\n"', "\u2028,\n"]]
    assert from_texts(as_texts(rows)) == rows


NUMBERS = (
    st.integers(-(2**60), 2**60) | st.integers() | st.floats(allow_nan=True) | st.none() | st.sampled_from(["7", "?"])
)


@given(amounts=st.lists(NUMBERS, min_size=1, max_size=8))
def test_a_column_that_is_read_as_an_array_has_the_features_of_its_cells_one_by_one(amounts: list[object]) -> None:
    definition, intake = shop()
    rows = [[amount, "DE", True] for amount in amounts]
    names = [name for name, _ in intake.fields]
    together, refused = features_by_name(definition, RowColumns(definition, names).table(list(zip(*rows, strict=True))))
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    alone, why = features_by_name(definition, columns)
    assert dict(refused) == dict(why)
    np.testing.assert_array_equal(together, alone)


def test_a_column_of_categories_is_left_as_it_is() -> None:
    definition, _ = shop()
    table = RowColumns(definition, ["amount", "country", "known"]).table([[1, 2.5], [1, 2.0], [True, False]])
    assert table["country"] == [1, 2.0]
    assert isinstance(table["amount"], np.ndarray)
    assert math.isclose(float(table["amount"][1]), 2.5)
