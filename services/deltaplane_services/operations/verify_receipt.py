"""``deltaplane verify-receipt``: replay a tile from the log, and hold what it gives against the receipt.

A receipt says what became of a retirement, and the digests of its source before and after. Here nobody is believed: the
state before the tile is rebuilt from the samples and retirements, the tile is put through a worker once more, and the
receipt that it writes must be the same. And what the newest model contains must be what the logs give from where they
begin, with no live row of the id: whoever may write deltas could have brought the row back since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltaplane.errors import DefinitionMismatch, DeltaplaneError, StateMismatch, WireError
from deltaplane.log.delta import Delta, Source, SourceState, Verdict, accept, check_declared
from deltaplane.log.records import Checkpoint, Receipt
from deltaplane.wire import read_claim_or_delta, read_receipt
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.accepted import (
    WENT_BY_CONTENT,
    checkpoint_before,
    readable_checkpoints,
    rows_went_by_content,
)
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.operations.audit import Audit, audit
from deltaplane_services.processors.messages import DELTAS, RECEIPTS, RETIREMENTS, SAMPLES
from deltaplane_services.processors.model_account import NothingToAudit
from deltaplane_services.processors.worker_processor import WorkerProcessor


class NoReceipt(DeltaplaneError):
    """There is no receipt of an id, or none whose tile was accepted."""


@dataclass(frozen=True)
class Verified:
    """A receipt, what the log gives instead (None where it is the same), and the newest model that contains it.

    ``since``: what an audit of that model finds wrong with the source of the receipt, and a row of the id that counts.
    """

    receipt: Receipt
    found: Receipt | None
    model_version: int | None
    since: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether the receipt is what the log gives, and the id has no row that counts."""
        return self.found is None and not self.since


def verify_receipts(settings: ServiceSettings, ids: Sequence[str]) -> Iterator[list[Verified]]:
    """For each id, verify every receipt of it that counts, the oldest first; one audit serves all ids.

    Raises :class:`NoReceipt` where there is none, and :class:`NothingToAudit` or :class:`DeltaGap` where the log no
    longer reaches back to what is needed.
    """
    central, site = reader(settings, "central"), reader(settings, "site")
    try:
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
    finally:
        central.close()
        site.close()


def _verified(
    settings: ServiceSettings, logs: tuple[LogReader, LogReader], receipts: Sequence[Receipt], audited: Audit | None
) -> list[Verified]:
    """What the central log and that of the site say of the receipts of one id."""
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
    """An audit of the newest model; None before there is one."""
    follower = ModelFollower(reader(settings, "central"), settings.definition)
    follower.close()
    return None if follower.model is None else audit(settings, ids)


def _since(audited: Audit, receipt: Receipt) -> tuple[str, ...]:
    """What an audit finds wrong with the source of a receipt, and whether the id has a row that counts."""
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
    _, end = site.bounds(RECEIPTS, partition)
    found: dict[bytes | None, Receipt] = {}
    for record in site.read(RECEIPTS, partition, 0, end):
        try:
            receipt = read_receipt(record.value)
        except WireError:
            continue
        if receipt.id == sample_id and receipt.source == Source(settings.site, partition):
            found[record.key] = receipt
    return list(found.values())


def _tile(
    settings: ServiceSettings, central: LogReader, checkpoints: Sequence[Checkpoint], receipt: Receipt
) -> tuple[SourceState, Delta]:
    """The accepted state before the tile of a receipt, and the delta of it that was accepted."""
    source, definition = receipt.source, settings.definition
    state, offset = checkpoint_before(settings, checkpoints, source, receipt.sequence)
    partition = source.partition % definition.partitions
    low, end = central.bounds(DELTAS, partition)
    if offset < low:
        raise NothingToAudit(
            f"source {source}: the deltas between its checkpoint and tile {receipt.sequence} are gone (offset {offset},"
            f" the log begins at {low}); keep deltas for as long as receipts are to be verified"
        )
    for record in central.read(DELTAS, partition, offset, end):
        try:
            change = read_claim_or_delta(record.value, definition.dimension)
            if change.source != source:
                continue
            check_declared(definition, change)
            after, verdict = accept(state, change, definition.stream_fingerprint, definition.plane_grid.range)
        except (WireError, DefinitionMismatch, StateMismatch):
            continue
        if verdict is Verdict.ACCEPTED and isinstance(change, Delta) and change.tile.sequence == receipt.sequence:
            return state, change
        state = after
    raise NoReceipt(
        f"source {source}: tile {receipt.sequence} is not among the deltas from offset {offset} on; the newest"
        " checkpoint may be beyond it: keep deltas for as long as receipts are to be verified"
    )


def _replayed(
    settings: ServiceSettings, site: LogReader, before: SourceState, tile: Delta, receipt: Receipt
) -> Receipt | None:
    """The receipt of the same retirement that a worker writes when the tile is put through it once more."""
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
        # The last record before the tile may be one that compaction has taken out.
        processor.read_to(place.samples_from, place.retirements_from)
        output = processor.process([], [])
    written = [read_receipt(one.value) for one in output.first if one.topic == RECEIPTS]
    return next((one for one in written if one.offset == receipt.offset), None)
