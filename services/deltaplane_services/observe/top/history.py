"""What needs two moments: the rate of a counter, how long a service has been silent, how a value changed.

A counter that is lower than before was reset to zero, as its process restarted. A rate covers the last
:data:`RATE_SECONDS`, or the time since the first answer if that is shorter. A process that does not answer now has no
rate.
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
"""The most points of a trend that are remembered; no terminal draws more."""

Key = tuple[str, ...]
Pick = Callable[[Gathering], Scrape | None]


@dataclass(frozen=True)
class _Turning:
    """The number of turns of a loop, and since when it has not changed, in monotonic seconds."""

    turns: float
    since: float


class History:
    """The last rounds of answers, the newest last."""

    def __init__(self) -> None:
        self._rounds: deque[Gathering] = deque()
        self._turning: dict[Address, _Turning] = {}
        self._heard: dict[Address, float] = {}
        self._identities: dict[Address, Mapping[str, str]] = {}
        self._trends: dict[Key, deque[float | None]] = {}
        self._frames = 0

    def see(self, newest: Gathering) -> None:
        """Add the next round."""
        self._rounds.append(newest)
        while len(self._rounds) > 2 and newest.asked_at - self._rounds[1].asked_at >= RATE_SECONDS:
            self._rounds.popleft()
        for address, answer in newest.answers.items():
            # If an address never answered, its silence counts from the first round on.
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
        """Seconds between the first and the last remembered round; 0 if there is only one."""
        return self._rounds[-1].asked_at - self._rounds[0].asked_at

    def silent_seconds(self, address: Address) -> float:
        """How long an address has not answered."""
        return self.newest.asked_at - self._heard[address]

    def still_seconds(self, address: Address) -> float:
        """How long the loop of a service has not turned, as far as seen; 0 if it turned since the round before."""
        answer, turning = self.newest.answers[address], self._turning.get(address)
        return answer.asked_at - turning.since if isinstance(answer, Scrape) and turning is not None else 0.0

    def identity(self, address: Address) -> Mapping[str, str]:
        """The labels of the process that answers at an address, or answered last."""
        return self._identities.get(address, {})

    # Counters --------------------------------------------------------------------------------------------------------

    def increases(self, name: str, pick: Pick) -> dict[Key, tuple[float, float]]:
        """Label values (in the order of the label names) to (increase of the counter, seconds), for the picked scrapes.

        Empty if no scrape is picked now, or if none was picked before. The two scrapes may be of two processes: that is
        right for counters that go on when another process takes over.
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
        """The increase per second of the sum of all series of a counter; None if it is not known."""
        grown = self.increases(name, pick)
        return sum(increase / seconds for increase, seconds in grown.values()) if grown else None

    # Trends ----------------------------------------------------------------------------------------------------------

    def note(self, points: Mapping[Key, float | None]) -> None:
        """Add a point to each of these trends, and a gap to all others."""
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
    """A quantile from the increases of a histogram's buckets, as ``histogram_quantile`` computes it; None if empty.

    ``increases`` has the cumulative buckets of each process by (le, stream).
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
