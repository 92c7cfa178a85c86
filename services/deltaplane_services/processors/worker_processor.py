"""The worker of one source: decode, score with the latest model BEFORE learning, step the window, emit one delta.

Life of a source in a worker, driven by a runner:

    claim()      append the claim; AFTER it is acknowledged, read the deltas up to it
    restore()    the accepted state; read samples and retirements again from ``resume_from``
    process()    what lies before the accepted position refills the window silently, what lies after is applied
    see_model()  whenever a newer model arrives
    (drop it)    on revocation, on loss, and on any failed delivery: nothing is committed, the next claim starts over
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltaplane.arrays import Floats
from deltaplane.errors import DeltaGap, LogReplaced, SourceBarred
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import UNKNOWN_TOPICS, Claim, Delta, Rebuild, Source, SourceState, Tile, TopicIds
from deltaplane.log.model import Model
from deltaplane.log.record_order import check_order
from deltaplane.log.records import Receipt
from deltaplane.log.scoring import NoteScored, score
from deltaplane.solve.candidates import Trials
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.event_times import unit_in_words
from deltaplane.stream.sample import Refusal
from deltaplane.window.outcomes import SampleOutcome
from deltaplane.window.partition import Partition, Step
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane.wire import write_claim, write_delta, write_receipt
from deltaplane_services.processors.intake import Batch, EventClock, Intake, refused_rows_of
from deltaplane_services.processors.messages import (
    DELTAS,
    RECEIPTS,
    RETIREMENTS,
    SAMPLES,
    Encoding,
    Outgoing,
    Output,
    Record,
    receipt_key,
    source_key,
)
from deltaplane_services.processors.portions import in_portions

__all__ = ["DEAD_LETTERED", "ResumeFrom", "WorkerProcessor"]

DEAD_LETTERED = {
    SampleOutcome.LATE: "its event time lies outside the window; send it before the window has passed",
    SampleOutcome.RETIRED_ID: "its id was retired; use a new id",
}
"""Admitted samples that become dead letters all the same, and why."""


@dataclass(frozen=True)
class ResumeFrom:
    """Where a restored worker reads on: offsets of its samples and of its retirements."""

    samples: int
    retirements: int


class WorkerProcessor:
    """One source's state in one worker's life; ``writer`` must never have been used before.

    ``topics``: those that this life reads, if brokers tell their identifiers. ``note_scored`` is told each prediction.
    """

    def __init__(
        self, definition: StreamDefinition, source: Source, writer: str, topics: TopicIds = UNKNOWN_TOPICS
    ) -> None:
        self.definition = definition
        self.source = source
        self.writer = writer
        self._topics = topics
        self.partition = Partition(definition, source.partition)
        self._intake = Intake(definition, source.partition)
        self._accepted: SourceState | None = None
        self._refilling = True
        self._sequence = 0
        self._claimed_at = 0
        # Where the next tile begins. Reading may begin later, where a log that nobody has read yet has lost its head.
        self._samples_covered = 0
        self._retirements_covered = 0
        self._samples_position = self._retirements_position = 0
        # Below these offsets the logs hold nothing more: what lies between them and the positions are gaps.
        self._read_to = (0, 0)
        # Records that came before the refill was over: what follows them may be fetched already.
        self._held_samples: list[Record] = []
        self._held_retirements: list[Record] = []
        self._model: Model | None = None
        self.note_scored: NoteScored | None = None
        self.ignored_watermarks = 0
        self._watermark = NO_WATERMARK
        self._delta_watermark = NO_WATERMARK
        # Where classes are open: how many of the labels admitted have been named by deltas, and the pairs of labels
        # that there are scores of.
        self._labels_named = 0
        self._scored: set[tuple[str, str]] = set()

    # Life ------------------------------------------------------------------------------------------------------------

    def claim(self) -> Outgoing:
        """The record that makes this writer the owner of its source."""
        claim = Claim(self.source, self.writer, self.definition.stream_fingerprint, self._topics)
        return Outgoing(DELTAS, self.source.partition, source_key(self.source), write_claim(claim))

    def restore(self, accepted: SourceState, claimed_at: int = 0) -> ResumeFrom:
        """Begin at the accepted state of the source, as it was at this writer's claim, which lies at ``claimed_at``.

        Raises :class:`SourceBarred` where the source was removed from the stream, :class:`LogReplaced` where the state
        was read from other topics than this life reads.
        """
        if accepted.barred:
            raise SourceBarred(
                f"source {self.source}: it was removed from stream {self.definition.name!r}, nothing of it is accepted;"
                f" stop this worker, or let the source in again with: deltaplane source admit {self.source}"
            )
        if accepted.begun and (other := accepted.topics.differ(self._topics)):
            raise LogReplaced(
                f"source {self.source}: its state was read from other topics than there are now under the names"
                f" {' and '.join(other)}, up to offset {accepted.samples_position} of samples and"
                f" {accepted.retirements_position} of retirements; they were deleted and made again."
                f" {self._begin_anew()}"
            )
        self._accepted = accepted
        self._claimed_at = claimed_at
        self._sequence = accepted.sequence
        self._samples_covered = accepted.samples_position
        self._retirements_covered = accepted.retirements_position
        self._intake.labels, self._labels_named = dict.fromkeys(accepted.labels), len(accepted.labels)
        self._intake.budget.restore(accepted.counts)
        self._scored = set(accepted.scores.counts)
        rebuild = accepted.rebuild
        if accepted.sequence == 0:
            rebuild = Rebuild()
        keeps = self.definition.ladder.keep_rows
        samples = rebuild.memory_from if keeps else accepted.samples_position
        self._samples_position = samples
        self._retirements_position = rebuild.retirements_window_from
        self._finish_refill_if_there()
        return ResumeFrom(samples, rebuild.retirements_window_from)

    @property
    def needed_from(self) -> tuple[int, int]:
        """Offsets of samples and of retirements from which a worker would read that took the source over now."""
        if self._refilling:
            return self.position
        samples, retirements = self._samples_covered, self._retirements_covered
        if self.definition.ladder.keep_rows:
            samples = min(self.partition.memory_from(samples), self.partition.window_from(samples))
        return samples, self.partition.retirements_window_from(retirements)

    @property
    def fenced(self) -> bool:
        """Whether a model shows that another writer, or nobody, owns the source since this one claimed it.

        A process that slept between assignment and claim may claim late. Whoever is still assigned claims again, or
        nobody's deltas count any more.
        """
        positions = () if self._model is None else self._model.positions
        return any(
            position.source == self.source and position.read_to > self._claimed_at and position.owner != self.writer
            for position in positions
        )

    @property
    def clock(self) -> EventClock:
        """How the event times of this source compare with the times at which its records were appended."""
        return self._intake.clock

    @property
    def rounding_error(self) -> Floats:
        """Largest distance between a feature's admitted values and the grid so far, float64[d], in their own units."""
        return self._intake.rounding_error

    @property
    def serving(self) -> bool:
        """False while the window is being rebuilt."""
        return not self._refilling

    @property
    def position(self) -> tuple[int, int]:
        """The next offsets of samples and retirements that ``process`` expects."""
        samples, retirements = self._held_samples, self._held_retirements
        return (
            max(self._read_to[0], samples[-1].offset + 1 if samples else self._samples_position),
            max(self._read_to[1], retirements[-1].offset + 1 if retirements else self._retirements_position),
        )

    def skip_to(self, samples: int, retirements: int) -> None:
        """Begin reading later than asked, because the log no longer reaches back to rows that are merely remembered.

        Raises :class:`DeltaGap` where rows inside the window would be missing.
        """
        accepted = self._state()
        needed = accepted.rebuild.window_from if self.definition.ladder.keep_rows else accepted.samples_position
        if accepted.begun and (samples > needed or retirements > accepted.rebuild.retirements_window_from):
            eaten = "live rows" if samples > needed else "retirements of ids that stay retired"
            raise DeltaGap(
                f"source {self.source}: a rebuild needs samples from offset {needed} and retirements from offset"
                f" {accepted.rebuild.retirements_window_from}, the log begins at {samples} and {retirements};"
                f" retention has eaten {eaten}. {self._begin_anew()}; and set retention to what deltaplane topics check"
                " expects"
            )
        self._samples_position = max(self._samples_position, samples)
        self._retirements_position = max(self._retirements_position, retirements)
        if self._refilling:
            self._finish_refill_if_there()

    def check_ends(self, samples: int, retirements: int) -> None:
        """Raise :class:`LogReplaced` where the logs end, at these offsets, before what the accepted state has read."""
        accepted = self._state()
        for topic, end, read_to in (
            (SAMPLES, samples, accepted.samples_position),
            (RETIREMENTS, retirements, accepted.retirements_position),
        ):
            if end < read_to:
                raise LogReplaced(
                    f"source {self.source}: its state has read {topic} up to offset {read_to}, the log ends at {end};"
                    f" the topic was deleted and made again, or has lost its end. {self._begin_anew()}"
                )

    def _begin_anew(self) -> str:
        """What to do where a log cannot give back what the state was made of."""
        name = self.source
        return (
            f"To go on with what the log has now, let the source begin anew: deltaplane source remove {name}, then"
            f" deltaplane source admit {name}"
        )

    def see_model(self, model: Model, log_time: int, *, newest: bool = False) -> None:
        """Take a newer model: its plane for scoring, its watermark for expiry. A lower version is ignored.

        ``log_time`` is when its record was appended, in milliseconds: a watermark that no row can have made by then is
        passed over, and counted in ``ignored_watermarks``. ``newest``: whoever shows the model knows that it is the
        newest. Of a models topic that began anew its version is low.
        """
        if not newest and not model.replaces(self._model):
            return
        self._model = model
        if not self.definition.ladder.timed:
            self.hear(model.watermark)
            return
        watermark, ignored = model.believable_watermark(log_time, self.definition.max_skew_milliseconds)
        self.ignored_watermarks += ignored
        self.hear(watermark)

    def hear(self, watermark: int) -> None:
        """Learn how far event time has come elsewhere, in milliseconds since the epoch."""
        self._watermark = max(self._watermark, watermark)

    # Work ------------------------------------------------------------------------------------------------------------

    def process(self, samples: Sequence[Record], retirements: Sequence[Record]) -> Output:
        """Apply the next records of both logs, each in order; all that :meth:`steps` gives, at once."""
        outputs = list(self.steps(samples, retirements))
        return Output(sum((one.first for one in outputs), ()), sum((one.then for one in outputs), ()))

    def steps(self, samples: Sequence[Record], retirements: Sequence[Record]) -> Iterator[Output]:
        """Apply the next records of both logs, each in order, and emit at most one delta for each portion of samples.

        Records below the position are skipped, so that a fetch may repeat itself. Raises :class:`LogDisorder`.
        """
        next_sample, next_retirement = self.position
        samples = [*self._held_samples, *self._new(samples, next_sample)]
        retirements = [*self._held_retirements, *self._new(retirements, next_retirement)]
        if self._refilling:
            self._refill(samples, retirements)
            if self._refilling:
                yield Output()
                return
            samples, retirements = self._held_samples, self._held_retirements
        self._held_samples, self._held_retirements = [], []
        for portion in in_portions(samples, retirements, self.definition):
            yield self._step(*portion)

    def _step(self, samples: Sequence[Record], retirements: Sequence[Record]) -> Output:
        expires = self.definition.ladder.timed and self._watermark > self._delta_watermark
        if not samples and not retirements and not expires:
            return Output()
        batch = self._intake.take(samples, retirements)
        step = self.partition.step(batch.samples, batch.retirements, self._watermark)
        # The model is still that of before: it has not learned these samples.
        quality = score(self._model, batch.samples, [note.row for note in step.sample_notes], self.note_scored)
        batch.counts.update(step.counts)
        return self._emit(batch, step, quality, samples, retirements)

    def _new(self, records: Sequence[Record], position: int) -> list[Record]:
        """Those of some records that lie at a position or beyond, in the order of their offsets."""
        new = [record for record in records if record.offset >= position]
        if new:
            check_order(f"{new[0].topic}-{self.source.partition}", (record.offset for record in new), position)
        return new

    def read_to(self, samples: int, retirements: int) -> None:
        """Learn that all has come that the logs hold below these offsets: the last of them may be gaps.

        A rebuild waits for no record that is not there: the last one before the accepted position may be one that
        compaction has taken out since.
        """
        self._read_to = max(self._read_to[0], samples), max(self._read_to[1], retirements)
        if self._refilling:
            accepted = self._state()
            if samples >= accepted.samples_position:
                self._samples_position = max(self._samples_position, accepted.samples_position)
            if retirements >= accepted.retirements_position:
                self._retirements_position = max(self._retirements_position, accepted.retirements_position)
            self._finish_refill_if_there()

    def _refill(self, samples: Sequence[Record], retirements: Sequence[Record]) -> None:
        """Put what lies before the accepted position back into the window, and hold what lies after it."""
        accepted = self._state()
        before = [record for record in samples if record.offset < accepted.samples_position]
        retired = [record for record in retirements if record.offset < accepted.retirements_position]
        for portion in in_portions(before, retired, self.definition):
            batch = self._intake.take(*portion)
            self._intake.budget.restore(accepted.counts)  # What is read again has its letters.
            self.partition.refill(batch.samples, batch.retirements)
        self._held_samples, self._held_retirements = list(samples[len(before) :]), list(retirements[len(retired) :])
        # A record beyond the position shows that nothing before it is left to come.
        if self._held_samples:
            self._samples_position = accepted.samples_position
        elif before:
            self._samples_position = before[-1].offset + 1
        if self._held_retirements:
            self._retirements_position = accepted.retirements_position
        elif retired:
            self._retirements_position = retired[-1].offset + 1
        self._finish_refill_if_there()

    def _finish_refill_if_there(self) -> None:
        accepted = self._state()
        if (
            self._samples_position < accepted.samples_position
            or self._retirements_position < accepted.retirements_position
        ):
            return
        self.partition.finish_refill(accepted.rebuild.slots_to, accepted.rebuild.watermark, accepted.statistics)
        self._delta_watermark = accepted.rebuild.watermark
        self._watermark = max(self._watermark, accepted.rebuild.watermark)
        self._refilling = False

    def _state(self) -> SourceState:
        if self._accepted is None:
            raise DeltaGap(
                f"source {self.source}: process() before restore(); claim, read the deltas, restore, then process"
            )
        return self._accepted

    # Output ----------------------------------------------------------------------------------------------------------

    def _emit(
        self,
        batch: Batch,
        step: Step,
        quality: tuple[Confusion, Trials | None],
        samples: Sequence[Record],
        retirements: Sequence[Record],
    ) -> Output:
        scores, trials = self._with_room(quality[0]), quality[1]
        samples_to = samples[-1].offset + 1 if samples else self._samples_covered
        retirements_to = retirements[-1].offset + 1 if retirements else self._retirements_covered
        tile = Tile(self._sequence, self._samples_covered, samples_to, self._retirements_covered, retirements_to)
        rebuild = Rebuild(
            window_from=self.partition.window_from(samples_to),
            memory_from=self.partition.memory_from(samples_to),
            retirements_window_from=self.partition.retirements_window_from(retirements_to),
            slots_to=self.partition.slots,
            watermark=self.partition.watermark,
        )
        late = self._late_letters(batch, step, samples)
        delta = Delta(
            source=self.source,
            writer=self.writer,
            stream_fingerprint=self.definition.stream_fingerprint,
            tile=tile,
            rebuild=rebuild,
            change=step.change,
            scores=scores,
            scored_by=self._model.version if self._model is not None and scores.counts else 0,
            counts=dict(batch.counts),
            trials=trials,
            labels=tuple(self._intake.labels)[self._labels_named :],
        )
        first = (*batch.letters, *late, *self._receipts(step, tile))
        self._sequence += 1
        self._labels_named = len(self._intake.labels)
        self._samples_covered, self._retirements_covered = samples_to, retirements_to
        self._samples_position = max(self._samples_position, samples_to)
        self._retirements_position = max(self._retirements_position, retirements_to)
        self._delta_watermark = self.partition.watermark
        content = Encoding(lambda: write_delta(delta), delta.change.nbytes)
        then = Outgoing(DELTAS, self.source.partition, source_key(self.source), content, delta)
        return Output(tuple(first), (then,))

    def _with_room(self, scores: Confusion) -> Confusion:
        """The scores that there is room for: of open classes a checkpoint holds so many pairs, and not those of all.

        What is predicted may be a class of another partition, and these are more in the course of time than fit.
        """
        if not self.definition.classes.are_open:
            return scores
        new = [pair for pair in scores.counts if pair not in self._scored]
        left_out = set(new[max(0, self.definition.most_classes**2 - len(self._scored)) :])
        self._scored.update(pair for pair in new if pair not in left_out)
        return scores if not left_out else Confusion({p: n for p, n in scores.counts.items() if p not in left_out})

    def _late_letters(self, batch: Batch, step: Step, samples: Sequence[Record]) -> list[Outgoing]:
        """Dead letters of admitted samples that came too late, or under a retired id."""
        notes = [note for note in step.sample_notes if note.outcome in DEAD_LETTERED]
        log_times = {record.offset: record.log_time for record in samples} if notes else {}
        refusals = []
        for note in notes:
            offset, reason = int(batch.samples.offsets[note.row]), DEAD_LETTERED[note.outcome]
            if note.outcome is SampleOutcome.LATE:
                time = int(batch.samples.event_times[note.row])
                behind = f"event time {time} ms is {log_times[offset] - time} ms behind the log"
                reason = f"{reason}; {behind}{unit_in_words(time, log_times[offset])}"
            row = int(batch.samples.rows[note.row])
            refusals.append(Refusal(batch.samples.ids[note.row], offset, row, str(note.outcome), reason))
        refused = refused_rows_of(samples, refusals, "-late")
        return self._intake.budget.letters(f"{SAMPLES} late", refused, batch.counts)

    def _receipts(self, step: Step, tile: Tile) -> list[Outgoing]:
        return [
            Outgoing(
                RECEIPTS,
                self.source.partition,
                receipt_key(self.source.partition, note.offset, self.writer, tile.sequence),
                write_receipt(
                    Receipt(
                        stream_fingerprint=self.definition.stream_fingerprint,
                        id=note.id,
                        outcome=str(note.outcome),
                        source=self.source,
                        offset=note.offset,
                        writer=self.writer,
                        sequence=tile.sequence,
                        samples_to=tile.samples_to,
                        retirements_to=tile.retirements_to,
                        digest_before=step.digest_before or "",
                        digest_after=step.digest_after or "",
                    )
                ),
            )
            for note in step.retirement_notes
        ]
