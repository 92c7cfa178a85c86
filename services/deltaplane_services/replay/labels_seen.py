"""The labels of the rows of a file with their counts, and labels that may be one label written in two ways."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from deltaplane import limits
from deltaplane.errors import DefinitionError

__all__ = ["LabelsSeen"]

_SHOWN = 6
_TRUTHS = (("1", "true", "yes", "y", "t"), ("0", "false", "no", "n", "f"))
"""Words of which all in one row mean the same, if there are no others."""


class LabelsSeen:
    """Counts the rows of each label. Once there are more than ``limits.CLASSES`` labels, new labels are not counted."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self._first: Counter[str] = Counter()
        self._checksum = self._total = 0

    def add(self, labels: Sequence[str]) -> None:
        """Count the labels of the rows that come next."""
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
        """Text that identifies the rows of a file: the number of labels, and the checksum of the labels in their order.

        Features are not part of it, so two choices of columns of one file count as the same rows.
        """
        return f"{self._total} rows, CRC-32 of their labels {self._checksum:08x}"

    def rarest(self, asked_by: str | None = None) -> str | None:
        """The rarest label of the first rows, of several the first by name; None if the rows have fewer than two
        labels.

        If ``asked_by`` names the option that needs it, :class:`DefinitionError` is raised instead of returning None.
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
        """Notes for the user: labels that may be one.

        They differ only in case or blanks from a declared or a more frequent label, or are words for the same truth.
        """
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
        return notes + _words_for_one_truth(alike)


def _words_for_one_truth(alike: Mapping[str, Sequence[str]]) -> list[str]:
    """Notes on labels that mean the same, of a file whose labels all are truths; ``alike``: by their folded text."""
    if not alike.keys() <= set().union(*_TRUTHS):
        return []
    said = [[alike[word][0] for word in words if word in alike] for words in _TRUTHS]
    return [
        f"the labels {' and '.join(map(repr, same))} are different classes; write them alike in the file if they mean"
        " the same"
        for same in said
        if len(same) > 1
    ]
