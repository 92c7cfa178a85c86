"""Gram matrices of runs of slots that are kept, so that a row is multiplied once and not once for each window.

The problem: a row enters each window and leaves it again, and multiplying it anew each time is most of what statistics
cost. How it is solved: the Gram matrices of a batch, one for each class, are kept for its run of slots. What leaves a
window is a span of slots. For each run inside the span, the kept sums are taken as they are. If the span ends within a
run, the shorter part of the run is multiplied, and the longer one is the difference. That is exact, since the sums are
integers: the result has the same bits whatever is kept (:mod:`deltaplane.exact.moments`).

The sums are of *current* rows. If a row is retired or replaced, the sums of its run are forgotten, and the run is
multiplied again when it leaves. A run is kept only if its sums are small beside its rows, so that the memory of a row
stays bounded (``limits.KEPT_SUMS_SHARE``).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass

from deltaplane import limits
from deltaplane.arrays import Int64s
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import added, without

__all__ = ["KeptSums", "Product", "Sums"]

Sums = dict[str, Moments]
"""Class label to Gram matrix; kept sums are handed out without a copy, and nobody changes them."""

Product = Callable[[int, int], Sums]
"""Multiplies the current rows among the slots from the first argument to before the second, and returns their sums."""

_BYTES_BESIDE = 400
"""Bytes that a Gram matrix takes beside its entries, and a run beside its matrices: objects, and dictionary entries."""


@dataclass(frozen=True)
class _Run:
    """The sums of the current rows among the slots from ``first`` to before ``until``."""

    first: int
    until: int
    sums: Sums


class KeptSums:
    """The kept sums of one partition, whose rows have ``features`` entries and leave ``windows`` windows one by one."""

    def __init__(self, features: int, windows: int) -> None:
        shares = min(windows, limits.KNOWN_SUMS_WINDOWS)
        self._bytes_a_slot = 4 * features * shares * limits.KEPT_SUMS_SHARE
        self._firsts: list[int] = []
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def keep(self, first: int, until: int, sums: Sums) -> None:
        """Keep the sums of a run of slots, if they are small enough beside its rows; no slot of it may be kept yet."""
        run = _Run(first, until, sums)
        if self._is_worth_it(run):
            place = bisect.bisect(self._firsts, first)
            assert place == 0 or self._runs[place - 1].until <= first, "sums of slots that are known are kept again"
            assert place == len(self._runs) or until <= self._firsts[place], "sums of known slots are kept again"
            self._put(place, place, [run])

    def forget(self, slots: Int64s) -> None:
        """Forget the runs of some slots, in any order: these are no longer current, so that the kept sums are wrong."""
        for slot in slots.tolist() if self._runs else ():
            place = self._at_or_behind(slot)
            if place < len(self._runs) and self._firsts[place] <= slot:
                self._put(place, place + 1, [])

    def forget_below(self, until: int) -> None:
        """Forget the runs that begin below ``until``: rows below it are no longer held, and cannot be multiplied."""
        self._put(0, bisect.bisect_left(self._firsts, until), [])

    def between(self, first: int, until: int, product: Product, *, last: bool = False) -> Sums:
        """The sums of the current rows among the slots from ``first`` to before ``until``.

        ``product`` multiplies what is not kept. ``last``: nobody will ask for these slots again, so that their sums
        need not be kept.
        """
        total: Sums = {}
        at = first
        while at < until:
            place = self._at_or_behind(at)
            run = self._runs[place] if place < len(self._runs) else None
            if run is None or run.first > at:
                stop = until if run is None else min(until, run.first)
                part = product(at, stop)
                if not last:
                    self.keep(at, stop, part)
            else:
                stop = min(until, run.until)
                part = self._part_of(place, at, stop, product, last=last)
            total = added(total, part) if total else part
            at = stop
        return total

    def _part_of(self, place: int, first: int, until: int, product: Product, *, last: bool) -> Sums:
        """The sums of the slots from ``first`` to before ``until`` of one run.

        The run is replaced by its pieces if each of them is worth keeping.
        """
        run = part = self._runs[place]
        pieces: list[_Run] = []
        if first > run.first:
            before, part = _cut(part, first, product)
            pieces.append(before)
        behind = None
        if until < run.until:
            part, behind = _cut(part, until, product)
        if not last:
            pieces.append(part)
        if behind is not None:
            pieces.append(behind)
        # If the first slots of a run leave for good, what is left takes no more memory than the run did.
        left_over = last and first == run.first
        if left_over or all(map(self._is_worth_it, pieces)):
            self._put(place, place + 1, pieces)
        return part.sums

    def _at_or_behind(self, slot: int) -> int:
        """The place of the run that holds a slot, or of the next run after the slot."""
        place = bisect.bisect(self._firsts, slot)
        return place - 1 if place and slot < self._runs[place - 1].until else place

    def _is_worth_it(self, run: _Run) -> bool:
        taken = _BYTES_BESIDE + sum(moments.nbytes + _BYTES_BESIDE for moments in run.sums.values())
        return taken <= (run.until - run.first) * self._bytes_a_slot

    def _put(self, begin: int, end: int, runs: list[_Run]) -> None:
        """Replace the runs from place ``begin`` to before ``end`` by others."""
        self._runs[begin:end] = runs
        self._firsts[begin:end] = [run.first for run in runs]


def _cut(run: _Run, at: int, product: Product) -> tuple[_Run, _Run]:
    """The two runs before and from slot ``at`` on; the shorter one is multiplied, and the other is the difference."""
    if at - run.first <= run.until - at:
        front = product(run.first, at)
        back = without(run.sums, front)
    else:
        back = product(at, run.until)
        front = without(run.sums, back)
    return _Run(run.first, at, front), _Run(at, run.until, back)
