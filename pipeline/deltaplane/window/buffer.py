"""The rows of one partition in arrival order.

Every admitted sample takes the next *slot*. The columns are split into segments of equal length, so that the buffer
grows, and gives memory back, without copying a row. A row takes 4 bytes a feature and about 40 more, a short id
included; a segment that has a row beyond 2**30 steps takes 8 bytes a feature. A live row takes about 60 bytes beside
its features in all, since the sums that are kept for it (kept_sums.py) come on top.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deltaplane import limits
from deltaplane.arrays import Flags, Int16s, Int32s, Int64s, Positions, Steps
from deltaplane.window.ids import IdIndex
from deltaplane.window.offsets import OffsetRuns

__all__ = ["SEGMENT_ROWS", "RowBuffer"]

SEGMENT_ROWS = 1024
"""Slots of a segment. Segments are given back whole, so that up to so many rows are held longer than needed."""


class _Segment:
    """The columns of ``slots`` consecutive slots: grid rows, class codes, event times, and whether each is current."""

    __slots__ = ("codes", "current", "rows", "times")

    def __init__(self, features: int, slots: int = SEGMENT_ROWS) -> None:
        self.rows: Steps = np.empty((slots, features), dtype=np.int32)
        self.codes = np.empty(slots, dtype=np.int16)
        self.times = np.empty(slots, dtype=np.int64)
        self.current = np.empty(slots, dtype=np.bool_)


def _rows(segment: _Segment) -> Steps:
    return segment.rows


def _codes(segment: _Segment) -> Int16s:
    return segment.codes


def _times(segment: _Segment) -> Int64s:
    return segment.times


def _current(segment: _Segment) -> Flags:
    return segment.current


class RowBuffer:
    """The slots from ``first`` to before ``next``: grid rows [n, d] with id, class code, event time and log offset."""

    def __init__(self, features: int, first: int = 0) -> None:
        self._features = features
        self._ids = IdIndex(first)
        self._offsets = OffsetRuns()
        # The slot at which the first segment begins.
        self._base = first
        self._segments: list[_Segment] = []
        self._nothing = _Segment(features, 0)

    @property
    def first(self) -> int:
        """The first slot held."""
        return self._ids.first

    @property
    def next(self) -> int:
        """The slot that the next row will take."""
        return self._ids.next

    def __len__(self) -> int:
        return len(self._ids)

    def append(
        self,
        ids: Sequence[str],
        quantized: Steps,
        codes: Int32s,
        times: Int64s,
        offsets: Int64s,
        *,
        new: bool = False,
    ) -> int:
        """The first slot of n rows that are added after the last, all of them current.

        The rows are ``quantized`` [n, d], with class ``codes`` [n], event ``times`` [n] in milliseconds and log
        ``offsets`` [n]. Their ids lead to the new slots from then on. ``new``: :meth:`point_if_new` has returned True
        for these ids, so that they are not entered again.
        """
        if not new:
            self._ids.add(ids)
        slot = self.next - len(ids)
        assert len(offsets) == len(ids), "each row has an offset"
        self._offsets.append(slot, offsets)
        begin, done = slot - self._base, 0
        while done < len(ids):
            at = begin + done
            if at == len(self._segments) * SEGMENT_ROWS:
                self._segments.append(_Segment(self._features))
            place = at % SEGMENT_ROWS
            count = min(len(ids) - done, SEGMENT_ROWS - place)
            segment, there, part = self._segments[-1], slice(place, place + count), slice(done, done + count)
            if quantized.dtype != segment.rows.dtype and (np.abs(quantized[part]) >= limits.GRID_RANGE).any():
                segment.rows = segment.rows.astype(np.int64)
            segment.rows[there] = quantized[part]
            segment.codes[there] = codes[part]
            segment.times[there] = times[part]
            segment.current[there] = True
            done += count
        return slot

    def point_if_new(self, ids: Sequence[str]) -> bool:
        """Whether all ids of a batch are new and different; if so, they lead to the slots that the batch will take.

        Otherwise nothing changes. Most batches are new; the caller then tells :meth:`append` so.
        """
        return self._ids.add_if_new(ids)

    def forget_below(self, until: int) -> None:
        """Forget every slot below ``until``."""
        self._ids.forget_below(until)
        self._offsets.forget_below(until)
        gone = (until - self._base) // SEGMENT_ROWS
        del self._segments[:gone]
        self._base += gone * SEGMENT_ROWS

    def renumber(self, first: int) -> None:
        """Give the first held slot the number ``first`` and the others the following ones."""
        shift = first - self.first
        self._base += shift
        self._offsets.renumber(shift)
        self._ids.renumber(first)

    # Single slots ----------------------------------------------------------------------------------------------------

    def _at(self, slot: int) -> tuple[_Segment, int]:
        segment, place = divmod(slot - self._base, SEGMENT_ROWS)
        return self._segments[segment], place

    def slot_of(self, sample_id: str) -> int | None:
        """The slot of the last version of an id, if it is held."""
        return self._ids.slot_of(sample_id)

    def id(self, slot: int) -> str:
        """The sample id of a slot."""
        return self._ids.id(slot)

    def time(self, slot: int) -> int:
        """The event time of one slot, in milliseconds."""
        segment, place = self._at(slot)
        return int(segment.times[place])

    def offset(self, slot: int) -> int:
        """The log offset of the record whose row has this slot."""
        return self._offsets.offset(slot)

    def is_current(self, slot: int) -> bool:
        """Whether one slot is the last version of its id and not retired."""
        segment, place = self._at(slot)
        return bool(segment.current[place])

    def same_content(self, slot: int, quantized: Steps, code: int, time: int) -> bool:
        """Whether a slot holds this very grid row [d], class code and event time."""
        segment, place = self._at(slot)
        return bool(
            segment.codes[place] == code
            and segment.times[place] == time
            and np.array_equal(segment.rows[place], quantized)
        )

    # Many slots ------------------------------------------------------------------------------------------------------

    def rows(self, slots: Int64s) -> Steps:
        """The grid rows [n, d] of n slots, read-only: slots of one segment that follow each other are not copied."""
        return self._column(_rows, slots)

    def codes(self, slots: Int64s) -> Int16s:
        """The class codes int16[n] of n slots, read-only."""
        return self._column(_codes, slots)

    def codes_from(self, slot: int) -> Int16s:
        """The class codes int16[n] of every slot from ``slot`` on, read-only."""
        return self._range(_codes, slot - self._base, self.next - self._base)

    def times(self, slots: Int64s) -> Int64s:
        """The event times int64[n] of n slots, in milliseconds, read-only."""
        return self._column(_times, slots)

    def times_from(self, slot: int, most: int) -> Int64s:
        """The event times int64[n] of 1 to ``most`` slots from ``slot`` on, which must be held; not copied."""
        segment, place = self._at(slot)
        return segment.times[place : min(place + most, place + self.next - slot)]

    def current(self, slots: Int64s) -> Flags:
        """bool[n]: which of n slots are the last version of their id and not retired; read-only."""
        return self._column(_current, slots)

    def set_dead(self, slots: Int64s) -> None:
        """Mark slots as replaced or retired."""
        at = slots - self._base
        for segment, _, places in self._by_segment(at):
            segment.current[places] = False

    def _column(self, of: Callable[[_Segment], npt.NDArray[Any]], slots: Int64s) -> npt.NDArray[Any]:
        """The entries of the column ``of`` at n slots."""
        at = slots - self._base
        if len(at) and int(at[-1]) - int(at[0]) == len(at) - 1 and (at[1:] > at[:-1]).all():
            return self._range(of, int(at[0]), int(at[-1]) + 1)
        pattern = of(self._nothing)
        parts = self._by_segment(at)
        kind = np.result_type(pattern, *(of(segment).dtype for segment, _, _ in parts))
        entries = np.empty((len(at), *pattern.shape[1:]), dtype=kind)
        for segment, which, places in parts:
            entries[which] = of(segment)[places]
        return entries

    def _range(self, of: Callable[[_Segment], npt.NDArray[Any]], begin: int, end: int) -> npt.NDArray[Any]:
        """The entries of the column ``of`` from place ``begin`` to before ``end``, counted from the first segment."""
        if begin == end:
            return of(self._nothing)
        first, last = begin // SEGMENT_ROWS, (end - 1) // SEGMENT_ROWS
        if first == last:
            return of(self._segments[first])[begin - first * SEGMENT_ROWS : end - first * SEGMENT_ROWS]
        parts = [of(segment) for segment in self._segments[first : last + 1]]
        parts[0], parts[-1] = parts[0][begin % SEGMENT_ROWS :], parts[-1][: end - last * SEGMENT_ROWS]
        return np.concatenate(parts)

    def _by_segment(self, at: Int64s) -> list[tuple[_Segment, Positions, Int64s]]:
        """(segment, which of the places ``at`` lie in it, their places within it) for each segment that has any."""
        numbers, places = at // SEGMENT_ROWS, at % SEGMENT_ROWS
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        cuts = (np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist()
        runs = [order[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(order)], strict=True) if end > begin]
        return [(self._segments[int(numbers[run[0]])], run, places[run]) for run in runs]
