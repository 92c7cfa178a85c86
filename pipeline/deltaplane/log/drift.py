"""Whether features are spread otherwise than a little before, told from their values alone: no labels are needed.

The problem: when the world changes, a model fails before anybody knows, since labels come late. And a test that looks
again after every hundred rows cries wolf sooner or later, unless it is told how often it looks.

How it is solved: rows are summed up in blocks. After each block the newest blocks are held against those before them,
once the last third of a window and once half of two, by Student's t of two samples, where an observation is the mean of
a block, and again its variance. Blocks are what rows are not: nearly normal, and nearly independent where neighbours
are alike. The spread of block means is taken to be no smaller than rows of their variance would have by chance alone,
so that rare values raise no alarm by being rare. The level is shared out among all tests of 100,000 rows (Bonferroni).
What has been found is the new normal: the blocks before it are forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Flags, Floats
from deltaplane.log.feature_sums import ROUNDING, without_rounding

__all__ = ["ALARMS_PER_100_000_ROWS", "BLOCKS", "BLOCK_ROWS", "Drift", "DriftWatch"]

BLOCK_ROWS = 100

BLOCKS = 10
"""Blocks of one window; two windows are remembered."""

_NEWEST = (3, BLOCKS)
"""How many of the newest blocks are held against the others: few see a large shift soon, many a small one."""

_ROWS_AT_ONCE = 64 * BLOCK_ROWS

ALARMS_PER_100_000_ROWS = 0.05
"""False alarms that there may be on average while nothing changes."""


@dataclass(frozen=True, eq=False)
class Drift:
    """That features have shifted at a row, ``row`` being the number of rows seen by then.

    ``shift`` float64[d]: means of the newest rows less those of the rows before, in deviations of these; ``spread``
    float64[d]: deviation of the newest over that of the others; ``certain`` bool[d]: for which of them it is no chance.
    """

    row: int
    shift: Floats
    spread: Floats
    certain: Flags


class DriftWatch:
    """Watches rows of d features go by; changed by :meth:`add` only. It keeps 40 blocks, a kilobyte a feature.

    ``rows`` have gone by, and ``drifts`` were found among them.
    """

    def __init__(self, features: int, alarms_per_100_000_rows: float = ALARMS_PER_100_000_ROWS) -> None:
        # Only who watches needs this; all others would wait for it at their start.
        from scipy.special import stdtrit  # noqa: PLC0415

        self.rows = self.drifts = 0
        tests = len(_NEWEST) * 2 * max(1, features) * (100_000 / BLOCK_ROWS)
        chance = min(0.5, alarms_per_100_000_rows / tests)
        self._limit = float(-stdtrit(2 * BLOCKS - 2, chance / 2))
        self._open = np.empty((0, features))
        # float64[up to 20, 3, d]: mean, variance, fourth moment about the mean of each block.
        self._blocks = self._newest = np.empty((0, 3, features))

    def add(self, rows: Floats) -> list[Drift]:
        """What has shifted by the end of these rows float64[n, d]. Values that are no numbers are left out."""
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
        """What new blocks float64[m, 3, d], the first of which began at row ``begin``, have to show."""
        self._newest = np.concatenate([self._newest, new])[-2 * BLOCKS :]
        found, behind = [], len(new)
        while behind:
            series = np.concatenate([self._blocks, new[len(new) - behind :]])
            # Windows that end at one of the new blocks; those before have been looked at.
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
        """(first block of two windows, how many of its newest, bool[d] for which features), or -1 where none shifts."""
        if len(series) >= 2 * BLOCKS:
            windows = np.lib.stride_tricks.sliding_window_view(series, 2 * BLOCKS, axis=0)
            certain = np.stack([self._certain(windows, newest) for newest in _NEWEST], axis=1)
            places = np.argwhere(certain.any(axis=2))
            if len(places):
                at, which = places[0].tolist()
                return at, _NEWEST[which], certain[at, which]
        return -1, 0, np.zeros(series.shape[2], dtype=np.bool_)

    def shifts(self) -> tuple[Floats, Floats]:
        """(shift, spread) float64[d] each, of the newest window against the one before, as in :class:`Drift`.

        Of shorter windows at the beginning, half of the blocks that have come; NaN until four have. May be asked from
        another thread.
        """
        blocks = self._newest
        if len(blocks) < 4:
            nothing = np.full(blocks.shape[2], np.nan)
            return nothing, nothing
        return _shifts(blocks, len(blocks) // 2)

    def _certain(self, windows: Floats, newest: int) -> Flags:
        """bool[m, d]: whose means or variances in windows float64[m, 3, d, 20] cannot be one sample."""
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
    """float64[m, 3, d]: mean, variance and fourth moment of each feature over the rows of blocks float64[m, rows, d].

    Over those that have a value; NaN where none has.
    """
    with np.errstate(all="ignore"):
        there = np.isfinite(blocks)
        values = blocks if there.all() else np.where(there, blocks, np.nan)
        count = there.sum(axis=1)
        mean = np.nansum(values, axis=1) / count
        squares = (values - mean[:, None]) ** 2
        return np.stack([mean, np.nansum(squares, axis=1) / count, np.nansum(squares**2, axis=1) / count], axis=1)


def _shifts(blocks: Floats, newest: int) -> tuple[Floats, Floats]:
    """Standardized change of the mean, and ratio of deviations, of the ``newest`` blocks against the others.

    ``blocks`` float64[20, 3, d].
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
