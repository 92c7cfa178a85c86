"""What a service does about failures that may pass: how often it goes on in a row, and how long it waits before."""

from __future__ import annotations

import math

from confluent_kafka import KafkaException

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.kafka.membership import Party, refuse_fatal
from deltaplane_services.kafka.publishing import DeliveryFailed

MAY_PASS = (DeliveryFailed, LogUnavailable, KafkaException)
"""What ends a turn of a service and not the service."""

FAILURES_IN_A_ROW = 10
"""Failed turns of a merger or a scorer without a success between them, after which it gives up and exits."""

__all__ = ["CALM_SECONDS", "FAILURES_IN_A_ROW", "MAY_PASS", "RECOVERIES_IN_A_ROW", "Recoveries"]

RECOVERIES_IN_A_ROW = 30
"""Failures of a worker without a calm minute between them, after which it gives up and exits: about ten minutes."""

CALM_SECONDS = 60.0
"""Turns of a worker succeed while sources of it do not, so that only time tells that it has recovered."""


class Recoveries:
    """Counts failures in a row; all times are of one monotonic clock, in seconds. ``try_at``: when to try again.

    ``most`` failures may follow each other. Pauses between them begin at ``shortest_seconds``, are doubled each time,
    and end at ``longest_seconds``. A failure that comes more than ``calm_seconds`` after the last one begins a new row.
    """

    def __init__(
        self,
        party: Party,
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
    def of_worker(cls, party: Party) -> Recoveries:
        """Those of a worker."""
        return cls(party, RECOVERIES_IN_A_ROW, shortest_seconds=0.2, longest_seconds=10.0, calm_seconds=CALM_SECONDS)

    def fail(self, fault: DeltaplaneError | KafkaException, now: float, *, counts: bool = True) -> float:
        """The seconds to wait after one more failure, which may be one that does not count.

        Raises ``fault`` after too many in a row, as a :class:`LogUnavailable` if it is the client's, and at once what
        :func:`deltaplane_services.kafka.membership.refuse_fatal` raises.
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
        """A turn went well, which ends the row of failures; with ``calm_seconds``, only time does."""
        if self._calm_seconds == math.inf:
            self.count = 0

    def __str__(self) -> str:
        """How many there were, and how many there may be."""
        return f"{self.count} of {self._most}"
