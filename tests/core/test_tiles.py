"""Tiles cover every cell once, and are as large as they may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deltaplane.exact.blocks import tiles

SIZES = st.integers(1, 40)


@given(st.integers(0, 12), st.integers(0, 12), SIZES, st.integers(1, 400))
def test_every_cell_is_in_one_tile_and_no_tile_has_too_many(outer: int, inner: int, entries: int, most: int) -> None:
    cells = []
    for rows, columns in tiles(outer, inner, entries, most):
        inside = [(i, j) for i in range(rows.start, rows.stop) for j in range(columns.start, columns.stop)]
        assert entries * len(inside) <= max(most, entries)
        cells += inside
    assert cells == [(i, j) for i in range(outer) for j in range(inner)]


def test_tiles_take_whole_rows_where_there_is_room() -> None:
    assert list(tiles(5, 3, 10, 60)) == [
        (slice(0, 2), slice(0, 3)),
        (slice(2, 4), slice(0, 3)),
        (slice(4, 5), slice(0, 3)),
    ]
