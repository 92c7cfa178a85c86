"""``deltaplane produce``: the rows of a file onto a stream's samples topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from deltaplane_services.kafka.clients import sample_publisher
from deltaplane_services.readers import RowBlock, open_rows, rechunk
from deltaplane_services.replay.clock import longest_step, refuse_bogus_times
from deltaplane_services.replay.feed import Feed
from deltaplane_services.replay.options import ReplayOptions, complete_definition, reader_options
from deltaplane_services.replay.refusals import Listed, Refusals
from deltaplane_services.settings import ServiceSettings


@dataclass(frozen=True)
class Produced:
    """What was published, and the first rows that could not be."""

    rows: int
    retirements: int
    seconds: float
    refused: int
    first_refused: list[Listed]


def produce(settings: ServiceSettings, options: ReplayOptions) -> Produced:
    """Publish a file in batches of ``options.chunk`` rows.

    Raises :class:`DeliveryFailed` if one does not arrive, and :class:`ReaderError` where the file is damaged: the rows
    before the damage are published then.
    """
    # Says what is missing for these options, such as a column with the time.
    complete_definition(options, settings.definition.features, None)
    out = sample_publisher(settings)
    refusals = Refusals()
    feed = Feed(settings.definition, options)
    started = time.monotonic()
    with ExitStack() as stack:
        stack.callback(out.flush)
        reader = stack.enter_context(open_rows(options.source, reader_options(options)))
        blocks: Iterator[RowBlock] = reader
        if settings.definition.ladder.timed:
            blocks = refuse_bogus_times(blocks, longest_step(settings.definition))
        for block in rechunk(blocks, options.chunk):
            for refused in block.refused:
                refusals.add_unreadable(refused)
            records, _ = feed.publish(block)
            out.publish(records)
            if options.rows_per_second is not None:
                time.sleep(max(0.0, started + feed.rows / options.rows_per_second - time.monotonic()))
        records, _ = feed.finish()
        out.publish(records)
    return Produced(feed.rows, feed.retirements, time.monotonic() - started, refusals.total, refusals.listed)
