"""Cuts what is done for many into parts that stay in the cache, or at least within bounds of memory."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["tiles"]


def tiles(outer: int, inner: int, entries: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Cut ``outer`` x ``inner`` cells of so many entries each into tiles of ``most`` entries, or of one cell.

    A tile is of some outer places and all inner ones, or, where those of one outer place are too many, of some of them.
    """
    if outer * inner * entries <= most and outer and inner:
        yield slice(0, outer), slice(0, inner)
        return
    cells = max(1, most // max(1, entries))
    together, step = max(1, cells // max(1, inner)), min(cells, max(1, inner))
    for begin in range(0, outer, together):
        for start in range(0, inner, step):
            yield slice(begin, min(begin + together, outer)), slice(start, min(start + step, inner))
