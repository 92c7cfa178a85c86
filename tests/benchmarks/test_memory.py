"""``bench memory``: right answers beside the figures, and curves that are judged for what they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltaplane_benchmarks.exhibit import Exhibit
from deltaplane_benchmarks.speed.memory import Course, Look, Passed, run_course, run_here
from deltaplane_benchmarks.speed.memory_exhibits import by_rows, by_window


@pytest.mark.parametrize("retire_every", [0, 8])
@pytest.mark.parametrize("rows", [3_000, 2_950])
def test_a_course_ends_with_the_digest_of_the_batch_of_its_live_rows(rows: int, retire_every: int) -> None:
    passed = run_here(Course(rows, 3, 600, 100, 5, 10, retire_every), lambda: 50.0)
    assert passed.same_digest
    assert passed.live_rows == (
        600 if not retire_every else 600 - len([n for n in range(rows - 600, rows - 300) if n % 8 == 0])
    )
    assert [look.megabytes for look in passed.looks] == [50.0] * len(passed.looks)
    assert [look.rows for look in passed.looks][:3] == [300, 600, 900] if rows == 3_000 else passed.looks


def test_a_traced_course_counts_what_is_held() -> None:
    short, long = (run_course(Course(6 * rows, 3, rows, 500, 5, 10, traced=True)) for rows in (1_000, 4_000))
    assert short.same_digest
    assert long.same_digest
    assert 0.0 < short.looks[-1].megabytes < long.looks[-1].megabytes


def made(window: int = 20_000, retire_every: int = 0, *, megabytes: float = 150.0, a_million: float = 0.0) -> Passed:
    """A course of ten million rows that nobody ran."""
    looks = tuple(Look(at * 100_000, megabytes + a_million * at / 10, 4.0, 3.0) for at in range(1, 101))
    return Passed(
        Course(10_000_000, 54, window, 1_000, 0, 100, retire_every),
        100.0,
        looks,
        "d",
        same_digest=True,
        live_rows=window,
    )


def missed(exhibit: Exhibit) -> list[str]:
    return [target.text.partition(" (")[0] for target in exhibit.targets if not target.met]


def held(bytes_a_row: float) -> list[Passed]:
    """Two courses that were traced."""
    return [made(window, megabytes=50.0 + window * bytes_a_row / 2**20) for window in (50_000, 250_000)]


def test_flat_curves_meet_every_target() -> None:
    assert missed(by_rows(made(), made(retire_every=8, a_million=15.0))) == []
    assert missed(by_window([made(10_000), made(100_000, megabytes=180.0)], held(270))) == []


def test_memory_that_grows_with_the_rows_seen_is_named() -> None:
    assert missed(by_rows(made(a_million=1.0), made(retire_every=8))) == ["memory does not grow with the rows seen"]


def test_time_that_grows_with_the_rows_seen_or_with_the_window_is_named() -> None:
    plain = made()
    slower = replace(plain, looks=tuple(replace(one, ratio=3.0 + one.rows / 1e7) for one in plain.looks))
    assert missed(by_rows(slower, made(retire_every=8))) == ["time a row does not grow with the rows seen"]
    long = made(100_000, megabytes=170.0)
    slow = replace(long, looks=tuple(replace(one, ratio=4.0) for one in long.looks))
    assert missed(by_window([plain, slow], held(270))) == ["time a row does not grow with the window"]


def test_rows_that_hold_too_many_bytes_and_a_digest_that_is_wrong_are_named() -> None:
    every = [made(10_000), made(100_000)]
    assert missed(by_window(every, held(280))) == ["a live row holds at most 4 · 54 + 60 = 276 bytes"]
    wrong = replace(made(), same_digest=False)
    assert missed(by_rows(wrong, made(retire_every=8))) == ["every digest is that of the batch"]
