"""Which refused records have dead letters of their own, and the one letter that stands for all others.

A batch of some kilobytes may unpack to millions of bad records, and a letter for each would be a thousand times as
much. So letters of a source's log are given out at a measured pace: a thousand at once, then one a second. What is
beyond has one letter in common, which is written again as it counts on, under a key of its own.

Who has a letter must not depend on how the log is cut into polls, or a repeat would not overwrite what it repeats. So
time is that of the log, and where the pace stands is carried on in the counts of deltas, of which the accepted state of
the source is the sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from deltaplane import limits
from deltaplane.window.outcomes import LETTERS_DUE
from deltaplane_services.processors.messages import Outgoing, Record, shared_letter

__all__ = ["EVERY_MILLISECONDS", "LetterBudget", "Refused", "without_letter"]

EVERY_MILLISECONDS = 1000
"""Milliseconds of the log in which a source's log earns another letter."""

_WITHOUT = "without letter "
_LATEST_MILLISECONDS = 2**47
"""No log time is later, whatever it says: what is due must be a count (limits.COUNT)."""

assert 2 * _LATEST_MILLISECONDS <= limits.COUNT, "what is due must fit a count"


def without_letter(counts: Mapping[str, int]) -> Counter[str]:
    """How many of each kind have no letter of their own, by the counts of a delta."""
    kinds: Counter[str] = Counter()
    for name, count in counts.items():
        if name.startswith(_WITHOUT):
            kinds[name.partition(": ")[2]] += count
    return kinds


class Refused(NamedTuple):
    """A record of which something was refused: how often for which kind of fault, and what makes its letters."""

    record: Record
    kinds: Mapping[str, int]
    letters: Callable[[], list[Outgoing]]


class LetterBudget:
    """Gives out the letters of one source. ``restore`` tells it where the accepted state stands."""

    def __init__(self) -> None:
        self._due: Counter[str] = Counter()
        self._without: dict[str, Counter[str]] = {}

    def restore(self, counts: Mapping[str, int]) -> None:
        """Go on where a source stands by what the counts of its accepted deltas add up to."""
        self._due, self._without = Counter(), {}
        for name, count in counts.items():
            if name.startswith(LETTERS_DUE):
                self._due[name.removeprefix(LETTERS_DUE)] = count
            elif name.startswith(_WITHOUT):
                where, _, kind = name.removeprefix(_WITHOUT).partition(": ")
                self._without.setdefault(where, Counter())[kind] = count

    def letters(self, where: str, refused: Iterable[Refused], counts: Counter[str]) -> list[Outgoing]:
        """The letters for what was refused of the next records of a log, and in ``counts`` where the pace stands then.

        ``where``: the topic; letters that are written later than others have a pace of their own, and another name.
        """
        made: list[Outgoing] = []
        last, began = None, self._due[where]
        for one in sorted(refused, key=lambda one: one.record.offset):
            now = min(max(one.record.log_time, 0), _LATEST_MILLISECONDS)
            due = max(self._due[where], now)
            if due - now < limits.LETTER_ROWS * EVERY_MILLISECONDS:
                own = one.letters()
                made.extend(own)
                self._due[where] = due + EVERY_MILLISECONDS * len(own)
            else:
                self._without.setdefault(where, Counter()).update(one.kinds)
                counts.update({f"{_WITHOUT}{where}: {kind}": count for kind, count in one.kinds.items()})
                last = one.record
        if self._due[where] > began:
            counts[f"{LETTERS_DUE}{where}"] += self._due[where] - began
        if last is not None:
            made.append(shared_letter(last, where, self._without[where]))
        return made
