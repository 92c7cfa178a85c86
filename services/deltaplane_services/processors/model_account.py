"""What the deltas on the log give by themselves at the positions of a model: held against it by an audit.

A merger of the audit's own reads the deltas, from where their log begins; checkpoints are believed only of what lies
before that. Then the model is made again: see :mod:`deltaplane.log.model_proof`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from deltaplane.errors import DefinitionMismatch, DeltaplaneError, StateMismatch, WireError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Claim, Delta, Source, SourceOrder, SourceState, Verdict, accept
from deltaplane.log.merger import Merger
from deltaplane.log.model import Model, SourcePosition
from deltaplane.log.model_proof import ModelProof, SourceTrials, position_faults, prove_model
from deltaplane.log.records import Checkpoint
from deltaplane.solve.candidates import Trials
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_claim_or_delta, read_model
from deltaplane_services.processors.messages import DELTAS, MODELS, Record

EARLIER_MODELS = 64
"""How many records of the models topic before the newest model are looked at: the model goes on from one of them."""

LATE_SECONDS = 600.0
"""A model has what was appended so long before it. Mergers take a second, and publish nothing before they have read all
that was there when they began; one that is later keeps something back, or is far behind, which is as bad."""


class NothingToAudit(DeltaplaneError):
    """There is no model yet, or the deltas behind it are gone."""


class CentralLog(Protocol):
    """Deltas and models."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that a partition still has, and the one behind its last."""

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterable[Record]:
        """Its records from one offset up to another, in order."""


@dataclass(frozen=True)
class DatedCheckpoint:
    """A checkpoint, and when it was appended, in milliseconds."""

    checkpoint: Checkpoint
    log_time: int


@dataclass(frozen=True)
class ModelAccount:
    """What the deltas add up to at the positions of a model, source by source in the model's order.

    ``faults``: for each source, where the model says otherwise. ``left_out``: sources that the model should contain.
    ``notes``: what is no fault, and must be known. ``unproved``: what is taken from checkpoints.
    """

    states: Mapping[Source, SourceState]
    faults: Mapping[Source, tuple[str, ...]]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    unproved: tuple[str, ...]
    earlier: tuple[Model, ...]
    merger: Merger
    trials: Mapping[Source, SourceTrials]

    def prove(self, model: Model, rebuilt: Statistics, definition: StreamDefinition) -> ModelProof:
        """Make the model again from the ``rebuilt`` statistics if it is of them, else from those of the deltas."""
        fits = rebuilt.digest(definition.data_fingerprint) == model.digest
        statistics = rebuilt if fits else self.merger.statistics
        proof = prove_model(model, self.earlier, self.merger, self.trials, statistics, definition)
        return replace(proof, faults=(*self.left_out, *proof.faults), unproved=(*self.unproved, *proof.unproved))


def account_of_model(
    definition: StreamDefinition,
    model: Model,
    record: Record,
    log: CentralLog,
    checkpoints: Sequence[DatedCheckpoint],
) -> ModelAccount:
    """The account of a model that a ``record`` of the models topic brought. Raises :class:`NothingToAudit`."""
    earlier, notes = _models_around(definition, model, record, log)
    reading = _Reading(definition, model, earlier)
    spans = {partition: log.bounds(DELTAS, partition) for partition in range(definition.partitions)}
    for partition, (low, end) in spans.items():
        reading.begin(partition, low, end, checkpoints)
    reading.restore()
    for partition, (low, end) in spans.items():
        for delta in log.read(DELTAS, partition, low, end):
            reading.take(delta)
    return reading.account(record, notes)


def _models_around(
    definition: StreamDefinition, model: Model, record: Record, log: CentralLog
) -> tuple[tuple[Model, ...], list[str]]:
    """The last models of this stream before a record of the models topic, and what readers have passed over there."""
    low, end = log.bounds(MODELS, 0)
    earlier: list[Model] = []
    foreign, unreadable, back, highest = 0, 0, 0, 0
    for other in log.read(MODELS, 0, max(low, record.offset - EARLIER_MODELS), end):
        if other.offset == record.offset:
            highest = max(highest, model.version)
            continue
        try:
            found = read_model(other.value)
            found.check(definition)
        except DefinitionMismatch:
            foreign += 1
            continue
        except WireError:
            unreadable += 1
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
    """How far one source has been read, and what lies behind the position of the model."""

    position: SourcePosition | None
    start: int = 0
    exact: bool = True
    state: SourceState | None = None
    trials_from: int = 0
    begins: int = 0
    trials: dict[int, tuple[Trials, int]] = field(default_factory=dict)
    # Tiles that the model does not contain; when and where the first of them was appended.
    behind: int = 0
    behind_from: int = 0
    behind_at: int = 0

    def contains(self, offset: int, sequence: int) -> bool:
        """Whether the model says that it contains a record of the deltas of this source."""
        if self.position is None:
            return False
        # Models of before have no offset up to which deltas have been read.
        return offset < self.position.read_to if self.position.read_to else sequence < self.position.sequence


