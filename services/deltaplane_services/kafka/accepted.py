"""The accepted state of a source at a model's position, found again from checkpoints and deltas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from deltaplane.errors import DefinitionMismatch, StateMismatch, WireError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Delta, Source, SourceState, Verdict, accept, check_declared
from deltaplane.log.model import Model, SourcePosition
from deltaplane.log.records import Checkpoint, Receipt
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.outcomes import RetirementOutcome
from deltaplane.wire import read_claim_or_delta
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.processors.messages import CHECKPOINTS, DELTAS
from deltaplane_services.processors.model_account import DatedCheckpoint, NothingToAudit
from deltaplane_services.processors.recovery import accepted_state, readable_checkpoint

POLL_RECORDS = 500


WENT_BY_CONTENT = (
    "an earlier version took rows out of this stream by their content (window.keep_rows = false). Which those were"
    " depended on when they were read, so that the log proves nothing; a stream that can be audited begins anew, under"
    " another name, with the rows that are to stay"
)
"""Why a stream that keeps no rows cannot be held against its log."""


def rows_went_by_content(definition: StreamDefinition, counts: Mapping[str, int]) -> bool:
    """Whether some of these outcomes are of retirements by content: where no rows are kept, no others take any out."""
    return not definition.ladder.keep_rows and counts.get(f"retirements {RetirementOutcome.RETIRED}", 0) > 0


def readable_checkpoints(settings: ServiceSettings, central: LogReader) -> list[Checkpoint]:
    """Every checkpoint of this stream that its topic still holds."""
    return [dated.checkpoint for dated in dated_checkpoints(settings, central)]


def dated_checkpoints(settings: ServiceSettings, central: LogReader) -> list[DatedCheckpoint]:
    """The same, each with the time at which it was appended."""
    _, end = central.bounds(CHECKPOINTS, 0)
    records, definition = list(central.read(CHECKPOINTS, 0, 0, end)), settings.definition
    ends = {partition: central.bounds(DELTAS, partition)[1] for partition in range(definition.partitions)}
    read = ((readable_checkpoint(definition, record, ends), record.log_time) for record in records)
    return [DatedCheckpoint(checkpoint, log_time) for checkpoint, log_time in read if checkpoint is not None]


def nothing_of(settings: ServiceSettings, source: Source) -> SourceState:
    """The state of a source before anything of it was accepted."""
    return SourceState(source, Statistics(settings.definition.dimension))


def checkpoint_before(
    settings: ServiceSettings, checkpoints: Iterable[Checkpoint], source: Source, sequence: int
) -> tuple[SourceState, int]:
    """The newest checkpoint of a source that is not beyond a tile, and the offset of the deltas that follow it."""
    mine = [c for c in checkpoints if c.state.source == source and c.state.sequence <= sequence]
    newest = max(mine, key=lambda checkpoint: checkpoint.next_offset, default=None)
    return (nothing_of(settings, source), 0) if newest is None else (newest.state, newest.next_offset)


def state_at(
    settings: ServiceSettings, central: LogReader, checkpoints: Iterable[Checkpoint], position: SourcePosition
) -> SourceState:
    """A source's accepted state at a model's position: a checkpoint that is not beyond it, and the deltas since."""
    definition, source = settings.definition, position.source
    state, offset = checkpoint_before(settings, checkpoints, source, position.sequence)
    partition = source.partition % definition.partitions
    low, end = central.bounds(DELTAS, partition)
    if state.sequence < position.sequence and offset < low:
        raise NothingToAudit(
            f"source {source}: deltas between its checkpoint and the model are gone (offset {offset}, the log begins"
            f" at {low}); wait for the next checkpoint and audit again"
        )
    if state.sequence < position.sequence:
        for record in central.read(DELTAS, partition, offset, end):
            state = accepted_state(definition, state, [record], record.offset)
            if state.sequence == position.sequence:
                break
    if state.sequence != position.sequence:
        raise NothingToAudit(
            f"source {source}: the model contains {position.sequence} tiles, checkpoints and deltas only"
            f" {state.sequence}; were topics made anew? Otherwise audit again"
        )
    return state


class AcceptedTiles:
    """Follows who owns the sources of this site from a model on, and which of their tiles have been accepted since."""

    def __init__(
        self, settings: ServiceSettings, log: LogReader, model: Model | None, partitions: Iterable[int]
    ) -> None:
        self._settings = settings
        self._log = log
        self._states: dict[Source, SourceState] = {}
        self._accepted: set[tuple[Source, str, int]] = set()
        starts = dict.fromkeys(partitions, 0)
        for position in () if model is None else model.positions:
            if position.source.site == settings.site and position.source.partition in starts:
                starts[position.source.partition] = position.read_to
                self._states[position.source] = replace(
                    nothing_of(settings, position.source),
                    owner=position.owner,
                    sequence=position.sequence,
                    samples_position=position.samples,
                    retirements_position=position.retirements,
                    barred=position.barred,
                )
        log.follow([(DELTAS, partition, start) for partition, start in starts.items()])

    def poll(self) -> None:
        """Read what has come. The rule looks at positions alone here; what the changes add up to is not known."""
        definition = self._settings.definition
        for record in self._log.poll(POLL_RECORDS, 0.0):
            try:
                change = read_claim_or_delta(record.value, definition.dimension)
            except WireError:
                continue
            if change.source.site != self._settings.site:
                continue
            state = self._states.get(change.source) or nothing_of(self._settings, change.source)
            bare = replace(change, change=Statistics(definition.dimension)) if isinstance(change, Delta) else change
            try:
                check_declared(definition, change)
                after, verdict = accept(state, bare, definition.stream_fingerprint, definition.plane_grid.range)
            except (DefinitionMismatch, StateMismatch):
                continue
            self._states[change.source] = after
            if verdict is Verdict.ACCEPTED and isinstance(change, Delta):
                self._accepted.add((change.source, change.writer, change.tile.sequence))

    def are_accepted(self, receipt: Receipt) -> bool:
        """Whether the tile that a receipt is of has been accepted."""
        return (receipt.source, receipt.writer, receipt.sequence) in self._accepted

    def close(self) -> None:
        """Stop following."""
        self._log.close()
