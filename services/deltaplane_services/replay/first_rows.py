"""What the first rows of a file decide: the grid, the positive class, and numbers that probably mean "missing"."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.columns.inference import FEW_ROWS
from deltaplane.errors import DefinitionError
from deltaplane.exact.ordinary import FillValue, likely_fill_values
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.readers import RowBlock
from deltaplane_services.readers.bounds import MOST_NUMERIC_CLASSES
from deltaplane_services.replay.labels_seen import LabelsSeen

__all__ = [
    "classes_known",
    "first_blocks",
    "marks",
    "refuse_measurements",
    "row_numbers",
    "rows_to_fit_on",
    "with_positive",
]


def rows_to_fit_on(first: list[RowBlock]) -> Floats | None:
    """The first rows float64[n, d] that the grid is fitted on; None if there are none.

    n is at most ``limits.GRID_FIT_ROWS`` for every format, although blocks have different lengths.
    """
    return np.vstack([block.features for block in first])[: limits.GRID_FIT_ROWS] if first else None


def classes_known(options: ReplayOptions, first: list[RowBlock]) -> int:
    """The number of classes: two if one is positive, those that are declared, or those of the first rows."""
    if options.names_positive:
        return 2
    labels = list(options.stream.classes.names or ()) or [label for block in first for label in block.labels]
    return len(set(labels[: limits.GRID_FIT_ROWS]))


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


def refuse_measurements(options: ReplayOptions, first: list[RowBlock]) -> None:
    """Raise :class:`DefinitionError` if the labels of the first rows are measurements, each of which would be a class.

    They are if they are numbers of many values, with fractions, or nearly a value for each row.
    """
    if options.stream.classes.table or options.continues:
        return
    labels = [label for block in first for label in block.labels]
    different = set(labels)
    if len(different) <= MOST_NUMERIC_CLASSES or not all(map(_is_number, different)):
        return
    if 2 * len(different) > len(labels) or any(not float(label).is_integer() for label in different):
        column = options.input.label
        where = "the label" if column is None else f"label: column {column!r}"
        raise DefinitionError(
            f"{where} holds numbers, {len(different):,} different ones in the first {len(labels):,} rows, such as"
            f" {labels[0]}: they measure something and are no classes; name another column with --label, or the classes"
            " with --classes"
        )


def _is_number(label: str) -> bool:
    try:
        return math.isfinite(float(label))
    except ValueError:
        return False


def marks(definition: StreamDefinition, rows: Floats | None) -> list[FillValue]:
    """Numbers in the first rows float64[n, d] that probably mean "missing"; none for rows that column rules made."""
    return [] if rows is None or definition.columns is not None else likely_fill_values(definition.features, rows)


def row_numbers(definition: StreamDefinition, rows: Floats | None) -> list[str]:
    """Notes on features of the first rows float64[n, d] that number the rows, and so tell their order and nothing else.

    None for rows that column rules made: rules leave such a column out.
    """
    if rows is None or definition.columns is not None or len(rows) < FEW_ROWS:
        return []
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.diff(rows, axis=0)
    count = np.all(np.abs(steps) == 1.0, axis=0) & np.all(steps == steps[:1], axis=0)
    names = [name for name, counts in zip(definition.features, count.tolist(), strict=True) if counts]
    return [
        f"`{name}` numbers the rows, one by one, and is a feature; leave it out with `--ignore {name}`"
        for name in names
    ]


def first_blocks(blocks: Iterator[RowBlock]) -> Iterator[RowBlock]:
    """The first blocks, until they hold enough rows to fit a grid on; all of them if there are fewer rows."""
    rows = 0
    for block in blocks:
        rows += len(block)
        yield block
        if rows >= limits.GRID_FIT_ROWS:
            return
