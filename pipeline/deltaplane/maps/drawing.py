"""The random layers of feature maps: integers that are the same on every machine.

Most directions of the mixed map use few features, and they have many widths. A kernel of one width over all features
sees only coarse or only fine structure, and mixes relevant with irrelevant features. So directions use one feature,
two, three and all of them in turn. Each has a width of its own, σ√k over k features, with σ drawn log-uniformly from
half to twice the width of the definition. A direction of few features uses only features that can be curved: the cosine
of a flag is a linear function of the flag. The first directions do not depend on the number of directions.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.maps.portable import normal_deviates, words

__all__ = ["FEATURES_IN_TURN", "drawn_directions", "drawn_layer"]

FEATURES_IN_TURN = (1, 2, 3, None)
"""The numbers of features that directions use, in turn; None means all."""

_WIDTH_BITS = 16
"""Binary digits of the logarithm of a width."""


@functools.lru_cache(maxsize=16)
def drawn_directions(seed: int, features: int, number: int, curved: tuple[int, ...] = ()) -> tuple[Floats, Floats]:
    """Integer deviates float64[d, k] of k = ``number`` directions, and their widths float64[k] for σ = 1.

    ``curved``: the indices of the features that directions of few features use; empty means all. Widths are products of
    square roots, which IEEE 754 rounds the same everywhere.
    """
    name = f"mixed {seed} {features}"
    keys = words(f"{name} features", number * features).reshape(number, features) >> np.uint64(1)
    if curved:
        # All other features are sorted after these.
        keys[:, np.setdiff1d(np.arange(features), curved)] |= np.uint64(2**63)
    order = keys.argsort(axis=1, kind="stable")
    few = len(curved) or features
    turns = [FEATURES_IN_TURN[at % len(FEATURES_IN_TURN)] for at in range(number)]
    looks_at = np.array([features if turn is None else min(turn, few) for turn in turns])
    chosen = np.zeros((number, features), dtype=np.bool_)
    np.put_along_axis(chosen, order, np.arange(features) < looks_at[:, None], axis=1)
    deviates = normal_deviates(f"{name} weights", number * features).reshape(number, features)
    directions = np.where(chosen, deviates, 0).T.astype(np.float64)
    bits, widths, root = words(f"{name} widths", number), np.full(number, 0.5), 2.0
    for place in range(_WIDTH_BITS):
        widths *= np.where(bits >> np.uint64(63 - place) & np.uint64(1), root, 1.0)
        root = math.sqrt(root)
    widths *= np.array([math.sqrt(k) for k in looks_at.tolist()])
    directions.flags.writeable = widths.flags.writeable = False
    return directions, widths


@functools.lru_cache(maxsize=16)
def drawn_layer(kind: str, seed: int, features: int, units: int, columns: int) -> tuple[Floats, Floats]:
    """Integer deviates of k = ``columns`` directions over all features, float64[d, k], and of their phases, float64[k].

    ``units``: the number of mapped features; a direction may give several.
    """
    deviates = normal_deviates(f"{kind} {seed} {features} {units}", (features + 1) * columns).astype(np.float64)
    directions, phases = deviates[: features * columns].reshape(features, columns), deviates[features * columns :]
    directions.flags.writeable = phases.flags.writeable = False
    return directions, phases
