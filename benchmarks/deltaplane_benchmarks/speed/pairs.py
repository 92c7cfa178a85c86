"""Two ways compared on a machine that others use, too: in many short rounds, by the median of the rounds' own ratios.

Best times of two ways may come from a quiet moment of one and a busy one of the other. Within a round the ways follow
one another at once, so a neighbour disturbs both or neither; and a round that was disturbed midway is outvoted. Ways
that work in one thread are compared by processor time, which stands still while others have the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltaplane.arrays import Floats

__all__ = ["LEAST_ROUNDS", "Ratio", "Rounds", "in_rounds"]

LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Ratio:
    """The median of paired ratios, and the quartiles between which half of them were."""

    median: float
    lower: float
    upper: float

    @classmethod
    def of(cls, ratios: npt.ArrayLike) -> Ratio:
        """Of the ratios of all rounds."""
        lower, median, upper = np.percentile(np.asarray(ratios, dtype=np.float64), (25, 50, 75))
        return cls(float(median), float(lower), float(upper))

    def cells(self) -> tuple[float, float, float]:
        """As a table shows them: the median, then the quartiles."""
        return self.median, self.lower, self.upper


@dataclass(frozen=True, eq=False)
class Rounds:
    """Seconds of each way in each round, by the clock and of the processor."""

    seconds: Mapping[str, Floats]
    cpu_seconds: Mapping[str, Floats]

    def best(self, way: str) -> float:
        """The shortest."""
        return float(self.seconds[way].min())

    def ratio(self, slow: str, fast: str) -> Ratio:
        """How many times longer one took than the other."""
        return Ratio.of(self.seconds[slow] / self.seconds[fast])

    def ratio_of_work(self, slow: str, fast: str) -> Ratio:
        """How many times more of the processor one took than the other."""
        return Ratio.of(self.cpu_seconds[slow] / self.cpu_seconds[fast])


def in_rounds(ways: Mapping[str, Callable[[], object]], rounds: int, seconds_at_most: float = 60.0) -> Rounds:
    """Time all ways in turn, every second round backwards; fewer rounds, but three, where they take too long."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    order: Sequence[str] = list(ways)
    for way in ways.values():
        way()
    until = time.perf_counter() + seconds_at_most
    for done in range(rounds):
        if done >= LEAST_ROUNDS and time.perf_counter() > until:
            break
        for name in order:
            began, cpu = time.perf_counter(), time.process_time()
            ways[name]()
            times[name].append((time.perf_counter() - began, time.process_time() - cpu))
        order = order[::-1]
    both = {name: np.array(values) for name, values in times.items()}
    return Rounds({name: each[:, 0] for name, each in both.items()}, {name: each[:, 1] for name, each in both.items()})
