"""Offsets of slots: whatever runs they are kept in, each is the one that was given, and a common stream takes few."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.arrays import Int64s
from deltaplane.window.buffer import RowBuffer
from deltaplane.window.offsets import OffsetRuns
from strategies import LONG

LEAST, MOST = -(2**63), 2**63 - 1
ENDS = st.sampled_from([LEAST, LEAST + 1, -(2**62), -1, 0, 1, 2**62, MOST - 1, MOST])
NUMBERS = st.integers(-2, 2) | ENDS | LONG


def int64s(numbers: Iterable[int]) -> Int64s:
    """Numbers modulo 2^64."""
    return np.array([number % 2**64 for number in numbers], dtype=np.uint64).view(np.int64)


def progressions(rows: int) -> st.SearchStrategy[list[int]]:
    return st.builds(
        lambda begin, step, count: int64s(begin + step * row for row in range(count)).tolist(),
        NUMBERS,
        NUMBERS,
        st.integers(1, rows),
    )


batches = st.lists(progressions(40) | st.lists(NUMBERS, max_size=6), max_size=4).map(
    lambda parts: [offset for part in parts for offset in part]
)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), batches | st.lists(NUMBERS, min_size=1, max_size=1)),
        st.tuples(st.just("go on"), st.integers(1, 30)),
        st.tuples(st.just("let go"), st.floats(0.0, 1.0)),
        st.tuples(st.just("renumber"), st.integers(0, 2**61)),
    ),
    max_size=30,
)


def going_on(offsets: list[int], count: int) -> list[int]:
    """So many offsets that follow the last two with their step."""
    last, before = (offsets[-1], offsets[-2]) if len(offsets) > 1 else (0, 0)
    return [int(offset) for offset in int64s(last + (last - before) * row for row in range(1, count + 1))]


@given(st.sampled_from([0, 7, 2**32 - 3, 2**61]), actions)
def test_each_slot_of_a_buffer_has_the_offset_it_was_given_whatever_comes_and_goes(
    first: int, steps: list[tuple[str, object]]
) -> None:
    buffer, held = RowBuffer(1, first), list[int]()
    for number, (what, of) in enumerate(steps):
        if what == "let go":
            assert isinstance(of, float)
            gone = round(of * len(held))
            held = held[gone:]
            buffer.forget_below(buffer.first + gone)
        elif what == "renumber":
            assert isinstance(of, int)
            buffer.renumber(of)
        else:
            new = of if isinstance(of, list) else going_on(held, of) if isinstance(of, int) else []
            zeros = np.zeros(len(new), dtype=np.int32)
            ids = [f"{number} {row}" for row in range(len(new))]
            buffer.append(ids, zeros[:, None], zeros, zeros.astype(np.int64), int64s(new))
            held += new
        assert [buffer.offset(slot) for slot in range(buffer.first, buffer.next)] == held


def pieces(offsets: list[int], cuts: tuple[bool, ...]) -> Iterator[tuple[int, list[int]]]:
    """Where each piece begins, and its offsets: a list cut behind each of its entries for which that is told."""
    ends = [row for row, cut in enumerate(cuts, start=1) if cut]
    for begin, end in itertools.pairwise([0, *ends, len(offsets)]):
        yield begin, offsets[begin:end]


@pytest.mark.parametrize("values", [(0, 1, 2), (0, LEAST), (LEAST, -1, MOST)])
def test_all_short_sequences_come_back_however_they_are_cut(values: tuple[int, ...]) -> None:
    for offsets in map(list, itertools.product(values, repeat=6)):
        for cuts in itertools.product([False, True], repeat=5):
            runs = OffsetRuns()
            for begin, piece in pieces(offsets, cuts):
                runs.append(begin, int64s(piece))
            assert [runs.offset(slot) for slot in range(6)] == offsets


@pytest.mark.parametrize("step", [LEAST, LEAST + 1, -(2**62) - 1, -1, 0, 1, 2**62, MOST])
def test_steps_to_and_over_the_ends_of_int64_lead_to_the_very_numbers(step: int) -> None:
    for rows, begin in itertools.product([1, 2, 5, 100], [LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST]):
        runs, offsets = OffsetRuns(), int64s(begin + step * row for row in range(100))
        for slot in range(0, 100, rows):
            runs.append(slot, offsets[slot : slot + rows])
        assert [runs.offset(slot) for slot in range(100)] == offsets.tolist()
        assert len(runs._places) == 1


def test_a_record_of_many_rows_is_one_run_however_many_come_at_a_time() -> None:
    offsets = np.repeat(np.arange(70, 100, dtype=np.int64), 100)
    for rows in (1, 7, 100, 250, 3000):
        runs = OffsetRuns()
        for slot in range(0, 3000, rows):
            runs.append(slot, offsets[slot : slot + rows])
        assert [runs.offset(slot) for slot in range(3000)] == offsets.tolist()
        # Where the first row of a record comes alone, it may be taken for the second of a run that the last began.
        assert len(runs._places) <= 2 * 30


@pytest.mark.parametrize("step", [1, 2, 5])
def test_single_samples_are_one_run_from_gap_to_gap(step: int) -> None:
    offsets = np.arange(0, step * 3000, step, dtype=np.int64)
    offsets[1000:] += 17
    for rows in (1, 7, 100, 3000):
        runs = OffsetRuns()
        for slot in range(0, 3000, rows):
            runs.append(slot, offsets[slot : slot + rows])
        assert [runs.offset(slot) for slot in range(3000)] == offsets.tolist()
        assert len(runs._places) == 2


def held_bytes(runs: OffsetRuns) -> int:
    return sum(column.buffer_info()[1] * column.itemsize for column in (runs._places, runs._offsets, runs._steps))


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_irregular_offsets_take_12_bytes_a_row(rows: int) -> None:
    runs, offsets = OffsetRuns(), np.random.default_rng(rows).integers(LEAST, MOST, 6000, endpoint=True)
    for slot in range(0, 6000, rows):
        runs.append(slot, offsets[slot : slot + rows])
    assert held_bytes(runs) <= 12 * 6000 + 24
    assert [runs.offset(slot) for slot in range(6000)] == offsets.tolist()


@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_a_window_that_slides_holds_few_runs_that_are_gone(rows: int) -> None:
    runs, window = OffsetRuns(), 4000
    offsets = np.random.default_rng(rows).integers(LEAST, MOST, 40_000, endpoint=True)
    for slot in range(0, 40_000, rows):
        runs.append(slot, offsets[slot : slot + rows])
        runs.forget_below(max(0, slot + rows - window))
        assert held_bytes(runs) <= 12 * (window + rows) * 8 / 7 + 24
    assert [runs.offset(slot) for slot in range(36_000, 40_000)] == offsets[36_000:].tolist()
    runs.forget_below(40_000)
    assert held_bytes(runs) == 24


def test_a_copy_of_the_runs_goes_its_own_way_and_leaves_the_other_as_it_was() -> None:
    runs = OffsetRuns()
    runs.append(5, int64s([3, 4, 5]))
    other = copy.deepcopy(runs)
    other.append(8, int64s([6, 9]))
    runs.append(8, int64s([1]))
    other.renumber(100)
    assert [runs.offset(slot) for slot in range(5, 9)] == [3, 4, 5, 1]
    assert [other.offset(slot) for slot in range(105, 110)] == [3, 4, 5, 6, 9]
