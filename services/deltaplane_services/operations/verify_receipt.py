"""``deltaplane verify-receipt``: replay a tile from the log, and compare the result with the receipt.

A receipt gives the outcome of a retirement, and the digests of its source before and after. Here nobody is trusted. The
state before the tile is rebuilt from the samples and retirements, a worker processes the tile once more, and it must
write the same receipt. In addition, the newest model must equal what the logs give from their beginning, without a live
row of the id: whoever may write deltas could have brought the row back since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltaplane.errors import DeltaplaneError
from deltaplane.log.delta import Delta, Source, SourceState, Verdict
from deltaplane.log.records import Checkpoint, Receipt
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.accepted import (
    WENT_BY_CONTENT,
    checkpoint_before,
    last_receipts,
    readable_checkpoints,
    rows_went_by_content,
)
from deltaplane_services.kafka.clients import reader, readers
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.operations.audit import Audit, audit
from deltaplane_services.processors.acceptance import SourceHistory
from deltaplane_services.processors.messages import DELTAS, RECEIPTS, RETIREMENTS, SAMPLES
from deltaplane_services.processors.model_account import NothingToAudit
from deltaplane_services.processors.worker_processor import WorkerProcessor

__all__ = ["NoReceipt", "Verified", "verify_receipts"]


class NoReceipt(DeltaplaneError):
    """There is no receipt of an id, or none whose tile was accepted."""


@dataclass(frozen=True)
class Verified:
    """A receipt, what the log gives instead (None if it is the same), and the newest model that contains it.

    ``model_version`` is None if that model does not contain it. ``since``: the faults that an audit of the model finds
    in the source of the receipt, and whether a row of the id is live.
    """

    receipt: Receipt
    found: Receipt | None
    model_version: int | None
    since: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether the log gives the same receipt, and the audit finds no fault and no live row of the id."""
        return self.found is None and not self.since


def verify_receipts(settings: ServiceSettings, ids: Sequence[str]) -> Iterator[list[Verified]]:
    """For each id, its verified receipts, the oldest first; receipts of tiles that were not accepted are left out.

    One audit serves all ids. Raises :class:`NoReceipt` if an id has no receipt, and :class:`NothingToAudit` or
    :class:`DeltaGap` if the log no longer reaches back to what is needed.
    """
    with readers(settings) as (central, site):
        audited: Audit | None = None
        for sample_id in ids:
            receipts = _receipts_of(settings, site, sample_id)
            if not receipts:
                raise NoReceipt(
                    f"{settings.definition.name}.{RECEIPTS} holds no receipt of {sample_id!r}; was it retired?"
                )
            outcomes = [{f"retirements {receipt.outcome}": 1} for receipt in receipts]
            if any(rows_went_by_content(settings.definition, counts) for counts in outcomes):
                raise NothingToAudit(f"{sample_id!r}: {WENT_BY_CONTENT}")
            audited = audited or _audit(settings, ids)
            yield _verified(settings, (central, site), receipts, audited)


def _verified(
    settings: ServiceSettings, logs: tuple[LogReader, LogReader], receipts: Sequence[Receipt], audited: Audit | None
) -> list[Verified]:
    """The verified receipts of one id. ``logs`` are the central log and that of the site."""
    central, site = logs
    checkpoints = readable_checkpoints(settings, central)
    model = None if audited is None else audited.model
    verified = []
    for receipt in receipts:
        before, tile = _tile(settings, central, checkpoints, receipt)
        if tile.writer == receipt.writer:
            found = _replayed(settings, site, before, tile, receipt)
            contained = model is not None and model.contains(receipt.source, receipt.sequence)
            version = model.version if model is not None and contained else None
            since = () if audited is None or not contained else _since(audited, receipt)
            verified.append(Verified(receipt, None if found == receipt else found, version, since))
    if not verified:
        raise NoReceipt(f"{receipts[0].id!r}: none of its {len(receipts)} receipts is of a tile that was accepted")
    return verified


def _audit(settings: ServiceSettings, ids: Sequence[str]) -> Audit | None:
    """An audit of the newest model; None if there is no model."""
    follower = ModelFollower(reader(settings, "central"), settings.definition)
    follower.close()
    return None if follower.model is None else audit(settings, ids)


def _since(audited: Audit, receipt: Receipt) -> tuple[str, ...]:
    """The faults that an audit finds in the source of a receipt, and whether the id has a live row."""
    wrong: list[str] = []
    for source in audited.sources:
        if source.position.source == receipt.source:
            wrong += source.faults
            if source.account is not None and receipt.id in source.account.live:
                wrong.append("a row of this id counts")
    return tuple(wrong)


def _receipts_of(settings: ServiceSettings, site: LogReader, sample_id: str) -> list[Receipt]:
    """The last receipt of each retirement of an id by each writer, in the order of the log."""
    partition = settings.definition.partition_of(sample_id)
    source = Source(settings.site, partition)
    return last_receipts(site, partition, lambda receipt: receipt.id == sample_id and receipt.source == source)


def _tile(
    settings: ServiceSettings, central: LogReader, checkpoints: Sequence[Checkpoint], receipt: Receipt
) -> tuple[SourceState, Delta]:
    """The accepted state before the tile of a receipt, and the accepted delta of that tile."""
    source, definition = receipt.source, settings.definition
    state, offset = checkpoint_before(settings, checkpoints, source, receipt.sequence)
    partition = source.partition % definition.partitions
    low, end = central.bounds(DELTAS, partition)
    if offset < low:
        raise NothingToAudit(
            f"source {source}: the deltas between its checkpoint and tile {receipt.sequence} are gone (offset {offset},"
            f" the log begins at {low}); keep deltas for as long as receipts are to be verified"
        )
    history = SourceHistory(definition, state)
    for _, change, verdict in history.follow(central.read(DELTAS, partition, offset, end)):
        if verdict is Verdict.ACCEPTED and isinstance(change, Delta) and change.tile.sequence == receipt.sequence:
            return state, change
        state = history.state
    raise NoReceipt(
        f"source {source}: tile {receipt.sequence} is not among the deltas from offset {offset} on; the newest"
        " checkpoint may be beyond it: keep deltas for as long as receipts are to be verified"
    )


def _replayed(
    settings: ServiceSettings, site: LogReader, before: SourceState, tile: Delta, receipt: Receipt
) -> Receipt | None:
    """The receipt that a worker writes if it processes the tile once more; None if it writes none."""
    source, place = before.source, tile.tile
    processor = WorkerProcessor(settings.definition, source, receipt.writer)
    resume = processor.restore(before)
    begins = [site.bounds(topic, source.partition)[0] for topic in (SAMPLES, RETIREMENTS)]
    processor.skip_to(max(resume.samples, begins[0]), max(resume.retirements, begins[1]))
    samples_at, retirements_at = processor.position
    samples = list(site.read(SAMPLES, source.partition, samples_at, place.samples_to))
    retirements = list(site.read(RETIREMENTS, source.partition, retirements_at, place.retirements_to))
    processor.hear(tile.rebuild.watermark)
    output = processor.process(samples, retirements)
    if not processor.serving:
        # Compaction may have deleted the last record before the tile.
        processor.read_to(place.samples_from, place.retirements_from)
        output = processor.process([], [])
    written = [one.message for one in output.first if isinstance(one.message, Receipt)]
    return next((one for one in written if one.offset == receipt.offset), None)
