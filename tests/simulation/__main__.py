"""Many histories side by side: ``make simulate SEEDS=20000``, or one again: ``make simulate SEED=1234``.

A history that fails is cut down to as few events as still fail, and the command that repeats it is printed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from simulation.breaks import BREAKS, first_caught
from simulation.histories import EVENTS, check, live
from simulation.world import FAULTS

SEEDS_AT_ONCE = 20


@dataclass(frozen=True)
class Outcome:
    """Some histories: what was done to them, how many records were sent, and those that failed."""

    faults: Counter[str]
    rows: int
    failed: tuple[int, ...]


def try_seeds(seeds: range) -> Outcome:
    """Live through some seeds and check each."""
    faults: Counter[str] = Counter()
    rows, failed = 0, []
    for seed in seeds:
        try:
            world = live(seed)
            check(world)
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding.
            failed.append(seed)
        else:
            faults.update(world.faults)
            rows += world.producer.rows_sent()
    return Outcome(faults, rows, tuple(failed))


def fails(seed: int, events: int) -> bool:
    """Whether the beginning of a history fails already."""
    try:
        check(live(seed, events))
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding.
        return True
    return False


def shortest(seed: int) -> int:
    """As few events of a failing seed as still fail."""
    return next((events for events in range(1, EVENTS) if fails(seed, events)), EVENTS)


def batches(first: int, number: int) -> Iterator[range]:
    """Seeds in small spans."""
    for begin in range(first, first + number, SEEDS_AT_ONCE):
        yield range(begin, min(begin + SEEDS_AT_ONCE, first + number))


def one(seed: int, events: int) -> int:
    """Repeat one history and say what became of it."""
    try:
        world = live(seed, events)
        check(world)
    except Exception:  # noqa: BLE001 - it is shown.
        traceback.print_exc()
        print(f"seed {seed} fails with {events} events")
        return 1
    print(f"seed {seed}, {events} events: as it must be; {dict(world.faults)}")
    return 0


def main() -> int:
    """Read the options, and run."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, help="repeat one history")
    parser.add_argument("--events", type=int, default=EVENTS, help="events of it")
    options = parser.parse_args()
    if options.seed is not None:
        return one(options.seed, options.events)
    for name in BREAKS:
        print(f"broken on purpose: the rule {name}; caught by seed {first_caught(name, itertools.count())}")
    began, done, rows = time.monotonic(), 0, 0
    failed: list[int] = []
    faults: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        spans = list(batches(options.first, options.seeds))
        for span, outcome in zip(spans, pool.map(try_seeds, spans), strict=True):
            faults.update(outcome.faults)
            done, rows = done + len(span), rows + outcome.rows
            failed += outcome.failed
            if sys.stderr.isatty():
                print(f"\r{done:,} histories, {len(failed)} failed", end="", file=sys.stderr, flush=True)
    print(f"{done:,} histories, {rows:,} rows, {time.monotonic() - began:.0f} s, first seed {options.first}")
    for fault in sorted(FAULTS, key=lambda name: -faults[name]):
        print(f"  {faults[fault]:>9,}  {fault}")
    for seed in failed[:5]:
        print(f"FAILED: make simulate SEED={seed} EVENTS={shortest(seed)}")
    missing = [fault for fault in FAULTS if not faults[fault]]
    if missing:
        print(f"NEVER HAPPENED: {', '.join(missing)}")
    print("nothing lost, nothing counted twice" if not failed else f"{len(failed)} HISTORIES FAILED")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
