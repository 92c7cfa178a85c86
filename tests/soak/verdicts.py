"""Judging the curves of a soak: pure functions, each of which gives sentences that are true or not.

What is judged of a process is a *stretch of work*: one life, and in it one kind of work, before the first restart that
its role saw or after it. A worker with two partitions has a right to more memory than with one, and what it took while
another was away its allocator may keep. The first minute and a quarter of every stretch is warm-up: windows fill, and
buffers find their size. Growth is the slope by Theil and Sen (the median of the slopes through all pairs of points,
which a third of outliers does not move) times the time looked at.

    H. Theil, A rank-invariant method of linear and polynomial regression analysis, 1950.
    P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63, 1968.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.stats import theilslopes

from deltaplane_benchmarks.exhibit import Target
from soak.curves import Curves, ProcessSample

JUDGED = ("worker", "merger", "scorer", "load")
"""Roles whose memory, files and threads are judged. A broker's are shown: Java takes what it is allowed to."""

MUST_BE_JUDGED = ("worker", "merger", "scorer")
WATCHED = "is watched long enough"

WARM_UP_SECONDS = 75.0
LEAST_SECONDS = 60.0
"""A stretch that is shorter, warm-up aside, says nothing about growth."""

MOST_POINTS = 600
"""Points of a stretch that its slope is taken from, evenly chosen: the pairs of all are too many."""

GROWTH_SHARE, GROWTH_MEGABYTES = 0.05, 6.0
"""Of its level, or so much, a process may grow in a stretch: allocators keep what they had to take once."""

LEVEL_SHARE = 0.15
"""By so much the level of later lives may be above that of earlier ones of the same work."""

GROWTH_COUNT = 3.0
"""Files or threads that a stretch may come to have more: connections are opened anew after a broker was away."""

RECOVERY_SECONDS = 120.0
BEHIND_SECONDS = 2.0
"""The lag counts as gone when the newest model lacks no more than the rows of so many seconds."""

DISK_MEGABYTES = 5000.0


@dataclass(frozen=True)
class Stretch:
    """What a process did of one work in one life, warm-ups aside: its level, and by how much it grew.

    ``seasoned``: another of its role, or the broker, has been restarted in its life.
    """

    name: str
    life: int
    work: str
    seasoned: bool
    begin_seconds: float
    end_seconds: float
    megabytes: float
    grown_megabytes: float
    files: float
    grown_files: float
    threads: float
    grown_threads: float

    @property
    def role(self) -> str:
        """worker, merger, scorer, broker or load."""
        return self.name.partition("-")[0]

    @property
    def span_seconds(self) -> float:
        """From its first sample to its last."""
        return self.end_seconds - self.begin_seconds

    def __str__(self) -> str:
        return f"{self.name} life {self.life}{f', {self.doing}' if self.doing else ''}"

    @property
    def doing(self) -> str:
        """Its work in words."""
        return ", ".join(filter(None, (self.work, "seasoned" if self.seasoned else "")))


Doing = tuple[int, str, bool]
"""A life, its work, and whether it is seasoned."""


def stretches(curves: Curves) -> list[Stretch]:
    """Every stretch that is long enough to be judged, in order of its beginning."""
    found: list[Stretch] = []
    for name in curves.names:
        restarts = [event.seconds for event in curves.events if event.role in (name.partition("-")[0], "broker")]
        warm: defaultdict[Doing, list[ProcessSample]] = defaultdict(list)
        born = began = 0.0
        doing: Doing | None = None
        for sample in curves.of(name):
            if doing is None or sample.life != doing[0]:
                born = sample.seconds
            now = (sample.life, sample.work, any(born < at <= sample.seconds for at in restarts))
            if now != doing:
                began, doing = sample.seconds, now
            if sample.seconds >= began + WARM_UP_SECONDS:
                warm[now].append(sample)
        for (_, _, seasoned), samples in warm.items():
            if samples[-1].seconds - samples[0].seconds >= LEAST_SECONDS:
                found.append(_stretch(samples, seasoned=seasoned))
    return sorted(found, key=lambda one: one.begin_seconds)


def _stretch(samples: Sequence[ProcessSample], *, seasoned: bool) -> Stretch:
    seconds = [sample.seconds for sample in samples]
    first, last = samples[0], samples[-1]
    memory = [sample.resident_megabytes for sample in samples]
    files, threads = [float(sample.files) for sample in samples], [float(sample.threads) for sample in samples]
    return Stretch(
        first.name,
        first.life,
        first.work,
        seasoned,
        first.seconds,
        last.seconds,
        median(memory),
        growth(seconds, memory),
        median(files),
        growth(seconds, files),
        median(threads),
        growth(seconds, threads),
    )


def growth(seconds: Sequence[float], values: Sequence[float]) -> float:
    """By how much values grew from the first to the last, along the line of Theil and Sen."""
    chosen = np.unique(np.linspace(0, len(seconds) - 1, min(len(seconds), MOST_POINTS)).astype(int))
    slope = theilslopes(np.array(values)[chosen], np.array(seconds)[chosen])[0]
    return float(slope) * (seconds[-1] - seconds[0])


# Processes -----------------------------------------------------------------------------------------------------------


