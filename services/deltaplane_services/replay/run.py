"""One replay: file → producer → topics → workers → merger → model, in process, a chunk at a time.

Each chunk is published whole, then the pipeline runs one round, so that every chunk is scored by the model that
existed before it (test, then train).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DefinitionError
from deltaplane.exact.ordinary import FillValue
from deltaplane.log.headline import positive_of
from deltaplane.log.model import Model
from deltaplane.log.prequential import PrequentialSeries
from deltaplane.log.records import DeadLetter
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.processors.messages import SAMPLES, Outgoing
from deltaplane_services.produce.column_choice import ColumnChoice
from deltaplane_services.produce.event_clock import longest_step, refuse_bogus_times
from deltaplane_services.produce.feed import Feed, Published
from deltaplane_services.produce.feed_options import (
    ReplayOptions,
    complete_definition,
    flat_because,
    needs_first_rows,
)
from deltaplane_services.produce.refused_rows import Refusals
from deltaplane_services.readers import ReadAhead, ReaderError, RowBlock, RowReader, open_rows, rechunk, shuffled
from deltaplane_services.replay.by_row import ROWS_AT_ONCE, ByRowPipeline, by_row, slow_from_the_start
from deltaplane_services.replay.first_rows import (
    classes_known,
    first_blocks,
    marks,
    refuse_measurements,
    row_numbers,
    rows_to_fit_on,
    with_positive,
)
from deltaplane_services.replay.held_rows import HeldRows, Labelled
from deltaplane_services.replay.label_order import LabelOrder
from deltaplane_services.replay.labels_seen import LabelsSeen
from deltaplane_services.replay.oracle import Oracle
from deltaplane_services.replay.pipeline import EmbeddedPipeline, Pipeline
from deltaplane_services.replay.prediction_file import PredictionFile
from deltaplane_services.replay.predictions import Predictions
from deltaplane_services.replay.result import ReplayError, ReplayResult, Snapshot
from deltaplane_services.replay.saved import SavedReplay, save
from deltaplane_services.replay.scored_batches import scored_batches
from deltaplane_services.replay.verdict import Verdict, verdict_of
from deltaplane_services.replay.yardsticks import Yardsticks
from deltaplane_services.system.interrupts import Interrupts
from deltaplane_services.system.output_files import PRIVATE, OutputFile

__all__ = ["OpenPipeline", "Progress", "embedded", "replay"]


Progress = Callable[[Callable[[], Snapshot]], None]
"""Called after every chunk with what takes a snapshot, so that a display may take fewer than there are chunks."""


OpenPipeline = Callable[[StreamDefinition], Pipeline]


def embedded(
    options: ReplayOptions, warn: Callable[[str], None] = lambda _: None, saved: SavedReplay | None = None
) -> OpenPipeline:
    """The pipeline in this process; ``warn`` is told why a replay row by row will be slow, if it will."""

    def open_pipeline(definition: StreamDefinition) -> Pipeline:
        if slow := slow_from_the_start(definition, options):
            warn(slow)
        if by_row(definition, options):
            warn_later: Callable[[str], None] = (lambda _: None) if slow else warn
            return ByRowPipeline(definition, options.seed, warn_later, keep_scored=True)
        return EmbeddedPipeline(
            definition,
            options.seed,
            keep_window=options.save is not None,
            keep_scored=True,
            broker=None if saved is None else saved.broker,
            now=0 if saved is None else saved.now,
        )

    return open_pipeline


def replay(
    options: ReplayOptions, on_progress: Progress, open_pipeline: OpenPipeline, saved: SavedReplay | None = None
) -> ReplayResult:
    """Run a file through the whole pipeline, which is opened once the stream's definition is complete.

    With ``saved`` the file is what comes behind the rows of that replay, whose logs the pipeline goes on with.

    Raises :class:`DeltaplaneError` with a message for the user if the file or the options cannot be used. An
    interrupt (Ctrl-C, SIGTERM) ends the replay early, after the chunk that is in work, with the result so far; a second
    one ends it at once, without a result.
    """
    choice = ColumnChoice(options)
    source = options.content or options.source
    with Interrupts() as interrupts, open_rows(source, choice.reader_options) as reader, ExitStack() as stack:
        options = choice.completed(options)
        stack.enter_context(blas_threads(options.blas_threads))
        blocks: Iterator[RowBlock] = reader
        if (
            options.content is not None or Path(options.source).is_file()
        ):  # A pipe may keep its reader waiting, and nobody could end it.
            blocks = stack.enter_context(ReadAhead(reader))
        if options.shuffle is not None:
            blocks = shuffled(blocks, options.shuffle)
        fits = needs_first_rows(options)
        first = list(first_blocks(blocks)) if fits or options.needs_positive else []
        refuse_measurements(options, first)
        options, rare = with_positive(options, first)
        rows = rows_to_fit_on(first) if fits else None
        classes = classes_known(options, first)
        definition = _definition_of(options, reader.feature_names, rows, classes, saved)
        blocks = chain(first, blocks)
        if definition.nested_windows.longest_milliseconds is not None:
            clock = None if saved is None else saved.now
            blocks = refuse_bogus_times(blocks, longest_step(definition), clock)
        output = OutputFile(options.retired_ids, "retired-ids", PRIVATE) if options.retired_ids else None
        note = None if output is None else stack.enter_context(output).file
        with interrupts.held():
            pipeline = open_pipeline(definition)
            stack.callback(pipeline.close)
        feed = Feed(definition, options, rare or definition.classes.positive)
        run = _Run(options, reader, on_progress, feed, pipeline, note)
        run.file = _prediction_file(options, definition, stack)
        run.chosen, run.flat_because = rare, flat_because(options, rows, classes)
        if saved is not None:
            run.go_on_from(saved)
        run.marks = choice.marks or marks(definition, rows)
        run.row_numbers = [] if options.shuffle is not None else row_numbers(definition, rows)
        try:
            rows_at_once = ROWS_AT_ONCE if isinstance(pipeline, ByRowPipeline) else options.chunk
            run.feed(rechunk(blocks, rows_at_once), interrupts)
        except KeyboardInterrupt:
            run.ended_early = "interrupted"
        except ReaderError as fault:
            # The rows before the damage stand, and are worth their summary.
            run.ended_early = str(fault)
        result = replace(run.finish(), decisions=choice.decisions)
        if options.save is not None:
            run.save(options.save, result)
        _keep(output, run.file)
        return result


def _definition_of(
    options: ReplayOptions, features: tuple[str, ...], rows: Floats | None, classes: int, saved: SavedReplay | None
) -> StreamDefinition:
    """The complete definition, which is that of the saved replay if there is one."""
    try:
        definition = complete_definition(options, features, rows, classes)
    except DefinitionError:
        if saved is not None:
            saved.check_declared(options.stream)
        raise
    if saved is not None:
        saved.check(definition)
    return definition


def _prediction_file(options: ReplayOptions, definition: StreamDefinition, stack: ExitStack) -> PredictionFile | None:
    if options.predictions is None:
        return None
    return stack.enter_context(PredictionFile(options.predictions, definition, timed=bool(options.input.time)))


def _keep(*outputs: OutputFile | PredictionFile | None) -> None:
    for output in outputs:
        if output is not None:
            output.keep()


class _Run:
    """The moving parts of one replay."""

    def __init__(
        self,
        options: ReplayOptions,
        reader: RowReader,
        on_progress: Progress,
        feed: Feed,
        pipeline: Pipeline,
        retired_ids: IO[bytes] | None,
    ) -> None:
        self.options = options
        self.definition = feed.definition
        self.ended_early: str | None = None
        self.marks: list[FillValue] = []
        self.row_numbers: list[str] = []
        self.chosen: str | None = None
        self.flat_because: str | None = None
        self.file: PredictionFile | None = None
        self._reader = reader
        self._on_progress = on_progress
        self._retired_ids = retired_ids
        self._feed = feed
        self._pipeline = pipeline
        self._oracle = Oracle(feed.definition) if options.verify else None
        self._series = PrequentialSeries()
        self._predictions: Predictions | None = None
        if options.keep_predictions:
            self._predictions = Predictions(feed.definition, with_ids=bool(options.input.id))
        self._yardsticks = Yardsticks(feed.definition, delayed=options.label_delay is not None)
        delay = options.label_delay
        self._held = None if delay is None else HeldRows(feed.definition, delay)
        self._arrived = 0
        self._refusals = Refusals()
        self._labels = LabelsSeen()
        self._order = LabelOrder(feed.definition.classes.positive)
        self._rounding_error: Floats | None = None
        self._lines_before, self._last_line = 0, 0
        self._is_first_chunk = True
        self._first_event_time: int | None = None
        self._started = time.monotonic()

    def go_on_from(self, saved: SavedReplay) -> None:
        """Begin where another replay was saved."""
        self._lines_before = self._last_line = saved.last_line
        self._rounding_error = np.array(saved.rounding_error) if saved.rounding_error else None
        self._order.go_on_from(saved.order)
        self._feed.rows, self._feed.now = saved.rows, saved.now

    def feed(self, chunks: Iterator[RowBlock], interrupts: Interrupts) -> None:
        """Publish chunk after chunk, and let the pipeline see each before the next; interrupted only between two."""
        for chunk in chunks:
            with interrupts.held():
                self._take(chunk)
            if self.options.rows_per_second is not None:
                due = self._started + self._arrived / self.options.rows_per_second
                time.sleep(max(0.0, due - time.monotonic()))

    def _take(self, chunk: RowBlock) -> None:
        for refused in chunk.refused:
            self._refusals.add_unreadable(refused)
        self._number_on(chunk)
        self._labels.add(chunk.labels)
        self._order.add(chunk.labels)
        if chunk.event_times_milliseconds is not None and len(chunk):
            earliest = int(chunk.event_times_milliseconds.min())
            before = self._first_event_time
            self._first_event_time = earliest if before is None else min(before, earliest)
        self._arrived += len(chunk)
        chosen = self._feed.choose(chunk)
        if self._held is None:
            self._round(*self._feed.publish_chosen(chosen))
        else:
            # What comes is predicted before anything is learned of the labels that come with it.
            self._held.arrive(chosen, self._pipeline.model, self._yardsticks.baselines.most_frequent)
            if labelled := self._held.come():
                self._round(*self._feed.publish_chosen(labelled.block), labelled)
        self._on_progress(self._snapshot)

    def _learn_the_rest(self) -> None:
        """Learn what still waits for labels: behind the end of a file they all come."""
        while self._held is not None and (labelled := self._held.rest(self.options.chunk)):
            self._round(*self._feed.publish_chosen(labelled.block), labelled)
            self._on_progress(self._snapshot)

    def _number_on(self, chunk: RowBlock) -> None:
        """Have line numbers go on where those of the files before this one ended."""
        lines = [*chunk.line_numbers[[0, -1]].tolist()] if len(chunk) else []
        lines += [refused.line_number for refused in chunk.refused]
        if lines and self._is_first_chunk:
            # Lines above the first row hold no rows: a header.
            self._is_first_chunk = False
            self._feed.line_offset = self._lines_before - (min(lines) - 1) if self._lines_before else 0
        self._last_line = max([self._last_line, *(line + self._feed.line_offset for line in lines)])

    def save(self, path: Path, result: ReplayResult) -> None:
        """Put down what another replay can go on from."""
        assert isinstance(self._pipeline, EmbeddedPipeline), "only what runs in this process is saved"
        error = [] if result.rounding_error is None else result.rounding_error.tolist()
        broker, now = self._pipeline.logs(self._feed.now), self._feed.now
        order, columns = self._order.to_dict(), self.options.input
        state = SavedReplay(self.definition, columns, self._feed.rows, now, self._last_line, error, order, broker)
        save(state, result.model.digest, path)

    def _worst_rounding(self) -> Floats | None:
        error = self._pipeline.rounding_error()
        return error if error is None or self._rounding_error is None else np.maximum(error, self._rounding_error)

    def finish(self) -> ReplayResult:
        """Retire what is still to be retired, drain the pipeline, verify, and sum up."""
        if self.ended_early != "interrupted":
            self._learn_the_rest()
        records, published = self._feed.finish()
        self._round(records, published)
        self._pipeline.drain(published.now)
        self._harvest(published)
        seconds = time.monotonic() - self._started
        model = self._pipeline.model
        self._check_declared(model)
        assert model is not None, "a stream with two live classes has a model"
        positive, chosen = self._positive(model)
        return ReplayResult(
            source=self.options.source,
            definition=self.definition,
            options=self.options,
            model=model,
            rows=self._feed.rows,
            seconds=seconds,
            points=self._series.points(self._feed.rows, model, self._pipeline.deviations, self._yardsticks.take),
            deviations=self._pipeline.deviations(),
            first_event_time_milliseconds=self._first_event_time,
            refusals=self._refusals,
            thinned=self._feed.thinned,
            rounding_error=self._worst_rounding(),
            marks=self.marks,
            verification=None if self._oracle is None else self._oracle.verify(model),
            ended_early=self.ended_early,
            positive=positive,
            positive_chosen=chosen,
            verdict=self._verdict(model, positive),
            notes=self._notes(positive, chosen=chosen),
            labels=dict(self._labels.rows.most_common()),
            data=None if self.options.continues else self._labels.data,
            predictions=self._predictions,
            yardsticks=self._yardsticks,
        )

    def _positive(self, model: Model) -> tuple[str | None, bool]:
        """The class whose recall is the sensitivity, and whether it was chosen here: of two, the rarer first rows.

        None of more than two classes, as long as nobody names one.
        """
        named, plane = self.definition.classes.positive, model.plane
        rarer = positive_of(named, plane, model.scores)
        if named is not None or plane is None or rarer is None:
            return named, named is not None and named == self.chosen
        rare = self._labels.rarest() if self.chosen is None and not self.options.continues else self.chosen
        # The first rows may be of one class, or of some that have been forgotten since.
        return (rare if rare in plane.classes else rarer), True

    def _notes(self, positive: str | None, *, chosen: bool) -> tuple[str, ...]:
        classes = self.definition.classes
        declared = classes.names or ((classes.positive,) if classes.positive is not None else ())
        notes = [*self._reader.notes, *self.row_numbers, *self._labels.notes(declared)]
        rare = positive if chosen else self.chosen
        if rare is not None:
            against = " against all others," if classes.positive is not None else ""
            fewest = f"the positive class is {rare!r},{against} of which the first rows have fewest"
            notes.append(f"{fewest}; --positive names another")
        if self.flat_because is not None:
            notes.append(f"no curved candidates (--feature-map auto): {self.flat_because}")
        if self._held is not None and self._held.rows:
            notes.append(f"{self._held.rows:,} rows that were read wait for their labels, and are not learned")
        return tuple(notes)

    def _verdict(self, model: Model, positive: str | None) -> Verdict:
        letters = self._refusals.total - self._refusals.counts["unreadable"]
        return verdict_of(model, self._feed.rows, letters, self._order, self.options, positive)

    def _round(self, records: list[Outgoing], published: Published, labelled: Labelled | None = None) -> None:
        # What comes now is scored by the model that there is before it comes.
        model = self._pipeline.model
        self._pipeline.publish(records, published.now)
        if self._retired_ids is not None:
            self._retired_ids.writelines(f"{_as_line(sample_id)}\n".encode() for sample_id in published.retired)
        if self._oracle is not None:
            self._oracle.note(published)
        self._pipeline.advance(published.now)
        scored = self._pipeline.scored()
        for sink in (self._predictions, self.file):
            if sink is not None:
                sink.add(scored_batches(published.batches, scored, model, sink.names))
        self._yardsticks.add(published.batches, scored, labelled)
        if self._pipeline.model is not None:
            self._yardsticks.learned(self._feed.rows, self._pipeline.model)
            self._series.add(self._feed.rows, self._pipeline.model, self._pipeline.deviations, self._yardsticks.take)
        self._harvest(published)

    def _harvest(self, published: Published) -> None:
        """Note what the stream refused."""
        for letter in self._pipeline.dead_letters():
            self._refusals.add_dead_letter(letter, _line_number(letter, published))

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            rows=self._feed.rows,
            refused=self._refusals.total,
            seconds=time.monotonic() - self._started,
            fraction=self._fraction(),
            recent=self._series.recent,
            model=self._pipeline.model,
        )

    def _fraction(self) -> float | None:
        total = self._reader.bytes_total
        return self._reader.bytes_read / total if total else None

    def _check_declared(self, model: Model | None) -> None:
        """Raise :class:`ReplayError` with the reason if there is no classifier."""
        rows, refused = self._feed.rows, self._refusals
        labels = self._labels.rows
        seen = ", ".join(sorted(labels)[:12])
        label = self.options.input.label
        column = "" if label is None else f" in column {label!r}"
        others = f"; {refused.total} rows were refused: {refused.told()}" if refused.total else ""
        positive = self.definition.classes.positive
        if model is None or not model.totals.get("applied"):
            why = f": {refused.told()}" if refused.total else ""
            raise ReplayError(f"{self.options.source}: none of {rows + refused.total} rows could be used{why}")
        if positive is not None and positive not in labels:
            raise ReplayError(
                f"{self.options.source}: no row has the positive label {positive!r}{column};"
                f" labels seen: {seen}; name one of them with --positive{others}"
            )
        if len(labels) == 1:
            raise ReplayError(
                f"{self.options.source}: all {rows} rows that could be read have the label {seen!r}{column};"
                f" a separating plane needs two classes{others}"
            )


def _as_line(sample_id: str) -> str:
    """An id as one line: as it is, or in JSON if it would not be one line of printable text."""
    return sample_id if sample_id.isprintable() and not sample_id.startswith('"') else json.dumps(sample_id)


def _line_number(letter: DeadLetter, published: Published) -> int:
    """The line of the file that a dead letter is about; 0 if it is about no line."""
    for batch in published.batches:
        if letter.topic == SAMPLES and letter.partition == batch.partition and letter.row is not None:
            return int(batch.line_numbers[letter.row])
    return 0
