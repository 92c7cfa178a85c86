"""Solutions: planes as scikit-learn needs them, with weights and intercepts in the order of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.log.model import Model
from deltaplane.solve.cross_validation import Choice
from deltaplane.solve.solver import Plane

__all__ = ["Solution", "calibrated", "solution_of", "without_a_contest"]


@dataclass(frozen=True, eq=False)
class Solution:
    """A plane, its weights and intercepts in the order of ``classes_``, and the choice of its C.

    For two classes, ``coef`` is float64[1, m] and ``intercept`` float64[1], of the second class; else float64[k, m] and
    float64[k]. ``plane`` is None if no two classes have rows, and ``choice`` if C was given.
    """

    plane: Plane | None
    coef: Floats
    intercept: Floats
    C: float
    choice: Choice | None


def solution_of(plane: Plane, texts: list[str], C: float, choice: Choice | None = None) -> Solution:
    """The solution of a plane for the classes ``texts``, in their order; a class without a plane is never predicted."""
    coef, intercept = np.zeros((len(texts), plane.weights.shape[1])), np.full(len(texts), -np.inf)
    for at, text in enumerate(texts):
        if row := plane.row_of(text):
            coef[at], intercept[at] = row[0], -row[1]
    if len(texts) == 2:
        coef, intercept = coef[1:], intercept[1:]
    return Solution(plane, coef, intercept, C, choice)


def without_a_contest(texts: list[str], present: Any, features: int, C: float) -> Solution:
    """The solution if at most one of the declared classes has rows: every row is predicted as it."""
    intercept = np.array([0.0 if text in present else -np.inf for text in texts])
    if len(texts) == 2:
        intercept = np.array([np.inf if texts[1] in present else -np.inf])
    return Solution(None, np.zeros((len(intercept), features)), intercept, C, None)


def calibrated(model: Model, plane: Plane, texts: list[str], decisions: Floats) -> Floats | None:
    """The probabilities float64[n, k] of the classes ``texts``, 0 for a declared class without a plane; or None."""
    if len(texts) == 2:
        own = decisions if plane.positive == texts[1] else -decisions
    else:
        own = decisions[:, [texts.index(target) for target in plane.targets]]
    known = model.probabilities(own)
    if known is None:
        return None
    found = np.zeros((len(decisions), len(texts)))
    for at, text in enumerate(texts):
        if text in plane.classes:
            found[:, at] = known[:, plane.classes.index(text)]
    return found