def judge_processes(curves: Curves) -> list[Target]:
    """Memory, files and threads of every role."""
    every = stretches(curves)
    targets = []
    for role in JUDGED:
        judged = [one for one in every if one.role == role]
        if not judged and role in MUST_BE_JUDGED:
            long_enough = WARM_UP_SECONDS + LEAST_SECONDS
            targets.append(Target(f"{role}: {WATCHED}", met=False, measured=f"no stretch of {long_enough:g} s; run on"))
        if judged:
            targets += [
                memory_is_flat(role, judged),
                files_do_not_grow(role, judged),
                threads_do_not_grow(role, judged),
            ]
            targets += levels_stay(role, judged)
    return targets


def memory_is_flat(role: str, judged: Sequence[Stretch]) -> Target:
    """No stretch grows by more than its share."""

    def allowed(one: Stretch) -> float:
        return max(GROWTH_MEGABYTES, GROWTH_SHARE * one.megabytes)

    worst = max(judged, key=lambda one: one.grown_megabytes / allowed(one))
    text = f"{role}: memory is flat (growth of a stretch up to {GROWTH_SHARE:.0%} or {GROWTH_MEGABYTES:g} MB)"
    measured = (
        f"{worst.grown_megabytes:+.1f} MB on {worst.megabytes:.0f} in {worst.span_seconds / 60:.0f} min ({worst})"
    )
    return Target(text, worst.grown_megabytes <= allowed(worst), measured)


def files_do_not_grow(role: str, judged: Sequence[Stretch]) -> Target:
    """No stretch comes to have more open files."""
    return _counts(role, judged, "open files", lambda one: (one.files, one.grown_files))


def threads_do_not_grow(role: str, judged: Sequence[Stretch]) -> Target:
    """No stretch comes to have more threads."""
    return _counts(role, judged, "threads", lambda one: (one.threads, one.grown_threads))


def _counts(role: str, judged: Sequence[Stretch], what: str, read: Callable[[Stretch], tuple[float, float]]) -> Target:
    worst = max(judged, key=lambda one: read(one)[1])
    level, grown = read(worst)
    text = f"{role}: {what} do not grow (by up to {GROWTH_COUNT:g} in a stretch)"
    return Target(text, grown <= GROWTH_COUNT, f"{grown:+.1f} on {level:.0f} ({worst})")


def levels_stay(role: str, judged: Sequence[Stretch]) -> list[Target]:
    """Later lives are no larger than earlier ones of the same work; nothing where there are fewer than three lives."""
    by_work: defaultdict[str, list[Stretch]] = defaultdict(list)
    for one in judged:
        by_work[one.doing].append(one)
    targets = []
    for work, ones in by_work.items():
        third = len(ones) // 3
        if third:
            early = median(one.megabytes for one in ones[:third])
            late = median(one.megabytes for one in ones[-third:])
            of = f"{role} ({work})" if work else role
            text = f"{of}: later lives are no larger than earlier ones (up to {LEVEL_SHARE:.0%})"
            measured = f"{late:.0f} MB after {early:.0f} ({len(ones)} lives)"
            targets.append(Target(text, late <= (1.0 + LEVEL_SHARE) * early, measured))
    return targets


# The stream ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recovery:
    """What became of the lag after an event: its peak, and how long it took to go; None where it stayed."""

    seconds: float
    what: str
    peak_rows: int
    back_after_seconds: float | None


def recoveries(curves: Curves, rows_per_second: float) -> list[Recovery]:
    """The lag after each event, until the next one or for two minutes."""
    few = BEHIND_SECONDS * rows_per_second
    found = []
    ends = [event.seconds for event in curves.events[1:]] + [float("inf")]
    for event, end in zip(curves.events, ends, strict=False):
        until = min(end, event.seconds + RECOVERY_SECONDS)
        after = [sample for sample in curves.stream if event.seconds < sample.seconds <= until]
        if not after:
            continue
        high = [sample.seconds for sample in after if sample.rows_behind > few]
        still = median(sample.rows_behind for sample in after[-3:]) > few
        back = None if still else (high[-1] - event.seconds if high else 0.0)
        found.append(Recovery(event.seconds, event.what, max(sample.rows_behind for sample in after), back))
    return found


def judge_stream(curves: Curves, rows_per_second: float) -> list[Target]:
    """The lag goes after every restart, and the disk does not fill up."""
    return [lag_returns(curves, rows_per_second), disk_stays_small(curves)]


def lag_returns(curves: Curves, rows_per_second: float) -> Target:
    """After every event the lag is gone before the next one."""
    every = recoveries(curves, rows_per_second)
    text = f"lag: returns below the rows of {BEHIND_SECONDS:g} s within {RECOVERY_SECONDS:g} s of every restart"
    stuck = [one for one in every if one.back_after_seconds is None]
    if stuck:
        first = stuck[0]
        measured = f"{len(stuck)} of {len(every)} did not, first: {first.what} at {first.seconds / 60:.1f} min"
        return Target(text, met=False, measured=f"{measured}, {first.peak_rows:,} rows")
    if not every:
        return Target(text, met=False, measured="nothing was restarted; run on")
    worst = max(every, key=lambda one: one.back_after_seconds or 0.0)
    return Target(text, met=True, measured=f"after {worst.back_after_seconds:.0f} s at worst ({worst.what})")


def disk_stays_small(curves: Curves) -> Target:
    """What the broker keeps on disk stays below a bound."""
    most = max((sample.disk_megabytes for sample in curves.stream), default=0.0)
    return Target(f"disk: the broker's stays below {DISK_MEGABYTES:,.0f} MB", most < DISK_MEGABYTES, f"{most:,.0f} MB")
