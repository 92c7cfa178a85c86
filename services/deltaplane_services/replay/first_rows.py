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
from deltaplane_services.replay.labels_seen import rarest_label

__all__ = ["first_blocks", "marks", "rare", "rows_to_fit_on", "with_positive"]


def rows_to_fit_on(first: list[RowBlock]) -> Floats | None:
    """The first rows, as many from every format, though their blocks have other lengths."""
    return np.vstack([block.features for block in first])[: limits.GRID_FIT_ROWS] if first else None


def rare(definition: StreamDefinition, options: ReplayOptions, first: list[RowBlock]) -> str | None:
    """The class that is to be rare where rows are thinned out: the positive one, or the rarest of the first rows."""
    if not options.chooses_rare:
        return definition.classes.positive
    return rarest_label(_first_labels(first), "imbalance")


def with_positive(options: ReplayOptions, first: list[RowBlock]) -> ReplayOptions:
    """The options, with the rarest class of the first rows as the positive one if none is named and one is needed."""
    if not options.chooses_positive:
        return options
    positive = rarest_label(_first_labels(first), "objective")
    return replace(options, tables=lay_over(dict(options.tables), "classes", positive=positive))


def _first_labels(first: list[RowBlock]) -> list[str]:
    return [label for block in first for label in block.labels][: limits.GRID_FIT_ROWS]


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
