"""Rows in a random order: all of them, once, by the seed alone, whether they fit in memory or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane_services.readers import ReaderError, RefusedRow, RowBlock, shuffled


def block(first: int, rows: int, *, with_ids: bool) -> RowBlock:
    lines = np.arange(first, first + rows)
    refused = (RefusedRow(first + rows, "bad", ""),)
    ids = [f"é{line}" for line in lines.tolist()] if with_ids else None
    return RowBlock(np.column_stack((lines / 3, -lines)), [f"c{line % 3}" for line in lines], ids, None, lines, refused)


def blocks_of(sizes: list[int], *, with_ids: bool = False) -> Iterator[RowBlock]:
    first = 1
    for size in sizes:
        yield block(first, size, with_ids=with_ids)
        first += size


def lines_of(blocks: Iterator[RowBlock]) -> list[int]:
    return [line for one in blocks for line in one.line_numbers.tolist()]


@settings(max_examples=15)
@given(st.lists(st.integers(0, 400), max_size=4), st.integers(0, 2**64 - 1), st.booleans())
def test_every_row_comes_once_and_whole_in_an_order_of_the_seed_alone(
    sizes: list[int],
    seed: int,
    with_ids: bool,  # noqa: FBT001 - drawn
) -> None:
    held = list(shuffled(blocks_of(sizes, with_ids=with_ids), seed))
    on_disk = list(shuffled(blocks_of(sizes, with_ids=with_ids), seed, most_bytes=1000))
    order = [line for one in held for line in one.line_numbers.tolist()]
    assert sorted(order) == list(range(1, sum(sizes) + 1))
    assert lines_of(iter(on_disk)) == order == lines_of(shuffled(blocks_of([sum(sizes)], with_ids=with_ids), seed))
    for one in (*held, *on_disk):
        lines = one.line_numbers
        assert np.array_equal(one.features, np.column_stack((lines / 3, -lines)))
        assert one.labels == [f"c{line % 3}" for line in lines.tolist()]
        assert one.ids == ([f"é{line}" for line in lines.tolist()] if with_ids else None) or not len(one)
    assert sum(len(one.refused) for one in held) == len(sizes)


def test_another_seed_is_another_order_and_each_row_comes_anywhere() -> None:
    seen: Counter[tuple[int, int]] = Counter()
    for seed in range(300):
        for place, line in enumerate(lines_of(shuffled(blocks_of([4]), seed))):
            seen[place, line] += 1
    # Each of four rows stands in each of four places in a quarter of 300 orders: 75, with a deviation of 7.5.
    assert set(seen) == {(place, line) for place in range(4) for line in range(1, 5)}
    assert min(seen.values()) > 40
    assert max(seen.values()) < 110


def test_rows_before_damage_to_a_file_come_mixed_and_then_the_damage() -> None:
    def damaged() -> Iterator[RowBlock]:
        yield block(1, 50, with_ids=False)
        raise ReaderError("cut off")

    lines: list[int] = []
    with pytest.raises(ReaderError, match="cut off"):
        lines.extend(line for one in shuffled(damaged(), 1) for line in one.line_numbers.tolist())
    assert sorted(lines) == list(range(1, 51)) != lines
