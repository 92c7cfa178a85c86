"""The merger as a processor: deltas in, models and checkpoints out.

On restart it takes, for each source, the checkpoint with the *highest* next offset and not the last one written, so
that a merger that is no longer elected does no harm. Model versions go on from the highest seen, and readers ignore
lower ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionMismatch, StateMismatch
from deltaplane.exact.deviations import deviations
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Source, SourceState, Verdict
from deltaplane.log.merger import Merger, goes_on_from, of_modelled_classes
from deltaplane.log.model import Model, furthest
from deltaplane.log.records import Checkpoint
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.processors.acceptance import Fault, with_verdicts
from deltaplane_services.processors.announced import OtherDefinitions
from deltaplane_services.processors.codec import Change, Codec, codec_of, outgoing, readable
from deltaplane_services.processors.messages import (
    CHECKPOINTS,
    MODELS,
    Outgoing,
    Output,
    Record,
    source_key,
)
from deltaplane_services.processors.refused_records import dead_letter
from deltaplane_services.processors.solving import solver_changed

__all__ = ["NEVER", "MergerProcessor"]

NEVER = (-1, -1)
"""(sequence, next offset) of a source without a checkpoint."""


class MergerProcessor:
    """Follows every partition of the deltas topic from ``next_offsets`` on.

    ``solver_changed``: after ``restore``, how the solver settings differ from those of the last model, if they do.
    """

    def __init__(self, definition: StreamDefinition, codec: Codec | None = None) -> None:
        self.definition = definition
        self._codec = codec or codec_of(definition)
        self.merger = Merger(definition)
        self.model: Model | None = None
        self.verdicts: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
        self.solver_changed: str | None = None
        self._others = OtherDefinitions(definition)
        self._next_offsets: dict[int, int] = {}
        self._partition_of: dict[Source, int] = {}
        # (sequence, next offset) of the last checkpoint of each source.
        self._checkpointed: dict[Source, tuple[int, int]] = {}
        self._first_heard: dict[Source, int] = {}
        self._skip_below: dict[Source, int] = {}

    def restore(self, checkpoints: Iterable[Record], models: Iterable[Record]) -> dict[int, int]:
        """Partition of the deltas topic to the offset to read from, after beginning at the newest checkpoints.

        ``checkpoints`` and ``models`` are records of these topics. Raises :class:`WireError` for a record that does not
        decode, and :class:`DefinitionMismatch` for one of another definition.
        """
        newest: dict[Source, Checkpoint] = {}
        log_times: dict[Source, int] = {}
        for record in checkpoints:
            checkpoint = readable(self._codec.checkpoint(record))
            self._check(checkpoint.stream_fingerprint, f"checkpoint of source {checkpoint.state.source}")
            known = newest.get(checkpoint.state.source)
            if known is None or checkpoint.next_offset > known.next_offset:
                newest[checkpoint.state.source] = checkpoint
                log_times[checkpoint.state.source] = record.log_time
        states = [checkpoint.state for checkpoint in newest.values()]
        weighed_by: Model | None = None
        come_to: dict[Source, int] = {}
        weighed_to: Mapping[Source, int] = {}
        for record in models:
            model = readable(self._codec.model(record))
            if model.replaces(self.model):
                self.model = model
                come_to = furthest(come_to, model.come_to)
            if model.replaces(weighed_by) and goes_on_from(states, model, self.definition):
                weighed_by, weighed_to = model, come_to
        if weighed_by is None:
            weighed_to = come_to
        if self.model is not None:
            self.model.check(self.definition)
            self.solver_changed = solver_changed(self.definition, self.model)
        read_to = {source: checkpoint.next_offset for source, checkpoint in newest.items()}
        self.merger.restore(states, self.model, read_to, log_times, weighed_by, weighed_to)
        for source, checkpoint in newest.items():
            at = source.partition % self.definition.partitions
            self._skip_below[source] = checkpoint.next_offset
            self._checkpointed[source] = checkpoint.state.sequence, checkpoint.next_offset
            self._partition_of[source] = at
            self._next_offsets[at] = min(self._next_offsets.get(at, checkpoint.next_offset), checkpoint.next_offset)
        return dict(self._next_offsets)

    def _check(self, fingerprint: bytes, what: str) -> None:
        if fingerprint != self.definition.stream_fingerprint:
            raise DefinitionMismatch(
                f"{what}: expected stream definition {self.definition.stream_fingerprint.hex()},"
                f" got {fingerprint.hex()};"
                " start the merger with the stream's definition, or give the new definition a new name",
                fingerprint,
            )

    def process(self, deltas: Sequence[Record]) -> Output:
        """The dead letters of some records of the deltas topic, after all others have been applied.

        Records of each partition must come in order; those below the position are skipped.
        """
        letters: list[Outgoing] = []

        def refuse(record: Record, fault: Fault) -> None:
            kind, reason = self._others.kind_and_reason(record, fault)
            kind = "impossible change" if isinstance(fault, StateMismatch) else kind
            letters.append(dead_letter(record, kind, reason, limits.DEAD_LETTER_BYTES))

        for one in with_verdicts(self._unread(deltas), self._codec, self._apply, refuse):
            self.verdicts[one.verdict] += 1
        return Output(first=tuple(letters))

    def _unread(self, deltas: Iterable[Record]) -> Iterator[Record]:
        for record in deltas:
            if record.offset >= self._next_offsets.get(record.partition, 0):
                self._next_offsets[record.partition] = record.offset + 1
                yield record

    def _apply(self, record: Record, change: Change) -> Verdict | None:
        # The checkpoint of this source may be ahead of another source's in the same partition.
        if record.offset < self._skip_below.get(change.source, 0):
            return None
        if change.source not in self._partition_of:
            self._partition_of[change.source] = record.partition
            self._first_heard[change.source] = record.offset
        return self.merger.apply(change, record.offset, record.log_time)

    def see_model(self, model: Model) -> None:
        """Take note of a model on the models topic: its own, or that of another merger that believes itself elected."""
        self.merger.see_other(model)

    def publish(self, now: int) -> Output:
        """The next model, solved now, if anything has changed; ``now`` is in milliseconds since the epoch."""
        model = self.merger.publish(now)
        if model is None:
            return Output()
        self.model = model
        key, taken = self.definition.name.encode(), self.merger.statistics.nbytes
        return Output(then=(outgoing(MODELS, 0, key, model, source_bytes=taken),))

    def deviations(self) -> Floats:
        """Standard deviations float64[d] of the features over the live rows, in raw units, at this moment."""
        nested_windows, live = (
            self.definition.nested_windows,
            of_modelled_classes(self.merger.statistics, self.definition),
        )
        return deviations(live.grams(nested_windows.longest).values(), self.definition.plane_grid)

    @property
    def ignored_watermarks(self) -> int:
        """The number of watermarks in deltas and checkpoints that were ignored, since no row can have set them."""
        return self.merger.ignored_watermarks

    @property
    def void_prequential_counts(self) -> int:
        """The number of deltas whose prequential counts were of candidates that this merger does not have."""
        return self.merger.void_prequential_counts

    @property
    def classes_left_out(self) -> int:
        """The number of live classes that are not modelled, since the model takes those with the most rows."""
        live = self.merger.statistics.counts(self.definition.nested_windows.longest)
        return 0 if self.model is None else max(0, len(live) - len(self.model.counts))

    def not_checkpointed(self, source: Source) -> None:
        """Note that the last checkpoint of a source was not stored, so that :meth:`checkpoints` gives it again."""
        self._checkpointed[source] = NEVER

    def checkpoints(self, without: Collection[Source] = ()) -> Output:
        """The checkpoints of all sources that changed since their last one, or whose deltas partition has moved on.

        The latter keep an idle source from holding back the offset at which the next merger begins to read. Sources
        ``without`` get none.

        A source that never had a checkpoint first gets an empty one, with the offset at which it was first heard. These
        must be acknowledged BEFORE any other: a partition of deltas may carry several sources, and a merger that starts
        from the checkpoints of some of them must not begin behind what it needs of the others.
        """
        announced, changed = [], []
        for state in self.merger.sources():
            source = state.source
            next_offset = max(self._next_offsets[self._partition_of[source]], self._skip_below.get(source, 0))
            if source in without or self._checkpointed.get(source) == (state.sequence, next_offset):
                continue
            if source not in self._checkpointed:
                empty = SourceState(source, Statistics(self.definition.dimension))
                announced.append(self._checkpoint(empty, self._first_heard[source]))
            self._checkpointed[source] = state.sequence, next_offset
            changed.append(self._checkpoint(state, next_offset))
        return Output(tuple(announced), tuple(changed))

    def _checkpoint(self, state: SourceState, next_offset: int) -> Outgoing:
        checkpoint = Checkpoint(state, next_offset, self.definition.stream_fingerprint)
        return outgoing(CHECKPOINTS, 0, source_key(state.source), checkpoint)
