"""The oracle: keep the samples, and compute everything from scratch by the shortest path there is.

Nothing here is shared with the fast path but the definition, the Gram matrix as a value, and the solver: rows are
placed on the grid by a plain division, products are integer products, and what is live is read off the definition of
live. Every test at every step, and ``replay --verify``, compare against it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Int64s
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import Window
from deltaplane.stream.sample import Samples
from deltaplane.window.sliding import NO_WATERMARK

__all__ = ["BLOCK", "LiveRow", "Reference", "answer_of", "exact_moments"]

BLOCK = 4096


@dataclass(frozen=True)
class LiveRow:
    """One admitted sample: its grid row (d Python integers as int64[d]), class, and event time in milliseconds."""

    id: str
    label: str
    quantized: Int64s
    event_time: int


class Reference:
    """Everything a stream was told, as plain lists.

    Samples must be given in the order of the log, partition by partition. Only what can still be live is kept: for
    count windows the last rows of each partition, otherwise the last version of each id inside the longest span.
    """

    def __init__(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self.watermark = NO_WATERMARK
        self._retired: set[str] = set()
        self._last: list[dict[str, LiveRow]] = [{} for _ in range(definition.partitions)]
        longest = max((w.length for w in definition.nested_windows.windows if w.kind == "count"), default=0)
        everything = any(w.kind != "count" for w in definition.nested_windows.windows)
        self._recent: list[deque[LiveRow]] = [
            # A pane may keep up to its length of rows beyond the window.
            deque(
                maxlen=None
                if everything
                else longest // definition.partitions + 1 + definition.nested_windows.pane_rows
            )
            for _ in range(definition.partitions)
        ]
        self._seen = [0] * definition.partitions
        self._labels: list[set[str]] = [set() for _ in range(definition.partitions)]
        self._prune_at = 1024

    def add(self, partition: int, samples: Samples) -> None:
        """Samples of one partition, raw, as they came."""
        grid, classes = self.definition.grid, self.definition.classes
        values = samples.features
        if self.definition.missing == "offset":
            values = np.where(np.isnan(values), grid.offsets, values)
        with np.errstate(invalid="ignore", over="ignore"):
            quantized = np.rint((values - grid.offsets) / grid.steps)
        fits = [bool((np.abs(row) < grid.range).all()) for row in quantized]
        timed = self.definition.nested_windows.timed
        for row, sample_id in enumerate(samples.ids):
            raw_label = samples.label_table[samples.label_codes[row]]
            label = classes.class_of(raw_label)
            named = 0 < len(sample_id.encode()) <= limits.ID_BYTES and 0 < len(raw_label.encode()) <= limits.LABEL_BYTES
            time, log_time = int(samples.event_times[row]), int(samples.log_times[row])
            ahead = time - log_time > self.definition.max_skew_milliseconds
            bogus = ahead or abs(time) >= limits.EVENT_TIME_MILLISECONDS
            if self.definition.checks_places and self.definition.partition_of(sample_id) != partition:
                continue
            if label is None or not named or not fits[row] or (timed and bogus):
                continue
            if classes.are_open and label not in self._labels[partition]:
                if len(self._labels[partition]) == self.definition.most_classes:
                    continue
                self._labels[partition].add(label)
            self._add_row(partition, LiveRow(sample_id, label, quantized[row].astype(np.int64), time))

    def _add_row(self, partition: int, row: LiveRow) -> None:
        self.watermark = max(self.watermark, row.event_time)
        self._seen[partition] += 1
        if any(window.kind == "count" for window in self.definition.nested_windows.windows):
            self._recent[partition].append(row)
        if any(window.kind != "count" for window in self.definition.nested_windows.windows):
            # A later version takes the place of an earlier one even if it is itself outside the window.
            self._last[partition].pop(row.id, None)
            self._last[partition][row.id] = row
            self._prune()

    def _prune(self) -> None:
        longest = self.definition.nested_windows.longest_milliseconds
        if longest is None or sum(map(len, self._last)) < self._prune_at:
            return
        for partition, rows in enumerate(self._last):
            self._last[partition] = {i: row for i, row in rows.items() if row.event_time > self.watermark - longest}
        self._prune_at = max(1024, 2 * sum(map(len, self._last)))

    def retire(self, sample_id: str) -> None:
        """No sample with this id counts, whenever it comes."""
        self._retired.add(sample_id)

    def live(self, window: int = 0) -> list[LiveRow]:
        """The rows counted in one of the nested windows, partition by partition."""
        rows: list[LiveRow] = []
        for partition in range(self.definition.partitions):
            rows.extend(self._live(partition, self.definition.nested_windows.windows[window]))
        return [row for row in rows if row.id not in self._retired]

    def _live(self, partition: int, window: Window) -> Sequence[LiveRow]:
        if window.kind == "all":
            return list(self._last[partition].values())
        if window.kind == "time":
            return [row for row in self._last[partition].values() if row.event_time > self.watermark - window.length]
        share, pane = window.share(partition, self.definition.partitions), self.definition.nested_windows.pane_rows
        seen = self._seen[partition]
        begin = max(0, (seen - share) // pane * pane)
        recent = list(self._recent[partition])[len(self._recent[partition]) - (seen - begin) :]
        last_version = {row.id: at for at, row in enumerate(recent)}
        return [row for at, row in enumerate(recent) if last_version[row.id] == at]

    def statistics(self) -> Statistics:
        """The statistics of what is live now, from scratch."""
        moments: dict[tuple[int, str], Moments] = {}
        for window in range(len(self.definition.nested_windows.windows)):
            by_class: dict[str, list[Int64s]] = {}
            for row in self.live(window):
                by_class.setdefault(row.label, []).append(row.quantized)
            for label, rows in by_class.items():
                features = self.definition.dimensions[window] - 1
                moments[window, label] = exact_moments(self._mapped(np.array(rows))[:, :features])
        return Statistics(self.definition.dimension, moments)

    def _mapped(self, quantized: Int64s) -> Int64s:
        """The map is the one thing that the fast path and this one share; its own tests hold it to its formula."""
        return np.asarray(self.definition.feature_map.apply(quantized), dtype=np.int64)


def exact_moments(quantized: Int64s) -> Moments:
    """``EᵀE`` of grid rows int64[n, d] by integer products: int64 if no sum can overflow, else Python's integers."""
    extended = np.hstack([quantized, np.full((len(quantized), 1), -1, dtype=np.int64)])
    largest = int(np.abs(extended).max())
    gram = np.zeros((extended.shape[1], extended.shape[1]), dtype=object)
    for start in range(0, len(extended), BLOCK):
        block = extended[start : start + BLOCK]
        if len(block) * largest * largest >= 2**63:
            block = block.astype(object)
        gram += (block.T @ block).astype(object)
    triangle = gram[np.triu_indices(len(gram))].tolist()
    data = b"".join(int(entry).to_bytes(16, "little", signed=True) for entry in triangle)
    return Moments.from_bytes(len(gram), data)


