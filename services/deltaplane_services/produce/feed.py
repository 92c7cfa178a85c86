"""The producer of a replay: chunks of a file in, records of samples and retirements out.

The largest event time published so far is used as the time of the log.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Flags, Int64s
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, Samples
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.messages import Outgoing
from deltaplane_services.produce.event_clock import select
from deltaplane_services.produce.feed_options import ImbalanceSchedule, ReplayOptions
from deltaplane_services.readers import RowBlock, codes_of

__all__ = ["LATEST_RETIREMENT_ROWS", "Feed", "Published", "PublishedBatch"]

LATEST_RETIREMENT_ROWS = 10_000


@dataclass(frozen=True)
class PublishedBatch:
    """One record of samples, as the worker gets it; of its n rows the lines in the file, and the places in the block.

    Both are int64[n].
    """

    partition: int
    samples: Samples
    line_numbers: Int64s
    places: Int64s


@dataclass(frozen=True)
class Published:
    """What was published for one chunk: at most one batch for each partition, and the ids that were retired before it.

    ``now`` is the time of the log, in milliseconds since the epoch.
    """

    batches: list[PublishedBatch]
    retired: list[str]
    now: int


class Feed:
    """Turns blocks of rows into records; a seeded generator chooses the rows to thin out and to retire.

    ``rare``: the positive class if rows are thinned out.
    """

    def __init__(self, definition: StreamDefinition, options: ReplayOptions, rare: str | None = None) -> None:
        self.definition = definition
        self._codec = codec_of(definition)
        self.now = 0  # Milliseconds since the epoch.
        self.rows = 0
        self.thinned = 0
        self.rare = rare
        self.retirements = 0
        self._options = options
        self._random = np.random.default_rng(options.seed)
        self._thinning = None if options.imbalance is None else _Thinning(options.imbalance, rare)
        self.line_offset = 0
        """The lines of earlier files, added to line numbers that serve as ids."""
        self._due: list[tuple[int, int, str]] = []
        self._chosen = 0
        longest = definition.nested_windows.windows[definition.nested_windows.longest]
        latest = longest.length if longest.counted else LATEST_RETIREMENT_ROWS
        self._latest = latest if len(definition.nested_windows.windows) == 1 else min(latest, LATEST_RETIREMENT_ROWS)

    def publish(self, block: RowBlock) -> tuple[list[Outgoing], Published]:
        """(records of one chunk, what was published); retirements that are due come first."""
        return self.publish_chosen(self.choose(block))

    def choose(self, block: RowBlock) -> RowBlock:
        """The rows of a chunk that are to be published, all at once or one after another, in order.

        What is left to chance is decided here, so that it does not hang on when they are.
        """
        if self._thinning is not None:
            kept = self._thinning.keep(block.labels, self._random)
            self.thinned += len(block) - int(np.count_nonzero(kept))
            block = select(block, np.flatnonzero(kept))
        self._schedule(block)
        self._chosen += len(block)
        return block

    def publish_chosen(self, block: RowBlock) -> tuple[list[Outgoing], Published]:
        """The same as :meth:`publish`, of rows that have been chosen."""
        records, retired = self._retire(self.rows)
        self.rows += len(block)
        batches = list(self._partitioned(block))
        for batch in batches:
            records.append(self._codec.sample_batch(batch.partition, batch.samples))
        return records, Published(batches, retired, self.now)

    def finish(self) -> tuple[list[Outgoing], Published]:
        """(records of all retirements that are not published yet, what was published), at the end of the file."""
        records, retired = self._retire(2**62)
        return records, Published([], retired, self.now)

    def _schedule(self, block: RowBlock) -> None:
        """Choose the rows of a block that will be retired, each at a random later moment."""
        if not self._options.retire_fraction:
            return
        chosen = np.flatnonzero(self._random.random(len(block)) < self._options.retire_fraction)
        delays = self._random.integers(1, self._latest + 1, size=len(chosen))
        ids = self._ids(block)
        for row, delay in zip(chosen.tolist(), delays.tolist(), strict=True):
            heapq.heappush(self._due, (self._chosen + row + delay, self._chosen + row, ids[row]))

    def _retire(self, rows: int) -> tuple[list[Outgoing], list[str]]:
        records, retired = [], []
        while self._due and self._due[0][0] <= rows:
            sample_id = heapq.heappop(self._due)[2]
            retired.append(sample_id)
            retirement = Retirement(sample_id, "replay", 0, time=self.now)
            records.append(self._codec.retirement_of(self.definition.partition_of(sample_id), retirement))
        self.retirements += len(retired)
        return records, retired

    def _partitioned(self, block: RowBlock) -> Iterator[PublishedBatch]:
        """The rows of a block as batches, one for each partition that has any."""
        if not len(block):
            return
        times = block.event_times_milliseconds
        if times is None:
            times = np.zeros(len(block), dtype=np.int64)
        self.now = max(self.now, int(times.max()))
        table, codes = codes_of(block.labels)
        ids = self._ids(block)
        if self.definition.partitions == 1:
            samples = Samples.of_record(ids, times, table, codes, block.features, self.now)
            yield PublishedBatch(0, samples, block.line_numbers, np.arange(len(block)))
            return
        home = self.definition.partitions_of(ids)
        for partition in np.unique(home).tolist():
            rows = np.flatnonzero(home == partition)
            mine = [ids[row] for row in rows.tolist()]
            samples = Samples.of_record(mine, times[rows], table, codes[rows], block.features[rows], self.now)
            yield PublishedBatch(partition, samples, block.line_numbers[rows], rows)

    def _ids(self, block: RowBlock) -> list[str]:
        """The ids of a block: the file's own, or the line numbers."""
        return block.ids if block.ids is not None else list(map(repr, (block.line_numbers + self.line_offset).tolist()))


class _Thinning:
    """Drops rows at random, so that the ratio of negatives to positives follows a schedule."""

    def __init__(self, schedule: ImbalanceSchedule, positive: str | None) -> None:
        assert positive is not None, "whoever thins rows out says which class is to be rare"
        self._schedule = schedule
        self._positive = positive
        self._rows = 0
        # One imagined row of each class makes the estimate defined before both have been seen.
        self._seen = np.ones(2)

    def keep(self, labels: Sequence[str], random: np.random.Generator) -> Flags:
        """bool[n]: the rows to keep; the ratio of the file itself is estimated from the rows seen so far."""
        positive = np.fromiter((label == self._positive for label in labels), dtype=np.bool_, count=len(labels))
        self._seen += (np.count_nonzero(~positive), np.count_nonzero(positive))
        at = np.arange(self._rows, self._rows + len(labels))
        self._rows += len(labels)
        wanted = np.exp(np.interp(at, self._schedule.rows, np.log(self._schedule.ratios)))
        natural = self._seen[0] / self._seen[1]
        chance = np.where(positive, np.minimum(1.0, natural / wanted), np.minimum(1.0, wanted / natural))
        kept: Flags = random.random(len(labels)) < chance
        return kept
