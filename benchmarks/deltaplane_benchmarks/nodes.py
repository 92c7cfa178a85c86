"""Worker processes that each hold a part of the rows and, told to, form its statistics: paper 1's nodes.

A node gets its rows before the clock starts, as a data source has its own. What is timed is from the word to the plane:
placing on the grid, Gram matrices, sending them as bytes, adding, solving.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

from deltaplane.arrays import Floats, Int32s, Texts
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.solve.solver_options import SolverOptions
from deltaplane_benchmarks import linear

__all__ = ["Nodes", "Part", "Processes", "Trained", "dealt", "serve"]

Part = tuple[int, int]
"""Rows [from, to) of those that a node holds."""


def serve(pipe: Connection, rows: Floats, codes: Int32s, names: list[str], grid: tuple[Floats, Floats, int]) -> None:
    """A node's life: for each part asked for, its statistics as bytes by class; None ends it."""
    from threadpoolctl import threadpool_limits

    placed_on = Grid(*grid)
    with threadpool_limits(1):
        pipe.send(b"ready")
        while (part := pipe.recv()) is not None:
            here = slice(*part)
            learned = linear.statistics_of_codes(rows[here], codes[here], names, placed_on)
            pipe.send({label: moments.to_bytes() for label, moments in learned.grams().items()})


@dataclass(frozen=True)
class Trained:
    """The statistics of all parts, and the seconds from the word to the plane."""

    statistics: Statistics
    seconds: float


class Processes:
    """Processes that are told what to do over a pipe each, and end at None; a context manager that ends them.

    ``serve`` is the life of each: it gets its pipe and one of ``arguments``, and says over the pipe when it is ready.
    """

    def __init__(self, serve: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        for given in arguments:
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, *given), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join()


def dealt(rows: int, count: int) -> list[slice]:
    """So many rows in ``count`` equal runs, to within a row."""
    return [slice(rows * at // count, rows * (at + 1) // count) for at in range(count)]


class Nodes(Processes):
    """``count`` processes, the rows dealt to them in equal runs."""

    def __init__(self, rows: Floats, labels: Texts, grid: Grid, count: int) -> None:
        self._grid = grid
        codes, names = linear.coded(labels)
        runs = dealt(len(rows), count)
        self.held = [run.stop - run.start for run in runs]
        super().__init__(
            serve, ((rows[run], codes[run], names, (grid.steps, grid.offsets, grid.range_bits)) for run in runs)
        )

    def train(
        self, parts: Sequence[Part], options: SolverOptions, positive: str, known: Statistics | None = None
    ) -> Trained:
        """Learn each node's part, beside ``known`` statistics, and solve."""
        total = known if known is not None else Statistics(self._grid.features + 1)
        begin = time.perf_counter()
        for pipe, part in zip(self._pipes, parts, strict=True):
            pipe.send(part)
        for pipe in self._pipes:
            sent = pipe.recv()
            moments = {(0, label): Moments.from_bytes(total.dimension, data) for label, data in sent.items()}
            total += Statistics(total.dimension, moments)
        linear.plane_of(total, self._grid, options, positive)
        return Trained(total, time.perf_counter() - begin)
