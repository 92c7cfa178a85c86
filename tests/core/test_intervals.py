"""Intervals of measures: beside SciPy's, and as often right as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from deltaplane.log.confusion import Confusion
from deltaplane.log.intervals import gmean_interval, measure_intervals, share_interval


@given(st.integers(1, 10_000), st.data())
def test_a_share_has_the_interval_of_wilson(rows: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, rows))
    theirs = binomtest(hits, rows).proportion_ci(0.95, method="wilson")
    assert share_interval(hits, rows) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5))
def test_the_interval_of_a_gmean_holds_it_and_is_between_zero_and_one(sides: list[tuple[int, int]]) -> None:
    shares = [(hits, hits + missed) for hits, missed in sides]
    low, high = gmean_interval(shares)
    if any(rows == 0 for _, rows in shares):
        assert math.isnan(low)
        assert math.isnan(high)
    else:
        gmean = math.prod(hits / rows for hits, rows in shares) ** (1 / len(shares))
        assert 0.0 <= low <= gmean * (1 + 1e-12)
        assert gmean * (1 - 1e-12) <= high <= 1.0


@pytest.mark.parametrize(("own", "rest"), [((0.8, 20), (0.95, 2000)), ((0.6, 200), (0.7, 200)), ((0.9, 8), (0.9, 50))])
def test_the_interval_of_a_gmean_holds_the_true_one_about_as_often_as_it_says(
    own: tuple[float, int], rest: tuple[float, int]
) -> None:
    random, held, times = np.random.default_rng(5), 0, 4000
    true = math.sqrt(own[0] * rest[0])
    for _ in range(times):
        sides = [(int(random.binomial(rows, share)), rows) for share, rows in (own, rest)]
        low, high = gmean_interval(sides)
        held += low <= true <= high
    assert 0.92 < held / times < 0.995


def test_two_positive_rows_say_nearly_nothing() -> None:
    counts = {("yes", "yes"): 2, ("no", "no"): 90, ("no", "yes"): 10}
    intervals = measure_intervals(Confusion(counts), "yes")
    low, high = intervals["sensitivity"]
    assert low < 0.35
    assert high == 1.0
    assert intervals["gmean"][1] - intervals["gmean"][0] > 0.3
    assert intervals["precision"] == share_interval(2, 12)
    assert set(measure_intervals(Confusion(counts), None)) == {"gmean", "accuracy"}
    assert math.isnan(measure_intervals(Confusion(), "yes")["gmean"][0])
