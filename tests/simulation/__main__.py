"""Many histories side by side: ``make simulate SEEDS=20000``, or one again: ``make simulate SEED=1234``.

With ``ORDERS=yes``, histories in which whole sources are ordered out and in, too.
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
from functools import partial

from simulation.breaks import BREAKS, BREAKS_OF_ORDERS, first_caught
from simulation.histories import EVENTS, check, live
from simulation.orders import ORDERS, check_orders, live_with_orders
from simulation.world import FAULTS, World

SEEDS_AT_ONCE = 20


@dataclass(frozen=True)
class Outcome:
    """Some histories: what was done to them, how many records were sent, and those that failed."""

    faults: Counter[str]
    rows: int
    failed: tuple[int, ...]


def checked(seed: int, events: int, *, orders: bool) -> tuple[World, Counter[str]]:
    """A whole history that is as it must be, and what happened in it."""
    if orders:
        ordered = live_with_orders(seed, events)
        check_orders(ordered)
        return ordered, ordered.faults + ordered.orders
    world = live(seed, events)
    check(world)
    return world, world.faults


def try_seeds(seeds: range, *, orders: bool) -> Outcome:
    """Live through some seeds and check each."""
    faults: Counter[str] = Counter()
    rows, failed = 0, []
    for seed in seeds:
        try:
            world, happened = checked(seed, EVENTS, orders=orders)
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding.
            failed.append(seed)
        else:
            faults.update(happened)
            rows += world.producer.rows_sent()
    return Outcome(faults, rows, tuple(failed))


def fails(seed: int, events: int, *, orders: bool) -> bool:
    """Whether the beginning of a history fails already."""
    try:
        checked(seed, events, orders=orders)
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding.
        return True
    return False


def shortest(seed: int, *, orders: bool) -> int:
    """As few events of a failing seed as still fail."""
    return next((events for events in range(1, EVENTS) if fails(seed, events, orders=orders)), EVENTS)


def batches(first: int, number: int) -> Iterator[range]:
    """Seeds in small spans."""
    for begin in range(first, first + number, SEEDS_AT_ONCE):
        yield range(begin, min(begin + SEEDS_AT_ONCE, first + number))


def one(seed: int, events: int, *, orders: bool) -> int:
    """Repeat one history and say what became of it."""
    try:
        _, happened = checked(seed, events, orders=orders)
    except Exception:  # noqa: BLE001 - it is shown.
        traceback.print_exc()
        print(f"seed {seed} fails with {events} events")
        return 1
    print(f"seed {seed}, {events} events: as it must be; {dict(happened)}")
    return 0


def main() -> int:
    """Read the options, and run."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, help="repeat one history")
    parser.add_argument("--events", type=int, default=EVENTS, help="events of it")
    parser.add_argument("--orders", action="store_true", help="histories with orders to whole sources")
    options = parser.parse_args()
    if options.seed is not None:
        return one(options.seed, options.events, orders=options.orders)
    kinds = ORDERS if options.orders else FAULTS
    for name in BREAKS_OF_ORDERS if options.orders else BREAKS:
        print(f"broken on purpose: the rule {name}; caught by seed {first_caught(name, itertools.count())}")
    began, done, rows = time.monotonic(), 0, 0
    failed: list[int] = []
    faults: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        spans = list(batches(options.first, options.seeds))
        for span, outcome in zip(spans, pool.map(partial(try_seeds, orders=options.orders), spans), strict=True):
            faults.update(outcome.faults)
            done, rows = done + len(span), rows + outcome.rows
            failed += outcome.failed
            if sys.stderr.isatty():
                print(f"\r{done:,} histories, {len(failed)} failed", end="", file=sys.stderr, flush=True)
    print(f"{done:,} histories, {rows:,} rows, {time.monotonic() - began:.0f} s, first seed {options.first}")
    for fault in sorted(faults, key=lambda name: -faults[name]):
        print(f"  {faults[fault]:>9,}  {fault}")
    for seed in failed[:5]:
        kind = "ORDERS=yes " if options.orders else ""
        print(f"FAILED: make simulate {kind}SEED={seed} EVENTS={shortest(seed, orders=options.orders)}")
    missing = [fault for fault in kinds if not faults[fault]]
    if missing:
        print(f"NEVER HAPPENED: {', '.join(missing)}")
    print("nothing lost, nothing counted twice" if not failed else f"{len(failed)} HISTORIES FAILED")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
