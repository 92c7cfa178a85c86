"""The accepted state of a source at a model's position, computed from checkpoints and deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from deltaplane.errors import DeltaGap
from deltaplane.log.delta import Delta, Source, SourceState, Verdict
from deltaplane.log.model import Model, SourcePosition
from deltaplane.log.records import Checkpoint, Receipt
from deltaplane.stream.definition import StreamDefinition
from deltaplane.window.outcomes import RetirementOutcome
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.processors.acceptance import Change, SourceHistory, next_state, nothing_of, with_verdicts
from deltaplane_services.processors.codec import Codec, Undecodable, codec_of
from deltaplane_services.processors.messages import CHECKPOINTS, DELTAS, RECEIPTS, Record
from deltaplane_services.processors.model_account import DatedCheckpoint, NothingToAudit
from deltaplane_services.processors.recovery import accepted_state, newest_checkpoint, readable_checkpoint

__all__ = [
    "POLL_RECORDS",
    "WENT_BY_CONTENT",
    "AcceptedTiles",
    "checkpoint_before",
    "dated_checkpoints",
    "last_receipts",
    "readable_checkpoints",
    "rows_went_by_content",
    "state_at",
    "state_before",
]

POLL_RECORDS = 500


WENT_BY_CONTENT = (
    "an earlier version took rows out of this stream by their content (window.keep_rows = false). Which those were"
    " depended on when they were read, so that the log proves nothing; a stream that can be audited begins anew, under"
    " another name, with the rows that are to stay"
)
"""Why a stream that keeps no rows may be impossible to compare with its log."""


def rows_went_by_content(definition: StreamDefinition, counts: Mapping[str, int]) -> bool:
    """Whether these counts of outcomes show retirements by content: without kept rows, no others take rows out."""
    return not definition.nested_windows.keep_rows and counts.get(f"retirements {RetirementOutcome.RETIRED}", 0) > 0


def readable_checkpoints(settings: ServiceSettings, central: LogReader) -> list[Checkpoint]:
    """Every checkpoint of this stream that its topic still holds."""
    return [dated.checkpoint for dated in dated_checkpoints(settings, central)]


def dated_checkpoints(settings: ServiceSettings, central: LogReader) -> list[DatedCheckpoint]:
    """Every checkpoint of this stream that its topic still holds, with the time at which it was appended."""
    records, definition = list(central.read(CHECKPOINTS, 0)), settings.definition
    ends = {partition: central.bounds(DELTAS, partition)[1] for partition in range(definition.partitions)}
    read = ((readable_checkpoint(definition, record, ends), record.log_time) for record in records)
    return [DatedCheckpoint(checkpoint, log_time) for checkpoint, log_time in read if checkpoint is not None]


def checkpoint_before(
    settings: ServiceSettings, checkpoints: Iterable[Checkpoint], source: Source, sequence: int
) -> tuple[SourceState, int]:
    """(state of a source by its newest checkpoint up to tile ``sequence``, offset of the deltas after it).

    Without such a checkpoint it is an empty state, and 0.
    """
    mine = [c for c in checkpoints if c.state.source == source and c.state.sequence <= sequence]
    newest = max(mine, key=lambda checkpoint: checkpoint.next_offset, default=None)
    return (nothing_of(settings.definition, source), 0) if newest is None else (newest.state, newest.next_offset)


def state_before(definition: StreamDefinition, central: LogReader, source: Source, offset: int) -> SourceState:
    """The accepted state of a source just before an offset of its deltas, from its newest checkpoint on.

    Raises :class:`DeltaGap` if deltas are gone that no checkpoint holds.
    """
    partition = source.partition % definition.partitions
    written = list(central.read(CHECKPOINTS, 0))
    low, high = central.bounds(DELTAS, partition)
    checkpoint, start = newest_checkpoint(definition, source, written, high)
    if 0 < start < low:
        raise DeltaGap(
            f"source {source}: its newest checkpoint goes on at offset {start} of deltas-{partition}, the log"
            f" begins at {low}; retention has deleted deltas that no checkpoint holds: run a merger, and raise it"
        )
    return accepted_state(definition, checkpoint, central.read(DELTAS, partition, start, offset), offset)


def state_at(
    settings: ServiceSettings, central: LogReader, checkpoints: Iterable[Checkpoint], position: SourcePosition
) -> SourceState:
    """The accepted state of a source at its position in a model, from a checkpoint before it and the deltas since.

    Raises :class:`NothingToAudit` if deltas between the two are gone.
    """
    definition, source = settings.definition, position.source
    state, offset = checkpoint_before(settings, checkpoints, source, position.sequence)
    history = SourceHistory(definition, state)
    partition = source.partition % definition.partitions
    low, end = central.bounds(DELTAS, partition)
    if state.sequence < position.sequence and offset < low:
        raise NothingToAudit(
            f"source {source}: deltas between its checkpoint and the model are gone (offset {offset}, the log begins"
            f" at {low}); wait for the next checkpoint and audit again"
        )
    if state.sequence < position.sequence:
        for _ in history.follow(central.read(DELTAS, partition, offset, end)):
            if history.state.sequence == position.sequence:
                break
    if history.state.sequence != position.sequence:
        raise NothingToAudit(
            f"source {source}: the model contains {position.sequence} tiles, checkpoints and deltas only"
            f" {history.state.sequence}; were topics made anew? Otherwise audit again"
        )
    return history.state


def last_receipts(site: LogReader, partition: int, wanted: Callable[[Receipt], bool]) -> list[Receipt]:
    """The last of the receipts ``wanted`` under each key of a partition, in the order of the log."""
    found: dict[bytes | None, Receipt] = {}
    for record in site.read(RECEIPTS, partition):
        receipt = Codec.receipt(record)
        if not isinstance(receipt, Undecodable) and wanted(receipt):
            found[record.key] = receipt
    return list(found.values())


class AcceptedTiles:
    """Follows the owners of this site's sources from a model on, and which of their tiles are accepted since."""

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
                    nothing_of(settings.definition, position.source),
                    owner=position.owner,
                    sequence=position.sequence,
                    samples_position=position.samples,
                    retirements_position=position.retirements,
                    removed=position.removed,
                )
        log.follow([(DELTAS, partition, start) for partition, start in starts.items()])

    def poll(self) -> None:
        """Read what has come. Only positions are followed here, since the sum of the changes is not known."""
        for _, change, verdict in with_verdicts(
            self._log.poll(POLL_RECORDS, 0.0), codec_of(self._settings.definition), self._apply
        ):
            if verdict is Verdict.ACCEPTED and isinstance(change, Delta):
                self._accepted.add((change.source, change.writer, change.tile.sequence))

    def _apply(self, _record: Record, change: Change) -> Verdict | None:
        definition, source = self._settings.definition, change.source
        if source.site != self._settings.site:
            return None
        state = self._states.get(source) or nothing_of(definition, source)
        self._states[source], verdict = next_state(definition, state, change, positions_alone=True)
        return verdict

    def are_accepted(self, receipt: Receipt) -> bool:
        """Whether the tile of a receipt has been accepted."""
        return (receipt.source, receipt.writer, receipt.sequence) in self._accepted

    def close(self) -> None:
        """Stop following."""
        self._log.close()
