"""Sources that a service leaves alone for a while, each for a reason of its own, while it serves all others.

A source may be impossible to serve: its log has lost rows that it needs, it was removed from the stream, or its rows do
not give the accepted statistics. That must not stop the others. So the source is set aside, which the log, ``/readyz``
and a metric report, and it is tried again after pauses that double each time. Whatever mends it is done from outside,
and is noticed at the next try.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from deltaplane.log.delta import Source

__all__ = ["CALM_SECONDS", "FIRST_PAUSE_SECONDS", "LONGEST_PAUSE_SECONDS", "SHORT_PAUSE_SECONDS", "SetAside"]

Place = TypeVar("Place", int, Source)
"""The key of a source: its partition for a worker, which serves one site; site and partition for a merger."""

FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 120.0
SHORT_PAUSE_SECONDS = 10.0
"""The longest pause if a broker may be the cause, which comes back by itself."""

CALM_SECONDS = 60.0
"""A source that has been served for so long begins with the first pause when it fails again."""


@dataclass
class _Case:
    reason: str
    pauses: int
    try_at: float
    aside: bool = True
    removed: bool = False


class SetAside(Generic[Place]):
    """The sources of one service that are set aside; all times are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._cases: dict[Place, _Case] = {}

    @property
    def reasons(self) -> Mapping[Place, str]:
        """Key of each source that is set aside to the reason, sorted by key."""
        return {place: case.reason for place, case in sorted(self._cases.items()) if case.aside}

    @property
    def removed(self) -> Collection[Place]:
        """The keys of those that an operator has removed from the stream, which is no fault."""
        return {place for place, case in self._cases.items() if case.aside and case.removed}

    def put(self, place: Place, reason: str, now: float, *, passing: bool = False, removed: bool = False) -> float:
        """The seconds after which a source that is set aside now is tried again.

        ``passing``: a broker may be the cause. ``removed``: an operator has removed the source from the stream.
        """
        case = self._cases.get(place)
        pauses = 0 if case is None or (not case.aside and now - case.try_at > CALM_SECONDS) else case.pauses + 1
        longest = SHORT_PAUSE_SECONDS if passing else LONGEST_PAUSE_SECONDS
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(pauses, 32), longest)
        self._cases[place] = _Case(reason, pauses, now + pause, removed=removed)
        return pause

    def may_try(self, place: Place, now: float) -> bool:
        """Whether a source may be tried: it is not set aside, or its pause is over."""
        case = self._cases.get(place)
        return case is None or not case.aside or now >= case.try_at

    def try_now(self, place: Place) -> None:
        """Let a source be tried at once, since something has been done about it."""
        case = self._cases.get(place)
        if case is not None and case.aside:
            case.try_at = float("-inf")

    def take(self, place: Place, now: float) -> None:
        """Take note that a source is served again; if it fails soon, its pauses go on from where they were."""
        if place in self._cases:
            self._cases[place].aside, self._cases[place].try_at = False, now

    def keep_only(self, places: Collection[Place]) -> None:
        """Forget all sources but these: other processes have them now."""
        self._cases = {place: case for place, case in self._cases.items() if place in places}
