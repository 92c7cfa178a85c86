"""Which offsets a log can have handed out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.errors import LogDisorder
from deltaplane.log.record_order import check_order


@given(st.lists(st.integers(0, 50), unique=True), st.integers(0, 5))
def test_offsets_that_ascend_below_the_end_are_taken_whatever_the_gaps(offsets: list[int], start: int) -> None:
    ascending = [start + offset for offset in sorted(offsets)]
    end = start + 51
    assert check_order("samples-0", ascending, start, end) == (ascending[-1] + 1 if ascending else start)
    assert check_order("samples-0", ascending, start) == check_order("samples-0", ascending, start, end)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(0, 5), st.integers(0, 25))
def test_exactly_what_no_log_hands_out_is_refused(offsets: list[int], start: int, end: int) -> None:
    ascend = all(a < b for a, b in zip([start - 1, *offsets], offsets, strict=False))
    if ascend and offsets[-1] < end:
        check_order("samples-0", offsets, start, end)
    else:
        with pytest.raises(LogDisorder, match=r"samples-0: expected offsets .* made-up offsets inside"):
            check_order("samples-0", offsets, start, end)


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ([7, 7], "ascend, from 8 on, got 7"),
        ([7, 6], "ascend, from 8 on, got 6"),
        ([4], "ascend, from 5 on, got 4"),
        ([5, 1_000_005], "below 8, where the log ends, got 1000005"),
        ([8], "below 8, where the log ends, got 8"),
    ],
)
def test_a_refusal_names_the_log_what_was_expected_and_what_came(offsets: list[int], words: str) -> None:
    with pytest.raises(LogDisorder, match=rf"retirements-2: expected offsets that {words}|expected offsets {words}"):
        check_order("retirements-2", offsets, 5, 8)
