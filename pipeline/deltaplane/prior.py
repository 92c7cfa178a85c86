"""A plane from before, towards which new ones are drawn (paper 5): the table ``[prior]`` of a definition.

A stream that begins has few rows, and a plane learned elsewhere knows more than they do. Solving towards it instead of
towards zero needs no other statistics: ``O = O₀ + (I/C + Σ σ_c M_c)⁻¹ (Σ ±σ_c v_c − Σ σ_c M_c O₀)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deltaplane.errors import DefinitionError
from deltaplane.solver import Plane
from deltaplane.tables import label, list_of, numbers, strings

TABLE_KEYS = frozenset({"classes", "positive", "features", "weights", "biases"})


def prior_of(table: Mapping[str, Any], features: Sequence[str]) -> Plane | None:
    """The plane of a table ``[prior]``, its weights in the order of ``features``; None where there is none.

    Features that it does not know get no weight. Raises :class:`DefinitionError` where it knows one that the stream has
    not, or does not fit itself.
    """
    if not table:
        return None
    classes = tuple(strings(table.get("classes", ()), "prior.classes"))
    positive = None if table.get("positive") is None else label(table["positive"], "prior.positive")
    named = strings(table.get("features", list(features)), "prior.features")
    if len(classes) < 2 or list(classes) != sorted(set(classes)) or (positive is not None and len(classes) != 2):
        raise DefinitionError(f"prior.classes: expected two or more in sorted order (two with positive), got {classes}")
    if positive is not None and positive not in classes:
        raise DefinitionError(f"prior.positive: expected one of {', '.join(classes)}, got {positive!r}")
    if unknown := [name for name in named if name not in features]:
        raise DefinitionError(
            f"prior.features: the stream has no feature {unknown[0]!r}; take a plane of the same features and map"
        )
    if len(set(named)) < len(named):
        raise DefinitionError(f"prior.features: expected names that differ, got {len(named)} of {len(set(named))}")
    planes = len(classes) if positive is None else 1
    rows = [numbers(row, "prior.weights") for row in list_of(table.get("weights", ()), "prior.weights")]
    biases = numbers(table.get("biases", ()), "prior.biases")
    if len(rows) != planes or len(biases) != planes or {len(row) for row in rows} != {len(named)}:
        raise DefinitionError(
            f"prior: expected {planes} rows of {len(named)} weights and {planes} biases, got {len(rows)} of"
            f" {sorted({len(row) for row in rows})} and {len(biases)}"
        )
    weights = np.zeros((planes, len(features)))
    weights[:, [features.index(name) for name in named]] = rows
    plane = Plane(classes, positive, weights, np.array(biases), {}, 1.0, 1.0, dict.fromkeys(classes, 0))
    if not (np.isfinite(weights).all() and np.isfinite(plane.biases).all()):
        raise DefinitionError("prior: expected finite weights and biases, got others; take a plane that was solved")
    return plane


def prior_table(plane: Plane, features: Sequence[str]) -> dict[str, Any]:
    """The table ``[prior]`` of a plane over some features: the inverse of :func:`prior_of`."""
    table: dict[str, Any] = {"classes": list(plane.classes), "features": list(features)}
    if plane.positive is not None:
        table["positive"] = plane.positive
    return table | {"weights": plane.weights.tolist(), "biases": plane.biases.tolist()}
