"""Two processes, each holding rows of its own: how much more of them two learn at once than one alone.

Both wait at a barrier, so that neither has a start; a round is over when the slower one is. Before and after it, in
the same round, the first works alone.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from deltaplane.exact.grid import fit_grid
from deltaplane_benchmarks.speed.made_rows import make_rows
from deltaplane_benchmarks.speed.pairs import Ratio

__all__ = ["PROCESSES", "two_processes"]

PROCESSES = 2


def two_processes(features: int, rows: int, rounds: int, seed: int) -> Ratio:
    """Rows a second of two processes at once, over those of one alone."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES)
    pipes, processes = [], []
    for at in range(PROCESSES):
        ours, theirs = context.Pipe()
        process = context.Process(target=_half, args=(theirs, barrier, features, rows, seed + at), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    for pipe in pipes:
        pipe.recv()
    ratios = []
    for _ in range(rounds):
        alone = _seconds(pipes[:1])
        together = _seconds(pipes)
        ratios.append(PROCESSES * (alone + _seconds(pipes[:1])) / 2 / together)
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(0)
        process.join()
        pipe.close()
    return Ratio.of(ratios)


def _seconds(pipes: list[Connection]) -> float:
    """From the first start to the last end; the clock is one for all processes of a machine."""
    for pipe in pipes:
        pipe.send(len(pipes))
    times = [pipe.recv() for pipe in pipes]
    return float(max(end for _, end in times) - min(begin for begin, _ in times))


def _half(pipe: Connection, barrier: Barrier, features: int, rows: int, seed: int) -> None:
    """A process's life: told how many work at once, it does, and says from when to when; 0 ends it."""
    from threadpoolctl import threadpool_limits

    from deltaplane_benchmarks.speed.exact_pass import exact

    table = make_rows(rows, features, seed)
    grid = fit_grid(table.features[:10_000])
    with threadpool_limits(1):
        exact(table, grid)
        pipe.send("ready")
        while (at_once := pipe.recv()) > 0:
            if at_once == PROCESSES:
                barrier.wait()
            began = time.perf_counter()
            exact(table, grid)
            pipe.send((began, time.perf_counter()))
