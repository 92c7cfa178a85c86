"""What a service says in its log about clocks that are not right: once a minute at most, of however many rows."""

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
    """Warnings of one process. At its start: where ``max_skew`` is so long that one clock may empty a window."""

    def __init__(self, definition: StreamDefinition, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # What a warning was about → when it was last given, and what had been counted by then.
        self._said: dict[str, tuple[float, int]] = {}
        shortest = definition.ladder.shortest_timed
        if shortest is not None and 2 * definition.max_skew_milliseconds > shortest.length:
            logger.warning(
                "max_skew is %s and the shortest window %s: a single clock that is ahead ends that window early for all"
                " rows, by up to max_skew; without the line max_skew it would be %s (a stream of another fingerprint:"
                " deltaplane copy)",
                span_text(definition.max_skew_milliseconds),
                shortest,
                span_text(definition.ladder.fitting_skew_milliseconds),
            )

    def tell(self, sources: Iterable[WorkerProcessor]) -> None:
        """Say what a worker's sources have found since the last time."""
        for source in sources:
            self._say(
                f"{source.writer} seconds",
                source.clock.like_seconds,
                f"source {source.source}: %d rows have event times that look like seconds since the epoch, expected"
                " milliseconds; they count as rows of January 1970, mend whoever sends them",
            )
            self.tell_ignored(f"models (seen by {source.writer})", source.ignored_watermarks)

    def tell_ignored(self, where: str, count: int) -> None:
        """Say that so many watermarks have been passed over so far."""
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
