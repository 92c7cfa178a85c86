"""Warnings in a service's log about wrong clocks, at most once a minute for each cause."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from deltaplane.stream.definition import StreamDefinition
from deltaplane.table_values import span_text
from deltaplane_services.processors.worker_processor import WorkerProcessor

__all__ = ["BETWEEN_SECONDS", "ClockWarnings"]

logger = logging.getLogger(__name__)
BETWEEN_SECONDS = 60.0


class ClockWarnings:
    """The warnings of one process; the first is given at once if ``max_skew`` lets one clock empty half a window."""

    def __init__(self, definition: StreamDefinition, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Cause of a warning to (when it was last given, the count by then).
        self._said: dict[str, tuple[float, int]] = {}
        shortest = definition.nested_windows.shortest_timed
        if shortest is not None and 2 * definition.max_skew_milliseconds > shortest.length:
            logger.warning(
                "max_skew is %s and the shortest window %s: a single clock that is ahead ends that window early for all"
                " rows, by up to max_skew; without the line max_skew it would be %s (a stream of another fingerprint:"
                " deltaplane copy)",
                span_text(definition.max_skew_milliseconds),
                shortest,
                span_text(definition.nested_windows.fitting_skew_milliseconds),
            )

    def tell(self, sources: Iterable[WorkerProcessor]) -> None:
        """Warn of what a worker's sources have counted since the last warning."""
        for source in sources:
            self._say(
                f"{source.writer} seconds",
                source.clock.like_seconds,
                f"source {source.source}: %d rows have event times that look like seconds since the epoch, expected"
                " milliseconds; they count as rows of January 1970, mend whoever sends them",
            )
            self.tell_ignored(f"models (seen by {source.writer})", source.ignored_watermarks)

    def tell_ignored(self, where: str, count: int) -> None:
        """Warn that ``count`` watermarks have been ignored so far; ``where`` says of what records."""
        self._say(
            f"watermarks {where}",
            count,
            f"%d watermarks of {where} are farther ahead of the log than max_skew and are passed over; somebody forged"
            " them, or the clocks of the clusters differ: see DeltaplaneWatermarksIgnored in the runbook",
        )

    def _say(self, what: str, count: int, text: str) -> None:
        at, before = self._said.get(what, (float("-inf"), 0))
        if count > before and self._clock() - at >= BETWEEN_SECONDS:
            self._said[what] = self._clock(), count
            logger.warning(text, count)
