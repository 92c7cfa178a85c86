"""What a source's accepted deltas add up to, found again from the log by a worker that takes the source over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

from deltaplane.errors import StateMismatch, WireError
from deltaplane.log.delta import Source, SourceState, check_declared, check_state
from deltaplane.log.records import Checkpoint
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_checkpoint
from deltaplane_services.processors.acceptance import SourceHistory, nothing_of
from deltaplane_services.processors.messages import Record

__all__ = ["accepted_state", "newest_checkpoint", "readable_checkpoint"]


def readable_checkpoint(definition: StreamDefinition, record: Record, ends: Mapping[int, int]) -> Checkpoint | None:
    """The checkpoint in a record of the checkpoints topic.

    ``ends``: deltas partition to the end of its log, found after the record was read. None where it is no checkpoint,
    or one of another definition, of a state that no accepted deltas add up to, or from deltas that nobody has written.
    """
    try:
        checkpoint = read_checkpoint(record.value, definition.dimension)
        where = f"checkpoint of source {checkpoint.state.source}"
        check_state(where, checkpoint.state, definition.plane_grid.range)
        check_declared(definition, checkpoint.state)
    except (WireError, StateMismatch):
        return None
    end = ends.get(checkpoint.state.source.partition % definition.partitions, 0)
    if checkpoint.stream_fingerprint != definition.stream_fingerprint or checkpoint.next_offset > end:
        return None
    return checkpoint


def newest_checkpoint(
    definition: StreamDefinition, source: Source, checkpoints: Iterable[Record], end: int
) -> tuple[SourceState, int]:
    """A source's state by its checkpoint with the highest next offset, and that offset; nothing and 0 without one.

    ``end`` is that of the log of its deltas, found after the checkpoints were read: what reaches beyond is forged.
    Records that are no checkpoint of this stream are skipped: a stream does not stand still for them.
    """
    state, offset = nothing_of(definition, source), 0
    for record in checkpoints:
        checkpoint = readable_checkpoint(definition, record, {source.partition % definition.partitions: end})
        if checkpoint is not None and checkpoint.state.source == source and checkpoint.next_offset > offset:
            state, offset = checkpoint.state, checkpoint.next_offset
    return state, offset


def accepted_state(
    definition: StreamDefinition, checkpoint: SourceState, deltas: Iterable[Record], claimed_at: int
) -> SourceState:
    """The rule over a source's records of the deltas topic, from its checkpoint up to the claim at ``claimed_at``.

    Records that cannot be read are skipped here as the merger skips them, so that both stand at the same position.
    """
    history = SourceHistory(definition, checkpoint)
    for _ in history.follow(takewhile(lambda record: record.offset <= claimed_at, deltas)):
        pass
    return history.state
