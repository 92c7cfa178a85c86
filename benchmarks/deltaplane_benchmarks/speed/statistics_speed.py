"""``bench statistics``: exact Gram matrices against the plain float64 product of the same rows.

Each row enters once and leaves once, class by class, as in a sliding window: rounding to the grid and the split into
classes are part of it. The plain product does the same with floats, in blocks of the same length. All ways are timed
in turn in many short rounds, on one thread; besides, the exact one on two threads and in two processes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from deltaplane import limits
from deltaplane.arrays import Floats, Int32s
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics, moments_by_class
from deltaplane_benchmarks.speed.exact_pass import CHUNK_ROWS, exact
from deltaplane_benchmarks.speed.halves import two_processes
from deltaplane_benchmarks.speed.made_rows import LABELS, Rows, make_rows
from deltaplane_benchmarks.speed.pairs import Ratio, in_rounds

__all__ = ["PEAK_SIZE", "Compared", "compare", "plain"]

PEAK_SIZE = 1024


@dataclass(frozen=True)
class Compared:
    """Rows a second, each entering and leaving, the best of all rounds; ratios are those within rounds.

    ``plain_share``, ``exact_share``: of the machine's dgemm in floating-point operations a second, on one thread.
    """

    features: int
    rows: int
    plain: float
    exact: float
    exact_to_plain: Ratio
    two_threads: Ratio
    two_processes: Ratio
    plain_share: float
    exact_share: float
    digest: str
    same_digest: bool


def compare(features: int, rows: int, rounds: int, seed: int) -> Compared:
    """Time all ways in turn. The digest is that of the rows that stay, and must not depend on how they were cut."""
    table = make_rows(rows, features, seed)
    grid = fit_grid(table.features[:10_000])
    half = len(table) // 2
    parts = [Rows(table.features[at], table.codes[at]) for at in (slice(0, half), slice(half, None))]
    one, other = np.random.default_rng(0).standard_normal((2, PEAK_SIZE, PEAK_SIZE))
    with threadpool_limits(1), ThreadPoolExecutor(2) as threads:
        timed = in_rounds(
            {
                "plain": lambda: plain(table),
                "exact": lambda: exact(table, grid),
                "threads": lambda: list(threads.map(lambda part: exact(part, grid), parts)),
                "peak": lambda: one @ other,
            },
            rounds,
        )
    width = features + 1
    rate, exact_rate = rows / timed.best("plain"), rows / timed.best("exact")
    # A Gram matrix is symmetric: each row takes D (D + 1) operations as it enters, and as many as it leaves.
    share = 2 * width * (width + 1) * timed.best("peak") / (2 * PEAK_SIZE**3)
    at_once = Statistics(
        width, {(0, label): part for label, part in _moments(table.features, table.codes, grid).items()}
    )
    digest = at_once.digest(b"")
    in_parts = Statistics(width)
    for part in parts:
        learned = _moments(part.features, part.codes, grid)
        in_parts += Statistics(width, {(0, label): moments for label, moments in learned.items()})
    return Compared(
        features,
        rows,
        rate,
        exact_rate,
        timed.ratio_of_work("plain", "exact"),
        timed.ratio("exact", "threads"),
        two_processes(features, rows, rounds, seed),
        rate * share,
        exact_rate * share,
        digest,
        in_parts.digest(b"") == digest,
    )


def _moments(features: Floats, codes: Int32s, grid: Grid) -> dict[str, Moments]:
    return moments_by_class(grid.quantize(features)[0], codes, list(LABELS))


def plain(rows: Rows) -> Floats:
    """The same with float64 sums: what is left of them is not zero, but noise."""
    width = rows.features.shape[1] + 1
    total = np.zeros((len(LABELS), width, width))
    for sign in (1.0, -1.0):
        for start in range(0, len(rows), CHUNK_ROWS):
            features, codes = rows.features[start : start + CHUNK_ROWS], rows.codes[start : start + CHUNK_ROWS]
            for code in range(len(LABELS)):
                mine = features[codes == code]
                for at in range(0, len(mine), limits.BLOCK_ROWS):
                    block = mine[at : at + limits.BLOCK_ROWS]
                    extended = np.empty((len(block), width))
                    extended[:, :-1] = block
                    extended[:, -1] = -1.0
                    total[code] += sign * (extended.T @ extended)
    return total
