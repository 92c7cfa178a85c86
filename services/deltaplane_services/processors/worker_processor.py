"""The worker of one source: decode, score with the latest model BEFORE learning, step the window, emit one delta.

The life of a source in a worker, as a runner drives it:

    claim()      append the claim; AFTER it is acknowledged, read the deltas up to it
    restore()    give the accepted state; then read samples and retirements again from the offsets that it returns
    process()    records before the accepted position refill the window, records after it are applied
    see_model()  whenever a newer model arrives
    (drop it)    on revocation, on loss, and on any failed delivery: nothing is committed, the next claim starts over
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltaplane.arrays import Floats
from deltaplane.errors import DeltaGap, LogReplaced, SourceRemoved
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import UNKNOWN_TOPICS, Claim, Delta, Rebuild, Source, SourceState, Tile, TopicIds
from deltaplane.log.drift import DriftWatch
from deltaplane.log.model import Model
from deltaplane.log.record_order import check_order
from deltaplane.log.records import Receipt
from deltaplane.log.scoring import NoteScored, Quality, score
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.event_times import unit_in_words
from deltaplane.stream.sample import Refusal
from deltaplane.window.outcomes import SampleOutcome
from deltaplane.window.partition import Partition, Step
from deltaplane.window.sliding import NO_WATERMARK
from deltaplane_services.processors.codec import Codec, codec_of, outgoing
from deltaplane_services.processors.intake import Batch, EventClock, Intake, refused_rows_of
from deltaplane_services.processors.messages import (
    DELTAS,
    RECEIPTS,
    RETIREMENTS,
    SAMPLES,
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
"""Outcomes of admitted samples that become dead letters all the same, and the reason."""


@dataclass(frozen=True)
class ResumeFrom:
    """The offsets of samples and of retirements from which a restored worker must read."""

    samples: int
    retirements: int


class WorkerProcessor:
    """The state of one source in one life of a worker; ``writer`` must never have been used before.

    ``topics`` are the identifiers of the topics that this life reads, if brokers give any. ``codec`` reads the records,
    by default as the stream's own. ``note_scored``, if it is set, is called with the predictions of each step, and
    ``watch`` sees the features of all samples that come.
    """

    def __init__(
        self,
        definition: StreamDefinition,
        source: Source,
        writer: str,
        topics: TopicIds = UNKNOWN_TOPICS,
        codec: Codec | None = None,
    ) -> None:
        self.definition = definition
        self.source = source
        self.writer = writer
        self._topics = topics
        self.partition = Partition(definition, source.partition)
        self._codec = codec or codec_of(definition)
        self._intake = Intake(definition, source.partition, self._codec)
        self._accepted: SourceState | None = None
        self._refilling = True
        self._sequence = self._claimed_at = self.ignored_watermarks = 0
        # Where the next tile begins. Reading may begin later, if a log lost its beginning before anyone had read it.
        self._samples_covered = self._retirements_covered = 0
        self._samples_position = self._retirements_position = 0
        # All that the logs hold below these offsets has come: between the positions and these there are only gaps.
        self._read_to = (0, 0)
        # Records behind the accepted position that came before the refill was over.
        self._held_samples: list[Record] = []
        self._held_retirements: list[Record] = []
        self._model: Model | None = None
        self.note_scored: NoteScored | None = None
        self.watch: DriftWatch | None = None
        self._watermark = self._delta_watermark = NO_WATERMARK
        # If classes are open: how many admitted labels deltas have named, and the pairs of labels that have scores.
        self._labels_named = 0
        self._scored: set[tuple[str, str]] = set()

    # Life ------------------------------------------------------------------------------------------------------------

    def claim(self) -> Outgoing:
        """The record that makes this writer the owner of its source."""
        claim = Claim(self.source, self.writer, self.definition.stream_fingerprint, self._topics)
        return outgoing(DELTAS, self.source.partition, source_key(self.source), claim)

    def restore(self, accepted: SourceState, claimed_at: int = 0) -> ResumeFrom:
        """The offsets to read from, after beginning at the ``accepted`` state, that of the claim at ``claimed_at``.

        Raises :class:`SourceRemoved` if the source was removed from the stream, and :class:`LogReplaced` if the state
        was read from other topics than this life reads.
        """
        if accepted.removed:
            raise SourceRemoved(
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
        keeps = self.definition.nested_windows.keep_rows
        samples = rebuild.memory_from if keeps else accepted.samples_position
        self._samples_position = samples
        self._retirements_position = rebuild.retirements_window_from
        self._finish_refill_if_there()
        return ResumeFrom(samples, rebuild.retirements_window_from)

    @property
    def needed_from(self) -> tuple[int, int]:
        """(offset of samples, offset of retirements) from which a worker would read if it took the source over now."""
        if self._refilling:
            return self.position
        samples, retirements = self._samples_covered, self._retirements_covered
        if self.definition.nested_windows.keep_rows:
            samples = min(self.partition.memory_from(samples), self.partition.window_from(samples))
        return samples, self.partition.retirements_window_from(retirements)

    @property
    def fenced(self) -> bool:
        """Whether the newest model shows that another writer, or nobody, owns the source after this claim.

        A process that slept between assignment and claim may claim late, and take the source from the worker that has
        the assignment now. That one must claim again, or nobody's deltas are accepted any more.
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
        """The largest distance of an admitted value from the grid so far, float64[d], in the features' own units."""
        return self._intake.rounding_error

    @property
    def serving(self) -> bool:
        """Whether the window is complete; False while it is being rebuilt."""
        return not self._refilling

    @property
    def position(self) -> tuple[int, int]:
        """(offset of samples, offset of retirements) that :meth:`process` expects next."""
        samples, retirements = self._held_samples, self._held_retirements
        return (
            max(self._read_to[0], samples[-1].offset + 1 if samples else self._samples_position),
            max(self._read_to[1], retirements[-1].offset + 1 if retirements else self._retirements_position),
        )

    def skip_to(self, samples: int, retirements: int) -> None:
        """Begin reading at later offsets, since the logs have lost the ones asked for.

        Raises :class:`DeltaGap` if rows inside the window, or retirements that must be remembered, are lost.
        """
        accepted = self._state()
        needed = accepted.rebuild.window_from if self.definition.nested_windows.keep_rows else accepted.samples_position
        if accepted.begun and (samples > needed or retirements > accepted.rebuild.retirements_window_from):
            deleted = "live rows" if samples > needed else "retirements of ids that stay retired"
            raise DeltaGap(
                f"source {self.source}: a rebuild needs samples from offset {needed} and retirements from offset"
                f" {accepted.rebuild.retirements_window_from}, the log begins at {samples} and {retirements};"
                f" retention has deleted {deleted}. {self._begin_anew()}; and set retention to what deltaplane topics"
                " check expects"
            )
        self._samples_position = max(self._samples_position, samples)
        self._retirements_position = max(self._retirements_position, retirements)
        if self._refilling:
            self._finish_refill_if_there()

    def check_ends(self, samples: int, retirements: int) -> None:
        """Raise :class:`LogReplaced` if a log ends, at one of these offsets, before where the accepted state stands."""
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
        """The words that say what to do if a log no longer has what the state was made of."""
        name = self.source
        return (
            f"To go on with what the log has now, let the source begin anew: deltaplane source remove {name}, then"
            f" deltaplane source admit {name}"
        )

    def see_model(self, model: Model, log_time: int, *, newest: bool = False) -> None:
        """Take a newer model: its plane for scoring, its watermark for expiry. A lower version is ignored.

        ``log_time`` is when its record was appended, in milliseconds. A watermark that no row can have set by then is
        ignored, and counted in ``ignored_watermarks``. ``newest``: the caller knows that the model is the newest, so
        that its version is not compared; on a models topic that was made anew, versions begin again.
        """
        if not newest and not model.replaces(self._model):
            return
        self._model = model
        if not self.definition.nested_windows.timed:
            self.hear(model.watermark)
            return
        watermark, ignored = model.believable_watermark(log_time, self.definition.max_skew_milliseconds)
        self.ignored_watermarks += ignored
        self.hear(watermark)

    def hear(self, watermark: int) -> None:
        """Take note of the largest event time seen elsewhere, in milliseconds since the epoch."""
        self._watermark = max(self._watermark, watermark)

    # Work ------------------------------------------------------------------------------------------------------------

    def process(self, samples: Sequence[Record], retirements: Sequence[Record]) -> Output:
        """The output of applying the next records of both logs, each in order: all outputs of :meth:`steps` in one."""
        outputs = list(self.steps(samples, retirements))
        return Output(sum((one.first for one in outputs), ()), sum((one.then for one in outputs), ()))

    def steps(self, samples: Sequence[Record], retirements: Sequence[Record]) -> Iterator[Output]:
        """The outputs of applying the next records of both logs, each in order; at most one delta for each portion.

        Records below the position are skipped. Raises :class:`LogDisorder` if offsets do not ascend.
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
        for portion in in_portions(samples, retirements, self._codec):
            yield self._step(*portion)

    def _step(self, samples: Sequence[Record], retirements: Sequence[Record]) -> Output:
        expires = self.definition.nested_windows.timed and self._watermark > self._delta_watermark
        if not samples and not retirements and not expires:
            return Output()
        batch = self._intake.take(samples, retirements)
        step = self.partition.step(batch.samples, batch.retirements, self._watermark)
        # The model has not learned these samples yet: it is prequential evaluation.
        quality = score(self._model, batch.samples, [note.row for note in step.sample_notes], self.note_scored)
        batch.counts.update(step.counts)
        if self.watch is not None:
            self.watch.add(batch.samples.features)
        return self._emit(batch, step, quality, samples, retirements)

    def _new(self, records: Sequence[Record], position: int) -> list[Record]:
        """The records at ``position`` or beyond. Raises :class:`LogDisorder` if their offsets do not ascend."""
        new = [record for record in records if record.offset >= position]
        if new:
            check_order(f"{new[0].topic}-{self.source.partition}", (record.offset for record in new), position)
        return new

    def read_to(self, samples: int, retirements: int) -> None:
        """Take note that all records of the logs below these offsets have come; there may be gaps before them.

        So a rebuild does not wait for records that do not exist: compaction may have taken out the last one before the
        accepted position.
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
        for portion in in_portions(before, retired, self._codec):
            batch = self._intake.take(*portion)
            self._intake.budget.restore(accepted.counts)  # Records that are read again have their letters already.
            self.partition.refill(batch.samples, batch.retirements)
        self._held_samples, self._held_retirements = list(samples[len(before) :]), list(retirements[len(retired) :])
        # A record beyond the accepted position shows that all before it has come.
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
        self, batch: Batch, step: Step, quality: Quality, samples: Sequence[Record], retirements: Sequence[Record]
    ) -> Output:
        scores = self._with_room(quality.scores)
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
            prequential_counts=quality.prequential_counts,
            tallies=quality.tallies,
            labels=tuple(self._intake.labels)[self._labels_named :],
        )
        first = (*batch.letters, *late, *self._receipts(step, tile))
        self._sequence += 1
        self._labels_named = len(self._intake.labels)
        self._samples_covered, self._retirements_covered = samples_to, retirements_to
        self._samples_position = max(self._samples_position, samples_to)
        self._retirements_position = max(self._retirements_position, retirements_to)
        self._delta_watermark = self.partition.watermark
        key, taken = source_key(self.source), delta.change.nbytes
        then = outgoing(DELTAS, self.source.partition, key, delta, source_bytes=taken)
        return Output(tuple(first), (then,))

    def _with_room(self, scores: Confusion) -> Confusion:
        """The scores without the pairs that a checkpoint has no room for, which only open classes can bring.

        A predicted class may be one of another partition, so that there may be more pairs in time than fit.
        """
        if not self.definition.classes.are_open:
            return scores
        new = [pair for pair in scores.counts if pair not in self._scored]
        left_out = set(new[max(0, self.definition.most_classes**2 - len(self._scored)) :])
        self._scored.update(pair for pair in new if pair not in left_out)
        return scores if not left_out else Confusion({p: n for p, n in scores.counts.items() if p not in left_out})

    def _late_letters(self, batch: Batch, step: Step, samples: Sequence[Record]) -> list[Outgoing]:
        """The dead letters of admitted samples that came too late, or have a retired id."""
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
            outgoing(
                RECEIPTS,
                self.source.partition,
                receipt_key(self.source.partition, note.offset, self.writer, tile.sequence),
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
                ),
            )
            for note in step.retirement_notes
        ]
