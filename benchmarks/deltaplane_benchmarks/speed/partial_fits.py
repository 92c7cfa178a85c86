"""``bench statistics``, its table of estimators: ``ProximalSVM.partial_fit`` against plain float64 products.

Both get the same calls of rows and labels. scikit-learn's checks of rows and labels, rounding to a given grid, and the
folds by which C is chosen are part of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from deltaplane.arrays import Floats
from deltaplane.estimators.proximal import ProximalSVM
from deltaplane_benchmarks.speed.figures import Figures
from deltaplane_benchmarks.speed.made_rows import Rows, make_rows
from deltaplane_benchmarks.speed.pairs import in_rounds

__all__ = ["ROWS_AT_LEAST", "ROWS_OF_A_CALL", "figures"]

ROWS_OF_A_CALL = (1_000, 10_000)
_CALLS = 5
ROWS_AT_LEAST = 20_000


def figures(widths: tuple[int, ...], rounds: int, seed: int) -> Figures:
    """Rows a second of both, for rows of so many features, and whether the estimator's sums are exact."""
    table = Figures(
        "partial_fit: rows a second into an estimator, on one thread",
        {
            "features": ",",
            "rows of a call": ",",
            "plain float64 rows/s": ",.0f",
            "C given rows/s": ",.0f",
            "C chosen rows/s": ",.0f",
            "C given / plain": ".2f",
            "C chosen / plain": ".2f",
            "sums": "",
        },
    )
    for features in widths:
        for rows_of_a_call in ROWS_OF_A_CALL:
            table.add(features, rows_of_a_call, *_compared(features, rows_of_a_call, rounds, seed))
    table.notes.append("ratios are of processor time, medians of the rounds' own; plain sorts rows by label, too")
    table.notes.append("sums: whether both estimators have the digest of all rows in one call")
    return table


def _compared(features: int, rows_of_a_call: int, rounds: int, seed: int) -> tuple[float | str, ...]:
    rows = max(_CALLS * rows_of_a_call, ROWS_AT_LEAST)
    table = make_rows(rows, features, seed)
    whole = ProximalSVM(C=1.0).fit(table.features, table.codes)
    grid = whole.grid_

    def learned(C: float | Literal["auto"]) -> ProximalSVM:
        estimator = ProximalSVM(C=C, grid=grid)
        for call in _calls(table, rows_of_a_call):
            estimator.partial_fit(call.features, call.codes)
        return estimator

    with threadpool_limits(1):
        timed = in_rounds(
            {
                "plain": lambda: [_plain(call) for call in _calls(table, rows_of_a_call)],
                "given": lambda: learned(1.0),
                "chosen": lambda: learned("auto"),
            },
            rounds,
        )
    same = learned(1.0).digest() == learned("auto").digest() == whole.digest()
    return (
        rows / timed.best("plain"),
        rows / timed.best("given"),
        rows / timed.best("chosen"),
        timed.ratio_of_work("plain", "given").median,
        timed.ratio_of_work("plain", "chosen").median,
        "same digest" if same else "OTHER DIGEST",
    )


def _calls(table: Rows, rows_of_a_call: int) -> Iterator[Rows]:
    for start in range(0, len(table), rows_of_a_call):
        at = slice(start, start + rows_of_a_call)
        yield Rows(table.features[at], table.codes[at])


def _plain(call: Rows) -> list[Floats]:
    """The Gram matrix of each class in float64, with a column of -1."""
    order = np.argsort(call.codes, kind="stable")
    sums, start = [], 0
    for stop in np.bincount(call.codes).cumsum().tolist():
        extended = np.full((stop - start, call.features.shape[1] + 1), -1.0)
        extended[:, :-1] = call.features[order[start:stop]]
        sums.append(extended.T @ extended)
        start = stop
    return sums
