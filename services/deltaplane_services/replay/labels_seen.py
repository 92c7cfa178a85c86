"""The labels of the rows of a file, with counts, and which of them may be one label that is written in two ways."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from deltaplane import limits
from deltaplane.errors import DefinitionError

__all__ = ["LabelsSeen"]

_SHOWN = 6


class LabelsSeen:
    """Counts the rows of each label; of a flood of labels no more than a stream may have."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self._first: Counter[str] = Counter()
        self._checksum = self._total = 0

    def add(self, labels: Sequence[str]) -> None:
        """The labels of the rows that come next."""
        found = Counter(labels)
        self._checksum = zlib.crc32("".join(f"{label}\n" for label in labels).encode(errors="replace"), self._checksum)
        self._total += len(labels)
        if (left := limits.GRID_FIT_ROWS - self._first.total()) > 0:
            self._first.update(labels[:left])
        if len(self.rows) > limits.CLASSES:
            found = Counter({label: count for label, count in found.items() if label in self.rows})
        self.rows.update(found)

    @property
    def data(self) -> str:
        """What tells the rows of one file from those of another: how many labels, and their checksum in this order.

        Features are no part of it, so that two choices of columns of a file are still the same rows.
        """
        return f"{self._total} rows, CRC-32 of their labels {self._checksum:08x}"

    def rarest(self, asked_by: str | None = None) -> str | None:
        """The label that fewest of the first rows have, of two that tie the first by name: what is taken as positive.

        None where there is just one, or none. ``asked_by``: the option that needs it; then that is a
        :class:`DefinitionError`.
        """
        first = self._first
        if len(first) > 1:
            return min(first, key=lambda label: (first[label], label))
        if asked_by is None:
            return None
        raise DefinitionError(
            f"{asked_by}: which class is the rare one cannot be told, since all of the first {first.total():,} rows"
            f" have the label {next(iter(first), '')!r}; name it with --positive"
        )

    def notes(self, declared: Collection[str]) -> list[str]:
        """What somebody should look at: labels that differ from a declared or a more frequent one in case or blanks."""
        alike: dict[str, list[str]] = defaultdict(list)
        for label in self.rows:
            alike["".join(label.split()).casefold()].append(label)
        for label in declared:
            known = alike.get("".join(label.split()).casefold())
            if known is not None and label not in known:
                known.append(label)
        notes = []
        for labels in alike.values():
            if len(labels) > 1:
                first, *others = sorted(labels, key=lambda one: (one not in declared, -self.rows[one], one))
                told = ", ".join(f"{other!r} ({self.rows[other]:,} rows)" for other in others[:_SHOWN])
                several = len(others) > 1
                notes.append(
                    f"the label{'s' * several} {told} {'differ' if several else 'differs'} from {first!r}"
                    f" ({self.rows[first]:,} rows) only in case or blanks, and"
                    f" {'are taken for others' if several else 'is taken for another'}; write them alike in the file if"
                    " they are one"
                )
        return notes
