"""Laws of the last rows: what leaves and what stays are all that came, in its order, however it was cut into calls."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.solve.last_rows import LastRows, Rows

CALLS = st.lists(st.integers(0, 40), max_size=30)


def rows(first: int, count: int) -> Rows:
    """Rows that are told apart by their numbers, which are their labels too."""
    numbers = np.arange(first, first + count)
    return Rows(np.stack([numbers, -numbers], axis=1).astype(np.int32), numbers.astype(np.str_))


def numbers_of(parts: tuple[Rows, ...]) -> list[int]:
    """The numbers of rows, which are read from both their columns."""
    for part in parts:
        assert (
            part.quantized[:, 0].tolist() == (-part.quantized[:, 1]).tolist() == part.labels.astype(np.int32).tolist()
        )
    return [number for part in parts for number in part.quantized[:, 0].tolist()]


@given(st.integers(1, 60), CALLS)
def test_the_last_rows_are_held_and_all_others_have_left_in_their_order(length: int, calls: list[int]) -> None:
    window, came, left = LastRows(length), 0, list[int]()
    for count in calls:
        going, window = window.moved_on(rows(came, count))
        came += count
        left += numbers_of((going,))
        assert left == list(range(max(0, came - length)))
        assert numbers_of(window.blocks) == list(range(len(left), came))


@given(st.integers(1, 60), CALLS, st.integers(1, 60), st.integers(0, 40))
def test_a_window_that_has_become_shorter_lets_more_rows_go_than_come(
    length: int, calls: list[int], shorter: int, count: int
) -> None:
    window, came = LastRows(length), sum(calls)
    for at, call in enumerate(calls):
        window = window.moved_on(rows(sum(calls[:at]), call))[1]
    held = numbers_of(window.blocks)
    going, after = LastRows(shorter, window.blocks).moved_on(rows(came, count))
    together = held + list(range(came, came + count))
    assert numbers_of((going,)) + numbers_of(after.blocks) == together
    assert len(numbers_of(after.blocks)) == min(shorter, len(together))
    assert numbers_of(window.blocks) == held, "the window of before has changed"


@given(st.integers(1, 5000), st.lists(st.integers(1, 300), min_size=1, max_size=60))
def test_each_block_but_the_oldest_is_at_least_twice_as_long_as_the_next(length: int, calls: list[int]) -> None:
    window = LastRows(length)
    for count in calls:
        window = window.moved_on(rows(0, count))[1]
        lengths = [len(block) for block in window.blocks]
        assert all(lengths[at] >= 2 * lengths[at + 1] for at in range(1, len(lengths) - 1))


def test_a_window_over_all_rows_holds_none_and_lets_none_go() -> None:
    going, window = LastRows(None).moved_on(rows(0, 5))
    assert len(going) == 0
    assert window.blocks == ()
