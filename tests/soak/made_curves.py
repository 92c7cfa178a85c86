"""Curves that nobody measured: a quiet run of half an hour, and one thing in it made worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from soak.curves import Curves, Event, ProcessSample, StreamSample

RATE = 1000.0
LOOK_SECONDS = 5.0
MINUTES = 30

LIVES_SECONDS = {
    "worker-1": (0.0, 600.0, 1200.0),
    "worker-2": (0.0,),
    "merger-1": (0.0, 900.0),
    "scorer-1": (0.0,),
    "load": (0.0,),
}
"""When each life of a process begins."""

WORK = {"worker-1": "1 partitions", "worker-2": "1 partitions", "merger-1": "elected"}
EVENTS = (
    Event(600.0, "worker-1 SIGTERM"),
    Event(900.0, "merger-1 SIGKILL (elected merger)"),
    Event(1200.0, "worker-1 SIGKILL"),
)


def quiet(
    seed: int,
    *,
    grows: str = "",
    megabytes_a_minute: float = 0.0,
    files_a_minute: float = 0.0,
    threads_a_minute: float = 0.0,
) -> Curves:
    """Noise of a megabyte on levels that rise in the first minute of a life; process ``grows`` grows all its life."""
    noise = np.random.default_rng(seed)
    seconds = np.arange(0.0, 60.0 * MINUTES, LOOK_SECONDS)
    processes = []
    for name, begins in LIVES_SECONDS.items():
        for at in seconds.tolist():
            begin = max(one for one in begins if one <= at)
            minutes = (at - begin) / 60.0 if name == grows else 0.0
            resident = 100.0 + 20.0 * min(1.0, (at - begin) / 60.0) + noise.normal() + megabytes_a_minute * minutes
            files, threads = 40 + int(noise.integers(-1, 2)), 12 + int(noise.integers(0, 2))
            files, threads = files + int(files_a_minute * minutes), threads + int(threads_a_minute * minutes)
            life = begins.index(begin) + 1
            processes.append(ProcessSample(at, name, life, WORK.get(name, ""), resident, files, threads))
    stream = [
        StreamSample(at, int(at * RATE), _behind(at) + int(noise.integers(0, 300)), 3, 0.2, 60_000, 50.0)
        for at in seconds.tolist()
    ]
    return Curves(tuple(processes), tuple(stream), EVENTS)


def _behind(seconds: float) -> int:
    """Rows wait for twenty seconds after every event."""
    return max((int(RATE * (seconds - e.seconds)) for e in EVENTS if 0.0 <= seconds - e.seconds < 20.0), default=0)


def stuck(curves: Curves, since: float) -> Curves:
    """The same, but the lag never goes again after ``since``."""
    rows = int(20 * RATE)
    stream = [replace(one, rows_behind=one.rows_behind + rows) if one.seconds > since else one for one in curves.stream]
    return replace(curves, stream=tuple(stream))


def larger_every_life(curves: Curves, name: str, megabytes: float) -> Curves:
    """The same, but every life of a process begins larger than the one before."""
    larger = [
        replace(one, resident_megabytes=one.resident_megabytes + megabytes * (one.life - 1))
        if one.name == name
        else one
        for one in curves.processes
    ]
    return replace(curves, processes=tuple(larger))
