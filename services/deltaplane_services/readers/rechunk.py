"""Blocks of any length regrouped into blocks of one length, without a copy if a new block lies within an old one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from deltaplane_services.readers.bounds import BLOCK_ROWS
from deltaplane_services.readers.row_blocks import RefusedRow, RowBlock

__all__ = ["rechunk"]


def rechunk(blocks: Iterable[RowBlock | None], rows: int) -> Iterator[RowBlock]:
    """Blocks of exactly ``rows`` rows; the last one may be shorter. Raises ValueError unless ``rows`` is positive.

    A None among the blocks means that rows must not wait any longer: they are returned at once, in a shorter block.

    Refused rows go with the rows before them in their block, else with the rows after them. If more than
    :data:`~.bounds.BLOCK_ROWS` of them wait for rows to come, they are returned in a block without rows, so that memory
    stays bounded however bad a file is.
    """
    if rows < 1:
        raise ValueError(f"Blocks of {rows} rows were asked for; at least 1 is needed.")
    parts: list[RowBlock] = []
    waiting_rows = 0
    refused: list[RefusedRow] = []
    nothing: RowBlock | None = None
    for block in blocks:
        if block is None:
            if nothing is not None and (parts or refused):
                yield _joined(parts or [nothing], tuple(refused))
            parts, waiting_rows = [], 0
            refused.clear()
            continue
        nothing = _without_rows(block) if nothing is None else nothing
        start = 0
        refused_from = 0
        while len(block) - start >= rows - waiting_rows:
            stop = start + rows - waiting_rows
            refused_to = _refused_before(block, stop, refused_from)
            part = block.cut(start, stop)
            refused.extend(block.refused[refused_from:refused_to])
            yield _joined([*parts, part], tuple(refused))
            parts, waiting_rows, start, refused_from = [], 0, stop, refused_to
            refused.clear()
        if start < len(block):
            parts.append(block.cut(start, len(block)))
            waiting_rows += len(block) - start
        refused.extend(block.refused[refused_from:])
        if len(refused) > BLOCK_ROWS:
            yield nothing.cut(0, 0, tuple(refused))
            refused.clear()
    if nothing is not None and (parts or refused):
        yield _joined(parts or [nothing], tuple(refused))


def _refused_before(block: RowBlock, row: int, start: int) -> int:
    """The number of the block's refused rows before its row ``row``; the first ``start`` are known to be."""
    if start == len(block.refused) or row >= len(block):
        return len(block.refused)
    return bisect_left(block.refused, int(block.line_numbers[row]), lo=start, key=lambda refused: refused.line_number)


def _without_rows(like: RowBlock) -> RowBlock:
    times = None if like.event_times_milliseconds is None else np.empty(0, dtype=np.int64)
    no_features = np.empty((0, like.features.shape[1]))
    return RowBlock(no_features, [], None if like.ids is None else [], times, np.empty(0, dtype=np.int64))


def _joined(parts: list[RowBlock], refused: tuple[RefusedRow, ...]) -> RowBlock:
    """One block made of several, copied once; a single one is not copied."""
    if len(parts) == 1:
        return parts[0].cut(0, len(parts[0]), refused) if refused else parts[0]
    ids = [part.ids for part in parts if part.ids is not None]
    times = [part.event_times_milliseconds for part in parts if part.event_times_milliseconds is not None]
    return RowBlock(
        np.concatenate([part.features for part in parts]),
        list(chain.from_iterable(part.labels for part in parts)),
        list(chain.from_iterable(ids)) if ids else None,
        np.concatenate(times) if times else None,
        np.concatenate([part.line_numbers for part in parts]),
        refused,
    )
