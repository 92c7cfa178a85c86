"""Regrouping blocks: the same rows in the same order, in blocks of one length, refused rows where they stood."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.readers import RefusedRow, RowBlock, rechunk
from services.readers_samples import Rows


def blocks_of(kinds: list[list[bool]], *, with_ids: bool = True) -> list[RowBlock]:
    """A block for each list, a line for each of its elements: a row where it is true, a refused row where it is not."""
    blocks = []
    line = 1
    for lines in kinds:
        numbers = [line + place for place, is_row in enumerate(lines) if is_row]
        refused = tuple(RefusedRow(line + place, "bad", "") for place, is_row in enumerate(lines) if not is_row)
        line += len(lines)
        at = np.array(numbers, dtype=np.int64)
        labels = [f"c{number}" for number in numbers]
        ids = [f"r{number}" for number in numbers] if with_ids else None
        features = np.column_stack((at, -at)).astype(np.float64)
        blocks.append(RowBlock(features, labels, ids, at * 10 if with_ids else None, at, refused))
    return blocks


@given(
    kinds=st.lists(st.lists(st.booleans(), max_size=12), max_size=12), rows=st.integers(1, 9), with_ids=st.booleans()
)
def test_rows_and_refused_rows_keep_their_order_and_all_blocks_but_the_last_have_one_length(
    kinds: list[list[bool]], rows: int, *, with_ids: bool
) -> None:
    blocks = blocks_of(kinds, with_ids=with_ids)
    chunks = list(rechunk(blocks, rows))
    flat = [is_row for lines in kinds for is_row in lines]
    assert all(len(chunk) == rows for chunk in chunks[:-1])
    assert all(len(chunk) <= rows for chunk in chunks)
    if not chunks:
        assert flat == []
        return
    joined = Rows(chunks)
    numbers = [line for line, is_row in enumerate(flat, start=1) if is_row]
    assert joined.line_numbers == numbers
    assert joined.features.tolist() == [[line, -line] for line in numbers]
    assert joined.labels == [f"c{line}" for line in numbers]
    assert joined.ids == ([f"r{line}" for line in numbers] if with_ids else None)
    assert joined.times == ([line * 10 for line in numbers] if with_ids else [])
    assert [row.line_number for row in joined.refused] == [line for line, is_row in enumerate(flat, 1) if not is_row]


@given(st.lists(st.lists(st.booleans(), max_size=12), max_size=12), st.integers(1, 9))
def test_a_refused_row_stands_before_the_first_row_of_the_next_block_and_behind_the_last_of_the_one_before(
    kinds: list[list[bool]], rows: int
) -> None:
    chunks = list(rechunk(blocks_of(kinds), rows))
    for chunk, following in pairwise(chunks):
        assert all(row.line_number < following.line_numbers[:1].min(initial=10**6) for row in chunk.refused)
        assert all(row.line_number > chunk.line_numbers[-1] for row in following.refused)


def test_rows_within_one_block_are_views_of_it_and_not_copies() -> None:
    (block,) = blocks_of([[True] * 10_000])
    chunks = list(rechunk([block], 1))
    assert len(chunks) == 10_000
    assert all(np.shares_memory(chunk.features, block.features) for chunk in chunks)
    assert all(np.shares_memory(chunk.line_numbers, block.line_numbers) for chunk in chunks[::1000])


def test_rows_of_several_blocks_are_copied_once_each() -> None:
    blocks = blocks_of([[True] * 10] * 100)
    (chunk,) = rechunk(blocks, 5000)
    assert len(chunk) == 1000
    assert not any(np.shares_memory(chunk.features, block.features) for block in blocks)


def test_refused_rows_that_wait_for_rows_do_not_pile_up_without_bound() -> None:
    kinds = [[True], *([[False] * 3000] * 10), [True]]
    chunks = list(rechunk(blocks_of(kinds), 2))
    assert max(len(chunk.refused) for chunk in chunks) <= 8192 + 3000
    assert [len(chunk) for chunk in chunks if len(chunk)] == [2]
    assert [row.line_number for chunk in chunks for row in chunk.refused] == list(range(2, 30_002))


@pytest.mark.parametrize("rows", [0, -1])
def test_blocks_of_no_rows_cannot_be_asked_for(rows: int) -> None:
    with pytest.raises(ValueError, match="at least 1 is needed"):
        next(rechunk([], rows))
