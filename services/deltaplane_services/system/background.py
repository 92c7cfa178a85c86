"""Jobs that a service repeats beside its work, in a thread of their own: they delay nothing, and end nothing."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from confluent_kafka import KafkaException

from deltaplane.errors import DeltaplaneError

__all__ = ["LEAVE_SECONDS", "repeat_in_background"]

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 2.0
"""How long the end waits for a running job, which is then abandoned; no job writes anything that could be left half
done."""


@contextlib.contextmanager
def repeat_in_background(name: str, seconds: float, job: Callable[[], None]) -> Iterator[None]:
    """Run a job at once, and again ``seconds`` after each end of it, until the block ends.

    Errors of the job are logged, and it is run again all the same; the same message is logged only once in a row.
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
