"""A plane as scikit-learn has it: weights and intercepts in the order of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.solve.cross_validation import Choice
from deltaplane.solve.solver import Plane

__all__ = ["Solution", "solution_of", "without_a_contest"]


@dataclass(frozen=True, eq=False)
class Solution:
    """A plane, its weights and intercepts in the order of ``classes_``, and how its C was chosen."""

    plane: Plane | None
    coef: Floats
    intercept: Floats
    C: float
    choice: Choice | None


def solution_of(plane: Plane, texts: list[str], C: float, choice: Choice | None = None) -> Solution:
    """A plane's weights and intercepts for the classes ``texts``, in their order; a class without any never wins."""
    coef, intercept = np.zeros((len(texts), plane.weights.shape[1])), np.full(len(texts), -np.inf)
    for at, text in enumerate(texts):
        if row := plane.row_of(text):
            coef[at], intercept[at] = row[0], -row[1]
    if len(texts) == 2:
        coef, intercept = coef[1:], intercept[1:]
    return Solution(plane, coef, intercept, C, choice)


def without_a_contest(texts: list[str], present: Any, features: int, C: float) -> Solution:
    """Of the declared classes at most one has rows: it wins everywhere."""
    intercept = np.array([0.0 if text in present else -np.inf for text in texts])
    if len(texts) == 2:
        intercept = np.array([np.inf if texts[1] in present else -np.inf])
    return Solution(None, np.zeros((len(intercept), features)), intercept, C, None)
