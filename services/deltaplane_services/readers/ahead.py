"""Blocks of a file that are read a few blocks ahead, in a thread of their own.

Parsing text takes as long as all that a pipeline does with the rows, and it happens in code of Arrow and NumPy, which
lets other threads run. So one block is parsed while the one before it is learned. Blocks, their order and errors are
those of the reader itself: an error comes after the blocks before it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Self

from deltaplane_services.readers.row_blocks import RowBlock

__all__ = ["BLOCKS_AHEAD", "ReadAhead"]

BLOCKS_AHEAD = 2
"""The number of blocks that are read ahead; more would only take memory, since two keep both threads busy."""


class ReadAhead(Iterator[RowBlock]):
    """The blocks of an iterable, read while the caller works on earlier ones; a context manager, which ends the thread.

    Leaving waits for the block that is being read. That may take for ever if nobody opens the other end of a pipe; then
    ``leave_seconds`` says how long to wait, and the thread ends with the process.
    """

    def __init__(
        self, blocks: Iterable[RowBlock], most: int = BLOCKS_AHEAD, leave_seconds: float | None = None
    ) -> None:
        self._blocks = blocks
        self._most = most
        self._leave_seconds = leave_seconds
        self._changed = threading.Condition()
        self._ready: deque[RowBlock] = deque()
        self._fault: BaseException | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(self._leave_seconds)

    def wait(self, timeout_seconds: float) -> bool:
        """Whether the next block, the end or an error has come, or comes within ``timeout_seconds``."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._ready or self._ended, timeout_seconds))

    def __next__(self) -> RowBlock:
        """The next block. Raises what the reader raised, once all blocks before it have been taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended)
            if self._ready:
                self._changed.notify_all()
                return self._ready.popleft()
            fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        raise StopIteration

    def _read(self) -> None:
        try:
            for block in self._blocks:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._ready) < self._most or self._ended)
                    if self._ended:
                        return
                    self._ready.append(block)
                    self._changed.notify_all()
        except BaseException as fault:  # noqa: BLE001 - it is the caller's, and is raised there.
            self._fault = fault
        with self._changed:
            self._ended = True
            self._changed.notify_all()
