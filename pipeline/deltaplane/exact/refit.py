"""A wider grid for features that have outgrown theirs: the values that were refused fit it, and so does the window.

A grid is frozen, since statistics on two grids cannot be added. A feature whose values jump beyond it is refused by
name, row by row, and the way on is a new stream on a grid that holds both what is live and what was refused. Features
that have not outgrown theirs keep it, step and offset, and their integers stay what they were.

The window still holds the small values of before, so a wider step is as small as the large ones allow: they are left a
headroom of four, where a grid that is fitted at first leaves far more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Floats
from deltaplane.exact.grid import Grid

__all__ = ["Outgrown", "Refit", "refit_grid"]


@dataclass(frozen=True)
class Outgrown:
    """One feature on its old grid and on its new one: resolution and reach, in its own unit; rows refused for it."""

    feature: str
    rows: int
    old_step: float
    new_step: float
    old_range: tuple[float, float]
    new_range: tuple[float, float]


@dataclass(frozen=True)
class Refit:
    """``still_refused``: of the refused rows, how many fit the new grid no more than the old one."""

    grid: Grid
    outgrown: tuple[Outgrown, ...]
    still_refused: int


def refit_grid(grid: Grid, names: Sequence[str], live: Floats, refused: Floats) -> Refit:
    """A grid for rows that fit, float64[n, d], and for rows that were refused, float64[m, d].

    ``live`` must hold the extremes of each feature; what lies between them may be left out. Values that are not finite,
    or out of all proportion to the others that were refused (one bogus number among them), widen nothing.
    """
    outside = _outside(grid, refused)
    steps, offsets, outgrown = grid.steps.copy(), grid.offsets.copy(), []
    for j in np.flatnonzero(outside.any(axis=0)).tolist():
        beyond = refused[outside[:, j], j]
        ordinary = beyond[np.abs(beyond) <= limits.OUT_OF_PROPORTION * np.median(np.abs(beyond))]
        known = np.concatenate([live[np.isfinite(live[:, j]), j], ordinary])
        step = _step_for(float(np.abs(known - offsets[j]).max()), grid.range_bits - limits.REFIT_HEADROOM_BITS)
        if not steps[j] < step <= limits.STEP_LARGEST:
            continue
        offset = float(np.rint(offsets[j] / step)) * step
        outgrown.append(
            Outgrown(
                feature=names[j],
                rows=len(beyond),
                old_step=float(steps[j]),
                new_step=step,
                old_range=_range(grid, steps[j], offsets[j]),
                new_range=_range(grid, step, offset),
            )
        )
        steps[j], offsets[j] = step, offset
    new = Grid(steps, offsets, grid.range_bits)
    _, fits = new.place(refused)
    return Refit(new, tuple(outgrown), int(np.count_nonzero(~fits)))


def _outside(grid: Grid, rows: Floats) -> Flags:
    """bool[n, d]: which finite values lie outside the grid."""
    with np.errstate(over="ignore", invalid="ignore"):
        placed = np.abs(np.rint((rows - grid.offsets) / grid.steps))
        return np.asarray(np.isfinite(rows) & ~(placed < grid.range))


def _step_for(reach: float, bits: int) -> float:
    """The smallest power of two of which ``2**bits`` reach so far."""
    mantissa, exponent = np.frexp(reach)
    return float(np.ldexp(1.0, int(exponent) - int(mantissa == 0.5) - bits))


def _range(grid: Grid, step: float, offset: float) -> tuple[float, float]:
    return float(offset - grid.range * step), float(offset + grid.range * step)
