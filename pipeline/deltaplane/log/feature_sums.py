"""Counts, means and spreads of features over some rows, as values that add: what tells two stretches of a stream apart.

No labels are needed, and no window: the rows of a span are summed up as they go by, and spans are added up later.
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
"""Classes whose features are summed up apart; those that come later are all together."""

OTHERS = ""
"""What these are called."""

ROUNDING = 1e-9
"""Spreads and differences of means that are so small a part of the means are rounding."""


def without_rounding(spreads: Floats, means: Floats) -> Floats:
    """The spreads float64[d], with 0 for those that are rounding of the means."""
    return np.where(spreads <= ROUNDING * np.abs(means), 0.0, spreads)


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Of d features over rows that have a value: ``counts``, ``means``, ``squares`` about these summed; float64[d]."""

    counts: Floats
    means: Floats
    squares: Floats

    @classmethod
    def zero(cls, features: int) -> FeatureSums:
        """Those of no rows."""
        return cls(np.zeros(features), np.zeros(features), np.zeros(features))

    @classmethod
    def of(cls, rows: Floats) -> FeatureSums:
        """Those of rows float64[n, d]; what is no number, or infinite, is left out."""
        with np.errstate(all="ignore"):
            there = np.isfinite(rows)
            counts = there.sum(axis=0).astype(np.float64)
            means = np.where(there, rows, 0.0).sum(axis=0) / np.maximum(counts, 1.0)
            squares = (np.where(there, rows - means, 0.0) ** 2).sum(axis=0)
        return cls(counts, means, squares)

    def __add__(self, other: FeatureSums) -> FeatureSums:
        """Those of both sets of rows (Chan, Golub and LeVeque 1983)."""
        with np.errstate(all="ignore"):
            counts = self.counts + other.counts
            apart, share = other.means - self.means, other.counts / np.maximum(counts, 1.0)
            means = self.means + apart * share
            squares = self.squares + other.squares + apart**2 * self.counts * share
        return FeatureSums(counts, means, squares)

    @property
    def deviations(self) -> Floats:
        """Standard deviations float64[d]; NaN without rows, and 0 where they are nothing but rounding."""
        with np.errstate(all="ignore"):
            return without_rounding(np.sqrt(self.squares / self.counts), self.means)


ClassSums = Mapping[str, FeatureSums]
"""Sums by class."""


def joined(parts: Iterable[ClassSums]) -> dict[str, FeatureSums]:
    """The sums of all parts, class by class."""
    total: dict[str, FeatureSums] = {}
    for part in parts:
        for label, sums in part.items():
            total[label] = total[label] + sums if label in total else sums
    return total


@dataclass(frozen=True, eq=False)
class Shift:
    """How features differ between two sets of rows, float64[d] each.

    ``means``: the change in deviations of the rows before; ``spreads``: the deviation now over the one before. NaN
    where there is none to compare with, infinite where the feature was constant and is another now.
    """

    means: Floats
    spreads: Floats

    @property
    def sizes(self) -> Floats:
        """float64[d]: how much each feature has shifted, in mean or in spread, whichever is more; 0 where not known."""
        with np.errstate(all="ignore"):
            return np.nan_to_num(np.fmax(np.abs(self.means), np.abs(np.log(self.spreads))), nan=0.0, posinf=np.inf)


def shift_between(before: FeatureSums, now: FeatureSums) -> Shift:
    """From the rows before to those now."""
    with np.errstate(all="ignore"):
        known = (before.counts > 0) & (now.counts > 0)
        apart = np.where(known, now.means - before.means, np.nan)
        means = np.where(np.abs(apart) <= ROUNDING * np.abs(before.means), 0.0, apart / before.deviations)
        spreads = np.where(known, now.deviations / before.deviations, np.nan)
    return Shift(np.asarray(means, dtype=np.float64), np.asarray(spreads, dtype=np.float64))
