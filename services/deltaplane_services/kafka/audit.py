"""``deltaplane audit``: read the log, rebuild every source's live rows, and hold the digests against the live model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deltaplane.delta import SourceState
from deltaplane.errors import DeltaplaneError, StateMismatch
from deltaplane.model import Model, SourcePosition
from deltaplane.statistics import Statistics
from deltaplane.wire import read_model
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.log import LogReader
from deltaplane_services.processors.records import CHECKPOINTS, DELTAS, MODELS, RETIREMENTS, SAMPLES, Record
from deltaplane_services.processors.recovery import accepted_state, newest_checkpoint
from deltaplane_services.processors.worker import WorkerProcessor
from deltaplane_services.settings import ServiceSettings

BATCH_RECORDS = 500


class NothingToAudit(DeltaplaneError):
    """There is no model yet."""


@dataclass(frozen=True)
class SourceAudit:
    """One source: rows found live in the log, and None or what does not fit."""

    position: SourcePosition
    rows: int
    fault: str | None


@dataclass(frozen=True)
class Audit:
    """``digest`` is that of the rows found live in the log, at the positions of ``model``."""

    model: Model
    digest: str
    sources: tuple[SourceAudit, ...]

    @property
    def equal(self) -> bool:
        """Whether the log and the model agree, bit for bit."""
        return self.digest == self.model.digest and not any(source.fault for source in self.sources)


def audit(settings: ServiceSettings) -> Audit:
    """Audit the newest model. The samples of every source must be on the site cluster of ``settings``."""
    central, site = reader(settings, "central"), reader(settings, "site")
    try:
        _, end = central.bounds(MODELS, 0)
        models = [read_model(record.value) for record in central.read(MODELS, 0, end - 1, end)]
        if not models:
            raise NothingToAudit(f"{settings.definition.name}.models holds no model; has a merger run?")
        model = models[-1]
        total = Statistics(settings.definition.dimension)
        sources = []
        for position in model.positions:
            found, statistics = _audit_source(settings, central, site, position)
            sources.append(found)
            total = total + statistics
        return Audit(model, total.digest(settings.definition.data_fingerprint), tuple(sources))
    finally:
        central.close()
        site.close()


def _audit_source(
    settings: ServiceSettings, central: LogReader, site: LogReader, position: SourcePosition
) -> tuple[SourceAudit, Statistics]:
    """Rebuild a source up to a model's position from its samples and retirements, and compare."""
    definition, source = settings.definition, position.source
    accepted = _state_at(settings, central, position)
    processor = WorkerProcessor(definition, source, "audit")
    fault = None
    try:
        resume = processor.restore(accepted)
        processor.skip_to(
            max(resume.samples, site.bounds(SAMPLES, source.partition)[0]),
            max(resume.retirements, site.bounds(RETIREMENTS, source.partition)[0]),
        )
        at = processor.position
        for batch in _batches(site.read(RETIREMENTS, source.partition, at[1], position.retirements)):
            processor.process([], batch)
        for batch in _batches(site.read(SAMPLES, source.partition, at[0], position.samples)):
            processor.process(batch, [])
        if not processor.serving:
            fault = f"the log ends before the model's position {position.samples}; were topics made anew?"
    except (StateMismatch, DeltaplaneError) as found:
        fault = str(found)
    statistics = processor.partition.statistics
    return SourceAudit(position, sum(statistics.counts().values()), fault), statistics


def _state_at(settings: ServiceSettings, central: LogReader, position: SourcePosition) -> SourceState:
    """A source's accepted state at a model's position: a checkpoint that is not beyond it, and the deltas since."""
    definition, source = settings.definition, position.source
    _, end = central.bounds(CHECKPOINTS, 0)
    records = list(central.read(CHECKPOINTS, 0, 0, end))
    state, offset = newest_checkpoint(definition, source, records)
    while state.sequence > position.sequence and records:
        records.pop()
        state, offset = newest_checkpoint(definition, source, records)
    low, end = central.bounds(DELTAS, source.partition % definition.partitions)
    if offset < low:
        raise NothingToAudit(
            f"source {source}: deltas between its checkpoint and the model are gone (offset {offset}, the log begins"
            f" at {low}); wait for the next checkpoint and audit again"
        )
    for record in central.read(DELTAS, source.partition % definition.partitions, offset, end):
        if state.sequence == position.sequence and state.sequence:
            break
        state = accepted_state(definition, state, [record], record.offset)
    return replace(state)


def _batches(records: Iterable[Record]) -> Iterable[list[Record]]:
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        if len(batch) == BATCH_RECORDS:
            yield batch
            batch = []
    if batch:
        yield batch
