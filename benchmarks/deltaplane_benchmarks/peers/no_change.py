"""The learner that knows nothing but the last label: what any other has to beat where neighbours are alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from deltaplane.arrays import Flags
from deltaplane_benchmarks.peers.task import CHUNKS, ROWS, Learner, Ran, Run, Task

__all__ = ["NO_CHANGE", "NO_CHANGE_BY_ROW", "last_known"]


def last_known(flags: Flags, step: int, late: int = 0) -> Flags:
    """The last flag known when each row is predicted, bool[n], if labels come ``step`` rows at a time.

    ``late``: so many rows later than that. False for the first rows, before which nothing is known.
    """
    newest = np.arange(len(flags)) // step * step - 1 - late
    return (newest >= 0) & flags[newest]


@contextmanager
def _no_change(task: Task, *, by_row: bool) -> Iterator[Run]:
    def run() -> Ran:
        return Ran.of(task, last_known(task.flags, 1 if by_row else task.chunk, task.late))

    yield run


NO_CHANGE = Learner(
    "NoChange", CHUNKS, "the last label known, for every row of the next chunk", None, partial(_no_change, by_row=False)
)
NO_CHANGE_BY_ROW = Learner(
    "NoChange", ROWS, "the last label known, for the next row", None, partial(_no_change, by_row=True)
)
