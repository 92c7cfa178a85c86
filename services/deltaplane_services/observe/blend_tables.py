"""The choices that a model of the automatic mode blends, as plain values: for reports, consoles and metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from deltaplane.log.headline import headline, headline_name
from deltaplane.log.model import Model
from deltaplane.solve.candidates import THRESHOLDS, Leaning
from deltaplane.solve.objectives import GMEAN, Objective
from deltaplane.stream.definition import StreamDefinition

__all__ = ["blend_shares", "candidates_table", "objective_table"]


def blend_shares(leaning: Leaning | None, definition: StreamDefinition) -> dict[str, dict[str, float]] | None:
    """Shares of the choices in the plane of the automatic mode, by window, C, weighting and cut; None in other modes.

    Each group of shares adds up to 1. There are no shares by cut unless the objective is the G-mean: for any other
    objective one threshold is found for the whole plane. For a mixed feature map there are also shares by boundary,
    flat or curved.
    """
    if leaning is None:
        return None
    shares = leaning.shares
    by_choice = shares.sum(axis=(0, 2)).tolist()
    by = {
        "windows": ([str(window) for window in definition.nested_windows.windows], shares.sum(axis=(1, 2))),
        "cuts": (list(THRESHOLDS), shares.sum(axis=(0, 1))),
    }
    table = {name: dict(zip(names, values.tolist(), strict=True)) for name, (names, values) in by.items()}
    of_c: dict[str, float] = {}
    of_weighting: dict[str, float] = {}
    of_map = {"flat": 0.0, "curved": 0.0}
    for choice, share in zip(leaning.choices, by_choice, strict=True):
        of_map["curved" if choice.curved else "flat"] += share
        of_c[f"{choice.C:g}"] = of_c.get(f"{choice.C:g}", 0.0) + share
        of_weighting[choice.weighting] = of_weighting.get(choice.weighting, 0.0) + share
    shares_of = {"windows": table["windows"], "C": of_c, "weightings": of_weighting}
    by_map = {"boundaries": of_map} if definition.feature_map.beside else {}
    return shares_of | ({"cuts": table["cuts"]} if definition.objective == GMEAN else {}) | by_map


def objective_table(objective: Objective, model: Model, positive: str | None) -> dict[str, Any]:
    """The objective, its measure and value, and why no threshold keeps its bound; ``unmet`` is None if one does."""
    return {
        "asked": str(objective),
        "measure": headline_name(objective),
        "value": headline(objective, model.scores, positive),
        "unmet": model.unmet,
    }


def candidates_table(model: Model, definition: StreamDefinition) -> list[dict[str, Any]] | None:
    """Every candidate plane with its recent G-mean and its share; None if the stream solves for one plane only.

    If the objective is not the G-mean, the whole share of a candidate stands at its second cut.
    """
    if model.blend is None:
        return None
    rows = []
    for target, candidates in model.blend.of.items():
        gmeans = candidates.gmeans
        for window, choice, cut in np.ndindex(*gmeans.shape):
            if candidates.exist[window, choice]:
                rows.append(
                    {
                        "class": target,
                        "window": str(definition.nested_windows.windows[window]),
                        **model.blend.choices[choice]._asdict(),
                        "cut": THRESHOLDS[cut],
                        "gmean": float(gmeans[window, choice, cut]),
                        "share": float(candidates.shares[window, choice, cut]),
                    }
                )
    return rows
