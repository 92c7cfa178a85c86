"""The lines that a service logs about what it refuses: at once for a new kind, then seldom, and complete.

The first refusal of a kind gives a line at once. After that there is at most one line in :data:`LINE_SECONDS`. Each
line counts everything refused since the line before, by kind, and gives one example. This module is pure: letters and
time in, lines out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from deltaplane.log.records import DeadLetter
from deltaplane_services.processors.refused_records import MORE_RECORDS

__all__ = ["EXAMPLE_CHARACTERS", "LINE_SECONDS", "RefusalLog"]

LINE_SECONDS = 10.0
"""The shortest time between two lines, except for a kind that has had no line yet."""

EXAMPLE_CHARACTERS = 400


class RefusalLog:
    """Collects the dead letters of one stream, and gives a line when one is due."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._counts: Counter[str] = Counter()
        self._seen = 0
        self._example = ""
        self._said: set[str] = set()
        self._said_at = float("-inf")

    def saw(self, count: int) -> None:
        """Count rows, queries or deltas that were not refused."""
        self._seen += count

    def refused(self, letters: Iterable[DeadLetter]) -> None:
        """Count the refusals that these letters report."""
        for letter in letters:
            # A letter with the counts of the rest of a batch follows the letters that each show one row of it.
            if not self._example or not (letter.rest or letter.kind in self._said or letter.kind in self._counts):
                self._example = _example(letter)
            # Letters of this kind carry a running total; without_letter has counted these records already.
            if letter.kind != MORE_RECORDS:
                self._counts.update(letter.rest or {letter.kind: 1})

    def without_letter(self, kinds: Mapping[str, int]) -> None:
        """Count refusals by kind that have no letter of their own: they share one with earlier refusals."""
        self._counts.update(kinds)

    def line(self, now: float, *, last: bool = False) -> str | None:
        """The line that is due at ``now``, or None.

        ``now`` is in seconds of a monotonic clock. ``last`` makes a line due if anything was refused since the line
        before.
        """
        new = self._counts.keys() - self._said
        if not self._counts or not (new or last or now - self._said_at >= LINE_SECONDS):
            return None
        total = self._counts.total()
        listed = ", ".join(f"{count:,} {kind}" for kind, count in self._counts.most_common())
        of = total + self._seen
        line = (
            f"refused {total:,} of {of:,} ({_percent(total, of)}): {listed}; for example {self._example};"
            f" all are in topic {self._stream}.dead-letters"
        )
        self._said |= self._counts.keys()
        self._said_at = now
        self._counts, self._seen, self._example = Counter(), 0, ""
        return line


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return "all" if part == whole else "less than 0.1 %" if share < 0.1 else f"{min(share, 99.9):.1f} %"


def _example(letter: DeadLetter) -> str:
    row = "" if letter.row is None else f", row {letter.row}"
    place = f"{letter.topic}-{letter.partition} at offset {letter.offset}{row}"
    reason = letter.reason
    return f"{place}: {reason if len(reason) <= EXAMPLE_CHARACTERS else reason[:EXAMPLE_CHARACTERS] + '…'}"
