"""Texts of which few differ, such as labels: the different ones, and a code for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from deltaplane.arrays import Int32s
from deltaplane.stream.sample import codes_as_they_come

__all__ = ["CodedTexts", "codes_of"]


@dataclass(frozen=True, eq=False)
class CodedTexts(Sequence[str]):
    """n texts, of which row i is ``table[codes[i]]``; ``codes`` int32[n]. All texts of the ``table`` differ."""

    table: tuple[str, ...]
    codes: Int32s

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> CodedTexts: ...
    def __getitem__(self, at: int | slice) -> str | CodedTexts:
        return CodedTexts(self.table, self.codes[at]) if isinstance(at, slice) else self.table[self.codes[at]]

    def __iter__(self) -> Iterator[str]:
        return map(self.table.__getitem__, self.codes.tolist())

    def __contains__(self, text: object) -> bool:
        return text in self.table and bool((self.codes == self.table.index(str(text))).any())

    def __eq__(self, other: object) -> bool:
        """Whether the texts are those of another list, row by row."""
        return isinstance(other, list | CodedTexts) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def codes_of(texts: Sequence[str]) -> tuple[tuple[str, ...], Int32s]:
    """(the different ones of n texts in the order in which they come first, the place int32[n] of each among them)."""
    if not isinstance(texts, CodedTexts):
        table = tuple(dict.fromkeys(texts))
        place = {text: code for code, text in enumerate(table)}
        return table, np.fromiter(map(place.__getitem__, texts), dtype=np.int32, count=len(texts))
    order = codes_as_they_come(texts.codes, len(texts.table))
    places = np.empty(len(texts.table), dtype=np.int32)
    places[order] = np.arange(len(order))
    return tuple(texts.table[code] for code in order), places[texts.codes]
