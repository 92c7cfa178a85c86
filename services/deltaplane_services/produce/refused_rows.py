"""The refused rows of a replay: counted by kind, and grouped by reason, with examples and what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from deltaplane.log.records import DeadLetter
from deltaplane_services.processors.refused_records import MORE_RECORDS
from deltaplane_services.readers import RefusedRow, cure_of

__all__ = ["EXAMPLES", "LISTED", "MOST_REASONS", "Listed", "Refusals", "RefusedFor", "general_reason"]

LISTED = 20
"""The most refused rows that a summary lists; all are counted."""


@dataclass(frozen=True)
class Listed:
    """One refused row: its line in the file (0 if not known), the kind of fault, and the reason."""

    line_number: int
    kind: str
    reason: str


EXAMPLES = 3
"""The most rows that are shown for each reason."""

MOST_REASONS = 100
"""The most reasons that have a group of their own; a file of noise has as many reasons as rows."""

_COLUMN = re.compile(r"(?:the )?(?:feature|column) (?:`[^`]*`|'[^']*')")
_VALUE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![\w`])[-+]?[0-9][0-9,.]*(?:e[-+]?[0-9]+)?""", re.DOTALL)


@dataclass
class RefusedFor:
    """Rows that were refused for one reason: their ``count``, the first of them, and a ``cure``, which may be empty."""

    reason: str
    cure: str
    count: int = 0
    examples: list[Listed] = field(default_factory=list)

    def told(self) -> str:
        """Count, reason, an example and the cure, as a part of a sentence."""
        first = self.examples[0]
        line = f"line {first.line_number:,}: " if first.line_number else ""
        cure = f"; {self.cure}" if self.cure else ""
        return f"{self.count:,} rows for the reason: {self.reason} ({line}{first.reason}{cure})"


@dataclass
class Refusals:
    """Rows that were refused by the reader, since they cannot be read, or by the stream, with dead letters."""

    counts: Counter[str] = field(default_factory=Counter)
    listed: list[Listed] = field(default_factory=list)
    reasons: dict[str, RefusedFor] = field(default_factory=dict)
    _shared: dict[tuple[str, int, str], int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of refused rows."""
        return self.counts.total()

    def add_unreadable(self, refused: RefusedRow) -> None:
        """Add a row that the reader refused."""
        self._add(Listed(refused.line_number, "unreadable", refused.reason), self.counts.total())

    def told(self, at_most: int = 3) -> str:
        """Why most rows were refused, with an example and what to do about each reason."""
        most = sorted(self.reasons.values(), key=lambda group: -group.count)
        rest = sum(group.count for group in most[at_most:])
        parts = [group.told() for group in most[:at_most]] + ([f"{rest:,} rows for others"] if rest else [])
        return "; ".join(parts)

    def add_dead_letter(self, letter: DeadLetter, line_number: int) -> None:
        """Add a row that the stream refused, or several for which one dead letter stands."""
        before = self.counts.total()
        if letter.kind == MORE_RECORDS:
            # Such a letter counts all since the beginning, so that the count of the one before it is subtracted.
            for kind, count in letter.rest.items():
                self.counts[kind] -= self._shared.get((letter.topic, letter.partition, kind), 0)
                self._shared[letter.topic, letter.partition, kind] = count
        self._add(Listed(line_number, letter.kind, letter.reason), before, letter.rest)

    def _add(self, item: Listed, before: int, several: Mapping[str, int] | None = None) -> None:
        self.counts.update(several or {item.kind: 1})
        key = general_reason(item.reason)
        if key not in self.reasons and len(self.reasons) >= MOST_REASONS:
            key = "other reasons"
        group = self.reasons.setdefault(key, RefusedFor(key, cure_of(item.reason)))
        group.count += self.counts.total() - before
        if len(group.examples) < EXAMPLES:
            group.examples.append(item)
        if len(self.listed) < LISTED:
            self.listed.append(item)


def general_reason(reason: str) -> str:
    """The reason without its values, which differ from row to row; the name of its column stays."""
    column = _COLUMN.match(reason)
    kept = column.end() if column else 0
    return reason[:kept] + _VALUE.sub("…", reason[kept:])
