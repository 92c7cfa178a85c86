"""The rows of one partition in arrival order, and the windows that slide over them.

Every admitted sample takes the next *slot*; slots are numbered from the start of the partition's log, so what a count
window holds is arithmetic on slot numbers. A slot is *counted* in a window when it lies inside it and is *current*:
the last version of its id, and not retired. Whether a slot lies inside depends on samples alone:

    count of N      the last N slots                                  slot >= slots_to - N  (in whole panes)
    time of T       event time above the watermark minus T            out-of-order rows need no grace: inside or not
    all             every slot

What leaves is handed out as the very grid rows (int32) that came in, so that what is subtracted is what was added.
Cost per row does not depend on the length of a window: count windows give up a run of slots, time windows keep each
arriving run sorted by event time and a heap of runs by the next time that will leave.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.definition import WindowLadder

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

NO_WATERMARK = -(2**63)
"""The watermark of a stream that has seen no sample, in milliseconds."""

BYTES_PER_ROW_BESIDE_FEATURES = 4 + 8 + 8 + 1
"""Class code, event time, offset and the current flag of a slot; ids and their index come on top."""


class RowBuffer:
    """Slots ``first`` to ``next`` of a partition: rows [n, d] int32 with id, class code, event time and log offset.

    Columns are arrays with spare room at both ends; growing and letting go copy each row a bounded number of times.
    """

    def __init__(self, features: int, first: int = 0) -> None:
        self.first = first
        self.next = first
        self._start = 0
        self._rows = np.empty((64, features), dtype=np.int32)
        self._codes = np.empty(64, dtype=np.int32)
        self._times = np.empty(64, dtype=np.int64)
        self._offsets = np.empty(64, dtype=np.int64)
        self._current = np.empty(64, dtype=np.bool_)
        self._ids: list[str] = []
        self._slot_of: dict[str, int] = {}

    def __len__(self) -> int:
        return self.next - self.first

    def append(self, ids: Sequence[str], placed: Floats, codes: Int32s, times: Int64s, offsets: Int64s) -> int:
        """Add n rows after the last, all current, and point their ids at them; the first new slot is returned."""
        count = len(ids)
        begin = self._start + len(self)
        if begin + count > len(self._codes):
            self._move(max(2 * (len(self) + count), 64))
            begin = len(self)
        end = begin + count
        self._rows[begin:end] = placed
        self._codes[begin:end] = codes
        self._times[begin:end] = times
        self._offsets[begin:end] = offsets
        self._current[begin:end] = True
        slot = self.next
        self._ids.extend(ids)
        self._slot_of.update(zip(ids, range(slot, slot + count), strict=True))
        self.next += count
        return slot

    def _move(self, capacity: int) -> None:
        """Copy the live part of every column to the front of a new array."""
        live = slice(self._start, self._start + len(self))
        for name in ("_rows", "_codes", "_times", "_offsets", "_current"):
            column = getattr(self, name)
            moved = np.empty((capacity, *column.shape[1:]), dtype=column.dtype)
            moved[: len(self)] = column[live]
            setattr(self, name, moved)
        del self._ids[: self._start]
        self._start = 0

    def let_go(self, until: int) -> None:
        """Forget every slot below ``until``."""
        if until <= self.first:
            return
        for at in range(self.first, until):
            sample_id = self._ids[self._start + at - self.first]
            if self._slot_of.get(sample_id) == at:
                del self._slot_of[sample_id]
        self._start += until - self.first
        self.first = until
        if self._start > 1024 + len(self):
            self._move(max(2 * len(self), 64))

    def renumber(self, first: int) -> None:
        """Give the first held slot the number ``first`` and the others the following ones."""
        shift = first - self.first
        self.first += shift
        self.next += shift
        self._slot_of = {sample_id: slot + shift for sample_id, slot in self._slot_of.items()}

    def slot_of(self, sample_id: str) -> int | None:
        """The slot of the last version of an id, if it is held."""
        return self._slot_of.get(sample_id)

    def holds_none_of(self, ids: Sequence[str]) -> bool:
        """True when no id of a batch is held."""
        return self._slot_of.keys().isdisjoint(ids)

    def at(self, slots: Int64s) -> npt.NDArray[np.intp]:
        """Places in the columns of some slots."""
        return slots - (self.first - self._start)

    def rows(self, slots: Int64s) -> npt.NDArray[np.int32]:
        """Grid rows int32[n, d] of some slots."""
        return self._rows[self.at(slots)]

    def codes(self, slots: Int64s) -> Int32s:
        """Class codes int32[n] of some slots."""
        return self._codes[self.at(slots)]

    def times(self, slots: Int64s) -> Int64s:
        """Event times int64[n] in milliseconds of some slots."""
        return self._times[self.at(slots)]

    def offset(self, slot: int) -> int:
        """The log offset of the record that brought a slot."""
        return int(self._offsets[slot - self.first + self._start])

    def id(self, slot: int) -> str:
        """The sample id of a slot."""
        return self._ids[slot - self.first + self._start]

    def current(self, slots: Int64s) -> Flags:
        """bool[n]: which of some slots are the last version of their id and not retired."""
        return self._current[self.at(slots)]

    def is_current(self, slot: int) -> bool:
        """Whether one slot is the last version of its id and not retired."""
        return bool(self._current[slot - self.first + self._start])

    def set_dead(self, slots: Int64s) -> None:
        """Mark slots as replaced or retired."""
        self._current[self.at(slots)] = False

    def same_content(self, slot: int, placed: Floats, code: int, time: int) -> bool:
        """Whether a slot holds this very grid row, class and event time."""
        at = slot - self.first + self._start
        return bool(
            self._codes[at] == code and self._times[at] == time and np.array_equal(self._rows[at], placed)
        )


class WindowEdges:
    """Where each window of a ladder ends now, for one partition.

    ``advance`` moves the edges and says, per window, which slots have been left behind. It must be called with every
    slot appended so far announced through ``announce``.
    """

    def __init__(self, ladder: WindowLadder, partition: int, partitions: int, first: int = 0) -> None:
        self._ladder = ladder
        self._shares = [window.share(partition, partitions) for window in ladder.windows]
        self._starts = [first for _ in ladder.windows]
        self._horizons = [NO_WATERMARK for _ in ladder.windows]
        # One heap a time window: (next event time to leave, first slot of the run, position in the run).
        self._heaps: list[list[tuple[int, int, int]]] = [[] for _ in ladder.windows]
        self._runs: dict[int, tuple[Int64s, Int64s]] = {}
        self._run_order: deque[int] = deque()
        self._tail = first
        self._timed = any(window.kind == "time" for window in ladder.windows)

    def announce(self, slot: int, times: Int64s) -> None:
        """Take note of a run of new slots from ``slot`` on, with their event times int64[n]."""
        if not self._timed:
            return
        for start in range(0, len(times), limits.BLOCK_ROWS):
            block = times[start : start + limits.BLOCK_ROWS]
            order = np.argsort(block, kind="stable")
            self._runs[slot + start] = (block[order], order + (slot + start))
            self._run_order.append(slot + start)
            for window, heap in zip(self._ladder.windows, self._heaps, strict=True):
                if window.kind == "time":
                    heapq.heappush(heap, (int(block[order[0]]), slot + start, 0))

    def inside(self, window: int, slots: Int64s, times: Int64s) -> Flags:
        """bool[n]: which of some slots, with these event times, lie inside a window now."""
        kind = self._ladder.windows[window].kind
        if kind == "time":
            return times > self._horizons[window]
        return slots >= self._starts[window]

    def inside_any(self, slot: int, time: int) -> bool:
        """Whether one slot, with this event time, lies inside any window now."""
        return any(
            time > horizon if window.kind == "time" else slot >= start
            for window, horizon, start in zip(self._ladder.windows, self._horizons, self._starts, strict=True)
        )

    def advance(self, next_slot: int, watermark: int) -> list[Int64s]:
        """Move every edge to (slots so far, watermark); per window, the slots that were inside and are no more."""
        return [self._advance_one(index, next_slot, watermark) for index in range(len(self._ladder.windows))]

    def _advance_one(self, index: int, next_slot: int, watermark: int) -> Int64s:
        window = self._ladder.windows[index]
        if window.kind == "all":
            return np.zeros(0, dtype=np.int64)
        if window.kind == "count":
            pane = self._ladder.pane_rows
            start = max(self._starts[index], (next_slot - self._shares[index]) // pane * pane)
            left = np.arange(self._starts[index], start, dtype=np.int64)
            self._starts[index] = start
            return left
        if watermark == NO_WATERMARK:
            return np.zeros(0, dtype=np.int64)
        horizon = max(self._horizons[index], watermark - window.length)
        self._horizons[index] = horizon
        return self._pop_until(self._heaps[index], horizon)

    def _pop_until(self, heap: list[tuple[int, int, int]], horizon: int) -> Int64s:
        """Slots whose event time is not above the horizon, taken off the heap of runs."""
        left = []
        while heap and heap[0][0] <= horizon:
            _, run, position = heap[0]
            times, slots = self._runs[run]
            end = int(np.searchsorted(times, horizon, side="right"))
            left.append(slots[position:end])
            if end < len(times):
                heapq.heapreplace(heap, (int(times[end]), run, end))
            else:
                heapq.heappop(heap)
        return np.concatenate(left) if left else np.zeros(0, dtype=np.int64)

    def oldest_inside(self, buffer: RowBuffer) -> int:
        """The oldest slot that any window holds, current or not; ``buffer.next`` where none does."""
        self._tail = max(self._tail, buffer.first)
        while self._tail < buffer.next:
            slots = np.arange(self._tail, min(self._tail + 256, buffer.next), dtype=np.int64)
            times = buffer.times(slots)
            inside = np.logical_or.reduce([self.inside(w, slots, times) for w in range(len(self._starts))])
            if inside.any():
                self._tail += int(inside.argmax())
                break
            self._tail += len(slots)
        return self._tail

    def let_go(self, until: int) -> None:
        """Forget runs that lie wholly below slot ``until``; every window has left them already."""
        while self._run_order and self._run_order[0] + len(self._runs[self._run_order[0]][0]) <= until:
            del self._runs[self._run_order.popleft()]
