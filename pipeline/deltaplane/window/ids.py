"""The ids of the slots that a partition holds, and the slot of the last version of each.

The problem: a dictionary of texts takes some 180 bytes an id, as much as 45 features do. How it is solved: texts lie
end to end in pieces of many ids; a table leads from the hash of an id, of 32 bits, to the last slot in its bucket, and
each slot leads to the one before it there (chaining: Knuth, The Art of Computer Programming 3, 6.4). That is about 20
bytes an id beside its own text, and a batch is searched and entered by a few array operations.

Slots leave in the order they came, and a chain goes from the newer to the older: so nothing need be taken out, and a
chain ends at the first slot that is no longer held. When an id comes again, its older slot is taken out, so that a
chain is no longer than the number of ids that meet in it. A search trusts no hash: what it finds is compared with the
id itself. Python's hash of a text is another in every process, so nobody can choose ids that meet in one bucket, and
nothing that leaves this module depends on it.

In the table and the chains a slot goes by its *number*, uint32: how far it is from a base that moves once in four
thousand million slots.
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
"""All numbers are below it; a slot that is in no chain any more leads to it."""

_ROOMY = 4
"""Buckets an id, at least, while the table is small."""

_LARGE = 2**18
"""Buckets of a table, a megabyte, up to which room is cheaper than the time that searches take."""

_TIGHT = 4 / 3
"""Buckets an id, at least, of a larger table."""

_SHRINK = 4
"""So many times too large, a table is made anew."""

_PART = 2**16
"""Slots that are entered into a new table at a time, so that it takes little memory."""

_FEW = 8
"""So few ids are searched one by one, which takes less than array operations do."""


class IdIndex:
    """Ids of the slots ``first`` to ``next``; an id is found at the last slot that was given to it."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.next = first
        self._base = first - 1
        # The last number in each bucket. Zero is never held.
        self._table = np.zeros(1, dtype=np.uint32)
        # The hash of each slot from one on that is not after the first, and the number before it in its bucket.
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
        """The number of an id in a chain that begins at a number, zero where it has none there; and what led to it."""
        newer, lowest, shift = 0, self.first - self._base, self._links_from - self._base
        while number >= lowest:
            if self._hashes.item(number - shift) == hashed and self.id(self._base + number) == sample_id:
                return number, newer
            newer, number = number, self._links.item(number - shift)
        return 0, newer

    # Batches ---------------------------------------------------------------------------------------------------------

    def add_if_new(self, ids: Sequence[str]) -> bool:
        """Give the next slots to some ids, where none of them is held and all differ; else change nothing."""
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
        """Give the next slots to some ids; of one that is held, or comes twice, the last slot is the one it has."""
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
        """Whether one of n ids, whose hashes are given, is in its chain, which begins at a number of ``before``."""
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
        """Put n numbers, ascending, that lead to the last ones, into their buckets; those that meet are returned."""
        self._table[buckets] = numbers
        # Of those that meet, the last has the bucket, and each of the others comes right behind it, in its turn.
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

    def let_go(self, until: int) -> None:
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
        """See to it that ``more`` slots have somewhere to lie, numbers, and buckets enough."""
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
        """Make the table anew, of what is held, under the least numbers that there can be."""
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
    """Texts one after the other, in UTF-8, each with a zero byte behind it."""

    __slots__ = ("_data", "_ends")

    def __init__(self, texts: Sequence[str]) -> None:
        self._data = ("\0".join(texts) + "\0").encode("utf-8", "surrogatepass")
        # Most texts are never looked at, so their ends are found when one is.
        self._ends: npt.NDArray[np.unsignedinteger] | None = None
        if self._data.count(0) > len(texts):  # A text has such a byte in it.
            lengths = [len(text.encode("utf-8", "surrogatepass")) + 1 for text in texts]
            self._ends = np.cumsum(lengths, dtype=np.uint32) - np.uint32(1)

    def text(self, place: int) -> str:
        """One of the texts."""
        if self._ends is None:
            ends = (np.frombuffer(self._data, dtype=np.uint8) == 0).nonzero()[0]
            self._ends = ends.astype(np.min_scalar_type(len(self._data)))
        begin = self._ends.item(place - 1) + 1 if place else 0
        return self._data[begin : self._ends.item(place)].decode("utf-8", "surrogatepass")


def _moved(numbers: UInt32s, size: int) -> UInt32s:
    """A longer array that begins with some numbers."""
    longer = np.empty(size, dtype=np.uint32)
    longer[: len(numbers)] = numbers
    return longer


def _table_size(ids: int) -> int:
    """Buckets, a power of two, for so many ids."""
    return max(min(1 << (ids * _ROOMY).bit_length(), _LARGE), 1 << int(ids * _TIGHT).bit_length())
