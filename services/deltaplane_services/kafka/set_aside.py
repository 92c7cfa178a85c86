"""Sources that a worker leaves alone for a while, each for a reason of its own, while it serves all others.

What keeps one source from being served (its log has lost rows that it needs, it was removed from the stream, its rows
do not give the statistics that were accepted) must not keep the others from it. So it is set aside, said in the log, on
``/readyz`` and in a metric, and tried again after a pause; each pause is twice the one before it. What heals it is done
from outside, and is then found out at the next try.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 120.0
SHORT_PAUSE_SECONDS = 10.0
"""The longest where a broker may be behind it, which comes back by itself."""

CALM_SECONDS = 60.0
"""A source that has been served for so long is a new case when it fails again."""


@dataclass
class _Case:
    reason: str
    pauses: int
    try_at: float
    aside: bool = True
    removed: bool = False


class SetAside:
    """The sources of one worker that are set aside, by partition; all times are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._cases: dict[int, _Case] = {}

    @property
    def reasons(self) -> Mapping[int, str]:
        """Why each source that is set aside is, by partition."""
        return {partition: case.reason for partition, case in sorted(self._cases.items()) if case.aside}

    @property
    def removed(self) -> Collection[int]:
        """Those among them that an operator has removed from the stream, which is no fault."""
        return {partition for partition, case in self._cases.items() if case.aside and case.removed}

    def put(self, partition: int, reason: str, now: float, *, passing: bool = False, removed: bool = False) -> float:
        """Set a source aside and return the seconds after which it is tried again.

        ``passing``: a broker may be behind it. ``removed``: an operator has taken it out of the stream.
        """
        case = self._cases.get(partition)
        pauses = 0 if case is None or (not case.aside and now - case.try_at > CALM_SECONDS) else case.pauses + 1
        longest = SHORT_PAUSE_SECONDS if passing else LONGEST_PAUSE_SECONDS
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(pauses, 32), longest)
        self._cases[partition] = _Case(reason, pauses, now + pause, removed=removed)
        return pause

    def may_try(self, partition: int, now: float) -> bool:
        """Whether a source may be tried: it is not set aside, or its pause is over."""
        case = self._cases.get(partition)
        return case is None or not case.aside or now >= case.try_at

    def try_now(self, partition: int) -> None:
        """Let a source be tried at once: something has been done about it."""
        case = self._cases.get(partition)
        if case is not None and case.aside:
            case.try_at = float("-inf")

    def take(self, partition: int, now: float) -> None:
        """Note that a source is served again. If it fails soon, its pauses go on from where they were."""
        if partition in self._cases:
            self._cases[partition].aside, self._cases[partition].try_at = False, now

    def keep_only(self, partitions: Collection[int]) -> None:
        """Forget the sources that others have now."""
        self._cases = {partition: case for partition, case in self._cases.items() if partition in partitions}
