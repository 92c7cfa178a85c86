"""The accepted state of a source, read from checkpoints and deltas by a worker that takes the source over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

from deltaplane.errors import StateMismatch
from deltaplane.log.delta import Source, SourceState, check_declared, check_state
from deltaplane.log.records import Checkpoint
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.processors.acceptance import SourceHistory, nothing_of
from deltaplane_services.processors.codec import Undecodable, codec_of
from deltaplane_services.processors.messages import Record

__all__ = ["accepted_state", "newest_checkpoint", "readable_checkpoint"]


def readable_checkpoint(definition: StreamDefinition, record: Record, ends: Mapping[int, int]) -> Checkpoint | None:
    """The checkpoint in a record of the checkpoints topic, or None if it cannot be used.

    It cannot if it does not decode, is of another definition, holds a state that no accepted deltas can add up to, or
    goes on beyond the end of the deltas. ``ends``: partition of deltas to the end of its log, which must have been
    asked for after the record was read.
    """
    checkpoint = codec_of(definition).checkpoint(record)
    if isinstance(checkpoint, Undecodable):
        return None
    where = f"checkpoint of source {checkpoint.state.source}"
    try:
        check_state(where, checkpoint.state, definition.plane_grid.range)
        check_declared(definition, checkpoint.state)
    except StateMismatch:
        return None
    end = ends.get(checkpoint.state.source.partition % definition.partitions, 0)
    if checkpoint.stream_fingerprint != definition.stream_fingerprint or checkpoint.next_offset > end:
        return None
    return checkpoint


def newest_checkpoint(
    definition: StreamDefinition, source: Source, checkpoints: Iterable[Record], end: int
) -> tuple[SourceState, int]:
    """(a source's state by its checkpoint of the highest next offset, that offset); an empty state and 0 without one.

    ``end`` is the end of the log of its deltas, asked for after the checkpoints were read: a checkpoint that goes on
    beyond it is forged. Records that are no checkpoints of this stream are skipped, so that they do not stop it.
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
    """The state of a source after its ``deltas``, from its checkpoint up to and with the claim at ``claimed_at``.

    Records that cannot be read are skipped, as by the merger, so that both stand at the same position.
    """
    history = SourceHistory(definition, checkpoint)
    for _ in history.follow(takewhile(lambda record: record.offset <= claimed_at, deltas)):
        pass
    return history.state
