"""A task of Spark that kills a process once: itself, or the executor that it works for."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


def killing_once(task: Callable[..., Any], mark: Path, *, executor: bool) -> Callable[..., Killing]:
    """Makes such a task of another; ``mark`` is there once it has killed."""
    pyspark = pytest.importorskip("pyspark")
    # Executors cannot import the modules of tests.
    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return lambda *given: Killing(task(*given), mark, executor=executor)


class Killing:
    """Does what the inner task does, and kills once all of its rows went out."""

    def __init__(self, inner: Any, mark: Path, *, executor: bool) -> None:
        self.inner, self.mark, self.executor = inner, str(mark), executor

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield from self.inner(batches)
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(executor_of(os.getpid()) if self.executor else os.getpid(), signal.SIGKILL)


def executor_of(pid: int) -> int:
    """The Java process that a Python worker of Spark works for: its parent, or that of the daemon between them."""
    while True:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            return pid
