"""What the first rows of a file decide: the grid, the positive class, and likely marks of what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.exact.ordinary import FillValue, likely_fill_values
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.definition_tables import lay_over
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.readers import RowBlock
from deltaplane_services.replay.labels_seen import LabelsSeen

__all__ = ["first_blocks", "marks", "rows_to_fit_on", "with_positive"]


def rows_to_fit_on(first: list[RowBlock]) -> Floats | None:
    """The first rows, as many from every format, though their blocks have other lengths."""
    return np.vstack([block.features for block in first])[: limits.GRID_FIT_ROWS] if first else None


def with_positive(options: ReplayOptions, first: list[RowBlock]) -> tuple[ReplayOptions, str | None]:
    """The options, and the rarest class of the first rows if some of them need a positive class and nobody names one.

    An objective has that class against all others; rows are thinned out by it, and all classes stay.
    """
    if options.needs_positive is None:
        return options, None
    labels = LabelsSeen()
    for block in first:
        labels.add(block.labels)
    rare = labels.rarest(options.needs_positive)
    if options.makes_two_classes:
        options = replace(options, tables=lay_over(dict(options.tables), "classes", positive=rare))
    return options, rare


def marks(definition: StreamDefinition, rows: Floats | None) -> list[FillValue]:
    """Likely marks of what is missing among the first rows float64[n, d]; of rows that rules have made, none."""
    return [] if rows is None or definition.columns is not None else likely_fill_values(definition.features, rows)


def first_blocks(blocks: Iterator[RowBlock]) -> Iterator[RowBlock]:
    """Blocks with enough rows to fit a grid on; all there are, if there are fewer."""
    rows = 0
    for block in blocks:
        rows += len(block)
        yield block
        if rows >= limits.GRID_FIT_ROWS:
            return
