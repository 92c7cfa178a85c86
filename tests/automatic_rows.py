"""Rows whose boundary drifts, for the automatic mode as an estimator, and what is done with them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

import deltaplane
from deltaplane.arrays import Floats, Labels
from deltaplane.estimators import AutomaticProximalSVM
from deltaplane.exact.grid import fit_grid

__all__ = ["NAMES", "alike", "by_name", "replayed", "rows", "saved"]

NAMES = ["length", "width", "height"]


def rows(seed: int, count: int = 1200, classes: int = 2) -> tuple[Floats, Labels]:
    """Rows whose boundary drifts, and their labels as texts."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, len(NAMES)))
    turn = np.linspace(0.0, 2.0, count)
    score = X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn) + 0.5 * random.normal(size=count)
    return X, np.digitize(score, np.linspace(-0.7, 0.7, classes - 1) if classes > 2 else [0.3]).astype(str)


def replayed(X: Floats, y: Labels, chunk: int, **keywords: Any) -> Any:
    table = {name: X[:, at] for at, name in enumerate(NAMES)} | {"label": y.tolist()}
    return deltaplane.replay(table, label="label", chunk=chunk, **keywords)


def alike(X: Floats, y: Labels) -> dict[str, Any]:
    """One grid and one curved map for several estimators."""
    grid = fit_grid(X)
    feature_map = AutomaticProximalSVM(grid=grid, chunk=len(X)).partial_fit(X, y).feature_map_
    assert feature_map.kind == "mixed"
    return {"grid": grid, "feature_map": feature_map}


def by_name(model: AutomaticProximalSVM, X: Floats, y: Labels) -> None:
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(zip(NAMES, row, strict=True)), label)


def saved(model: AutomaticProximalSVM) -> bytes:
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()
