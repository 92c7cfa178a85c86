"""``bench threads``: the same replay with one thread of BLAS and with all that it would take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deltaplane_benchmarks.speed.embedded import Replayed, Setting, data_file, replay

__all__ = ["FEATURES", "MAPPED", "Threads", "compare"]

FEATURES = 6
MAPPED = ("--feature-map", "fourier", "--units", "200")


@dataclass(frozen=True)
class Threads:
    """A replay with so many threads (0: all), and the largest distance of a weight to that with one."""

    threads: int
    replayed: Replayed
    difference: float
    same_digest: bool


def compare(rows: int, seed: int) -> Iterator[Threads]:
    """Replay rows made from a seed through a map of 200 units, with one thread, then with all."""
    setting = Setting("fourier", "auto", "auto", 100, FEATURES, rows)
    with data_file(FEATURES, rows, seed) as file:
        first = None
        for threads in (1, 0):
            found = replay(file, "y", "yes", setting, more=(*MAPPED, "--blas-threads", str(threads)))
            first = first or found
            difference = float(np.abs(np.subtract(found.weights, first.weights)).max())
            yield Threads(threads, found, difference, found.digest == first.digest)
