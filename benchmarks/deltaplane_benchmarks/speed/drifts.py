"""How soon drift is found without labels, and how often where there is none: rows that are made, and changed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.log.drift import BLOCK_ROWS, BLOCKS, DriftWatch
from deltaplane_benchmarks.speed.figures import Figures

__all__ = ["CHANGES", "FEATURES", "KINDS", "WINDOW_ROWS", "Found", "figures", "found"]

WINDOW_ROWS = BLOCK_ROWS * BLOCKS
FEATURES = 8
_CHANGE_AT = 20_000
_CHUNK = 1000

_Make = Callable[[np.random.Generator, int], Floats]


def _alike(random: np.random.Generator, rows: int) -> Floats:
    values = random.normal(size=(rows, FEATURES))
    for at in range(1, rows):
        values[at] += 0.8 * values[at - 1]
    return values


KINDS: Mapping[str, _Make] = {
    "normal": lambda random, rows: random.normal(size=(rows, FEATURES)),
    "neighbours alike (0.8)": _alike,
    "exponential": lambda random, rows: random.exponential(size=(rows, FEATURES)),
    "Student's t, 3": lambda random, rows: random.standard_t(3, size=(rows, FEATURES)),
    "lognormal, 2": lambda random, rows: np.exp(2.0 * random.normal(size=(rows, FEATURES))),
    "one in 2": lambda random, rows: (random.random((rows, FEATURES)) < 0.5).astype(float),
    "one in 100": lambda random, rows: (random.random((rows, FEATURES)) < 0.01).astype(float),
    "one in 10,000": lambda random, rows: (random.random((rows, FEATURES)) < 1e-4).astype(float),
}
"""Rows of eight features that do not change."""


def _shifted(by: float) -> Callable[[Floats, Floats], Floats]:
    return lambda rows, deviation: rows + by * deviation


CHANGES: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "half a deviation": _shifted(0.5),
    "a deviation": _shifted(1.0),
    "twice the spread": lambda rows, _: 2.0 * rows,
}
"""What becomes of one feature at a known row."""


@dataclass(frozen=True)
class Found:
    """``false_alarms`` in ``rows`` that do not change; by change the rows until it was found, NaN for never."""

    kind: str
    rows: int
    false_alarms: int
    delays: Mapping[str, float]

    @property
    def per_100_000_rows(self) -> float:
        """False alarms in 100,000 rows."""
        return 100_000.0 * self.false_alarms / self.rows


def found(rows: int, seed: int) -> Iterator[Found]:
    """What is found of each kind of rows."""
    for at, (kind, make) in enumerate(KINDS.items()):
        still = make(np.random.default_rng([seed, at]), rows)
        base = make(np.random.default_rng([seed, at, 1]), 2 * _CHANGE_AT)
        delays = {}
        for name, change in CHANGES.items():
            changed = base.copy()
            changed[_CHANGE_AT:, 0] = change(base[_CHANGE_AT:, 0], base[:, 0].std())
            later = [row - _CHANGE_AT for row in _rows_of_drifts(changed) if row > _CHANGE_AT]
            delays[name] = float(later[0]) if later else float("nan")
        yield Found(kind, rows, len(_rows_of_drifts(still)), delays)


def _rows_of_drifts(rows: Floats) -> list[int]:
    watch = DriftWatch(rows.shape[1])
    return [drift.row for at in range(0, len(rows), _CHUNK) for drift in watch.add(rows[at : at + _CHUNK])]


def figures(rows: int, seed: int) -> Figures:
    """The same as a table."""
    table = Figures(
        f"drift: without labels, {FEATURES} features; false alarms, and after how many rows a change is found",
        {
            "rows": "",
            "false alarms": ",",
            "false alarms / 100,000 rows": ".2f",
            **dict.fromkeys(CHANGES, ",.0f"),
        },
    )
    for one in found(rows, seed):
        table.add(one.kind, one.false_alarms, one.per_100_000_rows, *one.delays.values())
    table.notes.append(
        f"{rows:,} rows of each kind that do not change; one feature of others changes at row {_CHANGE_AT:,}"
    )
    table.notes.append(f"a window is {WINDOW_ROWS:,} rows; a change that is not found in 20,000 has no number")
    return table
