"""``deltaplane produce``: publishes the rows of a file, or of a pipe as they come, to a stream's samples topic."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import sample_publisher
from deltaplane_services.kafka.publishing import Publisher
from deltaplane_services.produce.event_clock import longest_step, refuse_bogus_times
from deltaplane_services.produce.feed import Feed
from deltaplane_services.produce.feed_options import ReplayOptions, complete_definition, reader_options
from deltaplane_services.produce.line_ids import LineIds
from deltaplane_services.produce.refused_rows import Listed, Refusals
from deltaplane_services.readers import LivePipe, ReadAhead, ReaderError, RowBlock, is_live, open_rows, rechunk
from deltaplane_services.system.interrupts import Interrupts

__all__ = ["LEAVE_SECONDS", "TURN_SECONDS", "Produced", "produce"]

TURN_SECONDS = 0.1
"""Seconds between checks, while a command waits for rows, whether it was interrupted or a delivery has failed."""

LEAVE_SECONDS = 1.0


@dataclass(frozen=True)
class Produced:
    """The numbers of rows and retirements published and of rows refused, and the first refused rows.

    ``interrupted``: whether an interrupt ended the command before the end of the source.
    """

    rows: int
    retirements: int
    seconds: float
    refused: int
    first_refused: list[Listed]
    interrupted: bool = False


def produce(settings: ServiceSettings, options: ReplayOptions, within_seconds: float = 0.5) -> Produced:
    """What was published of a file, in batches of ``options.chunk`` rows, or of a pipe as it is written.

    Rows of a pipe are sent at the latest ``within_seconds`` after they were read, if necessary in a batch that is not
    full. The first interrupt ends the reading, and rows that were read are still sent; a second one ends that, too.
    Raises :class:`DeliveryFailed` if a batch does not arrive, and :class:`ReaderError` if the file is damaged, once the
    rows before the damage have been published.
    """
    # This raises if something is missing for these options, such as a column with the time.
    complete_definition(options, settings.definition.features, None)
    rows = _Rows(sample_publisher(settings), Feed(settings.definition, options), LineIds(options.source))
    started = time.monotonic()
    with Interrupts() as interrupts, ExitStack() as stack:
        pipe = stack.enter_context(LivePipe(options.source)) if is_live(options.source) else None
        ahead = ReadAhead(_read(pipe, options), leave_seconds=None if pipe is None else LEAVE_SECONDS)
        arriving = _Arriving(ahead, pipe, lambda: interrupts.heard, rows.out.check)
        blocks: Iterator[RowBlock | None] = arriving.blocks(math.inf if pipe is None else within_seconds)
        if settings.definition.nested_windows.timed and pipe is None:
            # Rows of a pipe are new, and workers compare their times with the time of the log.
            of_file = (block for block in blocks if block is not None)
            blocks = refuse_bogus_times(of_file, longest_step(settings.definition))
        whole = False
        try:
            with interrupts.held():
                # Reading begins here, so that an interrupt that comes with the first row is held, too.
                stack.enter_context(ahead)
                if pipe is not None:
                    stack.callback(pipe.stop)
                for block in rechunk(blocks, options.chunk):
                    rows.publish(block)
                    if options.rows_per_second is not None:
                        arriving.pause(started + rows.feed.rows / options.rows_per_second)
                    if arriving.is_over():
                        break
                if not arriving.interrupted:
                    rows.finish()
                whole = True
        except KeyboardInterrupt:
            # The first interrupt is raised at the end of the work, a second one at once.
            if not whole:
                raise
        rows.out.flush()
    if arriving.fault is not None:
        raise arriving.fault
    return rows.produced(time.monotonic() - started, interrupted=arriving.interrupted)


@dataclass
class _Rows:
    """Publishes blocks of rows, and counts what was published and refused."""

    out: Publisher
    feed: Feed
    ids: LineIds
    refusals: Refusals = field(default_factory=Refusals)

    def publish(self, block: RowBlock) -> None:
        for refused in block.refused:
            self.refusals.add_unreadable(refused)
        records, _ = self.feed.publish(self.ids.named(block))
        self.out.publish(records)

    def finish(self) -> None:
        """Publish the retirements that are still to come."""
        records, _ = self.feed.finish()
        self.out.publish(records)

    def produced(self, seconds: float, *, interrupted: bool) -> Produced:
        refused = self.refusals
        return Produced(self.feed.rows, self.feed.retirements, seconds, refused.total, refused.listed, interrupted)


def _read(pipe: LivePipe | None, options: ReplayOptions) -> Iterator[RowBlock]:
    """The blocks of the source, which is opened when the first is asked for: opening a pipe may have to wait."""
    with open_rows(options.source if pipe is None else pipe, reader_options(options.definition_file)) as reader:
        yield from reader


class _Arriving:
    """Blocks of rows as they arrive, until the end or an interrupt."""

    def __init__(
        self, ahead: ReadAhead, pipe: LivePipe | None, heard: Callable[[], bool], each_turn: Callable[[], None]
    ) -> None:
        self.interrupted = False
        self.fault: ReaderError | None = None
        self._ahead = ahead
        self._pipe = pipe
        self._heard = heard
        self._each_turn = each_turn

    def blocks(self, within_seconds: float) -> Iterator[RowBlock | None]:
        """The blocks, and a None whenever the rows before it have waited for ``within_seconds``.

        After an interrupt, the whole lines that a pipe had brought by then still come, and nothing more of a file.
        """
        due = math.inf
        while True:
            self._wait(due)
            if self.interrupted and self._pipe is None:
                return
            if self._ahead.wait(0.0):
                try:
                    block = next(self._ahead)
                except StopIteration:
                    return
                except ReaderError as fault:
                    # An interrupted pipe ends with this error. Other errors are raised after the rows before them.
                    self.fault = None if self.interrupted else fault
                    return
                due = min(due, time.monotonic() + within_seconds)
                yield block
            if time.monotonic() >= due:
                due = math.inf
                yield None

    def _wait(self, due: float) -> None:
        """Wait until there is a block or an interrupt, or the time is ``due``."""
        self._look()
        while not self._ahead.wait(min(TURN_SECONDS, max(0.0, due - time.monotonic()))):
            self._each_turn()
            self._look()
            if time.monotonic() >= due:
                return

    def pause(self, until: float) -> None:
        """Wait until a moment of the monotonic clock, or an interrupt."""
        while not self.interrupted and (left := until - time.monotonic()) > 0:
            time.sleep(min(TURN_SECONDS, left))
            self._look()

    def is_over(self) -> bool:
        """Whether to stop before the rows at hand are published: after an interrupt, for a file."""
        self._look()
        return self.interrupted and self._pipe is None

    def _look(self) -> None:
        if self._heard() and not self.interrupted:
            self.interrupted = True
            if self._pipe is not None:
                self._pipe.stop()
