"""The laws of exact statistics, bitwise: what many workers, any batch size, windows and unlearning rest on."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from deltaplane import limits
from deltaplane.arrays import Int64s
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics, moments_by_class


@given(strategies.row_sets(3))
def test_partial_sums_may_be_formed_anywhere(rows: tuple[Int64s, ...]) -> None:
    a, b, c = map(Moments.of_rows, rows)
    assert ((a + b) + c).to_bytes() == (a + (b + c)).to_bytes()


@given(strategies.row_sets(2))
def test_sums_do_not_depend_on_which_comes_first(rows: tuple[Int64s, ...]) -> None:
    a, b = map(Moments.of_rows, rows)
    assert (a + b).to_bytes() == (b + a).to_bytes()


@given(strategies.row_sets(2))
def test_what_is_added_and_subtracted_leaves_no_trace(rows: tuple[Int64s, ...]) -> None:
    a, b = map(Moments.of_rows, rows)
    assert ((a + b) - b).to_bytes() == a.to_bytes()
    assert ((a - b) + b).to_bytes() == a.to_bytes()
    assert not (a - a)
    assert (-(a - b)).to_bytes() == (b - a).to_bytes()
    assert (a + Moments.zero(a.dimension)).to_bytes() == a.to_bytes()


@given(strategies.grid_rows(max_rows=20), st.data())
def test_any_order_and_any_cut_into_batches_give_the_same_bits(rows: Int64s, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    total = Moments.zero(rows.shape[1] + 1)
    for start, stop in itertools.pairwise([0, *cuts, len(rows)]):
        total = total + Moments.of_rows(rows[order][start:stop])
    assert total.to_bytes() == Moments.of_rows(rows).to_bytes()


@given(strategies.grid_rows(max_rows=20), st.data())
def test_any_partitioning_adds_up_to_the_whole(rows: Int64s, data: st.DataObject) -> None:
    partition = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))), dtype=int)
    parts = [Moments.of_rows(rows[partition == p]) for p in data.draw(st.permutations(range(4)))]
    total = Moments.zero(rows.shape[1] + 1)
    for part in parts:
        total = total + part
    assert total.to_bytes() == Moments.of_rows(rows).to_bytes()


@given(strategies.grid_rows(max_rows=12, min_rows=2), st.data())
def test_a_retired_row_leaves_the_statistics_as_if_it_had_never_come(rows: Int64s, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    without = Moments.of_rows(np.delete(rows, at, axis=0))
    assert (Moments.of_rows(rows) - Moments.of_rows(rows[at : at + 1])).to_bytes() == without.to_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_plain_and_split_blocks_in_any_mixture_give_the_same_bits(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(-(2**10), 2**10, size=(2500, 3))
    rows[random.integers(0, len(rows), size=20)] = limits.GRID_RANGE - 1
    total = Moments.zero(4)
    for start in range(0, len(rows), 100 * (seed + 1)):
        total = total + Moments.of_rows(rows[start : start + 100 * (seed + 1)])
    assert total == Moments.of_rows(rows) == Moments.of_rows(rows[random.permutation(len(rows))])


@pytest.mark.parametrize("seed", range(4))
def test_narrow_and_wide_rows_in_any_mixture_and_cut_give_the_bits_of_whole_numbers(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(-(2**10), 2**10, size=(2500, 3))
    some = random.random(rows.shape) < [0.0004, 0.01, 0.5, 1.0][seed]
    rows[some] = random.integers(-(2**45) + 1, 2**45, size=int(some.sum())) >> random.integers(0, 20)
    exact = [[int(entry) for entry in row] for row in (rows.astype(object).T @ rows.astype(object)).tolist()]
    whole = Moments.of_rows(rows)
    assert [[whole.entry(i, j) for j in range(3)] for i in range(3)] == exact
    for length in (1, 7, 8, 100, 2048):
        cuts = range(0, len(rows), length)
        parts = [Moments.of_rows(rows[start : start + length]) for start in cuts]
        assert functools.reduce(Moments.__add__, parts) == whole
    assert Moments.of_rows(rows[random.permutation(len(rows))]) == whole
    assert whole - Moments.of_rows(rows[:1000]) == Moments.of_rows(rows[1000:])


@given(strategies.grid_rows(max_rows=12), strategies.grid_rows(max_rows=12), st.data())
def test_the_digest_sees_the_live_rows_and_not_their_history(rows: Int64s, more: Int64s, data: st.DataObject) -> None:
    more = np.resize(more, (len(more), rows.shape[1]))
    labels = ["a", "b"]
    codes = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows))), dtype=np.int32)
    order = np.array(data.draw(st.permutations(range(len(rows)))), dtype=int)
    passing = np.zeros(len(more), dtype=np.int32)

    def of(quantized: Int64s, codes: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Statistics:
        parts = moments_by_class(quantized, codes, labels)
        return Statistics(rows.shape[1] + 1, {(0, label): part for label, part in parts.items()})

    direct = of(rows, codes)
    roundabout = of(more, passing) + of(rows[order], codes[order]) - of(more, passing)
    assert roundabout == direct
    assert roundabout.digest(b"f" * 16) == direct.digest(b"f" * 16)
