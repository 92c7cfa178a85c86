"""A column as its distinct cells and codes: the quick way for one type of cells gives what the slow one gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deltaplane.columns.encoder import coded

KINDS = [st.text(max_size=2), st.booleans(), st.integers(-2, 2) | st.integers(), st.none(), st.floats()]


@given(cells=st.one_of([st.lists(kind, max_size=12) for kind in (*KINDS, st.one_of(KINDS))]))
def test_cells_of_one_type_are_coded_as_among_cells_of_others(cells: list[Any]) -> None:
    found, among = coded(cells), coded([*cells, b"a cell of another type"])
    assert list(map(repr, found.cells)) == list(map(repr, among.cells[:-1]))
    assert found.codes.tolist() == among.codes.tolist()[:-1]
    assert [repr(found.cells[code]) for code in found.codes] == [repr(cell) for cell in cells] or None in found.cells
    assert coded(iter(cells)).codes.tolist() == found.codes.tolist()
