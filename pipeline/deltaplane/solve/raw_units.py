"""Planes whose penalty is in raw units, of any size: features of a billionth, Unix times, 1e300.

The problem: ``I/C`` plus sums of squares of rows [x, -1] is well conditioned only if features are near zero and of a
size near one. Otherwise, three things go wrong. With small features, decision values are so close together that the
rounding of the class weights, which is harmless otherwise, decides their signs. With a mean far from zero, the penalty
``b²/C`` of the raw bias is the largest number of all, and a later correction for it is a difference of two almost equal
numbers. And a plane whose floats are right in every digit may still give all rows the same decision value.

How it is solved: unknowns are scaled to a unit diagonal. A Householder reflection turns the direction in which the raw
bias grows into an unknown of its own, so that its penalty, however large, stands alone on the diagonal and needs no
correction. The sum of the targets ``Σ ±σ n`` is exact (:func:`balance`). :func:`conditions` measures what floats cannot
resolve, and such planes are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.exact.blocks import tiles
from deltaplane.exact.grid import Grid
from deltaplane.solve import cholesky
from deltaplane.solve.solver_options import SolverOptions

__all__ = ["LARGEST_CONDITION", "RawUnits", "balance", "conditions", "refusal", "solve_all"]

LARGEST_CONDITION = 2.0**31
"""The largest condition of decision values: above it, rounding may exceed a millionth of their deviation."""

_ENTRIES_AT_ONCE = 2**17
"""Entries of the scaled matrices held at once: a megabyte, or one matrix if it is larger."""


class RawUnits(NamedTuple):
    """A penalty in raw units: of the raw weights, and of the raw bias if there are ``slacks``.

    ``steps`` float64[d]: the steps of the grid, in raw units. ``centres`` float64[n, D]: the centres of the rows, in
    raw units, and a 1 for the bias. ``choices_of_c`` float64[m]. ``slacks`` float64[m]: C if the raw bias is penalised,
    0 if there is no bias, or None if the bias is free.
    """

    steps: Floats
    centres: Floats
    choices_of_c: Floats
    slacks: Floats | None

    @classmethod
    def of(cls, grid: Grid, centres: Int64s, options: SolverOptions, choices_of_c: Floats) -> RawUnits:
        """The penalty for rows [q - centre, -1] with ``centres`` int64[n, D] in grid steps."""
        raw = np.ones(centres.shape)
        raw[:, :-1] = grid.offsets + grid.steps * centres[:, :-1]
        slacks = {"regularised": choices_of_c, "none": np.zeros(len(choices_of_c))}.get(options.bias)
        return cls(grid.steps, raw, choices_of_c, slacks)


def balance(weighting: object, counts: Mapping[str, int], targets: Sequence[str]) -> list[float]:
    """The sum of the targets, ``Σ_rest σ n - Σ_own σ n``, for each class that has a plane: exact, then rounded once.

    ``weighting`` as in :class:`SolverOptions`; ``counts``: the number of rows of each class. If features are small,
    rounding errors of this sum would decide the signs of all decision values.
    """
    if weighting in ("inverse", "balanced"):
        return [0.0] * len(targets)
    weights = weighting if isinstance(weighting, Mapping) else dict.fromkeys(counts, 1.0)
    sides = {label: Fraction(weights[label]) * count for label, count in counts.items()}
    return [float(sum(sides.values()) - 2 * sides[target]) for target in targets]


def refusal(name: str, condition: float, C: float) -> str:
    """The reason why planes of the system called ``name`` are refused: rounding hides the differences of rows."""
    return (
        f"solve: the decision values of {name} differ by too little from row to row (condition {condition:.3g},"
        f" expected up to {LARGEST_CONDITION:.3g}; C = {C:g}): a penalty in raw units leaves features of this scale, or"
        " so far from zero, no digits; set standardize = true, bring the features to a size near one about zero, or"
        " change C"
    )


@np.errstate(all="ignore")  # What is not finite is refused.
def solve_all(grams: Floats, right_sides: Floats, units: RawUnits) -> tuple[cholesky.Solutions, Flags]:
    """The solutions, whose ``values`` float64[n, m, D, p] are planes [w; b] in raw units; and which of them vanished.

    ``grams`` float64[n, D, D] are of rows [q - centre, -1] in grid steps; ``right_sides`` float64[n, D, p]. Vanished,
    bool[n, m]: a weight is too small for a float, and the plane without it would give other decision values.
    """
    (count, dimension, planes), choices = right_sides.shape, len(units.choices_of_c)
    own = grams.diagonal(axis1=1, axis2=2)
    # An unknown is a weight per raw unit, or per grid step if the step is so large that its square might overflow.
    of_steps = (units.steps > 1.0) & (own[:, :-1] > 0.0)
    scale = np.ones((count, dimension))
    scale[:, :-1] = np.where(of_steps, 1.0, units.steps)
    centres = units.centres.copy()
    centres[:, :-1] /= np.where(of_steps, units.steps, 1.0)
    root_of_penalty = np.zeros((count, choices, dimension))
    penalty_steps = np.where(of_steps, units.steps, 1.0)[:, None, :]
    root_of_penalty[..., :-1] = 1.0 / (np.sqrt(units.choices_of_c)[:, None] * penalty_steps)
    vanished = np.zeros((count, choices), dtype=np.bool_)
    parts = 1.0 / np.hypot((np.sqrt(own) * scale)[:, None, :], root_of_penalty)
    result = cholesky.Solutions(
        values=np.zeros((count, choices, dimension, planes)),
        norms=np.zeros((count, choices)),
        inverse_conditions=np.zeros((count, choices)),
        failed_at=np.zeros((count, choices), dtype=np.int64),
        refused=np.zeros((count, choices), dtype=np.bool_),
    )
    for sets, chosen in tiles(count, choices, dimension * dimension, _ENTRIES_AT_ONCE):
        part, some = parts[sets, chosen], own[sets, None]
        # The weight of a column of zeros serves the bias alone, and its scale may not be finite.
        inside = np.where(some > 0.0, part * scale[sets, None], 0.0)
        matrices = inside[..., :, None] * inside[..., None, :]
        matrices *= grams[sets, None]
        matrices.reshape(*part.shape[:2], -1)[..., :: dimension + 1] = 1.0
        sides = inside[..., None] * right_sides[sets, None]
        if units.slacks is None:
            solved = _solve(matrices, sides, np.ones_like(part))
            values = solved.values
            biases = ((centres[sets, None] * part)[..., None, :] @ values)[..., 0, :]
        else:
            solved, values, biases = _solve_with_bias(
                matrices, sides, centres[sets, None] * part, np.sqrt(units.slacks[chosen])
            )
        weights = part[..., None] * values
        weights[..., :-1, :] /= np.where(of_steps[sets], units.steps, 1.0)[:, None, :, None]
        weights[..., -1, :] = biases
        result.values[sets, chosen] = weights
        for whole, of_tile in zip(result[1:], solved[1:], strict=True):
            whole[sets, chosen] = of_tile
        lost = ((values != 0.0) & (weights == 0.0))[..., :-1, :] & (some[..., :-1, None] > 0.0)
        vanished[sets, chosen] = lost.any(axis=(2, 3))
    return result, vanished


def _solve(matrices: Floats, right_sides: Floats, diagonals: Floats) -> cholesky.Solutions:
    """The solutions of systems float64[n, m, D, D], each with its right sides float64[n, m, D, p]."""
    count, choices, dimension, planes = right_sides.shape
    solved = cholesky.solve_all(
        matrices.reshape(-1, dimension, dimension),
        diagonals.reshape(-1, 1, dimension),
        right_sides.reshape(-1, dimension, planes),
        dimension,
    )
    return cholesky.Solutions(
        values=solved.values.reshape(right_sides.shape),
        norms=solved.norms.reshape(count, choices),
        inverse_conditions=solved.inverse_conditions.reshape(count, choices),
        failed_at=solved.failed_at.reshape(count, choices),
        refused=solved.refused.reshape(count, choices),
    )


def _solve_with_bias(
    matrices: Floats, right_sides: Floats, direction: Floats, roots_of_slacks: Floats
) -> tuple[cholesky.Solutions, Floats, Floats]:
    """As :func:`_solve`, with the penalty ``b²/slack`` of the raw bias ``b = direction · unknowns``.

    ``matrices`` are overwritten; ``direction`` float64[n, m, D]. Returns the solutions of the reflected systems, the
    unknowns float64[n, m, D, p], and the biases float64[n, m, p].
    """
    largest = np.abs(direction).max(axis=-1, keepdims=True)
    length = np.sqrt(np.square(direction / largest).sum(axis=-1, keepdims=True)) * largest
    unit = direction / length
    # The direction is reflected onto its nearest axis, so that no other entry is a difference of nearly equal numbers.
    axis = np.abs(unit).argmax(axis=-1)[..., None]
    along = np.take_along_axis(unit, axis, axis=-1)
    sign = np.copysign(1.0, along)
    normal = unit.copy()
    np.put_along_axis(normal, axis, along + sign, axis=-1)
    factor = (1.0 / (1.0 + np.abs(along)))[..., None]  # Two over the square of the normal's length.
    turned = (matrices @ normal[..., None]) * factor
    turned -= normal[..., None] * (factor / 2.0 * (normal[..., None, :] @ turned))
    matrices -= normal[..., :, None] * turned.swapaxes(-1, -2)
    matrices -= turned * normal[..., None, :]
    right_sides = _reflected(right_sides, unit, normal, factor, axis, sign)
    diagonals = matrices.diagonal(axis1=-2, axis2=-1).copy()
    height = length / roots_of_slacks[:, None]
    root = np.sqrt(np.take_along_axis(diagonals, axis, axis=-1))
    scale = 1.0 / np.sqrt(diagonals)
    np.put_along_axis(scale, axis, 1.0 / np.hypot(root, height), axis=-1)
    matrices *= scale[..., :, None] * scale[..., None, :]
    solved = _solve(matrices, right_sides * scale[..., None], np.ones_like(scale))
    turned_values = solved.values * scale[..., None]
    at_axis = np.take_along_axis(turned_values, axis[..., None], axis=-2)[..., 0, :]
    biases = np.where(at_axis == 0.0, 0.0, -(sign * length) * at_axis)
    return solved, _reflected(turned_values, unit, normal, factor, axis, sign), biases


def _reflected(columns: Floats, unit: Floats, normal: Floats, factor: Floats, axis: Int64s, sign: Floats) -> Floats:
    """The reflected columns float64[n, m, D, p]; the entry along the axis is a new sum, and not a difference."""
    reflected = columns - normal[..., None] * (factor * (normal[..., None, :] @ columns))
    along = -sign[..., None] * (unit[..., None, :] @ columns)
    np.put_along_axis(reflected, axis[..., None], along, axis=-2)
    return reflected


@np.errstate(all="ignore")  # What is not finite is refused.
def conditions(weights: Floats, biases: Floats, grams: Floats, units: RawUnits) -> Floats:
    """float64[n, m]: the condition of decision values, the worst of p planes.

    It is the size of the terms ``x_j w_j`` and b that a decision value adds, divided by the deviation of the rows'
    decision values. Its logarithm is about the number of digits that a decision value loses. It is 1 if all weights are
    zero for the rows. ``weights`` float64[n, m, p, d] and ``biases`` float64[n, m, p] are in raw units; ``grams``
    float64[n, D, D] are those of :func:`solve_all`.
    """
    own = grams.diagonal(axis1=1, axis2=2)
    roots = np.sqrt(own)
    correlations = grams * np.where(roots > 0.0, 1.0 / roots, 0.0)[:, :, None]
    correlations *= np.where(roots > 0.0, 1.0 / roots, 0.0)[:, None, :]
    deviations = units.steps * (roots[:, :-1] / roots[:, -1:])
    parts = weights * deviations[:, None, None, :]
    largest = np.abs(parts).max(axis=-1)
    whole = parts / largest[..., None]
    squares = ((whole @ correlations[:, None, :-1, :-1]) * whole).sum(axis=-1)
    means = (whole @ correlations[:, None, :-1, -1:])[..., 0]
    spread = largest * np.sqrt(np.maximum(squares - means**2, 0.0))
    tiny = np.finfo(np.float64).tiny
    reach = np.abs(units.centres[:, None, None, :-1]) + deviations[:, None, None, :]
    size = np.maximum(np.abs(biases), tiny) + (np.maximum(np.abs(weights), tiny) * reach).sum(axis=-1)
    return np.asarray(np.where(largest == 0.0, 1.0, size / spread).max(axis=-1), dtype=np.float64)
