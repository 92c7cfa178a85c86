"""The accepted state of a source at a model's position, found again from checkpoints and deltas."""

from __future__ import annotations

from collections.abc import Iterable

from deltaplane.delta import Source, SourceState
from deltaplane.errors import DeltaplaneError
from deltaplane.model import SourcePosition
from deltaplane.records import Checkpoint
from deltaplane.statistics import Statistics
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.processors.records import CHECKPOINTS, DELTAS
from deltaplane_services.processors.recovery import accepted_state, readable_checkpoint
from deltaplane_services.settings import ServiceSettings


class NothingToAudit(DeltaplaneError):
    """There is no model yet, or the deltas behind it are gone."""


def readable_checkpoints(settings: ServiceSettings, central: LogReader) -> list[Checkpoint]:
    """Every checkpoint of this stream that its topic still holds."""
    _, end = central.bounds(CHECKPOINTS, 0)
    records = central.read(CHECKPOINTS, 0, 0, end)
    return [c for record in records if (c := readable_checkpoint(settings.definition, record)) is not None]


def nothing_of(settings: ServiceSettings, source: Source) -> SourceState:
    """The state of a source before anything of it was accepted."""
    return SourceState(source, Statistics(settings.definition.dimension))


def state_at(
    settings: ServiceSettings, central: LogReader, checkpoints: Iterable[Checkpoint], position: SourcePosition
) -> SourceState:
    """A source's accepted state at a model's position: a checkpoint that is not beyond it, and the deltas since."""
    definition, source = settings.definition, position.source
    mine = [c for c in checkpoints if c.state.source == source and c.state.sequence <= position.sequence]
    newest = max(mine, key=lambda checkpoint: checkpoint.next_offset, default=None)
    state, offset = (nothing_of(settings, source), 0) if newest is None else (newest.state, newest.next_offset)
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
