"""``deltaplane bootstrap follow``: the versions of a Delta table as they come, one turn of a loop for each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from deltaplane_services.kafka.membership import ANYBODY, Principal
from deltaplane_services.kafka.recoveries import MAY_PASS, Recoveries
from deltaplane_services.lake.following import Followed, TableFollower
from deltaplane_services.observe.metrics import FollowerMetrics

__all__ = ["FollowService", "in_words"]

logger = logging.getLogger(__name__)


class FollowService:
    """A process that follows a table: ``step`` is one turn of its loop, and looks for a version if it is time to.

    ``interval_seconds``: how long it waits if there is no further version.
    """

    def __init__(
        self,
        follower: TableFollower,
        interval_seconds: float,
        watch: FollowerMetrics,
        party: Principal = ANYBODY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._follower, self._interval, self._watch, self._clock = follower, interval_seconds, watch, clock
        self._recoveries = Recoveries(party)
        self._due = clock()

    def step(self, _most: int, timeout_seconds: float) -> None:
        """Follow one version if there is one, or wait. Failures of Kafka that may pass are waited out.

        Raises what :meth:`TableFollower.step` raises, and a failure that does not pass.
        """
        if self._clock() < self._due:
            time.sleep(timeout_seconds)
        else:
            self._look()
        self._watch.turn(self._follower.version, self._follower.behind)

    def _look(self) -> None:
        try:
            followed = self._follower.step()
        except MAY_PASS as fault:
            pause = self._recoveries.fail(fault, time.monotonic())
            logger.warning("%s; looking again in %.1f s (failure %s)", fault, pause, self._recoveries)
            self._due = self._clock() + pause
            return
        self._recoveries.succeed()
        if followed is None:
            self._due = self._clock() + self._interval
            return
        if followed.accepted:
            change = followed.change
            self._watch.followed(change.brought.rows, change.taken.rows, sum(followed.refused.values()))
        logger.info("%s", in_words(followed))

    def close(self) -> None:
        """Say that it ends."""
        self._watch.ends()


def in_words(followed: Followed) -> str:
    """A version that was followed, and what was refused of it, in one line."""
    change, source = followed.change, followed.state.source
    if not followed.accepted:
        return f"{source}: version {change.version:,} is taken again, since the source was changed meanwhile"
    said = f"{source}: version {change.version:,}, {change.brought.rows:,} rows came, {change.taken.rows:,} went"
    for kind, count in followed.refused.items():
        example = change.brought.examples.get(kind) or change.taken.examples.get(kind, "")
        said += f"; {count:,} {kind} ({example})"
    return said
