"""How often a worker may begin again in a row, and how long it waits before it does."""

from __future__ import annotations

from deltaplane.errors import DeltaplaneError

RECOVERIES_IN_A_ROW = 30
"""Failures without a calm minute between them, after which a worker gives up and exits: about ten minutes."""

CALM_SECONDS = 60.0
SHORTEST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0
"""Between one attempt and the next; each pause is twice the one before."""


class Recoveries:
    """Counts failures; all times are of one monotonic clock, in seconds. ``try_at``: when to try again."""

    def __init__(self) -> None:
        self.count, self._failed_at, self.try_at = 0, float("-inf"), 0.0

    def fail(self, fault: DeltaplaneError, now: float) -> float:
        """The seconds to wait after one more failure. Raises ``fault`` where there were too many in a row."""
        self.count = 1 if now - self._failed_at > CALM_SECONDS else self.count + 1
        self._failed_at = now
        if self.count > RECOVERIES_IN_A_ROW:
            raise fault
        pause = min(SHORTEST_PAUSE_SECONDS * 2.0 ** (self.count - 1), LONGEST_PAUSE_SECONDS)
        self.try_at = now + pause
        return pause
