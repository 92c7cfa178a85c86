"""Whatever first rows hold, rules are decided that can encode them, or it is said why there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_rows import MISSING, NUMBERS, TEXTS, TIMES, TRUTHS
from deltaplane.columns.inference import infer
from deltaplane.errors import DefinitionError
from deltaplane.stream.column_tables import encoder_of, encoder_table

CELLS = MISSING | st.one_of(NUMBERS, TRUTHS, TEXTS, TIMES)
KINDS = [st.lists(MISSING | kind, min_size=1, max_size=30) for kind in (NUMBERS, TRUTHS, TEXTS, TIMES, CELLS)]


@given(st.one_of(KINDS), st.randoms(use_true_random=False))
def test_any_column_gets_a_rule_that_encodes_its_rows_or_a_reason(cells: list[Any], order: Any) -> None:
    table = {
        "c": cells,
        "n": [float(row % 5) for row in range(len(cells))],
        "m": [row % 2 for row in range(len(cells))],
    }
    labels = [str(order.randrange(2)) for _ in cells]
    try:
        inferred = infer(table, labels)
    except DefinitionError as refused:
        assert "no column is left" in str(refused) or "none of the first" in str(refused)  # noqa: PT017 - both are right.
        return
    assert [one.column for one in inferred.decisions] == ["c", "n", "m"]
    assert all(one.reason for one in inferred.decisions)
    encoded = inferred.encoder.encode(table)
    assert len(encoded.refused) == inferred.refused_rows
    assert np.isfinite(encoded.features[encoded.fits]).all()
    assert encoder_of(encoder_table(inferred.encoder)) == inferred.encoder


def test_a_column_of_texts_that_are_none_is_refused_row_by_row_and_not_as_a_whole() -> None:
    inferred = infer({"c": ["\ud800", "a", "b", "a"] * 10, "n": [1.0, 2.0] * 20})
    assert inferred.refused_rows == 10
    with pytest.raises(DefinitionError, match="none of the first 2 rows"):
        infer({"c": ["\ud800", "\ud801"]})
