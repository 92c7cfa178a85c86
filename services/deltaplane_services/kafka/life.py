"""The life of a service process: run until told to stop, finish, leave; never hang on the way out."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from deltaplane_services.settings import Knobs

logger = logging.getLogger(__name__)


class Service(Protocol):
    """What can be run: one turn of a loop, and an end."""

    def step(self, most: int, timeout_seconds: float) -> None:
        """One turn."""

    def close(self) -> None:
        """Finish and leave."""


def run(service: Service, knobs: Knobs, each_turn: Callable[[], None] = lambda: None) -> None:
    """Turn until SIGTERM or SIGINT, then close. What ``step`` raises is raised, after an attempt to close."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        logger.info("%s: finishing", signal.Signals(number).name)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        while not stopping.is_set():
            service.step(knobs.poll_records, knobs.poll_timeout_seconds)
            each_turn()
    finally:
        # A client that cannot reach its broker may wait for ever in close(); what is not sent is rebuilt from the log.
        watchdog = threading.Timer(knobs.shutdown_timeout_seconds, _give_up)
        watchdog.daemon = True
        watchdog.start()
        service.close()
        watchdog.cancel()


def _give_up() -> None:
    logger.error("not closed in time (shutdown_timeout_seconds); leaving without")
    os._exit(3)
