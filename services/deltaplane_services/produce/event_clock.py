"""The check of event times in a file: a bogus date is refused, and a real gap is not.

A live producer can compare an event time with a clock; a file has only its own order. One bogus date (a mistyped year)
must not carry the watermark away and empty the window. But a real gap in the data (a weekend, a month without readings)
must not be taken for one. So a row more than ``max_skew`` ahead of all rows before it is believed only if most of the
rows right behind it have moved, too, at least half as far. The verdict depends on the file alone, not on its chunks.

The ``max_skew`` that follows from the windows is about clocks and the log, and there is no log here: in a file whose
rows are an hour apart, not every row should need such witnesses. So if a definition has the ``max_skew`` that fits its
windows, a row may be a day ahead of all before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Int64s, Positions
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.readers import RefusedRow, RowBlock

__all__ = ["WITNESSES", "longest_step", "refuse_bogus_times", "select"]

WITNESSES = 10
"""The number of rows behind a jump that are looked at, to see whether time has really moved."""


def longest_step(definition: StreamDefinition) -> int:
    """How far ahead of all rows before it a row is believed without witnesses, in milliseconds."""
    skew = definition.max_skew_milliseconds
    return limits.LONGEST_SKEW_MILLISECONDS if skew == definition.nested_windows.fitting_skew_milliseconds else skew


def refuse_bogus_times(
    blocks: Iterable[RowBlock], max_skew_milliseconds: int, clock: int | None = None
) -> Iterator[RowBlock]:
    """The blocks, with rows of bogus event times among their refused rows. All blocks must have event times.

    ``clock`` is the largest event time of the rows before these, in milliseconds since the epoch; None if there were
    none.
    """
    for block, following in pairwise(chain(blocks, (None,))):
        assert block is not None, "only the last of a chain with an end mark is the mark"
        if not len(block):
            yield block
            continue
        times = _times(block)
        ahead = _times(following)[:WITNESSES] if following is not None else np.zeros(0, dtype=np.int64)
        if clock is None:
            clock = int(np.median(np.concatenate((times, ahead))[: WITNESSES + 1]))
        bogus, clock = _judge(times, ahead, clock, max_skew_milliseconds)
        yield _without(block, bogus, max_skew_milliseconds) if bogus else block


def _times(block: RowBlock) -> Int64s:
    if block.event_times_milliseconds is None:
        raise AssertionError("a clock was asked about rows without event times")
    return block.event_times_milliseconds


def _judge(times: Int64s, ahead: Int64s, clock: int, max_skew: int) -> tuple[list[int], int]:
    """(rows of ``times`` that are bogus, the clock after them); ``ahead`` are the times that follow."""
    latest = np.maximum.accumulate(np.concatenate(([clock], times)))
    if (times - latest[:-1] <= max_skew).all():
        return [], int(latest[-1])
    bogus = []
    every = np.concatenate((times, ahead))
    for row, time in enumerate(times.tolist()):
        if time - clock > max_skew:
            witnesses = every[row + 1 : row + 1 + WITNESSES]
            # A witness must have moved at least half as far: in a file whose rows are days apart, all are ahead.
            there = witnesses - clock > max(max_skew, (time - clock) // 2)
            if 2 * np.count_nonzero(there) <= len(witnesses):
                bogus.append(row)
                continue
        clock = max(clock, time)
    return bogus, clock


def _without(block: RowBlock, bogus: list[int], max_skew: int) -> RowBlock:
    times = _times(block)
    refused = [
        RefusedRow(
            int(block.line_numbers[row]),
            f"event time {np.datetime64(int(times[row]), 'ms')} is more than {max_skew / 86_400_000:g} days (max_skew)"
            " ahead of all rows before it, and the rows behind it are not there",
            "",
        )
        for row in bogus
    ]
    kept = np.delete(np.arange(len(block)), bogus)
    every = tuple(sorted((*block.refused, *refused), key=lambda row: row.line_number))
    return replace(select(block, kept), refused=every)


def select(block: RowBlock, rows: Positions) -> RowBlock:
    """The block with only some of its rows, and all of its refused ones."""
    times = block.event_times_milliseconds
    return RowBlock(
        features=block.features[rows],
        labels=[block.labels[row] for row in rows.tolist()],
        ids=None if block.ids is None else [block.ids[row] for row in rows.tolist()],
        event_times_milliseconds=None if times is None else times[rows],
        line_numbers=block.line_numbers[rows],
        refused=block.refused,
    )
