"""Drift detection: whether the distributions of features have changed, from their values alone, without labels.

The problem: when the world changes, a model fails before anybody knows, since labels come late. And a test that is
repeated after every hundred rows gives a false alarm sooner or later, unless its level allows for the repetitions.

How it is solved: rows are summed up in blocks. After each block, the newest blocks are compared with those before them:
once 3 of 20 blocks with the other 17, and once 10 with 10. The test is Student's two-sample t. An observation is the
mean of a block, and in a second test its variance. Unlike rows, blocks are nearly normal, and nearly independent even
if neighbouring rows are alike. The variance of block means is taken to be at least the variance that independent rows
would give, so that rare values alone raise no alarm. The level is divided among all tests of 100,000 rows (Bonferroni).
After an alarm, the blocks before the change are forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Flags, Floats
from deltaplane.log.feature_sums import ROUNDING, without_rounding

__all__ = ["ALARMS_PER_100_000_ROWS", "BLOCKS", "BLOCK_ROWS", "Drift", "DriftWatch"]

BLOCK_ROWS = 100

BLOCKS = 10
"""The number of blocks in one window; two windows are kept."""

_NEWEST = (3, BLOCKS)
"""How many of the newest blocks are compared with the others: few detect a large shift early, many a small one."""

_ROWS_AT_ONCE = 64 * BLOCK_ROWS

ALARMS_PER_100_000_ROWS = 0.05
"""The largest mean number of false alarms per 100,000 rows while nothing changes."""


@dataclass(frozen=True, eq=False)
class Drift:
    """A shift of features that was found when ``row`` rows had been seen.

    ``shift`` float64[d]: the mean of the newest rows less that of the rows before, in standard deviations of the
    latter. ``spread`` float64[d]: the standard deviation of the newest rows divided by that of the rows before.
    ``certain`` bool[d]: for which features the test found a shift.
    """

    row: int
    shift: Floats
    spread: Floats
    certain: Flags


class DriftWatch:
    """A drift detector for rows of d features; changed by :meth:`add` only. It keeps 40 blocks: 1 KB per feature.

    ``rows``: the number of rows seen. ``drifts``: the number of drifts found.
    """

    def __init__(self, features: int, alarms_per_100_000_rows: float = ALARMS_PER_100_000_ROWS) -> None:
        # Only drift detection needs this slow import. At the top of the module it would delay every start.
        from scipy.special import stdtrit  # noqa: PLC0415

        self.rows = self.drifts = 0
        tests = len(_NEWEST) * 2 * max(1, features) * (100_000 / BLOCK_ROWS)
        chance = min(0.5, alarms_per_100_000_rows / tests)
        self._limit = float(-stdtrit(2 * BLOCKS - 2, chance / 2))
        self._open = np.empty((0, features))
        # float64[up to 20, 3, d]: mean, variance, fourth moment about the mean of each block.
        self._blocks = self._newest = np.empty((0, 3, features))

    def add(self, rows: Floats) -> list[Drift]:
        """The drifts found by the end of these rows float64[n, d]. Values that are not finite are left out."""
        found: list[Drift] = []
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[at : at + _ROWS_AT_ONCE]
            begin = self.rows - len(self._open)
            part = np.concatenate([self._open, part]) if len(self._open) else part
            whole = len(part) // BLOCK_ROWS
            if whole:
                found += self._see(_summed(part[: whole * BLOCK_ROWS].reshape(whole, BLOCK_ROWS, -1)), begin)
            self._open = part[whole * BLOCK_ROWS :].copy()
            self.rows = begin + len(part)
        self.drifts += len(found)
        return found

    def _see(self, new: Floats, begin: int) -> list[Drift]:
        """The drifts found in new blocks float64[m, 3, d], the first of which begins at row ``begin``."""
        self._newest = np.concatenate([self._newest, new])[-2 * BLOCKS :]
        found, behind = [], len(new)
        while behind:
            series = np.concatenate([self._blocks, new[len(new) - behind :]])
            # Only windows that end at a new block are tested; the others have been tested before.
            first = max(0, len(series) - behind - (2 * BLOCKS - 1))
            series = series[first:]
            at, newest, certain = self._first_shift(series)
            if at < 0:
                self._blocks = series[-2 * BLOCKS :]
                break
            behind = len(series) - (at + 2 * BLOCKS)
            shift, spread = _shifts(series[at : at + 2 * BLOCKS], newest)
            found.append(Drift(begin + (len(new) - behind) * BLOCK_ROWS, shift, spread, certain))
            self._blocks = series[at + 2 * BLOCKS - newest : at + 2 * BLOCKS]
        return found

    def _first_shift(self, series: Floats) -> tuple[int, int, Flags]:
        """(first block of the first two windows with a shift, number of newest blocks, bool[d]); -1 if none shifts."""
        if len(series) >= 2 * BLOCKS:
            windows = np.lib.stride_tricks.sliding_window_view(series, 2 * BLOCKS, axis=0)
            certain = np.stack([self._certain(windows, newest) for newest in _NEWEST], axis=1)
            places = np.argwhere(certain.any(axis=2))
            if len(places):
                at, which = places[0].tolist()
                return at, _NEWEST[which], certain[at, which]
        return -1, 0, np.zeros(series.shape[2], dtype=np.bool_)

    def shifts(self) -> tuple[Floats, Floats]:
        """(shift, spread), each float64[d], of the newest window against the one before, as in :class:`Drift`.

        At the beginning, each window is half of the blocks so far; with fewer than four blocks, all are NaN. Another
        thread may call this.
        """
        blocks = self._newest
        if len(blocks) < 4:
            nothing = np.full(blocks.shape[2], np.nan)
            return nothing, nothing
        return _shifts(blocks, len(blocks) // 2)

    def _certain(self, windows: Floats, newest: int) -> Flags:
        """bool[m, d]: the features whose newest means or variances differ, in windows float64[m, 3, d, 20]."""
        means, variances, fourths = windows[:, 0], windows[:, 1], windows[:, 2]
        with np.errstate(all="ignore"):
            variance = variances.mean(axis=-1)
            floors = variance / BLOCK_ROWS, np.maximum(fourths.mean(axis=-1) - variance**2, 0.0) / BLOCK_ROWS
            found = np.zeros(variance.shape, dtype=np.bool_)
            for values, floor in zip((means, variances), floors, strict=True):
                before, now = values[..., :-newest], values[..., -newest:]
                within = before.var(axis=-1) * before.shape[-1] + now.var(axis=-1) * newest
                pooled = np.maximum(within / (values.shape[-1] - 2), floor)
                usual = before.mean(axis=-1)
                apart = np.abs(now.mean(axis=-1) - usual)
                least = self._limit * np.sqrt(pooled * (1.0 / before.shape[-1] + 1.0 / newest))
                found |= apart > np.maximum(least, ROUNDING * np.abs(usual))
        return found


def _summed(blocks: Floats) -> Floats:
    """float64[m, 3, d]: mean, variance and fourth central moment of each feature over blocks float64[m, rows, d].

    Values that are not finite are left out; a block without finite values gives NaN.
    """
    with np.errstate(all="ignore"):
        there = np.isfinite(blocks)
        values = blocks if there.all() else np.where(there, blocks, np.nan)
        count = there.sum(axis=1)
        mean = np.nansum(values, axis=1) / count
        squares = (values - mean[:, None]) ** 2
        return np.stack([mean, np.nansum(squares, axis=1) / count, np.nansum(squares**2, axis=1) / count], axis=1)


def _shifts(blocks: Floats, newest: int) -> tuple[Floats, Floats]:
    """The standardized change of the mean, and the ratio of deviations, of the ``newest`` blocks against the others.

    ``blocks`` float64[m, 3, d]; each result is float64[d].
    """
    of = []
    with np.errstate(all="ignore"):
        for part in (blocks[:-newest], blocks[-newest:]):
            mean = part[:, 0].mean(axis=0)
            spread = np.sqrt(part[:, 1].mean(axis=0) + part[:, 0].var(axis=0))
            of.append((mean, without_rounding(spread, mean)))
        (mean, deviation), (mean_now, deviation_now) = of
        apart = np.where(np.abs(mean_now - mean) <= ROUNDING * np.abs(mean), 0.0, mean_now - mean)
        return np.where(apart == 0.0, 0.0, apart / deviation), deviation_now / deviation
