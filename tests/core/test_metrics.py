"""The measures against the formulas of paper 4 (§5.2) written out, and the algebra of confusion matrices."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.log.confusion import (
    Binary,
    Confusion,
    accuracy,
    binary_gmean,
    f_measure,
    gmean,
    imbalance_ratio,
    precision,
    recalls,
    relative_sensitivity,
    sensitivity,
    specificity,
    summary,
)

CLASSES = ("a", "b", "c")

_pairs = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=40)
_confusions = st.dictionaries(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), st.integers(0, 2**40), max_size=16
).map(Confusion)


def count(pairs: Sequence[tuple[int, int]]) -> Confusion:
    """Count pairs of (truth, predicted)."""
    both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Confusion.of(both[:, 0], both[:, 1], CLASSES)


def two_sided(tp: int, fp: int, fn: int, tn: int) -> Confusion:
    """The confusion of ``yes`` against ``no`` with these counts."""
    return Confusion({("yes", "yes"): tp, ("no", "yes"): fp, ("yes", "no"): fn, ("no", "no"): tn})


@given(pairs=_pairs)
def test_counting_index_arrays_is_counting_pairs_one_by_one(pairs: list[tuple[int, int]]) -> None:
    assert count(pairs).counts == Counter((CLASSES[truth], CLASSES[predicted]) for truth, predicted in pairs)
    assert count(pairs).rows == len(pairs)
    assert count(pairs).correct == sum(truth == predicted for truth, predicted in pairs)


@given(pairs=_pairs, cut=st.integers(0, 40))
def test_parts_counted_apart_add_up_to_the_whole(pairs: list[tuple[int, int]], cut: int) -> None:
    assert count(pairs[:cut]) + count(pairs[cut:]) == count(pairs)


@given(one=_confusions, other=_confusions, third=_confusions)
def test_confusions_add_in_any_order_and_grouping(one: Confusion, other: Confusion, third: Confusion) -> None:
    assert one + other == other + one
    assert (one + other) + third == one + (other + third)
    assert one + Confusion() == one
    assert hash(one + other) == hash(other + one)
    assert list((one + other).counts) == list((other + one).counts)


@given(confusion=_confusions)
def test_a_plain_dictionary_holds_all_of_a_confusion(confusion: Confusion) -> None:
    nested = json.loads(json.dumps(confusion.to_dict()))
    counts = {(truth, predicted): count for truth, row in nested.items() for predicted, count in row.items()}
    assert Confusion(counts) == confusion


def test_a_label_may_appear_at_any_time_and_in_the_truth_alone() -> None:
    early = Confusion.of(np.array([0, 1]), np.array([0, 1]), ("a", "b"))
    late = Confusion.of(np.array([0, 2, 2]), np.array([0, 0, 1]), ("a", "b", "new"))
    total = early + late
    assert total.classes == ("a", "b", "new")
    assert total.truths() == {"a": 2, "b": 1, "new": 2}
    assert recalls(total) == {"a": 1.0, "b": 1.0, "new": 0.0}
    assert total.to_dict() == {"a": {"a": 2}, "b": {"b": 1}, "new": {"a": 1, "b": 1}}


def test_a_pair_that_never_occurred_is_not_held() -> None:
    assert Confusion({("a", "b"): 0}) == Confusion()
    assert not Confusion({("a", "b"): 0})
    assert Confusion({("a", "b"): 1})


def test_indices_and_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1, got -1 to 1"):
        Confusion.of(np.array([0, 1]), np.array([0, -1]), ("a", "b"))
    with pytest.raises(ValueError, match="from 0 to 1, got 0 to 2"):
        Confusion.of(np.array([0, 2]), np.array([0, 1]), ("a", "b"))
    with pytest.raises(ValueError, match="of one length"):
        Confusion.of(np.array([0, 1]), np.array([0]), ("a", "b"))
    with pytest.raises(ValueError, match="none below zero"):
        Confusion({("a", "b"): -1})


def test_each_measure_is_its_formula() -> None:
    binary = Binary.of(two_sided(tp=30, fp=20, fn=10, tn=140), "yes")
    assert binary == Binary(30, 20, 10, 140)
    assert sensitivity(binary) == 30 / 40
    assert specificity(binary) == 140 / 160
    assert precision(binary) == 30 / 50
    assert relative_sensitivity(binary) == (30 / 40) / (140 / 160)
    assert binary_gmean(binary) == math.sqrt(0.75 * 0.875)
    assert f_measure(binary) == pytest.approx(2 * 0.6 * 0.75 / (0.6 + 0.75))
    assert accuracy(two_sided(30, 20, 10, 140)) == 170 / 200


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_the_f_measure_is_the_weighted_harmonic_mean_and_not_the_one_printed(beta: float) -> None:
    binary = Binary(30, 20, 10, 140)
    harmonic = (1 + beta**2) / (1 / 0.75 + beta**2 / 0.6)
    assert f_measure(binary, beta) == pytest.approx(harmonic)
    assert f_measure(Binary(7, 0, 0, 9), beta) == 1.0  # The paper's (1 + β)² would make a perfect score exceed one.


def test_undefined_stays_undefined_and_is_never_zero_or_one() -> None:
    no_positives, no_negatives = Binary(0, 3, 0, 5), Binary(3, 0, 5, 0)
    assert math.isnan(sensitivity(no_positives))
    assert math.isnan(specificity(no_negatives))
    for of_both in (binary_gmean, relative_sensitivity):
        assert math.isnan(of_both(no_positives))
        assert math.isnan(of_both(no_negatives))
    assert math.isnan(f_measure(no_positives))
    assert math.isnan(precision(Binary(0, 0, 4, 5)))
    assert math.isnan(relative_sensitivity(Binary(3, 4, 1, 0)))
    assert math.isnan(accuracy(Confusion()))
    assert math.isnan(gmean(Confusion()))


def test_a_class_never_found_makes_the_gmean_zero_and_leaves_the_f_measure_undefined() -> None:
    # The rows of IncLPSVM in Table 5.3: sensitivity 0, specificity 100, F NaN, RS 0, G-mean 0.
    binary = Binary.of(two_sided(tp=0, fp=0, fn=40, tn=40), "yes")
    assert (sensitivity(binary), specificity(binary), relative_sensitivity(binary)) == (0.0, 1.0, 0.0)
    assert binary_gmean(binary) == 0.0
    assert math.isnan(f_measure(binary))
    assert math.isnan(f_measure(Binary(0, 3, 40, 37)))


@given(pairs=_pairs.filter(bool))
def test_the_gmean_over_classes_is_the_root_of_the_product_of_their_recalls(pairs: list[tuple[int, int]]) -> None:
    found = recalls(count(pairs))
    expected = math.prod(found.values()) ** (1 / len(found))
    assert gmean(count(pairs)) == pytest.approx(expected)
    assert set(found) == {CLASSES[truth] for truth, _ in pairs}


def test_the_gmean_of_two_classes_is_the_binary_one_to_the_bit() -> None:
    confusion = two_sided(tp=3, fp=2, fn=4, tn=9)
    assert gmean(confusion) == binary_gmean(Binary.of(confusion, "yes")) == binary_gmean(Binary.of(confusion, "no"))


def test_the_gmean_of_very_many_classes_does_not_underflow() -> None:
    labels = [str(i) for i in range(1024)]
    confusion = Confusion({(label, other): 1 for label in labels for other in (label, "0", "1", "2") if label > "2"})
    rare = Confusion({(label, label): 1 for label in labels}) + Confusion({(label, "x"): 9 for label in labels})
    assert gmean(confusion) == pytest.approx(0.25)
    assert gmean(rare) == pytest.approx(0.1)


@given(confusion=_confusions, positive=st.sampled_from("abcd"))
def test_one_class_against_the_rest_counts_every_row_once(confusion: Confusion, positive: str) -> None:
    binary = Binary.of(confusion, positive)
    merged: Counter[tuple[bool, bool]] = Counter()
    for (truth, predicted), rows in confusion.counts.items():
        merged[truth == positive, predicted == positive] += rows
    assert binary == Binary(merged[True, True], merged[False, True], merged[True, False], merged[False, False])


def test_the_imbalance_ratio_is_of_the_classes_that_have_rows() -> None:
    assert imbalance_ratio({"a": 40, "b": 10, "gone": 0}) == 4.0
    assert imbalance_ratio({"a": 5, "b": 5}) == 1.0
    assert math.isnan(imbalance_ratio({"a": 40, "gone": 0}))
    assert math.isnan(imbalance_ratio({}))


def test_a_summary_holds_every_measure_and_writes_undefined_as_null() -> None:
    confusion = two_sided(tp=30, fp=20, fn=10, tn=140)
    measures = summary(confusion, "yes")
    assert json.loads(json.dumps(measures.to_dict(), allow_nan=False)) == {
        "rows": 200,
        "accuracy": 0.85,
        "recalls": {"no": 0.875, "yes": 0.75},
        "sensitivity": 0.75,
        "specificity": 0.875,
        "precision": 0.6,
        "f_measure": f_measure(Binary(30, 20, 10, 140)),
        "relative_sensitivity": 0.75 / 0.875,
        "kappa": pytest.approx(4 / 7),
        "matthews": pytest.approx(1 / math.sqrt(3)),
        "false_alarms_per_1000_rows": 100.0,
        "gmean": math.sqrt(0.75 * 0.875),
        "imbalance_ratio": 4.0,
    }
    empty = summary(Confusion(), "yes").to_dict()
    assert empty.pop("rows") == 0
    assert empty.pop("recalls") == {}
    assert set(empty.values()) == {None}


def test_a_summary_without_a_positive_class_is_over_all_classes() -> None:
    confusion = Confusion({("a", "a"): 8, ("a", "b"): 2, ("b", "b"): 5, ("c", "c"): 1, ("c", "a"): 3})
    measures = summary(confusion)
    assert measures.gmean == pytest.approx((0.8 * 1.0 * 0.25) ** (1 / 3))
    assert (measures.accuracy, measures.imbalance_ratio) == (14 / 19, 2.5)
    assert math.isnan(measures.sensitivity)
    assert math.isnan(measures.f_measure)
    assert summary(confusion, "c").gmean == pytest.approx(math.sqrt(0.25 * 1.0))
