"""The ids of the slots that a partition holds, and the slot of the last version of each.

The problem: a dictionary of texts takes some 180 bytes an id, as much as 45 features do. How it is solved: texts lie
end to end in pieces of many ids; each slot keeps a hash of 32 bits; and an open-addressed table of uint32, searched by
double hashing (Knuth, The Art of Computer Programming 3, 6.4), leads from a hash to a slot. That is about 25 bytes an
id beside its own text, and a batch is searched and entered by a few array operations.

Slots leave in the order they came, so nothing is ever taken out of the table: an entry whose slot is no longer held is
*stale* and means nothing. Where entries, stale ones included, fill too much of the table, it is made anew. A search
trusts no hash: what it finds is compared with the id itself. Python's hash of a text is another in every process, so
nobody can choose ids that meet in one place, and nothing that leaves this module depends on it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

UInt32s = npt.NDArray[np.uint32]
Int64s = npt.NDArray[np.int64]

PIECE_ROWS = 1024
"""Slots of one piece of texts."""

_SPAN = 2**32 - 1
"""The table holds a slot's remainder plus one; zero is a place never used."""

_FULL = 0.6
"""Share of the table's places beyond which a search takes many steps."""

_FRESH = 0.35
"""Share of the places that is used at most when the table has been made anew."""

_LARGE = 2**18
"""Places of a table, a megabyte, up to which room is cheaper than the time to make it anew."""

_SMALLEST_TABLE = 256

_PART = 2**16
"""Places of the table that are moved to a new one at a time, so that moving takes little memory."""

_FEW = 8
"""So few ids are searched one by one, which takes less than array operations do."""


