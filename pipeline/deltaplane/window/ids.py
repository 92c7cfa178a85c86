"""The ids of the slots that a partition holds, and the slot of the last version of each id.

The problem: a dictionary of texts takes some 180 bytes an id, as much as 45 features do. How it is solved: this is a
hash table with chaining (Knuth, The Art of Computer Programming 3, 6.4), kept in arrays. A table leads from the 32-bit
hash of an id to the last slot in its bucket, and each slot leads to the one before it in the same bucket. The texts are
stored end to end, in pieces of many ids. That takes about 20 bytes an id beside its text, and a few array operations
search or enter a whole batch.

Slots leave in the order they came, and a chain leads from newer slots to older ones. So a slot that leaves need not be
taken out: its chain ends at the first slot that is no longer held. If an id comes again, its older slot is taken out,
so that a chain is no longer than the number of ids in its bucket. A hash alone is never trusted: a slot that is found
is compared by its text. Python hashes texts differently in every process, so that nobody can choose ids that fall into
one bucket. Nothing that leaves this module depends on the hashes.

In the table and the chains a slot is written as its *number*, uint32: its distance from a base, which moves once in
four thousand million slots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deltaplane.arrays import Int64s, UInt32s

__all__ = ["PIECE_ROWS", "IdIndex"]

PIECE_ROWS = 1024
"""Slots of one piece of texts."""

_LOW = 2**32 - 1
"""The bits of a hash that are used."""

_NO_NUMBER = 2**32 - 1
"""A number that no slot has: the link of a slot that was taken out of its chain."""

_ROOMY = 4
"""The least number of buckets for each id of a small table."""

_LARGE = 2**18
"""The most buckets of a small table, which is 1 MB: up to here memory is cheaper than longer searches."""

_TIGHT = 4 / 3
"""The least number of buckets for each id of a large table."""

_SHRINK = 4
"""A table is made anew once it has so many times the buckets that it needs."""

_PART = 2**16
"""Slots that are entered at a time into a new table, so that this takes little memory."""

_FEW = 8
"""Up to so many ids are searched one by one, which is then faster than array operations."""


class IdIndex:
    """The ids of the slots from ``first`` to before ``next``; an id leads to the last slot that it was given."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.next = first
        self._base = first - 1
        # The last number in each bucket; 0 if it has none, since no slot that is held has the number 0.
        self._table = np.zeros(1, dtype=np.uint32)
        # The hash of each slot from ``_links_from`` on, and the number before it in its bucket.
        self._links_from = first
        self._hashes = np.empty(PIECE_ROWS, dtype=np.uint32)
        self._links = np.empty(PIECE_ROWS, dtype=np.uint32)
        self._texts_from = first
        self._pieces: list[_Piece] = []
        self._tail: list[str] = []

    def __len__(self) -> int:
        return self.next - self.first

    # One id ----------------------------------------------------------------------------------------------------------

    def id(self, slot: int) -> str:
        """The id of a slot that is held."""
        piece, place = divmod(slot - self._texts_from, PIECE_ROWS)
        return self._pieces[piece].text(place) if piece < len(self._pieces) else self._tail[place]

    def slot_of(self, sample_id: str) -> int | None:
        """The slot of the last version of an id, if it is held."""
        hashed = hash(sample_id) & _LOW
        number = self._search(sample_id, hashed, self._table.item(hashed & len(self._table) - 1))[0]
        return self._base + number if number else None

    def _search(self, sample_id: str, hashed: int, number: int) -> tuple[int, int]:
        """(the number of an id in the chain that begins at ``number``, or 0; the number that leads to it, or 0)."""
        newer, lowest, shift = 0, self.first - self._base, self._links_from - self._base
        while number >= lowest:
            if self._hashes.item(number - shift) == hashed and self.id(self._base + number) == sample_id:
                return number, newer
            newer, number = number, self._links.item(number - shift)
        return 0, newer

    # Batches ---------------------------------------------------------------------------------------------------------

    def add_if_new(self, ids: Sequence[str]) -> bool:
        """Whether none of some ids is held and all differ; if so, they get the next slots, else nothing changes."""
        if len(ids) <= _FEW:
            if len(set(ids)) < len(ids) or any(self.slot_of(sample_id) is not None for sample_id in ids):
                return False
            self.add(ids)
            return True
        self._make_room(len(ids))
        begin, number = self.next - self._links_from, self.next - self._base
        hashes = np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))
        buckets = hashes & len(self._table) - 1
        before = self._table[buckets]
        there = slice(begin, begin + len(ids))
        self._hashes[there], self._links[there] = hashes, before
        if self._any_is_held(ids, self._hashes[there], before):
            return False
        meeting = self._enter(np.arange(number, number + len(ids), dtype=np.uint32), buckets)
        # Equal ids meet in one bucket.
        if len({ids[other - number] for other in meeting}) < len(meeting):
            self._table[buckets] = before
            return False
        self._keep(ids)
        return True

    def add(self, ids: Sequence[str]) -> None:
        """Give the next slots to some ids; an id that is held already, or comes twice, leads to its last slot."""
        self._make_room(len(ids))
        shift = self._links_from - self._base
        for sample_id in ids:
            number, hashed = self.next - self._base, hash(sample_id) & _LOW
            bucket = hashed & len(self._table) - 1
            before = self._table.item(bucket)
            older, newer = self._search(sample_id, hashed, before)
            self._table[bucket] = number
            self._hashes[number - shift] = hashed
            self._links[number - shift] = before
            if older:
                self._links[(newer or number) - shift] = self._links[older - shift]
                self._links[older - shift] = _NO_NUMBER
            self._keep((sample_id,))

    def _any_is_held(self, ids: Sequence[str], hashes: UInt32s, before: UInt32s) -> bool:
        """Whether one of n ids is held.

        ``hashes`` [n] are those of the ids, and ``before`` [n] the numbers at which their chains begin.
        """
        lowest, shift = self.first - self._base, self._links_from - self._base
        rows = (before >= lowest).nonzero()[0]
        numbers = before.take(rows)
        while len(rows) > _FEW:
            at = numbers - np.uint32(shift)
            for alike in (self._hashes.take(at) == hashes.take(rows)).nonzero()[0].tolist():
                if self.id(self._base + numbers.item(alike)) == ids[rows.item(alike)]:
                    return True
            numbers = self._links.take(at)
            left = (numbers >= lowest).nonzero()[0]
            numbers, rows = numbers.take(left), rows.take(left)
        last = zip(rows.tolist(), numbers.tolist(), strict=True)
        return any(self._search(ids[row], hashes.item(row), number)[0] for row, number in last)

    def _enter(self, numbers: UInt32s, buckets: Int64s) -> set[int]:
        """The numbers that share a bucket, among n ascending numbers that are put into their buckets.

        Each number must lead already to the one that its bucket had before.
        """
        self._table[buckets] = numbers
        # If several share a bucket, it has the last of them; each of the others is put right behind that one.
        first, shift = self._table[buckets], self._links_from - self._base
        behind = (first != numbers).nonzero()[0]
        pairs = list(zip(first.take(behind).tolist(), numbers.take(behind).tolist(), strict=True))
        for newer, older in pairs:
            self._links[older - shift] = self._links[newer - shift]
            self._links[newer - shift] = older
        return {number for pair in pairs for number in pair}

    def _keep(self, ids: Sequence[str]) -> None:
        """Keep the texts of the next slots."""
        self.next += len(ids)
        self._tail.extend(ids)
        if len(self._tail) >= PIECE_ROWS:
            whole = len(self._tail) // PIECE_ROWS * PIECE_ROWS
            self._pieces += [_Piece(self._tail[at : at + PIECE_ROWS]) for at in range(0, whole, PIECE_ROWS)]
            del self._tail[:whole]

    # Room ------------------------------------------------------------------------------------------------------------

    def forget_below(self, until: int) -> None:
        """Forget every slot below ``until``."""
        self.first = until
        gone = min((until - self._texts_from) // PIECE_ROWS, len(self._pieces))
        del self._pieces[:gone]
        self._texts_from += gone * PIECE_ROWS

    def renumber(self, first: int) -> None:
        """Give the first held slot the number ``first`` and the others the following ones."""
        shift = first - self.first
        self.first += shift
        self.next += shift
        self._base += shift
        self._links_from += shift
        self._texts_from += shift

    def _make_room(self, more: int) -> None:
        """Make the arrays, the numbers and the table large enough for ``more`` slots."""
        begin, end = self.first - self._links_from, self.next - self._links_from
        if end + more > len(self._hashes):
            size = (len(self) + more) * 9 // 8 + PIECE_ROWS
            self._hashes = _moved(self._hashes[begin:end], size)
            self._links = _moved(self._links[begin:end], size)
            self._links_from = self.first
        size = _table_size(len(self) + more)
        if not size <= len(self._table) < size * _SHRINK or self.next + more - self._base > _NO_NUMBER:
            self._make_table(size)

    def _make_table(self, size: int) -> None:
        """Make the table anew from the slots that are held, with a base that gives them the lowest numbers."""
        self._table = np.zeros(size, dtype=np.uint32)
        self._base = self._links_from - 1
        end = self.next - self._base
        for begin in range(self.first - self._base, end, _PART):
            numbers = np.arange(begin, min(begin + _PART, end), dtype=np.uint32)
            numbers = numbers[self._links[numbers - 1] != _NO_NUMBER]
            buckets = self._hashes[numbers - 1].astype(np.int64) & size - 1
            self._links[numbers - 1] = self._table[buckets]
            self._enter(numbers, buckets)


class _Piece:
    """Some texts end to end, in UTF-8, each followed by a zero byte."""

    __slots__ = ("_data", "_ends")

    def __init__(self, texts: Sequence[str]) -> None:
        self._data = ("\0".join(texts) + "\0").encode("utf-8", "surrogatepass")
        # Most texts are never read, so their ends are computed when the first one is.
        self._ends: npt.NDArray[np.unsignedinteger] | None = None
        if self._data.count(0) > len(texts):  # A text has a zero byte of its own.
            lengths = [len(text.encode("utf-8", "surrogatepass")) + 1 for text in texts]
            self._ends = np.cumsum(lengths, dtype=np.uint32) - np.uint32(1)

    def text(self, place: int) -> str:
        """The text at a place, counted from 0."""
        if self._ends is None:
            ends = (np.frombuffer(self._data, dtype=np.uint8) == 0).nonzero()[0]
            self._ends = ends.astype(np.min_scalar_type(len(self._data)))
        begin = self._ends.item(place - 1) + 1 if place else 0
        return self._data[begin : self._ends.item(place)].decode("utf-8", "surrogatepass")


def _moved(numbers: UInt32s, size: int) -> UInt32s:
    """An array uint32[size] that begins with ``numbers``; the rest is unset."""
    longer = np.empty(size, dtype=np.uint32)
    longer[: len(numbers)] = numbers
    return longer


def _table_size(ids: int) -> int:
    """The number of buckets, a power of two, for so many ids."""
    return max(min(1 << (ids * _ROOMY).bit_length(), _LARGE), 1 << int(ids * _TIGHT).bit_length())
