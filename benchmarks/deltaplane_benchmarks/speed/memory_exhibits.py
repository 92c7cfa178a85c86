"""What ``bench memory`` found, as tables, curves, and sentences that were to come true."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import linregress, theilslopes

from deltaplane import limits
from deltaplane_benchmarks.exhibit import Cell, Chart, Column, Exhibit, Series, Target
from deltaplane_benchmarks.speed.memory import Look, Passed, median_microseconds, median_ratio

__all__ = [
    "BYTES_BEYOND_FEATURES",
    "COST_SHARE",
    "GROWTH_MEGABYTES",
    "GROWTH_SHARE",
    "by_rows",
    "by_window",
    "windows_of",
]

GROWTH_SHARE, GROWTH_MEGABYTES = 0.02, 4.0
COST_SHARE = 0.15
"""By so much the time a row may differ: a machine that others use, too, is not steadier."""

BYTES_BEYOND_FEATURES = 60
"""Of a live row, beside four for each feature: id, class, time, place."""


def by_rows(plain: Passed, retiring: Passed) -> Exhibit:
    """Memory and time a row by rows seen, without retirements and with."""
    rows: list[tuple[Cell, ...]] = []
    for at in _few(len(plain.looks)):
        left, right = plain.looks[at], retiring.looks[at]
        rows.append((left.rows, *(left.megabytes, left.microseconds, left.ratio), right.megabytes, right.microseconds))
    x = _millions(plain.looks)
    named = (("no retirements", plain), ("every eighth row retired", retiring))
    grown, level = _grown(plain.settled), _level(plain)
    quarter = max(1, len(plain.settled) // 4)
    early, late = (median_ratio(part) for part in (plain.settled[:quarter], plain.settled[-quarter:]))
    remembered, each = _remembered(retiring, plain)
    return Exhibit(
        0,
        "rows seen",
        f"{plain.course.rows:,} rows of {plain.course.features} features in a window of {plain.course.window:,}",
        (
            Column("rows", ","),
            Column("MB", ".1f"),
            Column("µs a row", ".2f"),
            Column("times plain work", ".2f"),
            Column("retiring: MB", ".1f"),
            Column("retiring: µs a row", ".2f"),
        ),
        tuple(rows),
        (
            Chart(
                "memory by rows seen",
                "million rows",
                "resident MB",
                tuple(Series(name, x, tuple(look.megabytes for look in one.looks)) for name, one in named),
                from_zero=True,
            ),
            Chart(
                "time a row by rows seen",
                "million rows",
                "times plain work on the same rows",
                tuple(Series(name, x, tuple(look.ratio for look in one.looks)) for name, one in named),
                from_zero=True,
            ),
        ),
        (
            Target(
                f"memory does not grow with the rows seen (by up to {GROWTH_SHARE:.0%} or {GROWTH_MEGABYTES:g} MB)",
                grown <= max(GROWTH_MEGABYTES, GROWTH_SHARE * level),
                f"{grown:+.2f} MB on {level:.0f} over {plain.settled[-1].rows - plain.settled[0].rows:,} rows",
            ),
            Target(
                f"time a row does not grow with the rows seen (by up to {COST_SHARE:.0%})",
                late <= (1.0 + COST_SHARE) * early,
                f"{early:.2f} times plain work, then {late:.2f}",
            ),
            _digests((plain, retiring)),
        ),
        notes=(
            f"before the first row {plain.megabytes_before:.0f} MB: imports, and the rows that are sent in turn",
            f"{remembered:,} retired ids are remembered (at most {2 * limits.RETIRED_IDS:,}), {each:.0f} bytes each",
        ),
    )


def by_window(every: Sequence[Passed], traced: Sequence[Passed]) -> Exhibit:
    """Memory and time a row by the length of the window; what a row holds from two courses that were ``traced``."""
    ends = [_level(one) for one in every]
    windows = [one.course.window for one in every]
    features = every[0].course.features
    resident = float(linregress(windows, np.array(ends) * 2**20).slope)
    short, long = traced
    held = (_least(long) - _least(short)) * 2**20 / (long.course.window - short.course.window)
    allowed = 4 * features + BYTES_BEYOND_FEATURES
    cost = [median_ratio(one.settled) for one in every]
    rows: list[tuple[Cell, ...]] = [
        (one.course.window, one.course.rows, end, median_microseconds(one.settled), ratio)
        for one, end, ratio in zip(every, ends, cost, strict=True)
    ]
    x = tuple(float(window) for window in windows)
    return Exhibit(
        0,
        "length of the window",
        f"rows of {features} features, by the length of the window",
        (
            Column("window", ","),
            Column("rows", ","),
            Column("MB", ".1f"),
            Column("µs a row", ".2f"),
            Column("times plain work", ".2f"),
        ),
        tuple(rows),
        (
            Chart("memory by window", "rows in the window", "resident MB", (Series("resident", x, tuple(ends)),)),
            Chart(
                "time a row by window",
                "rows in the window",
                "times plain work on the same rows",
                (Series("a row", x, tuple(cost)),),
                log_x=True,
                from_zero=True,
            ),
        ),
        (
            Target(
                f"a live row holds at most 4 · {features} + 60 = {allowed} bytes",
                held <= allowed,
                f"{held:.0f} bytes",
            ),
            Target(
                f"time a row does not grow with the window (by up to {COST_SHARE:.0%})",
                cost[-1] <= (1.0 + COST_SHARE) * cost[0],
                f"{cost[0]:.2f} times plain work at {windows[0]:,} rows, {cost[-1]:.2f} at {windows[-1]:,}",
            ),
            _digests(every),
        ),
        notes=(
            f"held: what Python and NumPy asked for, traced, in windows of {windows_of(short, long)} rows",
            f"resident memory grows by {resident:.0f} bytes a row of the window: allocators keep more than that",
        ),
    )


def windows_of(*every: Passed) -> str:
    """Their lengths in words."""
    return " and ".join(f"{one.course.window:,}" for one in every)


def _level(passed: Passed) -> float:
    """Megabytes, settled."""
    return float(np.median([look.megabytes for look in passed.settled]))


def _least(passed: Passed) -> float:
    """Megabytes, settled, just after a checkpoint: until the next one the log holds each delta, whatever the window."""
    return min(look.megabytes for look in passed.settled)


def _digests(every: Sequence[Passed]) -> Target:
    right = sum(one.same_digest for one in every)
    return Target("every digest is that of the batch", right == len(every), f"{right} of {len(every)}")


def _few(count: int) -> list[int]:
    """Ten places of so many, the last one included."""
    return sorted({round((tenth + 1) * count / 10) - 1 for tenth in range(10)} & set(range(count)))


def _millions(looks: Sequence[Look]) -> tuple[float, ...]:
    return tuple(look.rows / 1e6 for look in looks)


def _grown(looks: Sequence[Look]) -> float:
    """By how many megabytes, along the line of Theil and Sen."""
    rows = np.array([look.rows for look in looks], dtype=np.float64)
    return float(theilslopes([look.megabytes for look in looks], rows)[0] * (rows[-1] - rows[0]))


def _remembered(retiring: Passed, plain: Passed) -> tuple[int, float]:
    """How many retired ids are remembered in the end, and the bytes that each takes."""
    course = retiring.course
    asked = max(0, course.rows - course.window // 2) // course.retire_every
    # Whole spans are let go of, and the last one and that which is being filled are left.
    spans = max(0, -(-asked // limits.RETIRED_IDS) - 2)
    count = asked - spans * limits.RETIRED_IDS
    return count, (retiring.looks[-1].megabytes - plain.looks[-1].megabytes) * 2**20 / max(count, 1)
