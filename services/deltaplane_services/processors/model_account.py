"""The sums of the deltas at the positions of a model, computed anew by an audit and compared with the model.

The audit has a merger of its own, which reads the deltas from the beginning of their log. Checkpoints are believed only
of what lies before that beginning. Then the model is solved again: see :mod:`deltaplane.log.model_proof`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from deltaplane.errors import DefinitionMismatch, DeltaplaneError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Source, SourceState, Verdict
from deltaplane.log.merger import Merger
from deltaplane.log.model import Model, SourcePosition
from deltaplane.log.model_proof import ModelProof, SourcePrequentialCounts, position_faults, prove_model
from deltaplane.log.records import Checkpoint
from deltaplane.solve.prequential_counts import PrequentialCounts
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.processors.acceptance import next_state, with_verdicts
from deltaplane_services.processors.codec import Change, Undecodable, codec_of
from deltaplane_services.processors.messages import DELTAS, MODELS, Record

__all__ = [
    "EARLIER_MODELS",
    "LATE_SECONDS",
    "CentralLog",
    "DatedCheckpoint",
    "ModelAccount",
    "NothingToAudit",
    "account_of_model",
]

EARLIER_MODELS = 64
"""Records of the models topic before the newest model that are read: the model goes on from one of them."""

LATE_SECONDS = 600.0
"""A model must contain every delta that was appended so long before it. A merger takes about a second, and publishes
nothing before it has read all that was there when it began. One that is later holds deltas back, or is far behind."""


class NothingToAudit(DeltaplaneError):
    """There is no model yet, or the deltas behind it are gone."""


class CentralLog(Protocol):
    """The logs of deltas and models."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """(the first offset that a partition still has, the offset that its next record will get)."""

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterable[Record]:
        """The records of a partition from offset ``start`` to before ``stop``, in order."""


@dataclass(frozen=True)
class DatedCheckpoint:
    """A checkpoint, and when it was appended, in milliseconds."""

    checkpoint: Checkpoint
    log_time: int


@dataclass(frozen=True)
class ModelAccount:
    """The states of all sources at the positions of a model, computed from the deltas, in the model's order.

    - ``faults``: for each source, its differences from the model, in words.
    - ``left_out``: what the model should contain and does not, in words.
    - ``notes``: what is no fault but should be known, in words.
    - ``unproved``: what is taken from checkpoints unchecked, in words.
    - ``earlier``: the models before this one.
    - ``merger``: the audit's merger, at the positions of the model.
    - ``prequential_counts``: the prequential counts of each source's deltas.
    """

    states: Mapping[Source, SourceState]
    faults: Mapping[Source, tuple[str, ...]]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    unproved: tuple[str, ...]
    earlier: tuple[Model, ...]
    merger: Merger
    prequential_counts: Mapping[Source, SourcePrequentialCounts]

    def prove(self, model: Model, rebuilt: Statistics, definition: StreamDefinition) -> ModelProof:
        """The comparison of a model with one solved anew.

        That one is solved from the ``rebuilt`` statistics if the model has their digest, else from the deltas' sums.
        """
        fits = rebuilt.digest(definition.data_fingerprint) == model.digest
        statistics = rebuilt if fits else self.merger.statistics
        proof = prove_model(model, self.earlier, self.merger, self.prequential_counts, statistics, definition)
        return replace(proof, faults=(*self.left_out, *proof.faults), unproved=(*self.unproved, *proof.unproved))


def account_of_model(
    definition: StreamDefinition,
    model: Model,
    record: Record,
    log: CentralLog,
    checkpoints: Sequence[DatedCheckpoint],
) -> ModelAccount:
    """The account of the model in a ``record`` of the models topic.

    Raises :class:`NothingToAudit` if deltas between a source's checkpoints and the model are gone.
    """
    earlier, notes = _models_around(definition, model, record, log)
    reading = _Reading(definition, model, earlier)
    spans = {partition: log.bounds(DELTAS, partition) for partition in range(definition.partitions)}
    for partition, (low, end) in spans.items():
        reading.begin(partition, low, end, checkpoints)
    reading.restore()
    for partition, (low, end) in spans.items():
        reading.take(log.read(DELTAS, partition, low, end))
    return reading.account(record, notes)


def _models_around(
    definition: StreamDefinition, model: Model, record: Record, log: CentralLog
) -> tuple[tuple[Model, ...], list[str]]:
    """(the last models of this stream before ``record``, notes on records around it that readers passed over)."""
    low, end = log.bounds(MODELS, 0)
    earlier, codec = list[Model](), codec_of(definition)
    foreign, unreadable, back, highest = 0, 0, 0, 0
    for other in log.read(MODELS, 0, max(low, record.offset - EARLIER_MODELS), end):
        if other.offset == record.offset:
            highest = max(highest, model.version)
            continue
        found = codec.model(other)
        if isinstance(found, Undecodable):
            unreadable += 1
            continue
        try:
            found.check(definition)
        except DefinitionMismatch:
            foreign += 1
            continue
        back += found.version <= highest
        highest = max(highest, found.version)
        if other.offset < record.offset:
            earlier.append(found)
    passed_over = (
        (foreign, "of another stream definition"),
        (unreadable, "that no merger of this stream makes"),
        (back, "with a version that is not above the one before"),
    )
    notes = [f"readers passed over {count} of the last models: {what}" for count, what in passed_over if count]
    return tuple(earlier), notes


@dataclass
class _Source:
    """How far the deltas of one source have been read, and what the model does not contain of them."""

    position: SourcePosition | None
    start: int = 0
    exact: bool = True
    state: SourceState | None = None
    prequential_counts_from: int = 0
    begins: int = 0
    prequential_counts: dict[int, tuple[PrequentialCounts, int]] = field(default_factory=dict)
    # Tiles that the model does not contain; when and where the first of them was appended.
    behind: int = 0
    behind_from: int = 0
    behind_at: int = 0

    def contains(self, offset: int, sequence: int) -> bool:
        """Whether the model contains this source's delta at an offset and with a sequence, as it says itself."""
        if self.position is None:
            return False
        # Models of early versions do not record the offset up to which deltas were read.
        return offset < self.position.read_to if self.position.read_to else sequence < self.position.sequence


