"""The life of a service process: it runs until it is told to stop, finishes, and never hangs on the way out.

A thread of its own waits for the signal. The main thread may be in a call of the client that returns only when a broker
answers, and Python runs no signal handler before that.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol

from deltaplane.errors import DeltaplaneError
from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.system.interrupts import STOP_SIGNALS

__all__ = ["EXIT_BY_FORCE", "Service", "run"]

logger = logging.getLogger(__name__)

EXIT_BY_FORCE = 3
"""The exit code of a service that could not end in time."""


class Service(Protocol):
    """A service that can be run: turns of a loop, and an end."""

    def step(self, most: int, timeout_seconds: float) -> None:
        """Do one turn of the loop, with at most ``most`` records."""

    def close(self) -> None:
        """Finish the work, and close all clients."""


def run(service: Service, knobs: Knobs, each_turn: Callable[[], None] = lambda: None) -> None:
    """Run a service until SIGTERM or SIGINT, then close it; ``each_turn`` is called after every step.

    If ``step`` raises, the service is closed, and the error is raised. After the signal or the error the process has
    ``shutdown_timeout_seconds`` to end; then it exits with code 3. Work that was not sent by then is done again from
    the log.
    """
    with _Ending(knobs.shutdown_timeout_seconds).when_told() as ending:
        try:
            while not ending.begun:
                service.step(knobs.poll_records, knobs.poll_timeout_seconds)
                each_turn()
        except BaseException:
            ending.begin()
            try:
                service.close()
            except DeltaplaneError as fault:
                logger.warning("not closed in an orderly way, after what is said next: %s", fault)
            except Exception:
                logger.exception("not closed in an orderly way, after what is raised next")
            raise
        ending.begin()
        service.close()


class _Ending:
    """The end of a service: whether it has begun, and a watchdog that ends the process if it takes too long."""

    def __init__(self, timeout_seconds: float) -> None:
        self._begun = threading.Event()
        # A client that cannot reach its broker may wait in close() for ever.
        self._watchdog = threading.Timer(timeout_seconds, _give_up)
        self._watchdog.daemon = True
        self._lock = threading.Lock()

    @property
    def begun(self) -> bool:
        return self._begun.is_set()

    def begin(self) -> None:
        with self._lock:
            if not self.begun:
                self._begun.set()
                self._watchdog.start()

    @contextlib.contextmanager
    def when_told(self) -> Iterator[_Ending]:
        """Begin the end at a signal, within the block. Only the main thread may do this."""
        ears, mouth = socket.socketpair()
        mouth.settimeout(0.0)
        old_handlers = {number: signal.signal(number, _nothing_more) for number in STOP_SIGNALS}
        old_mouth = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        listener = threading.Thread(target=self._listen, args=(ears,), name="deltaplane-signals", daemon=True)
        listener.start()
        try:
            yield self
        finally:
            self._watchdog.cancel()
            signal.set_wakeup_fd(old_mouth)
            for number, handler in old_handlers.items():
                signal.signal(number, handler)
            mouth.close()
            listener.join()
            ears.close()

    def _listen(self, ears: socket.socket) -> None:
        while heard := ears.recv(1):
            if heard[0] in STOP_SIGNALS:
                logger.info("%s: finishing", signal.Signals(heard[0]).name)
                self.begin()


def _nothing_more(number: int, frame: FrameType | None) -> None:
    """Do nothing, since the listener has got the signal already."""


def _give_up() -> None:
    logger.error("not closed in time (shutdown_timeout_seconds); leaving without")
    os._exit(EXIT_BY_FORCE)
