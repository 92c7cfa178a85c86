"""Where quality fell is found where it fell, and nowhere else; what was different there is told from sums that add."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import fisher_exact

from deltaplane.log.confusion import Confusion
from deltaplane.log.falls import _chance, falls
from deltaplane.log.feature_sums import ClassSums, FeatureSums, joined, shift_between
from deltaplane.log.prequential import Gathered, Point


def point(at: int, hits: tuple[int, int], rows: tuple[int, int] = (20, 80), sums: ClassSums | None = None) -> Point:
    """A span of 100 rows, of which so many of ``yes`` and ``no`` are predicted right."""
    counts = {
        ("yes", "yes"): hits[0],
        ("yes", "no"): rows[0] - hits[0],
        ("no", "no"): hits[1],
        ("no", "yes"): rows[1] - hits[1],
    }
    live = {"no": 800, "yes": 200}
    return Point(100 * at, 100 * at + 100, Confusion(counts), live, 0, at, None, None, gathered=Gathered(sums))


def stream(seed: int, fall: range, to: float = 0.3, spans: int = 200) -> list[Point]:
    random = np.random.default_rng(seed)
    points = []
    for at in range(spans):
        features = random.normal(size=(100, 2)) + ([0.0, 2.0] if at in fall else [0.0, 0.0])
        features[:20, 0] -= 3.0 * (at in fall)
        hits = int(random.binomial(20, to if at in fall else 0.9)), int(random.binomial(80, 0.9))
        points.append(point(at, hits, sums={"yes": FeatureSums.of(features[:20]), "no": FeatureSums.of(features[20:])}))
    return points


@pytest.mark.parametrize("seed", range(5))
def test_a_fall_is_found_where_it_is_with_its_class_and_what_has_shifted(seed: int) -> None:
    (fall,) = falls(stream(seed, range(90, 120)), 5)
    assert abs(fall.rows_from - 9000) <= 500
    assert abs(fall.rows_to - 12_000) <= 500
    assert fall.label == "yes"
    assert fall.depth > 0.4
    assert fall.shift is not None
    assert fall.shift.means[1] == pytest.approx(2.0, abs=0.3)
    assert abs(fall.shift.means[0]) < 0.8
    assert fall.shift_of_class is not None
    assert fall.shift_of_class.means == pytest.approx([-3.0, 2.0], abs=0.3)


@pytest.mark.parametrize("seed", range(20))
def test_where_nothing_falls_nothing_is_found(seed: int) -> None:
    assert falls(stream(seed, range(0)), 5) == []


def test_a_jump_with_two_positive_rows_is_no_news() -> None:
    points = [point(at, (1, 90), (2, 98)) if at == 50 else point(at, (2, 90), (2, 98)) for at in range(100)]
    assert falls(points, 1) == []
    assert falls([], 1) == []


def test_a_fall_that_does_not_end_is_one_fall_to_the_end() -> None:
    (fall,) = falls(stream(3, range(120, 200)), 5)
    assert fall.rows_to == 20_000


def test_a_lucky_beginning_does_not_make_a_fall_of_all_that_follows() -> None:
    points = [point(at, (20, 80) if at < 5 else (15, 60)) for at in range(200)]
    assert all(fall.rows_to < 6000 for fall in falls(points, 5))


def test_a_class_of_which_few_rows_come_is_looked_at_over_more_of_them() -> None:
    points = [point(at, ((0 if 100 <= at < 140 else 1), 94), (1, 99)) for at in range(200)]
    (fall,) = falls(points, 5)
    assert (fall.label, fall.rows_from, fall.rows_to) == ("yes", 10_000, 14_000)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60), st.integers(0, 60))
def test_the_chance_is_that_of_fishers_exact_test(hits: int, missed: int, hits_before: int, missed_before: int) -> None:
    theirs = fisher_exact([[hits, missed], [hits_before, missed_before]], alternative="less").pvalue
    assert _chance(hits, hits + missed, hits_before, hits_before + missed_before) == pytest.approx(theirs, abs=1e-9)


@given(hnp.arrays(np.float64, (12, 2), elements=st.floats(-1e6, 1e6) | st.just(np.nan)), st.integers(0, 12))
def test_sums_of_features_add_up_to_those_of_all_rows(rows: np.ndarray, cut: int) -> None:
    added, whole = FeatureSums.of(rows[:cut]) + FeatureSums.of(rows[cut:]), FeatureSums.of(rows)
    assert np.array_equal(added.counts, whole.counts)
    assert added.means == pytest.approx(whole.means, rel=1e-9, abs=1e-6)
    assert added.squares == pytest.approx(whole.squares, rel=1e-6, abs=1e-3)
    parts = joined([{"a": FeatureSums.of(rows[:cut])}, {"a": FeatureSums.of(rows[cut:]), "b": whole}])
    assert parts["a"].means.tolist() == added.means.tolist()
    zero = FeatureSums.zero(2) + whole
    assert zero.means == pytest.approx(whole.means)


def test_a_shift_is_in_deviations_and_unknown_without_rows() -> None:
    rows = np.random.default_rng(2).normal(size=(5000, 2))
    shift = shift_between(FeatureSums.of(rows), FeatureSums.of(2.0 * rows + [0.0, 3.0]))
    assert shift.means == pytest.approx([0.0, 3.0], abs=0.1)
    assert shift.spreads == pytest.approx([2.0, 2.0])
    assert shift.sizes[1] == pytest.approx(3.0, abs=0.1)
    assert np.isnan(shift_between(FeatureSums.zero(2), FeatureSums.of(rows)).means).all()
    assert shift_between(FeatureSums.zero(2), FeatureSums.of(rows)).sizes.tolist() == [0.0, 0.0]
