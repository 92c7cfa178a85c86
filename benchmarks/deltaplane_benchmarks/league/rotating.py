"""Rows on both sides of a hyperplane that turns: what a flat learner ought to be best at.

A row is of the standard normal distribution, cut at the plane. Its class is drawn first, so that classes have their
ratio, and the plane lies where it cuts off that share. The normal of the plane turns evenly among the first two
features, so many times in a stream. One rare row in twenty lies on the other side, and as many others on theirs.
Whole numbers and square roots make it all, so that rows are the same on every machine.
"""

from __future__ import annotations

import numpy as np

from deltaplane.arrays import Flags, Floats
from deltaplane.maps.portable import DEVIATE_BITS, RESULT_BITS, cosines_and_sines, normal_deviates
from deltaplane_benchmarks.league.schedule import rare_rows, rare_share, uniform

__all__ = ["FEATURES", "WRONG", "rotating_rows"]

FEATURES = 8
WRONG = 0.05
"""The share of rare rows that lie on the other side."""

_DISTANCES = 2**16


def rotating_rows(rows: int, ratio: str, turns: float, text: str) -> tuple[Floats, Flags]:
    """Features float64[rows, 8], and which rows are of the rare class bool[rows]."""
    rare, share = rare_rows(rows, ratio, text), rare_share(rows, ratio)
    crossing = np.where(rare, WRONG, WRONG * share / (1.0 - share))
    beyond = rare ^ (uniform(f"{text} sides", rows) < crossing)
    features = _normal(f"{text} rows", rows * FEATURES).reshape(rows, FEATURES)
    cosines = np.empty((rows, 2), dtype=np.int32)
    cosines_and_sines((turns * np.arange(rows) / max(rows, 1))[:, None], cosines)
    normals = cosines * 2.0**-RESULT_BITS
    # A row keeps its place across the normal; along it, it is drawn from the part of the distribution on its side.
    along = _on_sides(beyond, share, text)
    features[:, :2] += (along - (features[:, :2] * normals).sum(axis=1))[:, None] * normals
    return features, rare


def _on_sides(beyond: Flags, share: Floats, text: str) -> Floats:
    """float64[n]: normal deviates, of the largest ``share`` of all for rows ``beyond`` the plane, else of the rest."""
    distances = np.sort(_normal(f"{text} distances", _DISTANCES))
    cut = ((1.0 - share) * _DISTANCES).astype(np.int64)
    drawn = uniform(f"{text} places", len(beyond))
    places = np.where(beyond, cut + drawn * (_DISTANCES - cut), drawn * cut).astype(np.int64)
    return np.asarray(distances[places])


def _normal(text: str, number: int) -> Floats:
    return np.asarray(normal_deviates(f"league {text}", number) * 2.0**-DEVIATE_BITS, dtype=np.float64)
