"""Being told to stop, by Ctrl-C or SIGTERM, without leaving anything half done.

Python raises an interrupt wherever the program happens to be: between a row's id and its sums, or in a client that has
taken a record from its queue and has not handed it over yet, which is then lost. So pieces of work that must be whole
are done with interrupts held.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["STOP_SIGNALS", "Interrupts"]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupts:
    """A context manager in which both signals raise :class:`KeyboardInterrupt` in the main thread.

    A signal that the process was started to ignore, as a shell starts what it puts in the background, stays ignored. In
    a thread other than the main one, which cannot hear signals, nothing is done.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def heard(self) -> bool:
        """Whether a signal has come since interrupts are held."""
        return self._heard

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Do a piece of work that must be whole: an interrupt is raised at its end, only a second one at once."""
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
