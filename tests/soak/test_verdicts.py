"""The verdicts of a soak on curves that are made up: what is quiet passes, and each fault is found by its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from soak.curves import Curves, Event, ProcessSample, Seen, as_line, curves_of, read_curves
from soak.made_curves import RATE, larger_every_life, quiet, stuck
from soak.verdicts import WATCHED, growth, judge_processes, judge_stream, recoveries, stretches


def missed(curves: Curves) -> list[str]:
    """The subjects of the sentences that are not true: what stands before the bounds."""
    return [
        one.text.partition(" (")[0] for one in [*judge_processes(curves), *judge_stream(curves, RATE)] if not one.met
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_quiet_run_passes_every_verdict(seed: int) -> None:
    assert missed(quiet(seed)) == []


@pytest.mark.parametrize("name", ["worker-1", "worker-2", "merger-1", "scorer-1", "load"])
@pytest.mark.parametrize("seed", range(3))
def test_a_leak_is_found_in_the_role_that_has_it(name: str, seed: int) -> None:
    role = name.partition("-")[0]
    leaking = quiet(seed, grows=name, megabytes_a_minute=1.5)
    assert missed(leaking) == [f"{role}: memory is flat"]


def test_a_leak_of_a_few_megabytes_an_hour_shows_in_the_life_that_is_long_enough() -> None:
    slow = quiet(0, grows="worker-2", megabytes_a_minute=0.35)
    assert missed(slow) == ["worker: memory is flat"]
    (verdict,) = [one for one in judge_processes(slow) if not one.met]
    assert "worker-2 life 1" in verdict.measured


@pytest.mark.parametrize("seed", range(3))
def test_growing_descriptors_are_found(seed: int) -> None:
    assert missed(quiet(seed, grows="merger-1", files_a_minute=0.5)) == ["merger: open files do not grow"]


@pytest.mark.parametrize("seed", range(3))
def test_growing_threads_are_found(seed: int) -> None:
    assert missed(quiet(seed, grows="scorer-1", threads_a_minute=0.3)) == ["scorer: threads do not grow"]


def test_lives_that_each_begin_larger_are_found_though_none_of_them_grows() -> None:
    curves = larger_every_life(quiet(1), "worker-1", 40.0)
    assert missed(curves) == ["worker"]
    (verdict,) = [one for one in judge_processes(curves) if not one.met]
    assert "later lives are no larger than earlier ones" in verdict.text


@pytest.mark.parametrize("seed", range(3))
def test_a_lag_that_never_goes_again_is_found_with_the_restart_that_it_came_from(seed: int) -> None:
    curves = stuck(quiet(seed), since=910.0)
    (verdict,) = [one for one in judge_stream(curves, RATE) if not one.met]
    assert verdict.text.startswith("lag: returns")
    assert "2 of 3 did not, first: merger-1 SIGKILL (elected merger) at 15.0 min" in verdict.measured


def test_a_recovery_is_timed_from_the_restart_to_the_last_look_with_a_lag() -> None:
    first = recoveries(quiet(0), RATE)[0]
    assert first.back_after_seconds == 15.0
    assert 15_000 <= first.peak_rows < 15_300


def test_a_run_without_restarts_or_of_one_minute_only_proves_nothing() -> None:
    whole = quiet(0)
    brief = Curves(tuple(one for one in whole.processes if one.seconds < 60.0), whole.stream, ())
    assert missed(brief)[:3] == [f"{role}: {WATCHED}" for role in ("worker", "merger", "scorer")]
    assert any(text.startswith("lag: returns") for text in missed(brief))


def test_a_disk_that_fills_up_is_found() -> None:
    whole = quiet(0)
    full = replace(whole, stream=(*whole.stream, replace(whole.stream[-1], disk_megabytes=6000.0)))
    assert missed(full) == ["disk: the broker's stays below 5,000 MB"]


def busy_for_a_while(at: float) -> ProcessSample:
    """One worker: another's partition is its own, too, from 600 to 1200 s, and some of what that took it keeps."""
    busy = 600.0 <= at < 1200.0
    megabytes = 100.0 if at < 600.0 else 150.0 if busy else 130.0
    return ProcessSample(at, "worker-2", 1, f"{1 + busy} partitions", megabytes, 40, 12)


def test_a_change_of_work_begins_a_stretch_and_its_warm_up_anew_and_so_does_the_first_restart_of_another() -> None:
    events = (Event(300.0, "scorer-1 SIGKILL"), Event(598.0, "worker-1 SIGKILL"), Event(1500.0, "worker-1 SIGTERM"))
    found = stretches(curves_of([*(busy_for_a_while(5.0 * number) for number in range(360)), *events]))
    assert [(str(one), one.megabytes, one.grown_megabytes, one.begin_seconds, one.end_seconds) for one in found] == [
        ("worker-2 life 1, 1 partitions", 100.0, 0.0, 75.0, 595.0),
        ("worker-2 life 1, 2 partitions, seasoned", 150.0, 0.0, 675.0, 1195.0),
        ("worker-2 life 1, 1 partitions, seasoned", 130.0, 0.0, 1275.0, 1795.0),
    ]


def test_growth_is_that_of_the_line_and_a_third_of_outliers_does_not_move_it() -> None:
    seconds = np.arange(0.0, 900.0, 5.0)
    values = 100.0 + 0.01 * seconds
    values[::3] += np.random.default_rng(3).uniform(-50.0, 50.0, len(values[::3]))
    assert growth(seconds.tolist(), values.tolist()) == pytest.approx(0.01 * 895.0, rel=0.25)


def test_what_was_seen_is_read_again_up_to_a_last_line_that_was_cut(tmp_path: Path) -> None:
    curves = quiet(2)
    every: list[Seen] = [*curves.processes, *curves.stream, *curves.events]
    file = tmp_path / "curves.jsonl"
    file.write_text("".join(as_line(one) + "\n" for one in every) + as_line(Event(1.0, "cut"))[:20], "utf-8")
    assert read_curves(file) == curves
