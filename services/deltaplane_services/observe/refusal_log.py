"""What a service says in its log of what it refuses: soon, seldom, and with nothing left out.

A line comes at once for the first refusal of a kind, and then at most one in :data:`LINE_SECONDS`, which counts all
that were refused since the line before it, by kind, and gives one example. Pure: letters and time in, lines out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from deltaplane.log.records import DeadLetter
from deltaplane_services.processors.messages import MORE_RECORDS

__all__ = ["EXAMPLE_CHARACTERS", "LINE_SECONDS", "RefusalLog"]

LINE_SECONDS = 10.0
"""The shortest time between two lines, but for kinds that have not been said yet."""

EXAMPLE_CHARACTERS = 400


class RefusalLog:
    """Gathers dead letters of one stream, and says when a line is due."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._counts: Counter[str] = Counter()
        self._seen = 0
        self._example = ""
        self._said: set[str] = set()
        self._said_at = float("-inf")

    def saw(self, count: int) -> None:
        """So many rows, queries or deltas were not refused."""
        self._seen += count

    def refused(self, letters: Iterable[DeadLetter]) -> None:
        """These were refused."""
        for letter in letters:
            # A letter that counts the rest of a batch comes behind one that shows a row of it.
            if not self._example or not (letter.rest or letter.kind in self._said or letter.kind in self._counts):
                self._example = _example(letter)
            # One that counts on from letter to letter repeats what has been counted: see without_letter.
            if letter.kind != MORE_RECORDS:
                self._counts.update(letter.rest or {letter.kind: 1})

    def without_letter(self, kinds: Mapping[str, int]) -> None:
        """So many of each kind were refused, and share one letter with others that were before them."""
        self._counts.update(kinds)

    def line(self, now: float, *, last: bool = False) -> str | None:
        """The line that is due at ``now``, in seconds of a monotonic clock; ``last``: whatever there is to say."""
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