class _Reading:
    """Deltas put through a merger as far as a model says that it has read them."""

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
            one.trials_from = min(told) if len(told) == len(earlier) > 0 else 0

    # Where to begin --------------------------------------------------------------------------------------------------

    def begin(self, partition: int, low: int, end: int, checkpoints: Sequence[DatedCheckpoint]) -> None:
        """Where the deltas of a partition have lost their beginning, begin with the oldest checkpoints that will do."""
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
        """Begin with what was found."""
        believed = self._believed
        self.merger.restore(
            [dated.checkpoint.state for dated in believed.values()],
            None,
            {source: dated.checkpoint.next_offset for source, dated in believed.items()},
            {source: dated.log_time for source, dated in believed.items()},
        )

    # Deltas ----------------------------------------------------------------------------------------------------------

    def take(self, record: Record) -> None:
        """Put one record of the deltas topic through the rule; what no reader takes is skipped."""
        try:
            change = read_claim_or_delta(record.value, self.definition.dimension)
            one = self.of.setdefault(change.source, _Source(None))
            if record.offset < one.start:
                return
            if one.contains(record.offset, self.merger.state(change.source).sequence):
                verdict = self.merger.apply(change, record.offset, record.log_time)
                self._note_trials(one, change, verdict)
            else:
                self._take_behind(one, change, record)
        except (WireError, DefinitionMismatch, StateMismatch):
            return

    def _note_trials(self, one: _Source, change: Claim | Delta | SourceOrder, verdict: Verdict) -> None:
        if verdict is not Verdict.ACCEPTED or not isinstance(change, Delta) or change.trials is None:
            return
        if change.tile.sequence >= one.trials_from:
            one.trials[change.tile.sequence] = change.trials, change.scored_by

    def _take_behind(self, one: _Source, change: Claim | Delta | SourceOrder, record: Record) -> None:
        """A record that the model does not contain; of it, positions alone matter."""
        nothing = Statistics(self.definition.dimension)
        before = one.state or replace(self.merger.state(change.source), statistics=nothing)
        bare = replace(change, change=nothing) if isinstance(change, Delta) else change
        one.state, _ = accept(before, bare, self.definition.stream_fingerprint, self.definition.plane_grid.range)
        if one.state.sequence > before.sequence:
            one.behind_from = one.behind_from if one.behind else record.log_time
            one.behind_at = one.behind_at if one.behind else record.offset
            one.behind += 1

    # What was found --------------------------------------------------------------------------------------------------

    def account(self, record: Record, notes: Sequence[str]) -> ModelAccount:
        """Once all has been read."""
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
            trials={
                source: SourceTrials(max(one.begins, one.trials_from), one.trials) for source, one in contained.items()
            },
        )

    def _faults(self, one: _Source, state: SourceState) -> Iterable[str]:
        position = one.position
        assert position is not None
        yield from position_faults(position, state, owner_known=one.exact and position.read_to > 0)
        end = self._ends.get(position.source.partition % self.definition.partitions, 0)
        if position.read_to > end:
            yield f"read_to: the model says {position.read_to}, the log of deltas ends at {end}"
        # Positions that were forged accuse nobody of having lost tiles that there never were.
        latest = state.sequence if one.state is None else one.state.sequence
        for version, before in self._told_before(position.source):
            if position.sequence < before.sequence <= latest:
                yield f"tile: model {version} had come to {before.sequence}, this one has {position.sequence}"
                return

    def _told_before(self, source: Source) -> Iterable[tuple[int, SourcePosition]]:
        """What earlier models, by their versions, say of a source."""
        for model in self.earlier:
            if model.version < self.model.version:
                yield from ((model.version, at) for at in model.positions if at.source == source)

    def _left_out(self, log_time: int) -> Iterable[str]:
        """What the model should have, since a model before had it, or since it was there long before the model."""
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
