"""Failures in a row that a service goes on after, and the pauses between them."""

from __future__ import annotations

import math

from confluent_kafka import KafkaException

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.kafka.membership import Principal, refuse_fatal
from deltaplane_services.kafka.publishing import DeliveryFailed

MAY_PASS = (DeliveryFailed, LogUnavailable, KafkaException)
"""The errors that end a turn of a service, but not the service."""

FAILURES_IN_A_ROW = 10
"""The most failed turns in a row of a merger or scorer; after one more it exits."""

__all__ = ["CALM_SECONDS", "FAILURES_IN_A_ROW", "MAY_PASS", "RECOVERIES_IN_A_ROW", "Recoveries"]

RECOVERIES_IN_A_ROW = 30
"""The most failures of a worker without a calm minute in between; one more ends it, after pauses of four minutes in
all, and after the time that the failing calls took."""

CALM_SECONDS = 60.0
"""Seconds without a failure after which a worker has recovered; turns succeed even while some of its sources fail."""


class Recoveries:
    """The number of failures in a row, and ``try_at``, when to try again.

    All times are of one monotonic clock, in seconds. At most ``most`` failures may follow each other. Pauses begin at
    ``shortest_seconds``, double each time, and end at ``longest_seconds``. A failure more than ``calm_seconds`` after
    the last one begins a new row.
    """

    def __init__(
        self,
        party: Principal,
        most: int = FAILURES_IN_A_ROW,
        *,
        shortest_seconds: float = 0.4,
        longest_seconds: float = 5.0,
        calm_seconds: float = math.inf,
    ) -> None:
        self.count, self.try_at = 0, 0.0
        self._party, self._most, self._calm_seconds = party, most, calm_seconds
        self._pauses, self._failed_at = (shortest_seconds, longest_seconds), -math.inf

    @classmethod
    def of_worker(cls, party: Principal) -> Recoveries:
        """The recoveries that a worker is allowed."""
        return cls(party, RECOVERIES_IN_A_ROW, shortest_seconds=0.2, longest_seconds=10.0, calm_seconds=CALM_SECONDS)

    def fail(self, fault: DeltaplaneError | KafkaException, now: float, *, counts: bool = True) -> float:
        """The seconds to wait after one more failure; ``counts``: whether it counts as one of the row.

        Raises ``fault`` after too many in a row, as a :class:`LogUnavailable` if it is one of the client. Raises at
        once what :func:`deltaplane_services.kafka.membership.refuse_fatal` raises.
        """
        refuse_fatal(fault.args, self._party)
        if counts:
            self.count = 1 if now - self._failed_at > self._calm_seconds else self.count + 1
            self._failed_at = now
        if self.count > self._most:
            raise LogUnavailable(f"kafka: {fault}") if isinstance(fault, KafkaException) else fault
        shortest, longest = self._pauses
        pause = min(shortest * 2.0 ** max(0, self.count - 1), longest)
        self.try_at = now + pause
        return pause

    def succeed(self) -> None:
        """Take note that a turn has succeeded, which ends the row of failures unless there are ``calm_seconds``."""
        if self._calm_seconds == math.inf:
            self.count = 0

    def __str__(self) -> str:
        """The number of failures in the row, and the most that are allowed."""
        return f"{self.count} of {self._most}"
