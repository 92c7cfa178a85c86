"""What was refused in a replay: counted by kind, and the first of them listed with line number and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from deltaplane.log.records import DeadLetter
from deltaplane_services.processors.messages import MORE_RECORDS
from deltaplane_services.readers import RefusedRow

__all__ = ["LISTED", "Listed", "Refusals"]

LISTED = 20
"""Refused rows listed in a summary; all are counted."""


@dataclass(frozen=True)
class Listed:
    """One refused row: its line in the file (0 where it is not known), what kind of fault, and the reason."""

    line_number: int
    kind: str
    reason: str


@dataclass
class Refusals:
    """Rows refused by the reader (they cannot be read) and by the stream (dead letters)."""

    counts: Counter[str] = field(default_factory=Counter)
    listed: list[Listed] = field(default_factory=list)
    _shared: dict[tuple[str, int, str], int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Rows refused."""
        return self.counts.total()

    def add_unreadable(self, refused: RefusedRow) -> None:
        """A row that the reader refused."""
        self._add(Listed(refused.line_number, "unreadable", refused.reason))

    def add_dead_letter(self, letter: DeadLetter, line_number: int) -> None:
        """A row that the stream refused, or several of one batch."""
        if letter.kind == MORE_RECORDS:
            # It counts on from the one before it.
            for kind, count in letter.rest.items():
                self.counts[kind] -= self._shared.get((letter.topic, letter.partition, kind), 0)
                self._shared[letter.topic, letter.partition, kind] = count
        self._add(Listed(line_number, letter.kind, letter.reason), letter.rest)

    def _add(self, item: Listed, several: Mapping[str, int] | None = None) -> None:
        self.counts.update(several or {item.kind: 1})
        if len(self.listed) < LISTED:
            self.listed.append(item)
