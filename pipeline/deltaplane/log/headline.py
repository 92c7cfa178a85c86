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
from deltaplane.solve.objectives import Objective
from deltaplane.solve.solver import Plane

__all__ = ["headline", "headline_name", "positive_of"]

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
