"""The headline figure of a stream: how good its predictions are at what was asked for.

What is worked out from one confusion is one figure, whatever the threshold was cut for; beside it always stand the
precision, the recall and the kappa of the positive class: a good G-mean may cost two false alarms for each true one.
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
"""What can be asked to be the figure that is read first, the name of its measure, and what it is called."""


def cautions(scores: Confusion, positive: str | None, baselines: Mapping[str, Confusion]) -> list[str]:
    """What whoever reads the G-mean alone would miss, in words; nothing where there is no such thing.

    That is what it costs where most alarms are false, and which of the ``baselines`` of the same rows are better than
    the upper end of its interval.
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
    """What a good G-mean costs, where most alarms are false and it does not show that."""
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
"""How far the G-mean is above the F-measure where it hides something."""


def _of_100(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.01 else f"{100 * share:.1g}"


def positive_of(declared: str | None, plane: Plane | None, scores: Confusion) -> str | None:
    """The class that figures of one class are of: the declared one, or of two the one with fewer rows in the truth.

    None of more than two classes, and while there is no plane.
    """
    if declared is not None or plane is None or plane.positive is None:
        return declared
    rows = scores.truths()
    return min(plane.classes, key=lambda label: (rows.get(label, 0), label != plane.positive))


def headline_name(objective: Objective) -> str:
    """What the figure is called; what is asked for stands behind it where the name does not say all."""
    name = _NAMES[objective.kind]
    return f"{name} ({objective})" if objective.kind in ("cost", "recall", "precision") else name


def headline(objective: Objective, scores: Confusion, positive: str | None) -> float:
    """The figure; NaN where it is undefined.

    ``positive``: that class against all others; None: over all classes, of what has a meaning so. Of costs it is what
    the mean row costs, and less is better; of all others, more is better. Of bounded objectives it is the recall,
    whether or not the bound was kept.
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
