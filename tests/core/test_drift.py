"""Drift without labels: found within a window of a change, and hardly ever where there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from deltaplane.arrays import Floats
from deltaplane.log.drift import BLOCK_ROWS, BLOCKS, DriftWatch

WINDOW_ROWS = BLOCKS * BLOCK_ROWS
Make = Callable[[np.random.Generator, int], Floats]


def autocorrelated(random: np.random.Generator, rows: int) -> Floats:
    values = random.normal(size=(rows, 4))
    for at in range(1, rows):
        values[at] += 0.7 * values[at - 1]
    return values


STATIONARY: dict[str, Make] = {
    "normal": lambda random, rows: random.normal(size=(rows, 6)),
    "exponential": lambda random, rows: random.exponential(size=(rows, 6)),
    "heavy tails": lambda random, rows: random.standard_t(3, size=(rows, 6)),
    "without a mean": lambda random, rows: random.standard_cauchy(size=(rows, 6)),
    "rare ones": lambda random, rows: (random.random((rows, 6)) < [0.5, 0.1, 0.01, 0.001, 1e-4, 0.0]).astype(float),
    "neighbours alike": autocorrelated,
    "gaps": lambda random, rows: np.where(random.random((rows, 3)) < 0.3, np.nan, random.normal(size=(rows, 3))),
}


def rows_of_drifts(rows: Floats, chunk: int = 250) -> list[int]:
    watch = DriftWatch(rows.shape[1])
    return [drift.row for at in range(0, len(rows), chunk) for drift in watch.add(rows[at : at + chunk])]


@pytest.mark.parametrize("kind", STATIONARY)
def test_nothing_is_found_more_than_once_in_100_000_rows_where_nothing_changes(kind: str) -> None:
    assert len(rows_of_drifts(STATIONARY[kind](np.random.default_rng(6), 100_000))) <= 1


@pytest.mark.parametrize("kind", ["normal", "exponential", "heavy tails", "neighbours alike", "gaps"])
@pytest.mark.parametrize("at", [5000, 7777])
def test_a_shift_of_one_deviation_is_found_once_within_a_window(kind: str, at: int) -> None:
    rows = STATIONARY[kind](np.random.default_rng(7), 12_000)
    rows[at:, 1] += np.nanstd(rows[:at, 1])
    (found,) = rows_of_drifts(rows)
    assert at < found <= at + WINDOW_ROWS


def test_what_has_shifted_is_named_with_how_far() -> None:
    rows = np.random.default_rng(8).normal(size=(6000, 3))
    rows[3000:, 1] = 2.0 * rows[3000:, 1] + 3.0
    (drift,) = DriftWatch(3).add(rows)
    assert drift.certain.tolist() == [False, True, False]
    assert drift.shift[1] == pytest.approx(3.0, abs=0.5)
    assert drift.spread[1] == pytest.approx(2.0, abs=0.5)
    assert abs(drift.shift[0]) < 0.3


def test_a_spread_that_doubles_is_found_though_means_stay() -> None:
    rows = np.random.default_rng(9).normal(size=(6000, 2))
    rows[3000:, 0] *= 2.0
    (found,) = rows_of_drifts(rows)
    assert 3000 < found <= 3000 + WINDOW_ROWS


@pytest.mark.parametrize("chunk", [1, 37, 100, 6400, 20_000])
def test_it_is_the_same_in_whatever_pieces_rows_come(chunk: int) -> None:
    rows = np.random.default_rng(10).normal(size=(15_000, 3))
    rows[6000:, 0] += 0.8
    rows[11_111:, 2] *= 1.8
    assert rows_of_drifts(rows, chunk) == rows_of_drifts(rows, 250)
    assert len(rows_of_drifts(rows, chunk)) == 2


def test_features_that_begin_to_be_constant_or_cease_to_be_are_seen_and_absurd_values_break_nothing() -> None:
    rows = np.zeros((6000, 2))
    rows[3000:, 0] = 1.0
    assert rows_of_drifts(rows) == [3300]
    assert rows_of_drifts(np.full((30_000, 3), [0.1, 1e15 + 1, 1e-300])) == []
    rows = np.random.default_rng(11).normal(size=(6000, 2))
    rows[::7, 0], rows[::11, 1] = 1e300, np.inf
    assert rows_of_drifts(rows) == []
    assert DriftWatch(0).add(np.empty((5000, 0))) == []


def test_shifts_of_the_newest_window_are_told_at_any_time() -> None:
    watch = DriftWatch(2)
    assert np.isnan(watch.shifts()[0]).all()
    rows = np.random.default_rng(12).normal(size=(2 * WINDOW_ROWS, 2))
    rows[WINDOW_ROWS:, 0] += 0.1
    watch.add(rows)
    shift, spread = watch.shifts()
    before, now = rows[:WINDOW_ROWS], rows[WINDOW_ROWS:]
    assert shift == pytest.approx((now.mean(axis=0) - before.mean(axis=0)) / before.std(axis=0))
    assert spread == pytest.approx(now.std(axis=0) / before.std(axis=0))
