"""What enters and leaves each window of a partition, as exact sums of its rows.

Each row enters every window and leaves it again, and forming products is most of what statistics cost. So what has
been formed is used for every window that it can serve: windows are nested, so that two which take as many of the same
slots take the same ones; and the sums of a batch are known (:mod:`deltaplane.window.kept_sums`) until it leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.exact.statistics import Statistics, added, moments_of_pieces
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import AdmittedSamples
from deltaplane.window.buffer import RowBuffer
from deltaplane.window.kept_sums import KnownSums, Sums
from deltaplane.window.sliding import WindowEdges

__all__ = ["WindowSums"]


class WindowSums:
    """The sums that move with the edges of a partition's windows. ``labels``: those that its class codes index."""

    def __init__(self, definition: StreamDefinition, labels: list[str], buffer: RowBuffer, edges: WindowEdges) -> None:
        self._definition = definition
        self._labels = labels
        self._buffer = buffer
        self._edges = edges
        self._windows = range(len(definition.ladder.windows))
        self._left_last = definition.ladder.left_last
        sliding = sum(window.kind != "all" for window in definition.ladder.windows)
        self._known = KnownSums(len(definition.features), sliding)

    def move(
        self,
        statistics: Statistics,
        first_new: int,
        watermark: int,
        killed: Sequence[int],
        whole: AdmittedSamples | None,
        counts: Counter[str],
    ) -> Statistics:
        """Move the windows on to the end of the buffer and to a watermark; the change of every window is returned.

        ``statistics`` are those of before. Slots from ``first_new`` on enter where they are current; ``whole``: all of
        them are, and these are their rows. Older slots that are ``killed`` leave, and so do those that are left behind.
        """
        leaving = self._leaving(statistics, first_new, watermark, killed, counts)
        entering = self._entering(first_new, whole, counts)
        return self._of_windows(entering) - self._of_windows(leaving)

    def kill(self, killed: Sequence[int]) -> Statistics:
        """Have some current slots be current no more; what they were in the windows is returned."""
        slots = np.array(killed, dtype=np.int64)
        taken_out = self.of(slots)
        self._buffer.set_dead(slots)
        self._known.forget(slots)
        return taken_out

    def of(self, slots: Int64s) -> Statistics:
        """What those of some held slots that are current are in the windows that they lie in, formed anew."""
        times = self._buffer.times(slots)
        parts: dict[int, Sums] = {0: {}}
        sums: list[Sums] = []
        for w in self._windows:
            inside = slots[self._edges.inside(w, slots, times)]
            if len(inside) not in parts:
                parts[len(inside)] = self._product_at(inside)
            sums.append(parts[len(inside)])
        return self._of_windows(sums)

    def let_go(self, until: int) -> None:
        """Slots below ``until`` are no longer held."""
        self._known.let_go(until)

    def _leaving(
        self, statistics: Statistics, first_new: int, watermark: int, killed: Sequence[int], counts: Counter[str]
    ) -> list[Sums]:
        """The sums of what leaves each window."""
        edges, taken_out = self._edges, self.kill(killed) if killed else None
        leaving: list[Sums] = []
        for w, left in enumerate(edges.advance(self._buffer.next, watermark)):
            if w != edges.longest and edges.holds_none_before(w, first_new):
                # All that it held leaves it, and the sum of that is known.
                leaving.append(statistics.grams(w))
                continue
            sums = self._sums_at(left[left < first_new], last=w == self._left_last)
            if w == edges.longest and sums:
                counts["expired"] += sum(moments.count for moments in sums.values())
            leaving.append(added(sums, taken_out.grams(w)) if taken_out else sums)
        return leaving

    def _entering(self, first_new: int, whole: AdmittedSamples | None, counts: Counter[str]) -> list[Sums]:
        """The sums of the new current slots in each window."""
        buffer, edges = self._buffer, self._edges
        new = np.arange(first_new, buffer.next, dtype=np.int64)
        if whole is None:
            new = new[buffer.current(new)]
        insides = [
            new if edges.holds_all_from(w, first_new) else new[edges.inside(w, new, buffer.times(new))]
            for w in self._windows
        ]
        if len(insides[edges.longest]) < len(new):
            counts["expired"] += len(new) - len(insides[edges.longest])
        parts: dict[int, Sums] = {0: {}}
        if whole is not None and len(insides[edges.longest]) == len(new):
            # First, so that the parts that shorter windows take are cut from it.
            parts[len(new)] = self._sums_of_all(first_new, whole)
        for inside in insides:
            if len(inside) not in parts:
                parts[len(inside)] = self._sums_at(inside)
        return [parts[len(inside)] for inside in insides]

    def _of_windows(self, parts: Sequence[Sums]) -> Statistics:
        """The sums of each window as statistics."""
        moments = {(w, label): part for w, sums in enumerate(parts) for label, part in sums.items()}
        return Statistics(self._definition.dimension, moments)

    def _sums_of_all(self, first_new: int, samples: AdmittedSamples) -> Sums:
        """The sums of new rows, all of them current, which have been mapped already."""
        sums = moments_of_pieces(samples.mapped(), self._buffer.codes_from(first_new), self._labels)
        self._known.keep(first_new, self._buffer.next, sums)
        return sums

    def _sums_at(self, slots: Int64s, *, last: bool = False) -> Sums:
        """The sums of those of some slots that are current; ``last``: nobody asks for them again."""
        if not len(slots):
            return {}
        first, until = int(slots[0]), int(slots[-1]) + 1
        if until - first == len(slots) and (slots[1:] > slots[:-1]).all():
            return self._known.between(first, until, self._product, last=last)
        return self._product_at(slots)

    def _product(self, first: int, until: int) -> Sums:
        """The sums of the current rows of a run of slots, formed anew."""
        return self._product_at(np.arange(first, until, dtype=np.int64))

    def _product_at(self, slots: Int64s) -> Sums:
        """The sums of those of some slots that are current, formed anew."""
        slots = slots[self._buffer.current(slots)]
        rows, feature_map = self._buffer.rows(slots), self._definition.feature_map
        pieces = ((piece, feature_map.apply(rows[piece])) for piece in feature_map.pieces(len(rows)))
        return moments_of_pieces(pieces, self._buffer.codes(slots), self._labels)
