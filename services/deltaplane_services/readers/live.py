"""A pipe that is read as it is written: bytes are returned as soon as they come, and reading can be ended from outside.

A file object of Python waits until a whole block has come, which takes hours if somebody writes a line a minute; and
nothing can end a thread that waits in this way.
"""

from __future__ import annotations

import os
import select
import stat
from pathlib import Path
from typing import Self

from deltaplane_services.readers.row_blocks import ReaderError

__all__ = ["STANDARD_INPUT", "LivePipe", "is_live"]

STANDARD_INPUT = 0


class LivePipe:
    """Standard input (``-``), a named pipe or a device, as a source of bytes; a context manager.

    ``read`` returns as soon as there are any bytes. After ``stop``, which any thread may call, it raises
    :class:`ReaderError`, so that the beginning of a line is not taken for a whole one.
    """

    def __init__(self, source: str) -> None:
        self.name = "standard input" if source == "-" else source
        self._path = None if source == "-" else source
        self._descriptor = STANDARD_INPUT
        self._ears, self._mouth = os.pipe()
        self._opened = source == "-"

    def read(self, size: int = -1, /) -> bytes:
        """At most ``size`` of the bytes that have come, after waiting for the first; none at the end."""
        if not self._opened:
            assert self._path is not None, "standard input is open"
            # This waits until somebody opens the pipe to write.
            self._descriptor, self._opened = os.open(self._path, os.O_RDONLY), True
        while True:
            there, _, _ = select.select([self._descriptor, self._ears], [], [])
            if self._ears in there:
                raise ReaderError(f"{self.name} was not read to its end.")
            try:
                return os.read(self._descriptor, size if size > 0 else 2**20)
            except BlockingIOError:
                # Another process has read the bytes first, and the pipe is set not to wait.
                continue

    def seekable(self) -> bool:
        """False, since bytes that were read are gone."""
        return False

    def stop(self) -> None:
        """End a read that waits, and every later one."""
        os.write(self._mouth, b"\0")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ears)
        os.close(self._mouth)
        if self._path is not None and self._opened:
            os.close(self._descriptor)


def is_live(source: str) -> bool:
    """Whether a source is a pipe, a terminal or the like, which may keep its reader waiting, and no file."""
    try:
        mode = os.fstat(STANDARD_INPUT).st_mode if source == "-" else Path(source).stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)
