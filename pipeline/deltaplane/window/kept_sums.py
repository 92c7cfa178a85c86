"""Sums of runs of slots that have been formed already, so that a row's product is formed once and not once a window.

The problem: a row is added to each window and taken out of each again, and to multiply it anew each time is most of
what statistics cost. How it is solved: the class-wise sums of a batch are kept beside its run of slots. What leaves a
window is a span of slots: the sums of a run inside it are taken as they are; where a span ends within a run, the
smaller side is multiplied, and the other is the difference. That is exact, as these sums are integers: the result is
the same, to the last bit, whatever is known and whatever is not (:mod:`deltaplane.exact.moments`).

Sums are of *current* rows. Where one is retired or replaced, its run is forgotten, and multiplied when it leaves. A run
is kept where its sums take little beside its rows, so that memory a row stays bounded (``limits.KNOWN_SUMS_SHARE``).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass

from deltaplane import limits
from deltaplane.arrays import Int64s
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import added, without

__all__ = ["KnownSums", "Product", "Sums"]

Sums = dict[str, Moments]
"""Class label to Gram matrix. Those that are kept are handed out as they are, and never changed."""

Product = Callable[[int, int], Sums]
"""Forms the sums of the current rows among the slots from one on, up to another that is not among them."""

_BYTES_BESIDE = 400
"""What a Gram matrix takes beside its entries, about: objects, and its place in a dictionary. So does a run."""


@dataclass(frozen=True)
class _Run:
    """The sums of the current rows among slots ``first`` to ``until``, the last not included."""

    first: int
    until: int
    sums: Sums


class KnownSums:
    """Of the slots of one partition, whose rows have ``features`` grid values; ``windows`` will ask for each."""

    def __init__(self, features: int, windows: int) -> None:
        shares = min(windows, limits.KNOWN_SUMS_WINDOWS)
        self._bytes_a_slot = 4 * features * shares * limits.KNOWN_SUMS_SHARE
        self._firsts: list[int] = []
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def keep(self, first: int, until: int, sums: Sums) -> None:
        """Keep the sums of a run of slots, none of which is known, if they are small enough beside their rows."""
        run = _Run(first, until, sums)
        if self._is_worth_it(run):
            place = bisect.bisect(self._firsts, first)
            assert place == 0 or self._runs[place - 1].until <= first, "sums of slots that are known are kept again"
            assert place == len(self._runs) or until <= self._firsts[place], "sums of known slots are kept again"
            self._put(place, place, [run])

    def forget(self, slots: Int64s) -> None:
        """Some slots, in any order, are no longer current: what is known of the runs that they lie in is wrong now."""
        for slot in slots.tolist() if self._runs else ():
            place = self._at_or_behind(slot)
            if place < len(self._runs) and self._firsts[place] <= slot:
                self._put(place, place + 1, [])

    def let_go(self, until: int) -> None:
        """Rows of slots below ``until`` are no longer held, and can be multiplied no more."""
        self._put(0, bisect.bisect_left(self._firsts, until), [])

    def between(self, first: int, until: int, product: Product, *, last: bool = False) -> Sums:
        """The sums of the current rows among slots ``first`` to ``until``, the last not included.

        ``product`` forms those that are not known. ``last``: nobody will ask for these slots again.
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
        """The sums of some slots of one run, which is kept in pieces where they are worth it."""
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
        # What is left of a run whose slots leave for good takes no more than the run did.
        left_over = last and first == run.first
        if left_over or all(map(self._is_worth_it, pieces)):
            self._put(place, place + 1, pieces)
        return part.sums

    def _at_or_behind(self, slot: int) -> int:
        """The place of the run that holds a slot, or of the first one behind it."""
        place = bisect.bisect(self._firsts, slot)
        return place - 1 if place and slot < self._runs[place - 1].until else place

    def _is_worth_it(self, run: _Run) -> bool:
        taken = _BYTES_BESIDE + sum(moments.nbytes + _BYTES_BESIDE for moments in run.sums.values())
        return taken <= (run.until - run.first) * self._bytes_a_slot

    def _put(self, begin: int, end: int, runs: list[_Run]) -> None:
        """Have some runs in the places of others."""
        self._runs[begin:end] = runs
        self._firsts[begin:end] = [run.first for run in runs]


def _cut(run: _Run, at: int, product: Product) -> tuple[_Run, _Run]:
    """A run as two, of which the shorter is multiplied."""
    if at - run.first <= run.until - at:
        front = product(run.first, at)
        back = without(run.sums, front)
    else:
        back = product(at, run.until)
        front = without(run.sums, back)
    return _Run(run.first, at, front), _Run(at, run.until, back)
