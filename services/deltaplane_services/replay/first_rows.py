"""What the first rows of a file decide: the grid, the positive class, and numbers that probably mean "missing"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.exact.ordinary import FillValue, likely_fill_values
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.readers import RowBlock
from deltaplane_services.replay.labels_seen import LabelsSeen

__all__ = ["first_blocks", "marks", "rows_to_fit_on", "with_positive"]


def rows_to_fit_on(first: list[RowBlock]) -> Floats | None:
    """The first rows float64[n, d] that the grid is fitted on; None if there are none.

    n is at most ``limits.GRID_FIT_ROWS`` for every format, although blocks have different lengths.
    """
    return np.vstack([block.features for block in first])[: limits.GRID_FIT_ROWS] if first else None


def with_positive(options: ReplayOptions, first: list[RowBlock]) -> tuple[ReplayOptions, str | None]:
    """The options, and the rarest class of the first rows if an option needs a positive class and none is named.

    An objective needs this class against all others, so the options then have two classes. Thinning only needs to know
    the class, and all classes stay.
    """
    if options.needs_positive is None:
        return options, None
    labels = LabelsSeen()
    for block in first:
        labels.add(block.labels)
    rare = labels.rarest(options.needs_positive)
    if options.makes_two_classes:
        options = options.with_stream(classes=replace(options.stream.classes, positive=rare))
    return options, rare


def marks(definition: StreamDefinition, rows: Floats | None) -> list[FillValue]:
    """Numbers in the first rows float64[n, d] that probably mean "missing"; none for rows that column rules made."""
    return [] if rows is None or definition.columns is not None else likely_fill_values(definition.features, rows)


def first_blocks(blocks: Iterator[RowBlock]) -> Iterator[RowBlock]:
    """The first blocks, until they hold enough rows to fit a grid on; all of them if there are fewer rows."""
    rows = 0
    for block in blocks:
        rows += len(block)
        yield block
        if rows >= limits.GRID_FIT_ROWS:
            return
