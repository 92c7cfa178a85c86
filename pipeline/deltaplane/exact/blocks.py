"""Blocks of a large table of work, small enough for the cache or for a bound of memory."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["tiles"]


def tiles(outer: int, inner: int, entries: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Blocks (outer slice, inner slice) that cover a table of ``outer`` x ``inner`` cells, row by row.

    A cell holds ``entries`` numbers, and a block at most ``most`` of them, but one cell at least. A block has whole
    rows of the table if a row fits, else a part of one row.
    """
    if outer * inner * entries <= most and outer and inner:
        yield slice(0, outer), slice(0, inner)
        return
    cells = max(1, most // max(1, entries))
    together, step = max(1, cells // max(1, inner)), min(cells, max(1, inner))
    for begin in range(0, outer, together):
        for start in range(0, inner, step):
            yield slice(begin, min(begin + together, outer)), slice(start, min(start + step, inner))
