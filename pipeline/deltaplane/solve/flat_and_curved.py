"""Flat and curved candidates of nested windows, from the same statistics.

The problem: if a stream is linear, the features that a map adds cost accuracy; if it is not linear, a plane without
them is wrong; nobody knows beforehand. How it is solved: the statistics of a mixed map are over a row's own features
and, after them, the units of the map. The statistics of the own features are a leading part of the same matrices. So
flat candidates are those of a stream without a map, bit for bit, and curved candidates are weighed against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from deltaplane.errors import SolveRefused
from deltaplane.exact.grid import Grid
from deltaplane.solve.candidates import THRESHOLDS, Fitted, fit_windows
from deltaplane.solve.solver import Grams, Plane, contest, live_counts
from deltaplane.solve.solver_options import SolverOptions

__all__ = ["Options", "Windows", "curved_among", "fit_flat_and_curved"]


def curved_among(options: Sequence[SolverOptions]) -> tuple[SolverOptions, ...]:
    """The options of the curved candidates, a part of the ``options`` of the flat ones.

    For each weighting, ``options`` must be in ascending order of C. Curved candidates take most of the time, and few of
    them do as well as all: every C but the smallest for the first weighting, the middle C for each other weighting.
    """
    chosen: list[SolverOptions] = []
    for weighting in dict.fromkeys(str(one.weighting) for one in options):
        of_it = [one for one in options if str(one.weighting) == weighting]
        middle = len(of_it) // 2
        chosen += of_it[middle : middle + 1] if chosen else of_it[1:] or of_it
    return tuple(chosen)


class Windows(NamedTuple):
    """The Gram matrices of each nested window, the dimension D of each, and the index of the ``longest`` window.

    The longest window holds the rows of all others.
    """

    grams: Sequence[Grams]
    longest: int
    dimensions: Sequence[int]


class Options(NamedTuple):
    """The options of the flat candidates and of the curved candidates of each window."""

    flat: Sequence[SolverOptions]
    curved: Sequence[SolverOptions]


def fit_flat_and_curved(
    nested_windows: Windows,
    grid: Grid,
    beside: int,
    options: Options,
    positive: str | None = None,
    prior: Plane | None = None,
) -> Fitted:
    """Flat candidates over the first ``beside`` features, and after them curved ones over all features of each window.

    There is one candidate for each of the options. ``grid`` is that of all features. Windows of dimension D =
    ``beside`` + 1 have no curved candidates. Raises what :func:`deltaplane.solve.candidates.fit` raises.
    """
    flat = [{label: gram.leading(beside + 1) for label, gram in grams.items()} for grams in nested_windows.grams]
    sides = contest(live_counts(flat[nested_windows.longest], grid.leading(beside), positive), positive)
    parts = [(0, fit_windows(flat, sides, grid.leading(beside), options.flat, positive, _over(prior, beside)))]
    for dimension in sorted({*nested_windows.dimensions} - {beside + 1}):
        of_these = [grams if of == dimension else {} for grams, of in zip(*nested_windows[::2], strict=True)]
        features = dimension - 1
        fitted = fit_windows(of_these, sides, grid.leading(features), options.curved, positive, _over(prior, features))
        parts.append((len(options.flat), fitted))
    choices = len(options.flat) + len(options.curved)
    joined = _joined(parts, grid.features, choices)
    if not joined.exist:
        raise SolveRefused(joined.nothing(len(flat), choices))
    return joined


def _over(prior: Plane | None, features: int) -> Plane | None:
    """The prior as a plane over the first ``features`` features, or None if there is no prior."""
    return None if prior is None else replace(prior, weights=prior.weights[:, :features])


def _joined(parts: Sequence[tuple[int, Fitted]], features: int, choices: int) -> Fitted:
    """The candidates of all parts in one table; each part comes with the index of its first choice.

    Features that a candidate does not use have the weight 0.
    """
    first = parts[0][1]
    windows = next(len(biases) for biases in first.biases.values())
    joined = first._replace(
        weights={target: np.full((windows, choices, features), np.nan) for target in first.weights},
        biases={target: np.full((windows, choices, len(THRESHOLDS)), np.nan) for target in first.biases},
        sides={target: np.full((windows, choices, 2, 2), np.nan) for target in first.sides},
        sigmas={label: np.full((windows, choices), np.nan) for label in first.sigmas},
        condition=max(part.condition for _, part in parts),
        refusals=tuple(refusal for _, part in parts for refusal in part.refusals),
    )
    for place, part in parts:
        for target, biases in part.biases.items():
            exist, weights = ~np.isnan(biases[..., 0]), part.weights[target]
            at = slice(place, place + biases.shape[1])
            joined.weights[target][:, at][exist] = 0.0
            joined.weights[target][:, at, : weights.shape[2]][exist] = weights[exist]
            joined.biases[target][:, at][exist] = biases[exist]
            joined.sides[target][:, at][exist] = part.sides[target][exist]
        for label, sigmas in part.sigmas.items():
            exist = ~np.isnan(sigmas)
            joined.sigmas[label][:, place : place + sigmas.shape[1]][exist] = sigmas[exist]
    return joined
