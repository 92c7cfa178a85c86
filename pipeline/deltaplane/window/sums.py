"""The exact statistics of the rows that enter and leave each window of a partition.

Each row enters every window and leaves it again, and multiplying rows is most of what statistics cost. So each product
is used for every window that it serves. Windows are nested: if two of them take equally many of the same new slots,
they take the same ones. And the sums of a batch are kept until its rows leave (:mod:`deltaplane.window.kept_sums`). Of
a mixed map short windows have fewer units: their sums are a part of the others'.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.exact.statistics import Statistics, added, moments_of_pieces
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import AdmittedSamples
from deltaplane.window.buffer import RowBuffer
from deltaplane.window.kept_sums import KeptSums, Sums
from deltaplane.window.sliding import WindowEdges

__all__ = ["WindowSums"]


class WindowSums:
    """Moves the windows of one partition on, and sums the rows that enter and leave them.

    ``labels`` are those that the class codes of ``buffer`` are positions in; the list may grow.
    """

    def __init__(self, definition: StreamDefinition, labels: list[str], buffer: RowBuffer, edges: WindowEdges) -> None:
        self._definition = definition
        self._labels = labels
        self._buffer = buffer
        self._edges = edges
        self._windows = range(len(definition.nested_windows.windows))
        windows, beside = definition.nested_windows.windows, definition.feature_map.beside
        # None stands for all that a map makes of a row.
        self._units = [window.units(definition.feature_map.units) if beside else None for window in windows]
        self._left_last: dict[int | None, int] = {}
        self._known: dict[int | None, KeptSums] = {}
        for units in dict.fromkeys(self._units):
            sliding = [w for w in self._windows if self._units[w] == units and not windows[w].endless]
            self._known[units] = KeptSums(len(definition.features), len(sliding))
            if sliding:
                self._left_last[units] = max(sliding, key=lambda w: windows[w].length)

    def move(
        self,
        statistics: Statistics,
        first_new: int,
        watermark: int,
        killed: Sequence[int],
        whole: AdmittedSamples | None,
        counts: Counter[str],
    ) -> Statistics:
        """The change of every window's statistics, as the windows move on to the end of the buffer and a watermark.

        ``statistics`` are those of before. The current ones of the slots from ``first_new`` on enter. ``whole``: the
        new rows if all of them are current, else None. Of the older slots, those that are ``killed`` leave, and those
        that a window leaves behind. ``counts`` gets the number of expired rows.
        """
        leaving = self._leaving(statistics, first_new, watermark, killed, counts)
        entering = self._entering(first_new, whole, counts)
        return self._of_windows(entering) - self._of_windows(leaving)

    def kill(self, killed: Sequence[int]) -> Statistics:
        """The statistics, in each window, of some current slots, which are no longer current afterwards."""
        slots = np.array(killed, dtype=np.int64)
        taken_out = self.of(slots)
        self._buffer.set_dead(slots)
        for known in self._known.values():
            known.forget(slots)
        return taken_out

    def of(self, slots: Int64s) -> Statistics:
        """The statistics, in each window, of those of some slots that are current and inside; multiplied anew."""
        times = self._buffer.times(slots)
        parts: dict[tuple[int | None, int], Sums] = {}
        sums: list[Sums] = []
        for w, units in enumerate(self._units):
            inside = slots[self._edges.inside(w, slots, times)]
            at = units, len(inside)
            if at not in parts:
                parts[at] = self._product_at(inside, units)
            sums.append(parts[at])
        return self._of_windows(sums)

    def forget_below(self, until: int) -> None:
        """Forget the kept sums of slots below ``until``, which are no longer held."""
        for known in self._known.values():
            known.forget_below(until)

    def _leaving(
        self, statistics: Statistics, first_new: int, watermark: int, killed: Sequence[int], counts: Counter[str]
    ) -> list[Sums]:
        """For each window, the sums of the rows that leave it."""
        edges, taken_out = self._edges, self.kill(killed) if killed else None
        leaving: list[Sums] = []
        for w, left in enumerate(edges.advance(self._buffer.next, watermark)):
            if w != edges.longest and edges.holds_none_before(w, first_new):
                # All that the window held leaves it: these are its statistics.
                leaving.append(statistics.grams(w))
                continue
            units = self._units[w]
            sums = self._sums_at(left[left < first_new], units, last=w == self._left_last.get(units))
            if w == edges.longest and sums:
                counts["expired"] += sum(moments.count for moments in sums.values())
            leaving.append(added(sums, taken_out.grams(w)) if taken_out else sums)
        return leaving

    def _entering(self, first_new: int, whole: AdmittedSamples | None, counts: Counter[str]) -> list[Sums]:
        """For each window, the sums of the new slots that are current and inside."""
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
        parts: dict[tuple[int | None, int], Sums] = {}
        if whole is not None and len(insides[edges.longest]) == len(new):
            # The longest comes first, so that the parts of shorter windows are cut from its sums.
            for units, sums in self._sums_of_all(first_new, whole).items():
                parts[units, len(new)] = sums
        entering = []
        for inside, units in zip(insides, self._units, strict=True):
            at = units, len(inside)
            if at not in parts:
                parts[at] = self._sums_at(inside, units)
            entering.append(parts[at])
        return entering

    def _of_windows(self, parts: Sequence[Sums]) -> Statistics:
        """The statistics made of the sums of each window."""
        moments = {(w, label): part for w, sums in enumerate(parts) for label, part in sums.items()}
        return Statistics(self._definition.dimension, moments)

    def _sums_of_all(self, first_new: int, samples: AdmittedSamples) -> dict[int | None, Sums]:
        """The sums of new rows that are all current, by the units that windows have; they are kept for later."""
        whole = moments_of_pieces(samples.mapped(), self._buffer.codes_from(first_new), self._labels)
        by_units = {}
        for units, known in self._known.items():
            dimension = self._definition.dimension if units is None else self._definition.feature_map.beside + units + 1
            by_units[units] = sums = {label: moments.leading(dimension) for label, moments in whole.items()}
            known.keep(first_new, self._buffer.next, sums)
        return by_units

    def _sums_at(self, slots: Int64s, units: int | None, *, last: bool = False) -> Sums:
        """The sums of those of some slots that are current; ``last``: nobody will ask for these slots again."""
        if not len(slots):
            return {}
        first, until = int(slots[0]), int(slots[-1]) + 1
        if until - first == len(slots) and (slots[1:] > slots[:-1]).all():
            product = functools.partial(self._product, units=units)
            return self._known[units].between(first, until, product, last=last)
        return self._product_at(slots, units)

    def _product(self, first: int, until: int, units: int | None) -> Sums:
        """The sums of the current rows among slots ``first`` to before ``until``, multiplied anew."""
        return self._product_at(np.arange(first, until, dtype=np.int64), units)

    def _product_at(self, slots: Int64s, units: int | None) -> Sums:
        """The sums of those of some slots that are current, multiplied anew."""
        slots = slots[self._buffer.current(slots)]
        rows, feature_map = self._buffer.rows(slots), self._definition.feature_map
        pieces = ((piece, feature_map.apply(rows[piece], units)) for piece in feature_map.pieces(len(rows)))
        return moments_of_pieces(pieces, self._buffer.codes(slots), self._labels)