class IdIndex:
    """Ids of the slots ``first`` to ``next``; an id is found at the last slot that was given to it."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.next = first
        # The first slot whose hash is still there, and the first of the oldest piece of texts.
        self._hashes_from = self._texts_from = first
        self._hashes = np.empty(PIECE_ROWS, dtype=np.uint32)
        self._pieces: list[_Piece] = []
        self._tail: list[str] = []
        self._use(np.zeros(_SMALLEST_TABLE, dtype=np.uint32))

    def __len__(self) -> int:
        return self.next - self.first

    def _use(self, table: UInt32s) -> None:
        self._table = table
        self._places = memoryview(table.data)
        self._used = 0

    def __deepcopy__(self, memo: dict[int, object]) -> IdIndex:
        """A copy that shares nothing with this one: its view is of its own table. (No view can be copied.)"""
        other = IdIndex()
        kept = {name: value for name, value in vars(self).items() if name != "_places"}
        vars(other).update(copy.deepcopy(kept, memo))
        other._places = memoryview(other._table.data)
        return other

    # One id ----------------------------------------------------------------------------------------------------------

    def id(self, slot: int) -> str:
        """The id of a slot that is held."""
        piece, place = divmod(slot - self._texts_from, PIECE_ROWS)
        return self._pieces[piece].text(place) if piece < len(self._pieces) else self._tail[place]

    def slot_of(self, sample_id: str) -> int | None:
        """The slot of the last version of an id, if it is held."""
        return self._search(sample_id, hash(sample_id) & _SPAN)[1]

    def _search(self, sample_id: str, hashed: int) -> tuple[int, int | None]:
        """The place of an id in the table, and its slot; where it is not held, a place never used, and None."""
        places, first, held = self._places, self.first, len(self)
        last, step = len(places) - 1, hashed >> 15 | 1
        place = hashed & last
        while entry := places[place]:
            age = (entry - 1 - first) % _SPAN
            if age < held and self._hashes[first + age - self._hashes_from] == hashed:
                slot = first + age
                if self.id(slot) == sample_id:
                    return place, slot
            place = place + step & last
        return place, None

    # Batches ---------------------------------------------------------------------------------------------------------

    def add_if_new(self, ids: Sequence[str]) -> bool:
        """Give the next slots to some ids, where none of them is held and all differ; else change nothing."""
        self._make_room(len(ids))
        if len(ids) <= _FEW:
            if len(set(ids)) < len(ids) or any(self.slot_of(sample_id) is not None for sample_id in ids):
                return False
            self.add(ids)
            return True
        hashes = _hashes_of(ids)
        places = self._free_places(ids, hashes)
        if places is None:
            return False
        self._enter(np.arange(self.next, self.next + len(ids), dtype=np.int64), places, _steps(hashes))
        self._make_space(len(ids))
        begin = self.next - self._hashes_from
        self._hashes[begin : begin + len(ids)] = hashes
        self._keep(ids)
        return True

    def add(self, ids: Sequence[str]) -> None:
        """Give the next slots to some ids; of one that is held, or comes twice, the last slot is the one it has."""
        self._make_room(len(ids))
        self._make_space(len(ids))
        for sample_id in ids:
            hashed = hash(sample_id) & _SPAN
            place, slot = self._search(sample_id, hashed)
            self._used += slot is None
            self._places[place] = self.next % _SPAN + 1
            self._hashes[self.next - self._hashes_from] = hashed
            self._keep((sample_id,))

    def _free_places(self, ids: Sequence[str], hashes: UInt32s) -> UInt32s | None:
        """The place uint32[n] never used at the end of each id's search; None where one is held, or two are equal."""
        ordered = np.sort(hashes)
        if (ordered[1:] == ordered[:-1]).any() and len(set(ids)) < len(ids):
            return None
        found = places = self._way(hashes)
        steps, rows = _steps(hashes), np.arange(len(ids))
        while True:
            entries = self._table.take(places)
            used = entries.nonzero()[0]
            if len(used) <= _FEW:
                break
            places, steps, rows = places.take(used), steps.take(used), rows.take(used)
            slots, held = self._slots_of(entries.take(used))
            there, same = slots.take(held), rows.take(held)
            alike = (self._hashes.take(there - self._hashes_from) == hashes.take(same)).nonzero()[0]
            if any(self.id(int(there[at])) == ids[int(same[at])] for at in alike.tolist()):
                return None
            places = self._way(places + steps)
            found[rows] = places
        for row in rows.take(used).tolist():
            found[row], slot = self._search(ids[row], int(hashes[row]))
            if slot is not None:
                return None
        return found

    def _enter(self, slots: Int64s, places: UInt32s, steps: UInt32s) -> None:
        """Put slots int64[n] of ids that are not in the table where their searches end, from ``places`` on."""
        table = self._table
        entries = (slots % _SPAN + 1).astype(np.uint32)
        self._used += len(entries)
        while len(entries):
            free = (table.take(places) == 0).nonzero()[0]
            table[places.take(free)] = entries.take(free)
            # Where several took one place, the last has it. The others go on, like those that found theirs taken.
            left = (table.take(places) != entries).nonzero()[0]
            places, steps, entries = places.take(left), steps.take(left), entries.take(left)
            places = self._way(places + steps)

    def _way(self, at: UInt32s) -> UInt32s:
        """Places in the table, which has a power of two of them."""
        return at & np.uint32(len(self._table) - 1)

    def _slots_of(self, entries: UInt32s) -> tuple[Int64s, npt.NDArray[np.intp]]:
        """The slots int64[n] of entries, and which of them are held; the others are stale."""
        ages = (entries.astype(np.int64) - (1 + self.first)) % _SPAN
        return ages + self.first, (ages < len(self)).nonzero()[0]

    def _make_space(self, more: int) -> None:
        """See to it that the next hashes have somewhere to lie."""
        begin = self.next - self._hashes_from
        if begin + more > len(self._hashes):
            live = self._hashes[self.first - self._hashes_from : begin]
            self._hashes = np.empty((len(live) + more) * 5 // 4 + PIECE_ROWS, dtype=np.uint32)
            self._hashes[: len(live)] = live
            self._hashes_from = self.first

    def _keep(self, ids: Sequence[str]) -> None:
        """Keep the texts of the next slots."""
        self.next += len(ids)
        self._tail.extend(ids)
        if len(self._tail) >= PIECE_ROWS:
            whole = len(self._tail) // PIECE_ROWS * PIECE_ROWS
            self._pieces += [_Piece(self._tail[at : at + PIECE_ROWS]) for at in range(0, whole, PIECE_ROWS)]
            self._tail = self._tail[whole:]

    # Letting go ------------------------------------------------------------------------------------------------------

    def let_go(self, until: int) -> None:
        """Forget every slot below ``until``."""
        self.first = until
        gone = min((until - self._texts_from) // PIECE_ROWS, len(self._pieces))
        del self._pieces[:gone]
        self._texts_from += gone * PIECE_ROWS

    def renumber(self, first: int) -> None:
        """Give the first held slot the number ``first`` and the others the following ones."""
        table, shift = self._table, first - self.first
        self._use(np.zeros_like(table))
        for slots, hashes in self._entered(table):
            self._enter(slots + shift, self._way(hashes), _steps(hashes))
        self.first += shift
        self.next += shift
        self._hashes_from += shift
        self._texts_from += shift

    def _make_room(self, more: int) -> None:
        """Make the table anew, of what is held alone, where ``more`` entries would fill it too much."""
        if self._used + more <= _FULL * len(self._table):
            return
        table, size = self._table, _SMALLEST_TABLE
        # No more ids are in the table than slots are held.
        while len(self) + more > (_FRESH if size > _LARGE else _FRESH / 2) * size:
            size *= 2
        self._use(np.zeros(size, dtype=np.uint32))
        for slots, hashes in self._entered(table):
            self._enter(slots, self._way(hashes), _steps(hashes))

    def _entered(self, table: UInt32s) -> Iterator[tuple[Int64s, UInt32s]]:
        """The slots int64[n] that a table leads to, and their hashes uint32[n], part by part of the table."""
        for begin in range(0, len(table), _PART):
            part = table[begin : begin + _PART]
            slots, held = self._slots_of(part[part != 0])
            yield slots[held], self._hashes[slots[held] - self._hashes_from]


class _Piece:
    """Texts end to end, in UTF-8."""

    __slots__ = ("_data", "_ends")

    def __init__(self, texts: Sequence[str]) -> None:
        joined = "".join(texts)
        self._data = joined.encode("utf-8", "surrogatepass")
        parts = texts if joined.isascii() else [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)))
        self._ends = ends.astype(np.uint16 if len(self._data) < 2**16 else np.uint32)

    def text(self, place: int) -> str:
        """One of the texts."""
        begin = int(self._ends[place - 1]) if place else 0
        return self._data[begin : int(self._ends[place])].decode("utf-8", "surrogatepass")


def _hashes_of(ids: Sequence[str]) -> UInt32s:
    """A hash uint32[n] of each id."""
    return np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids)).astype(np.uint32)


def _steps(hashes: UInt32s) -> UInt32s:
    """How far a search goes at a time: odd, so that it comes to every place of the table."""
    return hashes >> np.uint32(15) | np.uint32(1)
