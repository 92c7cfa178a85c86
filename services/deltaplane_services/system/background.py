"""What a service does beside its work, again and again, in a thread of its own: it delays nothing and ends nothing."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from confluent_kafka import KafkaException

from deltaplane.errors import DeltaplaneError

__all__ = ["LEAVE_SECONDS", "again_and_again"]

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 2.0
"""How long an end waits for a job under way. Then it is left behind; none of them writes what would be half done."""


@contextlib.contextmanager
def again_and_again(name: str, seconds: float, job: Callable[[], None]) -> Iterator[None]:
    """Run a job at once and so many seconds after each end of it, until the block ends.

    What it raises is logged, and the next turn comes all the same; the same words are said only once.
    """
    ended = threading.Event()

    def turn() -> None:
        said = ""
        while not ended.is_set():
            try:
                job()
                said = ""
            except (DeltaplaneError, KafkaException) as fault:
                if str(fault) != said:
                    logger.warning("%s: %s; trying again every %g s", name, fault, seconds)
                said = str(fault)
            except Exception:
                logger.exception("%s: failed; trying again every %g s", name, seconds)
            ended.wait(seconds)

    thread = threading.Thread(target=turn, name=f"deltaplane-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LEAVE_SECONDS)
