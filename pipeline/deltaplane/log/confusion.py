"""Confusion matrices that can be added, and the measures of paper 4 (§5.2) that follow from them.

The problem: on imbalanced streams accuracy says little. The measures that say more are undefined until every class has
been seen or predicted. A 0 or 1 in their place turns "not known" into "worst" or "best".

How it is solved: counts are kept by pairs of labels (truth, predicted), so that classes may come and go, and parts of a
stream may be counted apart and added. A measure whose denominator is zero is NaN, and so is every measure made from it.

``sensitivity = TP/(TP+FN)``, ``specificity = TN/(TN+FP)``, ``precision = TP/(TP+FP)``,
``F = (1+β²)·P·R/(β²R+P)`` (the paper prints (1+β)², its tables are made with 1+β²), ``RS = sensitivity/specificity``,
``G-mean = √(sensitivity·specificity)``, or the k-th root of the product of recalls over the k classes in the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from deltaplane.arrays import Integers

__all__ = [
    "NAN",
    "Binary",
    "Confusion",
    "Measures",
    "accuracy",
    "binary_gmean",
    "f_measure",
    "gmean",
    "imbalance_ratio",
    "kappa",
    "matthews",
    "one_against_rest",
    "precision",
    "recalls",
    "relative_sensitivity",
    "sensitivity",
    "specificity",
    "summary",
]

NAN = math.nan


@dataclass(frozen=True)
class Confusion:
    """Counts of rows by (truth, predicted) label, without pairs that never occurred. Confusions can be added.

    Raises ValueError if a count is below zero.
    """

    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = {pair: int(count) for pair, count in sorted(self.counts.items()) if count}
        if any(count < 0 for count in counts.values()):
            raise ValueError(f"confusion: expected counts of rows, none below zero, got {counts}")
        object.__setattr__(self, "counts", counts)

    @classmethod
    def of(cls, truth: Integers, predicted: Integers, classes: Sequence[str]) -> Confusion:
        """The confusion of n rows whose truth and prediction are indices [n] into ``classes``.

        Raises ValueError if the two differ in length or an index is outside ``classes``.
        """
        size = len(classes)
        if truth.shape != predicted.shape or truth.ndim != 1:
            raise ValueError(f"confusion: expected index arrays of one length, got {truth.shape} and {predicted.shape}")
        if not len(truth):
            return cls()
        if min(truth.min(), predicted.min()) < 0 or max(truth.max(), predicted.max()) >= size:
            raise ValueError(
                f"confusion: expected indices from 0 to {size - 1}, got {min(truth.min(), predicted.min())} "
                f"to {max(truth.max(), predicted.max())}; give labels that the model does not know a place in classes"
            )
        cells = np.bincount(truth.astype(np.int64, copy=False) * size + predicted.astype(np.int64, copy=False))
        seen = np.flatnonzero(cells)
        return cls({(classes[at // size], classes[at % size]): int(cells[at]) for at in seen.tolist()})

    def __add__(self, other: Confusion) -> Confusion:
        counts = dict(self.counts)
        for pair, count in other.counts.items():
            counts[pair] = counts.get(pair, 0) + count
        return Confusion(counts)

    def __bool__(self) -> bool:
        """Whether any row was counted."""
        return bool(self.counts)

    def __hash__(self) -> int:
        return hash(tuple(self.counts.items()))

    @property
    def rows(self) -> int:
        """The number of rows counted."""
        return sum(self.counts.values())

    @property
    def correct(self) -> int:
        """The number of rows predicted correctly."""
        return sum(count for (truth, predicted), count in self.counts.items() if truth == predicted)

    @property
    def classes(self) -> tuple[str, ...]:
        """All labels that occur in the truth or are predicted, sorted."""
        return tuple(sorted({label for pair in self.counts for label in pair}))

    def truths(self) -> dict[str, int]:
        """The number of rows of each class in the truth, sorted by label."""
        totals: dict[str, int] = {}
        for (truth, _), count in self.counts.items():
            totals[truth] = totals.get(truth, 0) + count
        return totals

    def to_dict(self) -> dict[str, dict[str, int]]:
        """Plain dictionaries: truth to predicted label to count."""
        nested: dict[str, dict[str, int]] = {}
        for (truth, predicted), count in self.counts.items():
            nested.setdefault(truth, {})[predicted] = count
        return nested


@dataclass(frozen=True)
class Binary:
    """One class against all others: true and false positives and negatives."""

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    @classmethod
    def of(cls, confusion: Confusion, positive: str) -> Binary:
        """``positive`` against the rest; a row of the rest that is predicted as any of the rest is a true negative."""
        hits = confusion.counts.get((positive, positive), 0)
        actual = confusion.truths().get(positive, 0)
        claimed = sum(count for (_, predicted), count in confusion.counts.items() if predicted == positive)
        return cls(hits, claimed - hits, actual - hits, confusion.rows - actual - claimed + hits)


def accuracy(confusion: Confusion) -> float:
    """The share of rows predicted correctly; NaN without rows."""
    return _ratio(confusion.correct, confusion.rows)


def recalls(confusion: Confusion) -> dict[str, float]:
    """The recall of each class in the truth (its share predicted correctly), sorted by label."""
    return {label: confusion.counts.get((label, label), 0) / rows for label, rows in confusion.truths().items()}


def sensitivity(binary: Binary) -> float:
    """Sensitivity ``TP / (TP + FN)``; NaN without positive rows."""
    return _ratio(binary.true_positives, binary.true_positives + binary.false_negatives)


def specificity(binary: Binary) -> float:
    """Specificity ``TN / (TN + FP)``; NaN without negative rows."""
    return _ratio(binary.true_negatives, binary.true_negatives + binary.false_positives)


def precision(binary: Binary) -> float:
    """Precision ``TP / (TP + FP)``; NaN if no row was predicted positive."""
    return _ratio(binary.true_positives, binary.true_positives + binary.false_positives)


def f_measure(binary: Binary, beta: float = 1.0) -> float:
    """The F-measure ``(1+β²)·P·R / (β²R+P)``; NaN if P or R is, or if both are zero, as in Table 5.3 of paper 4.

    As in that paper, β above one favours precision; the usual F_β, with the denominator β²P + R, favours recall.
    """
    recall, right = sensitivity(binary), precision(binary)
    return _ratio((1.0 + beta * beta) * recall * right, beta * beta * recall + right)


def relative_sensitivity(binary: Binary) -> float:
    """Sensitivity / specificity, which is 1 without bias to a side; NaN if one is NaN or the specificity is zero."""
    return _ratio(sensitivity(binary), specificity(binary))


def binary_gmean(binary: Binary) -> float:
    """The G-mean ``√(sensitivity · specificity)``; NaN if one of them is."""
    return math.sqrt(sensitivity(binary) * specificity(binary))


def gmean(confusion: Confusion) -> float:
    """The k-th root of the product of the recalls of the k classes in the truth; NaN without rows."""
    values = list(recalls(confusion).values())
    if not values:
        return NAN
    if min(values) == 0.0:
        return 0.0
    if len(values) == 2:
        return math.sqrt(values[0] * values[1])
    # A product over hundreds of classes would underflow, so logarithms are added.
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def one_against_rest(confusion: Confusion, positive: str) -> Confusion:
    """The same rows with two classes: ``positive``, and all others as ``not <positive>``."""
    binary, rest = Binary.of(confusion, positive), f"not {positive}"
    return Confusion(
        {
            (positive, positive): binary.true_positives,
            (positive, rest): binary.false_negatives,
            (rest, positive): binary.false_positives,
            (rest, rest): binary.true_negatives,
        }
    )


def kappa(confusion: Confusion) -> float:
    """Cohen's kappa: the agreement of truth and prediction beyond chance, as a share of the largest possible.

    NaN without rows, and if all rows are of one class and predicted as it.
    """
    rows, predicted = confusion.rows, _predicted(confusion)
    # Products of Python's integers are exact, however many rows there are.
    by_chance = sum(count * predicted.get(label, 0) for label, count in confusion.truths().items())
    return _ratio(rows * confusion.correct - by_chance, rows * rows - by_chance)


def matthews(confusion: Confusion) -> float:
    """Matthews correlation of truth and prediction (Gorodkin's for several classes); NaN if one does not vary."""
    rows, truths, predicted = confusion.rows, confusion.truths(), _predicted(confusion)
    by_chance = sum(count * predicted.get(label, 0) for label, count in truths.items())
    spreads = [rows * rows - sum(count * count for count in sides.values()) for sides in (truths, predicted)]
    return _ratio(rows * confusion.correct - by_chance, math.sqrt(spreads[0]) * math.sqrt(spreads[1]))


def _predicted(confusion: Confusion) -> dict[str, int]:
    totals: dict[str, int] = {}
    for (_, predicted), count in confusion.counts.items():
        totals[predicted] = totals.get(predicted, 0) + count
    return totals


def imbalance_ratio(counts: Mapping[str, int]) -> float:
    """The rows of the largest class divided by those of the smallest with any; NaN with fewer than two such classes."""
    live = [count for count in counts.values() if count > 0]
    return max(live) / min(live) if len(live) > 1 else NAN


@dataclass(frozen=True)
class Measures:
    """All measures of one confusion; undefined ones are NaN. ``imbalance_ratio`` is that of the truth.

    Without a positive class, measures that need one are NaN, and ``gmean``, ``kappa`` and ``matthews`` are over all
    classes.
    """

    rows: int
    accuracy: float
    recalls: dict[str, float]
    sensitivity: float
    specificity: float
    precision: float
    f_measure: float
    relative_sensitivity: float
    kappa: float
    matthews: float
    false_alarms_per_1000_rows: float
    gmean: float
    imbalance_ratio: float

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON, which has no NaN: an undefined measure is None."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }


def summary(confusion: Confusion, positive: str | None = None) -> Measures:
    """All measures of a confusion: of ``positive`` against the rest, or without it, over all classes."""
    binary = Binary(0, 0, 0, 0) if positive is None else Binary.of(confusion, positive)
    sides = confusion if positive is None else one_against_rest(confusion, positive)
    return Measures(
        rows=confusion.rows,
        accuracy=accuracy(confusion),
        recalls=recalls(confusion),
        sensitivity=sensitivity(binary),
        specificity=specificity(binary),
        precision=precision(binary),
        f_measure=f_measure(binary),
        relative_sensitivity=relative_sensitivity(binary),
        kappa=kappa(sides),
        matthews=matthews(sides),
        false_alarms_per_1000_rows=NAN if positive is None else 1000.0 * _ratio(binary.false_positives, confusion.rows),
        gmean=gmean(confusion) if positive is None else binary_gmean(binary),
        imbalance_ratio=imbalance_ratio(confusion.truths()),
    )


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else NAN
