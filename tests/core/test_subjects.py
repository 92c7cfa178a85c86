"""Whose a row by name is, read from its message: what was written, in either form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.columns.encoder import Encoder, coded
from deltaplane.columns.rules import NumberRule, SubjectRule
from deltaplane.errors import DefinitionMismatch
from deltaplane.stream.sample import Samples
from deltaplane.wire import subjects_of, write_named_sample, write_named_sample_batch, write_sample

COLUMNS = Encoder((NumberRule("amount", "fill"), SubjectRule("customer")))
DATA = bytes(range(16))
CELLS = st.one_of(
    st.none(),
    st.integers(-5, 5),
    st.text("abé=1", min_size=1, max_size=4),
    st.sampled_from(["c1", "c2", 17, 17.0, 1.5]),
)


def as_text(cell: Any) -> str | None:
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell)
    return None if cell is None else str(cell)


@given(st.lists(CELLS, min_size=1, max_size=9))
def test_the_subject_of_each_row_is_what_was_sent(cells: list[Any]) -> None:
    ids = [f"id-{at}" for at in range(len(cells))]
    expected = [(sample_id, as_text(cell)) for sample_id, cell in zip(ids, cells, strict=True)]
    single = [
        write_named_sample(sample_id, 1, "no", {"amount": 1, "customer": cell}, COLUMNS, DATA)
        for sample_id, cell in zip(ids, cells, strict=True)
    ]
    assert [one for message in single for one in subjects_of(message, "customer", DATA)] == expected
    codes = np.zeros(len(cells), dtype=np.int32)
    samples = Samples.of_record(ids, 7, ("no",), codes, np.empty((len(cells), 0)))
    table: dict[str, Any] = {"amount": [1.0] * len(cells), "customer": coded(cells)}
    batch = write_named_sample_batch(samples, table, COLUMNS, DATA)
    assert subjects_of(batch, "customer", DATA) == expected
    alone = write_named_sample_batch(samples, {"amount": [1.0] * len(cells)}, COLUMNS, DATA)
    assert subjects_of(alone, "customer", DATA) == [(sample_id, None) for sample_id in ids]


def test_a_message_without_names_has_no_subject_and_one_of_another_stream_is_refused() -> None:
    assert subjects_of(write_sample("a", 1, "no", [1.0], DATA), "customer", DATA) == []
    assert subjects_of(None, "customer", DATA) == []
    message = write_named_sample("a", 1, "no", {"customer": "c"}, COLUMNS, DATA)
    with pytest.raises(DefinitionMismatch):
        subjects_of(message, "customer", bytes(16))
