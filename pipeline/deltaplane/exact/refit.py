"""A grid with wider steps for features whose values have left the old one.

A grid is frozen, since statistics on two grids cannot be added. If the values of a feature jump beyond it, each such
row is refused, and its dead letter names the feature. The way on is a new stream, on a grid that fits both the live
rows and the refused ones. Features that still fit keep their step and offset, and their integers stay the same.

The window still holds the small values of before, so that a new step is as small as the large values allow: it leaves
them a headroom of four. A grid that is fitted at the beginning of a stream leaves far more.
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
    """The old and new step and range of one feature, in its own unit, and the number of ``rows`` refused for it."""

    feature: str
    rows: int
    old_step: float
    new_step: float
    old_range: tuple[float, float]
    new_range: tuple[float, float]


@dataclass(frozen=True)
class Refit:
    """A refitted grid, the features that were changed, and how many refused rows do not fit the new grid either."""

    grid: Grid
    outgrown: tuple[Outgrown, ...]
    still_refused: int


def refit_grid(grid: Grid, names: Sequence[str], live: Floats, refused: Floats) -> Refit:
    """The grid that fits both the ``live`` rows float64[n, d] and the ``refused`` ones float64[m, d].

    ``live`` must hold the smallest and the largest value of each feature; rows in between may be left out. A refused
    value widens nothing if it is not finite, or out of all proportion to the other refused ones (one bogus number).
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
    _, fits = new.quantize(refused)
    return Refit(new, tuple(outgrown), int(np.count_nonzero(~fits)))


def _outside(grid: Grid, rows: Floats) -> Flags:
    """bool[n, d]: which values of rows float64[n, d] are finite and lie outside the grid."""
    with np.errstate(over="ignore", invalid="ignore"):
        quantized = np.abs(np.rint((rows - grid.offsets) / grid.steps))
        return np.asarray(np.isfinite(rows) & ~(quantized < grid.range))


def _step_for(reach: float, bits: int) -> float:
    """The smallest power of two that, times ``2**bits``, is not below ``reach``."""
    mantissa, exponent = np.frexp(reach)
    return float(np.ldexp(1.0, int(exponent) - int(mantissa == 0.5) - bits))


def _range(grid: Grid, step: float, offset: float) -> tuple[float, float]:
    return float(offset - grid.range * step), float(offset + grid.range * step)
