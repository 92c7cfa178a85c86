"""Interrupts, by Ctrl-C or SIGTERM, that leave nothing half done.

Python raises an interrupt wherever the program happens to be: between a row's id and its sums, or in a client that has
taken a record from its queue but not delivered it yet, so that the record is lost. So work that must be whole is done
while interrupts are held.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

__all__ = ["STOP_SIGNALS", "Interrupts"]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupts:
    """A context manager in which both signals raise :class:`KeyboardInterrupt` in the main thread.

    A signal that the process ignored from its start, as one in a shell's background does, stays ignored. In a thread
    other than the main one, which gets no signals, nothing is done.
    """

    def __init__(self) -> None:
        self._held = False
        self._heard = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            heeded = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._hear) for number in heeded}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def heard(self) -> bool:
        """Whether a signal has come since interrupts have been held."""
        return self._heard

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold interrupts within the block: the first is raised at its end, and a second one at once."""
        self._held, self._heard = True, False
        try:
            yield
        finally:
            self._held = False
        if self._heard:
            raise KeyboardInterrupt

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._held and not self._heard:
            self._heard = True
            return
        raise KeyboardInterrupt
