"""What blocks of rows add up to, as any engine computes it: columns in, a partial out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import AdmittedSamples, NoIds, Refusal, Samples, admit
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane_services.readers.arrow_columns import ArrowRows
from deltaplane_services.readers.coded_texts import CodedTexts, codes_of
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions, RowBlock

__all__ = [
    "UNREAD",
    "admitted_of_block",
    "check_features",
    "partial_of_admitted",
    "partial_of_batches",
    "partial_of_block",
    "samples_of_block",
]

UNREAD = "unread"
"""The kind of refusal of a row that the reader could not make numbers of."""


def samples_of_block(block: RowBlock) -> Samples:
    """The rows of a block as samples of no log, each numbered by its place in the file.

    Without a column of ids all have the same, and without times all are of 1970.
    """
    nothing = np.zeros(len(block), dtype=np.int64)
    times = block.event_times_milliseconds
    if times is None:
        times = nothing
    labels = block.labels
    table, codes = (labels.table, labels.codes) if isinstance(labels, CodedTexts) else codes_of(labels)
    ids = NoIds(len(block)) if block.ids is None else block.ids
    # No log says when rows of a table came, so that no event time is ahead of it.
    return Samples(ids, times, table, codes, block.features, nothing, block.line_numbers, log_times=times)


def admitted_of_block(definition: StreamDefinition, block: RowBlock) -> tuple[AdmittedSamples, list[Refusal]]:
    """(the rows of a block that the definition admits, the refusals)."""
    return admit(samples_of_block(block), definition)


def partial_of_admitted(
    definition: StreamDefinition, block: RowBlock, admitted: AdmittedSamples, refused: list[Refusal], where: str
) -> Partial:
    """What the ``admitted`` rows of a block add up to, with those counted that it or the definition refused."""
    partial = Partial.of_admitted(definition, admitted, refused, where)
    unread = ((UNREAD, f"{where}row {row.line_number}: {row.reason}") for row in block.refused)
    if block.event_times_milliseconds is None:
        partial = replace(partial, watermark=NO_WATERMARK)
    return partial.with_refused(unread) if block.refused else partial


def partial_of_block(definition: StreamDefinition, block: RowBlock, where: str = "") -> Partial:
    """What the rows of a block add up to; ``where`` names the file in the examples of refusals.

    Raises :class:`LimitExceeded` for more classes than the definition tells apart.
    """
    return partial_of_admitted(definition, block, *admitted_of_block(definition, block), where)


def partial_of_batches(
    definition: StreamDefinition, options: ReaderOptions, batches: Iterable[Any], where: str = ""
) -> Partial:
    """What Arrow record batches of one schema add up to: what an engine that hands out Arrow calls for each part.

    ``options`` name the columns, as :func:`deltaplane_services.produce.feed_options.reader_options` makes them of a
    definition file. Raises ReaderError if columns and options, or columns and definition, do not go together.
    """
    total, rows, first_row = Partial.zero(definition), None, 1
    for batch in batches:
        if rows is None:
            rows = ArrowRows.of_schema(batch.schema, options, where or "the table")
            check_features(definition, rows.feature_names, where)
        total = total + partial_of_block(definition, rows.block(batch, first_row), where)
        first_row += batch.num_rows
    return total


def check_features(definition: StreamDefinition, names: Sequence[str], where: str) -> None:
    """Raise ReaderError unless the features of a table are those of the definition, in its order."""
    if tuple(names) != definition.features:
        raise ReaderError(
            f"{where or 'the table'}: expected the features {', '.join(definition.features[:8])}, got"
            f" {', '.join(names[:8])}; name them with `--features`, or `features.names` in the definition"
        )
