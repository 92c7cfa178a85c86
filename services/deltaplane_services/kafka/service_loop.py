"""One loop for every service on Kafka: turns, what a failure that may pass is answered by, publishing, and the end.

A service says what a turn of it is, and what it does once its publishers have been made anew after a failure. All of
Kafka is touched from the thread that calls ``step``.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from confluent_kafka import KafkaException

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.publishing import DeliveryFailed, Publishers
from deltaplane_services.kafka.recoveries import MAY_PASS, Recoveries
from deltaplane_services.observe.metrics import ServiceMetrics
from deltaplane_services.processors.messages import Output

__all__ = ["ServiceLoop"]

logger = logging.getLogger(__name__)


class ServiceLoop(ABC):
    """One service process: ``step`` is one turn of its loop."""

    going_on: ClassVar[str]
    """What the service does after a failure, as its log says it: ``claiming again``."""

    left_unsent: ClassVar[str | None] = None
    """What becomes of records that are not acknowledged at the end, for a service to which that is no failure."""

    def __init__(self, watch: ServiceMetrics, recoveries: Recoveries, publishers: Callable[[], Publishers]) -> None:
        self._watch, self._recoveries, self._make_publishers = watch, recoveries, publishers
        self._publishers = publishers()

    @abstractmethod
    def _turn(self, most: int, timeout_seconds: float) -> None:
        """Poll once for at most so many records, and do what is to be done with what came."""

    @abstractmethod
    def _go_on(self, pause_seconds: float) -> None:
        """Go on after a failure, with new publishers and after such a pause."""

    @abstractmethod
    def _leave(self) -> None:
        """Close all clients."""

    def _finish(self) -> None:  # noqa: B027 - most leave nothing.
        """Publish what is to be left behind at the end."""

    @property
    def _outage(self) -> str | None:
        """What keeps every process of this role from its work, so that no other could do better; None if nothing."""
        return None

    def step(self, most: int, timeout_seconds: float) -> None:
        """Poll once, process what came.

        What may pass (a broker away, a failed delivery) is waited out. Raises what has come too often in a row, and at
        once what never passes: :class:`MembershipLost`, :class:`NotAllowed` and errors of the log itself.
        """
        try:
            self._turn(most, timeout_seconds)
        except MAY_PASS as fault:
            try:
                self._recover(fault)
            except KafkaException as another:
                self._recover(another)
        else:
            self._recoveries.succeed()

    def _recover(self, fault: DeltaplaneError | KafkaException) -> None:
        """Go on with new publishers: one that has failed stays failed, and what it has not sent is not to arrive."""
        pause = self._recoveries.fail(fault, time.monotonic(), counts=self._outage is None)
        logger.warning("%s; %s in %.1f s (failure %s)", fault, self.going_on, pause, self._recoveries)
        self._publishers.abandon()
        self._publishers = self._make_publishers()
        self._go_on(pause)

    def _publish(self, output: Output) -> None:
        self._publishers.publish(output)

    def close(self) -> None:
        """Finish: leave behind what is to be, wait until what was published has arrived, and close all clients."""
        self._watch.ends()
        try:
            self._finish()
            self._publishers.then.flush()
        except DeliveryFailed as fault:
            if self.left_unsent is None:
                raise
            logger.warning("at the end: %s; %s", fault, self.left_unsent)
        finally:
            self._leave()