class _Reading:
    """A merger that reads the deltas as far as a model says that it contains them."""

    def __init__(self, definition: StreamDefinition, model: Model, earlier: Sequence[Model]) -> None:
        self.definition = definition
        self.model = model
        self.earlier = tuple(earlier)
        self.merger = Merger(definition)
        self._ends: dict[int, int] = {}
        self.of = {position.source: _Source(position) for position in model.positions}
        self._believed: dict[Source, DatedCheckpoint] = {}
        for source, one in self.of.items():
            told = [position.sequence for other in earlier for position in other.positions if position.source == source]
            one.prequential_counts_from = min(told) if len(told) == len(earlier) > 0 else 0

    # Where to begin --------------------------------------------------------------------------------------------------

    def begin(self, partition: int, low: int, end: int, checkpoints: Sequence[DatedCheckpoint]) -> None:
        """Choose where the sources of a partition of deltas begin, whose log reaches from ``low`` to ``end``.

        If the log has lost its beginning, each source begins with its oldest checkpoint that fits.
        """
        self._ends[partition] = end
        for source, one in self.of.items() if low else ():
            if source.partition % self.definition.partitions == partition:
                self._begin_with_checkpoint(one, low, checkpoints)

    def _begin_with_checkpoint(self, one: _Source, low: int, checkpoints: Sequence[DatedCheckpoint]) -> None:
        position = one.position
        assert position is not None
        mine = [dated for dated in checkpoints if dated.checkpoint.state.source == position.source]
        fitting = [
            dated
            for dated in mine
            if (checkpoint := dated.checkpoint).state.sequence <= position.sequence
            and (checkpoint.next_offset >= low or checkpoint.state.sequence == position.sequence)
            and (checkpoint.next_offset <= position.read_to or checkpoint.state.sequence == position.sequence)
        ]
        if fitting:
            chosen = min(fitting, key=lambda dated: dated.checkpoint.next_offset)
            self._believed[position.source] = chosen
            one.start = chosen.checkpoint.next_offset
            one.begins = chosen.checkpoint.state.sequence
            one.exact = one.start <= position.read_to
        elif position.sequence and mine:
            raise NothingToAudit(
                f"source {position.source}: deltas between its checkpoint and the model are gone (the log begins at"
                f" {low}, and no checkpoint goes on from there to tile {position.sequence}); wait for the next"
                " checkpoint and audit again"
            )

    def restore(self) -> None:
        """Give the merger the checkpoints that were chosen."""
        believed = self._believed
        self.merger.restore(
            [dated.checkpoint.state for dated in believed.values()],
            None,
            {source: dated.checkpoint.next_offset for source, dated in believed.items()},
            {source: dated.log_time for source, dated in believed.items()},
        )

    # Deltas ----------------------------------------------------------------------------------------------------------

    def take(self, records: Iterable[Record]) -> None:
        """Put records of the deltas topic through the rule; what no reader takes is skipped."""
        for _ in with_verdicts(records, codec_of(self.definition), self._apply):
            pass

    def _apply(self, record: Record, change: Change) -> Verdict | None:
        one = self.of.setdefault(change.source, _Source(None))
        if record.offset < one.start:
            return None
        if one.contains(record.offset, self.merger.state(change.source).sequence):
            verdict = self.merger.apply(change, record.offset, record.log_time)
            self._note_prequential_counts(one, change, verdict)
            return verdict
        return self._apply_behind(one, change, record)

    def _note_prequential_counts(self, one: _Source, change: Change, verdict: Verdict) -> None:
        if verdict is not Verdict.ACCEPTED or not isinstance(change, Delta) or change.prequential_counts is None:
            return
        if change.tile.sequence >= one.prequential_counts_from:
            one.prequential_counts[change.tile.sequence] = change.prequential_counts, change.scored_by

    def _apply_behind(self, one: _Source, change: Change, record: Record) -> Verdict:
        """The verdict on a record that the model does not contain, of which only positions are followed."""
        nothing = Statistics(self.definition.dimension)
        before = one.state or replace(self.merger.state(change.source), statistics=nothing)
        one.state, verdict = next_state(self.definition, before, change, positions_alone=True)
        if one.state.sequence > before.sequence:
            one.behind_from = one.behind_from if one.behind else record.log_time
            one.behind_at = one.behind_at if one.behind else record.offset
            one.behind += 1
        return verdict

    # What was found --------------------------------------------------------------------------------------------------

    def account(self, record: Record, notes: Sequence[str]) -> ModelAccount:
        """The account, once all has been read; ``record`` is that of the model."""
        contained = {source: one for source, one in self.of.items() if one.position is not None}
        states = {source: self.merger.state(source) for source in contained}
        faults = {source: tuple(self._faults(one, states[source])) for source, one in contained.items()}
        left_out, notes = self._left_out(record.log_time), [*notes]
        for source, one in sorted(self.of.items()):
            if one.behind:
                seconds = (one.behind_from - record.log_time) / 1000
                notes.append(
                    f"source {source}: {one.behind:,} tiles are on the log and not in the model, the first since"
                    f" {seconds:+.1f} s from it"
                )
        unproved = [
            f"scores, outcomes and ends of panes of source {source} before offset {dated.checkpoint.next_offset} of its"
            " deltas, which are gone: they are a checkpoint's word"
            for source, dated in sorted(self._believed.items())
        ]
        return ModelAccount(
            states=states,
            faults=faults,
            left_out=tuple(left_out),
            notes=tuple(notes),
            unproved=tuple(unproved),
            earlier=self.earlier,
            merger=self.merger,
            prequential_counts={
                source: SourcePrequentialCounts(max(one.begins, one.prequential_counts_from), one.prequential_counts)
                for source, one in contained.items()
            },
        )

    def _faults(self, one: _Source, state: SourceState) -> Iterable[str]:
        position = one.position
        assert position is not None
        yield from position_faults(position, state, owner_known=one.exact and position.read_to > 0)
        end = self._ends.get(position.source.partition % self.definition.partitions, 0)
        if position.read_to > end:
            yield f"read_to: the model says {position.read_to}, the log of deltas ends at {end}"
        # Positions of earlier models may be forged: tiles that the log never had are not said to be lost.
        latest = state.sequence if one.state is None else one.state.sequence
        for version, before in self._told_before(position.source):
            if position.sequence < before.sequence <= latest:
                yield f"tile: model {version} had come to {before.sequence}, this one has {position.sequence}"
                return

    def _told_before(self, source: Source) -> Iterable[tuple[int, SourcePosition]]:
        """(version, position of a source) of each earlier model."""
        for model in self.earlier:
            if model.version < self.model.version:
                yield from ((model.version, at) for at in model.positions if at.source == source)

    def _left_out(self, log_time: int) -> Iterable[str]:
        """What the model lacks, in words: an earlier model had it, or it was appended long before the model."""
        for source, one in sorted(self.of.items()):
            if not one.behind:
                continue
            if one.position is None and any(self._told_before(source)):
                yield f"positions: models before had source {source}, this one has not"
            elif (seconds := (log_time - one.behind_from) / 1000) > LATE_SECONDS:
                yield (
                    f"positions: the model is without deltas of source {source} that lay at offset {one.behind_at}"
                    f" {seconds:,.0f} s before it: the merger keeps them back, or is far behind"
                )
