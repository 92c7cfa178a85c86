"""The loop of every service on Kafka: turns, recovery from failures that may pass, publishing, and the end.

A subclass defines a turn, and what to do after a failure, once the publishers have been made anew. All clients are used
from the thread that calls ``step``.
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
    """What the service does after a failure, as words for its log, such as ``claiming again``."""

    left_unsent: ClassVar[str | None] = None
    """What becomes of records without an acknowledgement at the end, in words; None if that is a failure."""

    def __init__(self, watch: ServiceMetrics, recoveries: Recoveries, publishers: Callable[[], Publishers]) -> None:
        self._watch, self._recoveries, self._make_publishers = watch, recoveries, publishers
        self._publishers = publishers()

    @abstractmethod
    def _turn(self, most: int, timeout_seconds: float) -> None:
        """Poll once for at most ``most`` records, and process what came."""

    @abstractmethod
    def _go_on(self, pause_seconds: float) -> None:
        """Go on after a failure and a pause of ``pause_seconds``; the publishers are new."""

    @abstractmethod
    def _leave(self) -> None:
        """Close all clients."""

    def _finish(self) -> None:  # noqa: B027 - most leave nothing.
        """Publish the last records, at the end."""

    @property
    def _outage(self) -> str | None:
        """What keeps every process of this role from its work, in words; None if nothing. Its failures do not count."""
        return None

    def step(self, most: int, timeout_seconds: float) -> None:
        """Poll once for at most ``most`` records, and process what came.

        Failures that may pass (a broker away, a failed delivery) are waited out, and raised if too many come in a row.
        Raises at once what never passes: :class:`MembershipLost`, :class:`NotAllowed` and errors of the log itself.
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
        """Go on with new publishers: one that has failed stays failed, and its unsent records must not arrive."""
        pause = self._recoveries.fail(fault, time.monotonic(), counts=self._outage is None)
        logger.warning("%s; %s in %.1f s (failure %s)", fault, self.going_on, pause, self._recoveries)
        self._publishers.abandon()
        self._publishers = self._make_publishers()
        self._go_on(pause)

    def _publish(self, output: Output) -> None:
        self._publishers.publish(output)

    def close(self) -> None:
        """Publish the last records, wait until all are acknowledged, and close all clients.

        Raises :class:`DeliveryFailed` if some are not, unless ``left_unsent`` says that this is no failure.
        """
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
