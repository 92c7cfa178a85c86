"""The headline figure of a stream: the value of its objective on its predictions.

It is computed from one confusion. The precision, the recall and the kappa of the positive class are always shown beside
it, since a good G-mean may cost two false alarms for each true one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltaplane.log.confusion import (
    NAN,
    Binary,
    Confusion,
    accuracy,
    binary_gmean,
    f_measure,
    gmean,
    kappa,
    matthews,
    one_against_rest,
    sensitivity,
)
from deltaplane.log.intervals import measure_intervals
from deltaplane.solve.objectives import Objective
from deltaplane.solve.solver import Plane

__all__ = ["METRICS", "cautions", "headline", "headline_name", "positive_of"]

_NAMES = {
    "gmean": "G-mean",
    "kappa": "Cohen's kappa",
    "mcc": "Matthews correlation",
    "f1": "F-measure",
    "accuracy": "accuracy",
    "cost": "cost of a row",
    "recall": "recall",
    "precision": "recall",
}

_OF_CLASSES: Mapping[str, Callable[[Confusion], float]] = {
    "gmean": gmean,
    "kappa": kappa,
    "mcc": matthews,
    "accuracy": accuracy,
}
_OF_ONE_CLASS: Mapping[str, Callable[[Binary], float]] = {
    "gmean": binary_gmean,
    "f1": f_measure,
    "recall": sensitivity,
    "precision": sensitivity,
}


METRICS = {
    "gmean": ("gmean", "G-mean"),
    "precision": ("precision", "precision"),
    "recall": ("sensitivity", "recall"),
    "f1": ("f_measure", "F-measure"),
    "kappa": ("kappa", "Cohen's kappa"),
    "mcc": ("matthews", "Matthews correlation"),
    "accuracy": ("accuracy", "accuracy"),
    "false_alarms": ("false_alarms_per_1000_rows", "false alarms per 1,000 rows"),
    "roc_auc": ("roc_auc", "ROC-AUC"),
    "pr_auc": ("pr_auc", "PR-AUC"),
}
"""The metrics that can be chosen as the main figure: name to the name of the measure, and its title."""


def cautions(scores: Confusion, positive: str | None, baselines: Mapping[str, Confusion]) -> list[str]:
    """Warnings for a reader of the G-mean alone, in words; empty if there are none.

    They say if most alarms are false, and which of the ``baselines`` on the same rows have a G-mean above the upper end
    of its interval.
    """
    words = _alarm_words(scores, positive)
    quality, (_, high) = _gmean_of(scores, positive), measure_intervals(scores, positive)["gmean"]
    better = {name: value for name, one in baselines.items() if (value := _gmean_of(one, positive)) > high}
    return words + [
        f"without a model that goes on learning, {name} has a G-mean of {value:.4f} on the same rows, better than the"
        f" {quality:.4f} of the model"
        for name, value in better.items()
    ]


def _gmean_of(scores: Confusion, positive: str | None) -> float:
    return gmean(scores) if positive is None else binary_gmean(Binary.of(scores, positive))


def _alarm_words(scores: Confusion, positive: str | None) -> list[str]:
    """A warning if most alarms are false and the G-mean hides that; otherwise empty."""
    if positive is None:
        return []
    binary = Binary.of(scores, positive)
    found, alarms = binary.true_positives, binary.false_positives
    quality, right = binary_gmean(binary), f_measure(binary)
    if not found or alarms <= found or not quality - right >= _HIDDEN:
        return []
    share = found / (found + alarms)
    words = (
        f"of 100 rows that are predicted {positive!r} only {_of_100(share)} are: {alarms / found:,.1f} false alarms for"
        f" each true one. The G-mean of {quality:.2f} does not show that, since the other rows are so many; precision"
        f" {share:.2f}, F-measure {right:.2f}"
    )
    return [words]


_HIDDEN = 0.2
"""The G-mean hides false alarms if it is above the F-measure by at least this."""


def _of_100(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.01 else f"{100 * share:.1g}"


def positive_of(declared: str | None, plane: Plane | None, scores: Confusion) -> str | None:
    """The class that measures of one class are of: the declared one, or of two the one with fewer rows in the truth.

    Without a declared one, it is None if there are more than two classes, or if there is no plane yet.
    """
    if declared is not None or plane is None or plane.positive is None:
        return declared
    rows = scores.truths()
    return min(plane.classes, key=lambda label: (rows.get(label, 0), label != plane.positive))


def headline_name(objective: Objective) -> str:
    """The name of the headline figure, followed by the objective if that has numbers."""
    name = _NAMES[objective.kind]
    return f"{name} ({objective})" if objective.kind in ("cost", "recall", "precision") else name


def headline(objective: Objective, scores: Confusion, positive: str | None) -> float:
    """The headline figure; NaN if it is undefined.

    ``positive``: that class against all others; None: over all classes, and NaN if the objective needs a positive
    class. For costs, it is the mean cost of a row, and less is better; for all others, more is better. For objectives
    with a bound, it is the recall, whether or not the bound was kept.
    """
    if positive is None:
        return _OF_CLASSES[objective.kind](scores) if objective.kind in _OF_CLASSES else NAN
    binary = Binary.of(scores, positive)
    if objective.kind == "cost":
        cost = objective.false_negative * binary.false_negatives + objective.false_positive * binary.false_positives
        return cost / scores.rows if scores else NAN
    if objective.kind in _OF_ONE_CLASS:
        return _OF_ONE_CLASS[objective.kind](binary)
    return _OF_CLASSES[objective.kind](one_against_rest(scores, positive))
