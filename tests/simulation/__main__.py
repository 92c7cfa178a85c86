"""Many histories side by side: ``make simulate SEEDS=20000``, or one again: ``make simulate SEED=1234``.

With ``ORDERS=yes``, histories in which whole sources are ordered out and in, too; with ``LAKES=yes``, of tables that
become sources beside live workers, are retired from and followed.
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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from simulation import lakes
from simulation.breaks import BREAKS, BREAKS_OF_ORDERS, first_caught
from simulation.histories import EVENTS, check, live
from simulation.orders import ORDERS, check_orders, live_with_orders
from simulation.world import FAULTS

SEEDS_AT_ONCE = 20


@dataclass(frozen=True)
class Lived:
    """A history that ended as it must: what happened in it, and the live rows that were sent."""

    faults: Counter[str]
    rows: int


@dataclass(frozen=True)
class Outcome:
    """Some histories: what was done to them, how many records were sent, and those that failed."""

    faults: Counter[str]
    rows: int
    failed: tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """A kind of history. ``live``: lives through a seed and so many events, and checks the end.

    ``words``: what chooses it in ``make simulate``.
    """

    words: str
    live: Callable[[int, int], Lived]
    faults: tuple[str, ...]
    events: int = EVENTS
    breaks: tuple[str, ...] = ()


def _with_rows(seed: int, events: int) -> Lived:
    world = live(seed, events)
    check(world)
    return Lived(world.faults, world.producer.rows_sent())


def _with_orders(seed: int, events: int) -> Lived:
    world = live_with_orders(seed, events)
    check_orders(world)
    return Lived(world.faults + world.orders, world.producer.rows_sent())


def _with_a_lake(seed: int, events: int) -> Lived:
    world = lakes.live_with_a_lake(seed, events)
    return Lived(world.faults, len(world.live))


KINDS: Mapping[str, Kind] = {
    "rows": Kind("", _with_rows, tuple(FAULTS), breaks=tuple(BREAKS)),
    "orders": Kind("ORDERS=yes ", _with_orders, tuple(ORDERS), breaks=tuple(BREAKS_OF_ORDERS)),
    "lakes": Kind("LAKES=yes ", _with_a_lake, lakes.FAULTS, lakes.EVENTS),
}


def try_seeds(kind: str, seeds: range) -> Outcome:
    """Live through some seeds and check each."""
    faults: Counter[str] = Counter()
    rows, failed = 0, []
    for seed in seeds:
        try:
            lived = KINDS[kind].live(seed, KINDS[kind].events)
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding.
            failed.append(seed)
        else:
            faults.update(lived.faults)
            rows += lived.rows
    return Outcome(faults, rows, tuple(failed))


def fails(kind: Kind, seed: int, events: int) -> bool:
    """Whether the beginning of a history fails already."""
    try:
        kind.live(seed, events)
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding.
        return True
    return False


def shortest(kind: Kind, seed: int) -> int:
    """As few events of a failing seed as still fail."""
    return next((events for events in range(1, kind.events) if fails(kind, seed, events)), kind.events)


def batches(first: int, number: int) -> Iterator[range]:
    """Seeds in small spans."""
    for begin in range(first, first + number, SEEDS_AT_ONCE):
        yield range(begin, min(begin + SEEDS_AT_ONCE, first + number))


def one(kind: Kind, seed: int, events: int) -> int:
    """Repeat one history and say what became of it."""
    try:
        lived = kind.live(seed, events)
    except Exception:  # noqa: BLE001 - it is shown.
        traceback.print_exc()
        print(f"seed {seed} fails with {events} events")
        return 1
    print(f"seed {seed}, {events} events: as it must be; {dict(lived.faults)}")
    return 0


def main() -> int:
    """Read the options, and run."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, help="repeat one history")
    parser.add_argument("--events", type=int, help="events of it")
    of_kind = parser.add_mutually_exclusive_group()
    for name, told in (
        ("orders", "histories with orders to whole sources"),
        ("lakes", "histories of tables that become sources"),
    ):
        of_kind.add_argument(f"--{name}", dest="kind", action="store_const", const=name, default="rows", help=told)
    options = parser.parse_args()
    kind = KINDS[options.kind]
    if options.seed is not None:
        return one(kind, options.seed, options.events or kind.events)
    for name in kind.breaks:
        print(f"broken on purpose: the rule {name}; caught by seed {first_caught(name, itertools.count())}")
    began, done, rows = time.monotonic(), 0, 0
    failed: list[int] = []
    faults: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        spans = list(batches(options.first, options.seeds))
        for span, outcome in zip(spans, pool.map(partial(try_seeds, options.kind), spans), strict=True):
            faults.update(outcome.faults)
            done, rows = done + len(span), rows + outcome.rows
            failed += outcome.failed
            if sys.stderr.isatty():
                print(f"\r{done:,} histories, {len(failed)} failed", end="", file=sys.stderr, flush=True)
    print(f"{done:,} histories, {rows:,} rows, {time.monotonic() - began:.0f} s, first seed {options.first}")
    for fault in sorted(faults, key=lambda name: -faults[name]):
        print(f"  {faults[fault]:>9,}  {fault}")
    for seed in failed[:5]:
        print(f"FAILED: make simulate {kind.words}SEED={seed} EVENTS={shortest(kind, seed)}")
    missing = [fault for fault in kind.faults if not faults[fault]]
    if missing:
        print(f"NEVER HAPPENED: {', '.join(missing)}")
    print("nothing lost, nothing counted twice" if not failed else f"{len(failed)} HISTORIES FAILED")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
