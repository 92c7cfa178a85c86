"""Texts by codes are the texts themselves, and their table is that of the rows that are there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.stream.sample import NoIds, usable_each
from deltaplane_services.readers.arrow_columns import labels_of
from deltaplane_services.readers.cells import AS_NUMBERS
from deltaplane_services.readers.coded_texts import CodedTexts, codes_of
from deltaplane_services.readers.layout import Layout

LAYOUT = Layout(("label", "x"), 0, None, None, (1,), labels=AS_NUMBERS)


@given(st.lists(st.integers(0, 4)), st.integers(0, 5), st.integers(0, 9))
def test_codes_are_those_of_the_list_of_texts(codes: list[int], begin: int, count: int) -> None:
    table = ("b", "a", "", "d", "c")
    coded = CodedTexts(table, np.array(codes, dtype=np.int32))
    texts = [table[code] for code in codes]
    assert coded == texts
    assert coded[begin : begin + count] == texts[begin : begin + count]
    assert [coded[at] for at in range(len(coded))] == texts
    assert all((text in coded) == (text in texts) for text in (*table, "e"))
    of_list, of_coded = codes_of(texts), codes_of(coded)
    assert of_list[0] == of_coded[0] == tuple(dict.fromkeys(texts))
    assert of_list[1].tolist() == of_coded[1].tolist()
    assert of_list[1].dtype == of_coded[1].dtype == np.int32


@given(st.lists(st.sampled_from(["1", "1.0", "+1", "UP", " UP", "", "nan", None])))
def test_labels_of_an_arrow_column_are_spelled_one_by_one(values: list[str | None]) -> None:
    texts = [AS_NUMBERS(value or "") for value in values]
    plain = pa.array(values, pa.string())
    for column in (
        plain,
        plain.dictionary_encode(),
        plain.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
    ):
        labels = labels_of(column, LAYOUT)
        assert labels == texts
        assert len(set(labels.table)) == len(labels.table)


def test_rows_without_ids_have_usable_ones() -> None:
    ids = NoIds(5)
    assert list(ids) == ["-"] * 5
    assert len(ids[1:3]) == 2
    assert usable_each(ids, limits.ID_BYTES).tolist() == usable_each(list(ids), limits.ID_BYTES).tolist()