def answer_of(definition: StreamDefinition, plane: Plane, row: Sequence[float]) -> tuple[str, dict[str, float]] | None:
    """The class of one raw row of d numbers, and its decision values by class; None if there is nothing to say.

    In numbers of the language: what an answer is, step by step.
    """
    grid, values, quantized = definition.grid, [], []
    for value, step, offset in zip(row, grid.steps.tolist(), grid.offsets.tolist(), strict=True):
        filled = offset if math.isnan(value) and definition.missing == "offset" else value
        distance = (filled - offset) / step
        if not math.isfinite(distance) or abs(round(distance)) >= grid.range:
            return None
        values.append(filled)
        quantized.append(round(distance))
    if definition.feature_map.kind != "none":
        mapped = definition.feature_map.apply(np.array([quantized], dtype=np.int64))[0]
        beside = definition.feature_map.beside
        values = values[:beside] + [int(entry) * 2.0**-20 for entry in mapped[beside:]]
    decided = []
    for weights, bias in zip(plane.weights.tolist(), plane.biases.tolist(), strict=True):
        total = values[0] * weights[0]
        for value, weight in zip(values[1:], weights[1:], strict=True):
            total += value * weight
        decided.append(total - bias)
    if not all(map(math.isfinite, decided)):
        return None
    if plane.positive is None:
        return plane.classes[decided.index(max(decided))], dict(zip(plane.classes, decided, strict=True))
    other = plane.classes[1 - plane.classes.index(plane.positive)]
    return plane.positive if decided[0] > 0 else other, {plane.positive: decided[0], other: -decided[0]}
