"""Processes on this machine that sum files side by side. One that is killed is replaced, and its job is done again.

That changes nothing: what a job gives depends on its file alone, and a result counts once, when it has come.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from deltaplane_services.lake.frames import Frame, read_frame, write_frame
from deltaplane_services.lake.tables import LakeError

__all__ = ["ATTEMPTS", "Job", "Processes"]

ATTEMPTS = 3
"""How often a job is begun before the command gives up: a process may be killed for want of memory, or by somebody."""

_HASH_SEED = "1"
"""All processes must give an id the same hash. Who knows it can make ids that collide, which costs time and no bit."""


@dataclass(frozen=True)
class Job:
    """``head`` says what is to be done with which file, ``parts`` go with it; ``key`` comes back with the result."""

    key: object
    head: Mapping[str, Any]
    parts: Sequence[bytes] = ()


class _Process:
    """One process, as long as it lives."""

    def __init__(self, table: str, tables: Mapping[str, Any]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the process.
        environment = {**os.environ, "PYTHONHASHSEED": _HASH_SEED, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "deltaplane_services.lake.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        self._first: Mapping[str, Any] | None = {"table": table, "tables": tables}

    @property
    def pid(self) -> int:
        return self._process.pid

    def do(self, job: Job) -> Frame | None:
        """The result of a job; None if the process has died over it."""
        assert self._process.stdin is not None, "it has a pipe"
        assert self._process.stdout is not None, "in both directions"
        try:
            if self._first is not None:
                write_frame(self._process.stdin, self._first)
                self._first = None
            write_frame(self._process.stdin, job.head, *job.parts)
            return read_frame(self._process.stdout)
        except (OSError, ValueError):
            return None

    def kill(self) -> None:
        """Kill it, so that whoever waits for its result waits no longer."""
        self._process.kill()

    def end(self) -> str:
        """End it; what it has said of itself last, and how it ended."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
                self._process.wait(1.0)
            except (OSError, subprocess.TimeoutExpired):
                self._process.kill()
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        self._errors.close()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}{f': {said[-1][:300]}' if said else ''}"


class Processes:
    """So many processes for the files of one table; a context manager, at whose end there are none.

    ``tables`` are those of the definition, with ``[input]``.
    """

    def __init__(self, table: str, tables: Mapping[str, Any], count: int) -> None:
        self._table, self._tables = table, tables
        self._count = count
        self._idle: SimpleQueue[_Process | None] = SimpleQueue()
        self._threads = ThreadPoolExecutor(count)
        for _ in range(count):
            self._idle.put(None)
        self._began: set[_Process] = set()
        self._over = False

    @property
    def pids(self) -> list[int]:
        """The processes that are there now."""
        return [process.pid for process in list(self._began)]

    def results(self, jobs: Iterable[Job]) -> Iterator[tuple[object, Frame]]:
        """(key of a job, its result) in the order in which they come; only as many jobs are drawn as are under way.

        Raises :class:`LakeError` with the reason of a job that is refused, or that processes have died over.
        """
        jobs = iter(jobs)
        under_way: dict[Future[Frame], object] = {}
        while True:
            for job in islice(jobs, max(0, 2 * self._count - len(under_way))):
                under_way[self._threads.submit(self._do, job)] = job.key
            if not under_way:
                return
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                key, frame = under_way.pop(future), future.result()
                if "refused" in frame.head:
                    raise LakeError(frame.head["refused"])
                yield key, frame

    def _do(self, job: Job) -> Frame:
        process = self._idle.get()
        deaths: list[str] = []
        try:
            while not self._over:
                if process is None:
                    process = _Process(self._table, self._tables)
                    self._began.add(process)
                frame = process.do(job)
                if frame is not None:
                    return frame
                self._began.discard(process)
                deaths.append(process.end())
                process = None
                if len(deaths) == ATTEMPTS:
                    break
        finally:
            self._idle.put(process)
        what = job.head.get("path", job.head["job"])
        raise LakeError(
            f"{what}: the process that reads it has died {len(deaths)} times ({'; '.join(deaths)}); is there memory"
            " enough? Use fewer processes (--processes)"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        if error is not None:
            for process in list(self._began):
                process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in list(self._began):
            process.end()
