"""What can only be said of two moments: how fast a counter grows, how long nobody has answered, how a value moved.

A counter that is lower than before began at zero again, as its process did. A rate is of the last
:data:`RATE_SECONDS`, or of the time since the first answer where that is less; a process that does not answer now has
none.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from deltaplane_services.observe.metrics import metric_names
from deltaplane_services.observe.top.gather import Address, Gathering, Scrape

__all__ = ["MOST_POINTS", "RATE_SECONDS", "History", "Key", "Pick", "quantile"]

RATE_SECONDS = 10.0
MOST_POINTS = 120
"""Points that are remembered of each trend; more than any terminal draws."""

Key = tuple[str, ...]
Pick = Callable[[Gathering], Scrape | None]


@dataclass(frozen=True)
class _Turning:
    """How many turns a loop had made, and since when it has not made another; monotonic seconds."""

    turns: float
    since: float


class History:
    """The last rounds of asking, the newest last."""

    def __init__(self) -> None:
        self._rounds: deque[Gathering] = deque()
        self._turning: dict[Address, _Turning] = {}
        self._heard: dict[Address, float] = {}
        self._identities: dict[Address, Mapping[str, str]] = {}
        self._trends: dict[Key, deque[float | None]] = {}
        self._frames = 0

    def see(self, newest: Gathering) -> None:
        """Take the next round."""
        self._rounds.append(newest)
        while len(self._rounds) > 2 and newest.asked_at - self._rounds[1].asked_at >= RATE_SECONDS:
            self._rounds.popleft()
        for address, answer in newest.answers.items():
            # Counted from the first round on where there never was an answer.
            self._heard.setdefault(address, newest.asked_at)
            if isinstance(answer, Scrape):
                self._heard[address] = newest.asked_at
                self._identities[address] = answer.identity
                turns = answer.value(metric_names.TURNS.name) or 0.0
                before = self._turning.get(address)
                if before is None or before.turns != turns:
                    self._turning[address] = _Turning(turns, answer.asked_at)

    @property
    def newest(self) -> Gathering:
        """The last round."""
        return self._rounds[-1]

    @property
    def seconds(self) -> float:
        """Time between the first and the last round that are remembered; 0 with one."""
        return self._rounds[-1].asked_at - self._rounds[0].asked_at

    def silent_seconds(self, address: Address) -> float:
        """For how long an address has not answered."""
        return self.newest.asked_at - self._heard[address]

    def still_seconds(self, address: Address) -> float:
        """For how long the loop of a service has not turned, as far as was seen; 0 where it has since the last time."""
        answer, turning = self.newest.answers[address], self._turning.get(address)
        return answer.asked_at - turning.since if isinstance(answer, Scrape) and turning is not None else 0.0

    def identity(self, address: Address) -> Mapping[str, str]:
        """The labels of what runs there, or last did."""
        return self._identities.get(address, {})

    # Counters --------------------------------------------------------------------------------------------------------

    def increases(self, name: str, pick: Pick) -> dict[Key, tuple[float, float]]:
        """By labels (of sorted names), how much a counter of the scrape that is picked grew, and in how many seconds.

        Nothing where none is picked now, or none was before. The two may be of two processes: of counters that go on
        when another takes over, that is what is wanted.
        """
        now = pick(self.newest)
        before = next((s for s in map(pick, list(self._rounds)[:-1]) if s is not None), None)
        if now is None or before is None or now.asked_at <= before.asked_at:
            return {}
        was = {_key(labels): value for labels, value in before.of(name)}
        seconds = now.asked_at - before.asked_at
        grown = {}
        for labels, value in now.of(name):
            old = was.get(_key(labels), 0.0)
            grown[_key(labels)] = (value - old if value >= old else value, seconds)
        return grown

    def rate(self, name: str, pick: Pick) -> float | None:
        """How fast the sum of all series of a counter grows, by the second."""
        grown = self.increases(name, pick)
        return sum(increase / seconds for increase, seconds in grown.values()) if grown else None

    # Trends ----------------------------------------------------------------------------------------------------------

    def note(self, points: Mapping[Key, float | None]) -> None:
        """Remember a point of each of these trends, and a gap in all others."""
        for key in points.keys() - self._trends.keys():
            gaps: Iterable[float | None] = [None] * min(self._frames, MOST_POINTS)
            self._trends[key] = deque(gaps, maxlen=MOST_POINTS)
        for key, trend in self._trends.items():
            trend.append(points.get(key))
        self._frames += 1

    def trend(self, *key: str) -> tuple[float | None, ...]:
        """The points of a trend, the newest last; None is a gap."""
        return tuple(self._trends.get(key, ()))


def _key(labels: Mapping[str, str]) -> Key:
    return tuple(labels[name] for name in sorted(labels))


def quantile(share: float, increases: Iterable[Mapping[Key, tuple[float, float]]]) -> float | None:
    """A quantile from what the buckets of a histogram grew by, as ``histogram_quantile`` has it; None without any.

    ``increases``: of each process, cumulative buckets by (le, stream).
    """
    cumulative: dict[float, float] = {}
    for buckets in increases:
        for key, (increase, _) in buckets.items():
            cumulative[float(key[0])] = cumulative.get(float(key[0]), 0.0) + increase
    rank = share * cumulative.get(math.inf, 0.0)
    if rank <= 0.0:
        return None
    low, below = 0.0, 0.0
    for bound, count in sorted(cumulative.items()):
        if count >= rank:
            inside = (rank - below) / (count - below) if count > below else 1.0
            return low if math.isinf(bound) else low + (bound - low) * inside
        low, below = bound, count
    return None
