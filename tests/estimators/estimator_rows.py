"""Rows for the tests of estimators, and what it means that two of them are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from deltaplane.arrays import Floats, Labels
from deltaplane.exact.grid import Grid

GRID = Grid(np.array([2.0**-10, 1.0, 2.0**-4]), np.array([0.0, 2000.0, -1.0]))


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows float64[n, 3] with labels [n]."""

    X: Floats
    y: Labels

    def __getitem__(self, at: Any) -> Rows:
        return Rows(self.X[at], self.y[at])

    def __len__(self) -> int:
        return len(self.y)


def random_rows(seed: int, count: int, classes: int = 2, features: int = 3) -> Rows:
    """Classes that overlap, about 3:1 where there are two, the second feature far from zero; every class has rows."""
    chance = np.random.default_rng(seed)
    y = np.minimum(chance.integers(0, 2 * classes, count), classes - 1)[::-1].copy()
    y[:classes] = range(classes)
    X = chance.normal(size=(count, features))
    X[:, 0] += 1.5 * y
    if features > 1:
        X[:, 1] += 1.5 * (y % 2) + 2000.0
    return Rows(X, y)


@st.composite
def drawn_rows(draw: st.DrawFn, classes: int = 3, max_rows: int = 24) -> Rows:
    """Rows on :data:`GRID` or near it, many of them alike; any classes may be missing but for two."""
    count = draw(st.integers(2, max_rows))
    values = st.sampled_from([0.0, 1.0, -1.5, 0.3, 7.25, 1000.0])
    cells = draw(st.lists(values, min_size=3 * count, max_size=3 * count))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=count, max_size=count))
    X = np.array(cells).reshape(count, 3) + np.array([0.0, 2000.0, 0.0])
    return Rows(X, np.array([*range(2), *labels[2:]]))


def state_of(estimator: Any) -> tuple[Any, ...]:
    """All that must be the same bits in two estimators that hold the same rows."""
    return (
        estimator.digest(),
        estimator.classes_.tolist(),
        estimator.class_counts_,
        estimator.C_,
        estimator.coef_.tobytes(),
        estimator.intercept_.tobytes(),
    )
