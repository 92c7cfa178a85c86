"""The choice of refused records that get dead letters of their own, and the one letter that all others share.

A batch of some kilobytes may unpack to millions of bad records, and a letter for each would take a thousand times as
much. So the letters for a source's log are limited: a thousand at once, then one a second. All other refused records
share one letter, which is written again, under a key of its own, whenever its count grows.

The choice must not depend on how the log is cut into polls: otherwise a worker that reads the log again would write
other letters, which do not overwrite the first ones. So time is that of the log, and the time at which the next letter
is due is carried on in the counts of deltas, which add up in the accepted state of the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from deltaplane import limits
from deltaplane.window.outcomes import LETTERS_DUE
from deltaplane_services.processors.messages import Outgoing, Record
from deltaplane_services.processors.refused_records import shared_letter

__all__ = ["EVERY_MILLISECONDS", "LetterBudget", "Refused", "without_letter"]

EVERY_MILLISECONDS = 1000
"""Milliseconds, by the time of the log, after which one more letter may be written."""

_WITHOUT = "without letter "
_LATEST_MILLISECONDS = 2**47
"""Later log times are cut down to this, since the time of the next letter must fit a count (limits.COUNT)."""

assert 2 * _LATEST_MILLISECONDS <= limits.COUNT, "what is due must fit a count"


def without_letter(counts: Mapping[str, int]) -> Counter[str]:
    """Kind to the number of refused records without a letter of their own, from the counts of a delta."""
    kinds: Counter[str] = Counter()
    for name, count in counts.items():
        if name.startswith(_WITHOUT):
            kinds[name.partition(": ")[2]] += count
    return kinds


class Refused(NamedTuple):
    """A record of which something was refused, its refusals counted by kind, and a function that makes its letters."""

    record: Record
    kinds: Mapping[str, int]
    letters: Callable[[], list[Outgoing]]


class LetterBudget:
    """Decides which refused records of one source get letters; after ``restore``, it goes on from an accepted state."""

    def __init__(self) -> None:
        self._due: Counter[str] = Counter()
        self._without: dict[str, Counter[str]] = {}

    def restore(self, counts: Mapping[str, int]) -> None:
        """Go on from the summed counts of a source's accepted deltas."""
        self._due, self._without = Counter(), {}
        for name, count in counts.items():
            if name.startswith(LETTERS_DUE):
                self._due[name.removeprefix(LETTERS_DUE)] = count
            elif name.startswith(_WITHOUT):
                where, _, kind = name.removeprefix(_WITHOUT).partition(": ")
                self._without.setdefault(where, Counter())[kind] = count

    def letters(self, where: str, refused: Iterable[Refused], counts: Counter[str]) -> list[Outgoing]:
        """The letters for what was ``refused`` of the next records of a log; ``counts`` gets how the limit stands then.

        ``where`` names the log, by its topic. Letters that are written in a later step of the work have a limit of
        their own, under another name.
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
