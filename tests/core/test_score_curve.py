"""Curves of scores that were counted in bins, beside scikit-learn's on the scores themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score, roc_auc_score

from deltaplane.arrays import Flags, Floats
from deltaplane.log.score_curve import SCORE_BINS, STEPS, ScoreCurve, ScoreTally, bins_of

LABELS = {0: "no", 1: "yes"}
SCORES = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0, math.inf, -math.inf, 5e-324, 1e300])


def curve_of(scores: Floats, own: Flags) -> ScoreCurve:
    tally = ScoreTally()
    half = len(scores) // 2
    for part in (slice(0, half), slice(half, None)):
        tally.add("yes", scores[part], own[part].astype(np.int64), LABELS)
    return tally.curve("yes")


@given(hnp.arrays(np.float64, st.integers(1, 60), elements=SCORES))
def test_a_higher_score_is_never_in_a_lower_bin_and_each_bin_mirrors_another(scores: Floats) -> None:
    scores = np.sort(scores)
    bins = bins_of(scores)
    assert bins.min() >= 0
    assert bins.max() < SCORE_BINS
    assert (np.diff(bins) >= 0).all()
    assert np.array_equal(bins_of(-scores), SCORE_BINS - 1 - bins)


def test_scores_in_one_bin_differ_by_one_in_256_at_most() -> None:
    scores = np.exp(np.random.default_rng(1).uniform(-10, 10, 100_000))
    for place in np.unique(bins_of(scores)).tolist():
        inside = scores[bins_of(scores) == place] if place % 50 == 0 else scores[:1]
        assert inside.max() <= inside.min() * (1 + 1 / STEPS) * (1 + 1e-12)


@given(st.data(), st.integers(2, 80))
def test_areas_are_within_the_ends_that_are_stated_of_what_scikit_learn_works_out_from_the_scores(
    data: st.DataObject, rows: int
) -> None:
    finite = SCORES.filter(math.isfinite)
    scores = data.draw(hnp.arrays(np.float64, rows, elements=finite))
    own = data.draw(hnp.arrays(np.bool_, rows))
    own[:2] = [True, False]
    curve = curve_of(scores, own)
    for mine, theirs in (
        (curve.roc_auc(), roc_auc_score(own, scores)),
        (curve.average_precision(), average_precision_score(own, scores)),
    ):
        assert mine.low - 1e-9 <= theirs <= mine.high + 1e-9
        assert mine.low <= mine.value <= mine.high
    binned = bins_of(scores)
    assert curve.roc_auc().value == pytest.approx(roc_auc_score(own, binned), abs=1e-12)
    assert curve.average_precision().value == pytest.approx(average_precision_score(own, binned), abs=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.02, 0.001])
def test_of_many_rows_the_error_of_the_bins_is_small(share: float) -> None:
    random = np.random.default_rng(3)
    own = random.random(60_000) < share
    scores = random.normal(size=60_000) + 2.0 * own
    curve = curve_of(scores, own)
    for mine, theirs in (
        (curve.roc_auc(), roc_auc_score(own, scores)),
        (curve.average_precision(), average_precision_score(own, scores)),
    ):
        assert mine.low <= theirs <= mine.high
        assert abs(mine.value - theirs) < 0.002
        assert mine.high - mine.low < 0.05


@given(st.data(), st.integers(1, 80))
def test_precision_at_the_top_is_within_its_ends_of_that_of_the_rows_in_order(data: st.DataObject, rows: int) -> None:
    scores = data.draw(hnp.arrays(np.float64, rows, elements=SCORES))
    own = data.draw(hnp.arrays(np.bool_, rows))
    taken = data.draw(st.integers(1, rows))
    found = own[np.argsort(-scores, kind="stable")[:taken]].mean()
    mine = curve_of(scores, own).precision_at(taken)
    assert mine.low - 1e-12 <= found <= mine.high + 1e-12
    assert mine.low <= mine.value <= mine.high
    assert math.isnan(curve_of(scores, own).precision_at(rows + 1).value)


def test_scores_of_the_other_class_count_the_other_way_round() -> None:
    scores, own = np.array([3.0, 1.0, -2.0, 0.5, -4.0]), np.array([True, True, False, False, True])
    tally = ScoreTally()
    tally.add("yes", scores[:3], own[:3].astype(np.int64), LABELS)
    tally.add("no", -scores[3:], own[3:].astype(np.int64), LABELS)
    assert tally.curve("yes").roc_auc() == curve_of(scores, own).roc_auc()
    assert tally.curve("no").roc_auc() == curve_of(scores, own).roc_auc()
    assert tally.curve("no").average_precision().value == pytest.approx(average_precision_score(~own, -scores))


def test_without_rows_of_both_sides_nothing_is_known_and_what_is_no_number_is_not_counted() -> None:
    nothing = ScoreTally().curve("yes")
    assert math.isnan(nothing.roc_auc().value)
    assert math.isnan(nothing.average_precision().value)
    assert curve_of(np.array([1.0, math.nan]), np.array([True, False])).rows == 1


def test_rows_of_the_class_that_tie_above_the_others_of_their_bin_have_the_highest_area_there_can_be() -> None:
    scores = np.array([1.0, 1.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1e-30])
    own = np.array([False, False, True, True, True, True, *[False] * 6])
    area = curve_of(scores, own).average_precision()
    assert area.low <= area.value < average_precision_score(own, scores) <= area.high
