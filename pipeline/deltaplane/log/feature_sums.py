"""Counts, means and squared deviations of features over rows, as values that can be added, and shifts between two.

No labels and no window are needed: the rows of a span are summed up as they come, and spans are added later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats

__all__ = [
    "MOST_CLASSES",
    "OTHERS",
    "ROUNDING",
    "ClassSums",
    "FeatureSums",
    "Shift",
    "joined",
    "shift_between",
    "without_rounding",
]

MOST_CLASSES = 12
"""The number of classes whose features are summed up separately; later classes are summed up together."""

OTHERS = ""
"""The label of these later classes."""

ROUNDING = 1e-9
"""Spreads and differences of means below this fraction of the means are taken as rounding errors."""


def without_rounding(spreads: Floats, means: Floats) -> Floats:
    """The spreads float64[d], with 0 for those that are rounding errors of the means."""
    return np.where(spreads <= ROUNDING * np.abs(means), 0.0, spreads)


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Sums of d features over the rows with a finite value, each float64[d].

    ``counts``: numbers of rows. ``means``: means. ``squares``: sums of squared deviations from the means.
    """

    counts: Floats
    means: Floats
    squares: Floats

    @classmethod
    def zero(cls, features: int) -> FeatureSums:
        """The sums of no rows."""
        return cls(np.zeros(features), np.zeros(features), np.zeros(features))

    @classmethod
    def of(cls, rows: Floats) -> FeatureSums:
        """The sums of rows float64[n, d]; values that are not finite are left out."""
        with np.errstate(all="ignore"):
            there = np.isfinite(rows)
            counts = there.sum(axis=0).astype(np.float64)
            means = np.where(there, rows, 0.0).sum(axis=0) / np.maximum(counts, 1.0)
            squares = (np.where(there, rows - means, 0.0) ** 2).sum(axis=0)
        return cls(counts, means, squares)

    def __add__(self, other: FeatureSums) -> FeatureSums:
        """The sums of both sets of rows (Chan, Golub and LeVeque 1983)."""
        with np.errstate(all="ignore"):
            counts = self.counts + other.counts
            apart, share = other.means - self.means, other.counts / np.maximum(counts, 1.0)
            means = self.means + apart * share
            squares = self.squares + other.squares + apart**2 * self.counts * share
        return FeatureSums(counts, means, squares)

    @property
    def deviations(self) -> Floats:
        """Standard deviations float64[d]; NaN without rows, and 0 if they are only rounding errors."""
        with np.errstate(all="ignore"):
            return without_rounding(np.sqrt(self.squares / self.counts), self.means)


ClassSums = Mapping[str, FeatureSums]
"""Class label to sums."""


def joined(parts: Iterable[ClassSums]) -> dict[str, FeatureSums]:
    """The sums of all parts, class by class."""
    total: dict[str, FeatureSums] = {}
    for part in parts:
        for label, sums in part.items():
            total[label] = total[label] + sums if label in total else sums
    return total


@dataclass(frozen=True, eq=False)
class Shift:
    """The shift of d features between two sets of rows, each float64[d].

    ``means``: the change of the mean, in standard deviations of the rows before. ``spreads``: the standard deviation
    now divided by the one before. They are NaN if there are no values to compare, and infinite if the feature was
    constant before and has changed.
    """

    means: Floats
    spreads: Floats

    @property
    def sizes(self) -> Floats:
        """float64[d]: the size of each feature's shift: of the mean, or of the log of the spread if that is larger.

        It is 0 if not known.
        """
        with np.errstate(all="ignore"):
            return np.nan_to_num(np.fmax(np.abs(self.means), np.abs(np.log(self.spreads))), nan=0.0, posinf=np.inf)


def shift_between(before: FeatureSums, now: FeatureSums) -> Shift:
    """The shift from the rows ``before`` to the rows ``now``."""
    with np.errstate(all="ignore"):
        known = (before.counts > 0) & (now.counts > 0)
        apart = np.where(known, now.means - before.means, np.nan)
        means = np.where(np.abs(apart) <= ROUNDING * np.abs(before.means), 0.0, apart / before.deviations)
        spreads = np.where(known, now.deviations / before.deviations, np.nan)
    return Shift(np.asarray(means, dtype=np.float64), np.asarray(spreads, dtype=np.float64))
