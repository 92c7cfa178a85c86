"""The edges of the windows that slide over the slots of one partition: which slots lie inside each of them.

The rows themselves are in buffer.py. Slots are numbered from the start of the partition's log, so that what a count
window holds is arithmetic on slot numbers. A slot *counts* in a window if it lies inside and is *current*: the last
version of its id, and not retired. Whether a slot lies inside depends on samples alone:

    count of N      the last N slots                                  slot >= slots_to - N  (in whole panes)
    time of T       event time above the watermark minus T            no grace for late rows: inside or not
    all             every slot

The windows are nested: whatever one of them holds, the longest holds, too. The cost of a row does not depend on the
length of a window. A count window drops a run of slots. A time window keeps each batch that came sorted by event time,
and a heap of these runs by the next event time that will leave.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Int32s, Int64s
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.stream.sample import AdmittedSamples
from deltaplane.window.buffer import RowBuffer

__all__ = ["NO_WATERMARK", "SHORTEST_RUN", "Arrivals", "WindowEdges"]

NO_WATERMARK = -(2**63)
"""The watermark of a stream that has seen no sample, in milliseconds."""


@dataclass(frozen=True)
class Arrivals:
    """A batch that will take the slots from ``first`` on.

    ``codes`` int32[n] are the class codes of this partition. ``late`` bool[n] marks rows that lie outside every window
    when they come, and is None if there are none. ``seen`` int64[n] is the watermark just before each row, in
    milliseconds, and is None if no window is one of time.
    """

    samples: AdmittedSamples
    codes: Int32s
    first: int
    late: Flags | None
    seen: Int64s | None

    def is_late(self, row: int) -> bool:
        """Whether a row lies outside every window when it comes."""
        return self.late is not None and bool(self.late[row])

    def watermark_before(self, row: int) -> int:
        """The largest event time seen before a row, in milliseconds."""
        return NO_WATERMARK if self.seen is None else int(self.seen[row])

    def same(self, a: int, b: int) -> bool:
        """Whether two rows have the same grid row, class and event time."""
        times, rows = self.samples.event_times, self.samples.quantized
        return bool(self.codes[a] == self.codes[b] and times[a] == times[b] and np.array_equal(rows[a], rows[b]))


_Run = tuple[Int64s, Int64s]
"""(sorted event times of a run of slots, the slots in that order)."""

_Entry = tuple[int, int, int, _Run | None]
"""(next event time that will leave, first slot of the run, position in the run, the run or None for a single slot)."""

SHORTEST_RUN = 16
"""Fewer new slots than this are queued one by one, which takes less time and memory than a sorted run of them."""

_NO_SLOTS: Int64s = np.zeros(0, dtype=np.int64)


class WindowEdges:
    """The trailing edges of all windows over one partition.

    ``advance`` moves them and returns the slots that left each window. Every slot appended so far must have been
    announced BEFORE that. ``longest`` is the index of the window that holds whatever any of them holds.
    """

    def __init__(self, nested_windows: NestedWindows, partition: int, partitions: int, first: int = 0) -> None:
        self._windows = nested_windows.windows
        self._pane = nested_windows.pane_rows
        self._shares = [window.share(partition, partitions) for window in nested_windows.windows]
        self._starts = [first for _ in nested_windows.windows]
        self._horizons = [NO_WATERMARK for _ in nested_windows.windows]
        self._heaps: dict[int, list[_Entry]] = {
            index: [] for index, window in enumerate(nested_windows.windows) if window.kind == "time"
        }
        self._tail = first
        self.longest = max(range(len(self._windows)), key=lambda index: _length(self._windows[index]))

    def announce(self, slot: int, times: Int64s) -> None:
        """Take note of n new slots from ``slot`` on, with their event times int64[n] in milliseconds."""
        if not self._heaps:
            return
        if len(times) < SHORTEST_RUN:
            for heap in self._heaps.values():
                for at, time in enumerate(times.tolist(), start=slot):
                    heapq.heappush(heap, (time, at, 0, None))
            return
        for start in range(0, len(times), limits.BLOCK_ROWS):
            block = times[start : start + limits.BLOCK_ROWS]
            order = np.argsort(block, kind="stable")
            run = (block[order], order + (slot + start))
            for heap in self._heaps.values():
                heapq.heappush(heap, (int(run[0][0]), slot + start, 0, run))

    def inside(self, window: int, slots: Int64s, times: Int64s) -> Flags:
        """bool[n]: which of the slots int64[n], with event times int64[n], lie inside a window now."""
        if self._windows[window].kind == "time":
            return times > self._horizons[window]
        return slots >= self._starts[window]

    def holds_all_from(self, window: int, slot: int) -> bool:
        """Whether a window is sure to hold every slot from ``slot`` on; of a time window that is never sure."""
        return self._windows[window].kind != "time" and slot >= self._starts[window]

    def holds_none_before(self, window: int, slot: int) -> bool:
        """Whether a window is sure to hold no slot before ``slot``; of a time window that is never sure."""
        return self._windows[window].kind == "count" and slot <= self._starts[window]

    def is_inside(self, slot: int, time: int) -> bool:
        """Whether a slot with this event time lies inside the longest window now; if not, it lies inside none."""
        if self._windows[self.longest].kind == "time":
            return time > self._horizons[self.longest]
        return slot >= self._starts[self.longest]

    def will_be_inside(self, slot: int, time: int, next_slot: int, watermark: int) -> bool:
        """Whether a slot with this event time is inside the longest window at ``next_slot`` slots and ``watermark``."""
        window = self._windows[self.longest]
        if window.kind == "time":
            return time > max(self._horizons[self.longest], watermark - window.length)
        return window.kind == "all" or slot >= self._count_start(self.longest, next_slot)

    def advance(self, next_slot: int, watermark: int) -> list[Int64s]:
        """For each window, the slots int64[n] that leave it as it moves on to ``next_slot`` slots and ``watermark``."""
        return [self._advance_one(index, next_slot, watermark) for index in range(len(self._windows))]

    def _advance_one(self, index: int, next_slot: int, watermark: int) -> Int64s:
        window = self._windows[index]
        if window.kind == "count":
            start, begin = self._count_start(index, next_slot), self._starts[index]
            self._starts[index] = start
            return np.arange(begin, start, dtype=np.int64) if start > begin else _NO_SLOTS
        if window.kind == "all" or watermark == NO_WATERMARK:
            return _NO_SLOTS
        horizon = max(self._horizons[index], watermark - window.length)
        self._horizons[index] = horizon
        return _left_behind(self._heaps[index], horizon)

    def _count_start(self, index: int, next_slot: int) -> int:
        """The first slot inside a count window if there are ``next_slot`` slots."""
        return max(self._starts[index], (next_slot - self._shares[index]) // self._pane * self._pane)

    def oldest_inside(self, buffer: RowBuffer) -> int:
        """The oldest slot that any window holds, current or not; ``buffer.next`` if no window holds one."""
        if self._windows[self.longest].kind != "time":
            return max(self._starts[self.longest], buffer.first)
        # Horizons only move up, so that a slot that has been passed over is never inside again.
        self._tail = max(self._tail, buffer.first)
        horizon, most = self._horizons[self.longest], 1
        while self._tail < buffer.next:
            inside = buffer.times_from(self._tail, most) > horizon
            first = int(inside.argmax())
            if inside[first]:
                self._tail += first
                break
            self._tail += len(inside)
            most = 256
        return self._tail


def _length(window: Window) -> int:
    return 2**63 if window.kind == "all" else window.length


def _left_behind(heap: list[_Entry], horizon: int) -> Int64s:
    """The slots int64[n] whose event times are not above the horizon; they are taken off the heap of runs."""
    left: list[Int64s] = []
    single: list[int] = []
    while heap and heap[0][0] <= horizon:
        _, slot, position, run = heap[0]
        if run is None:
            single.append(slot)
            heapq.heappop(heap)
            continue
        times, slots = run
        end = int(np.searchsorted(times, horizon, side="right"))
        left.append(slots[position:end])
        if end < len(times):
            heapq.heapreplace(heap, (int(times[end]), slot, end, run))
        else:
            heapq.heappop(heap)
    if single:
        left.append(np.array(single, dtype=np.int64))
    return np.concatenate(left) if left else _NO_SLOTS
