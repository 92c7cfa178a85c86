"""``deltaplane audit``: read the log, rebuild every source's live rows, and hold the digests against the live model.

The rows of a site are on the cluster of that site, so an audit rebuilds the sources of one site. What the other sites
have put into the model is taken from their accepted deltas, and said to be so; run the audit at each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane.delta import SourceState
from deltaplane.errors import DeltaGap, LogDisorder, SourceBarred, StateMismatch
from deltaplane.model import Model, SourcePosition
from deltaplane.statistics import Statistics
from deltaplane_services.kafka.accepted import NothingToAudit, nothing_of, readable_checkpoints, state_at
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import LogReader, in_batches
from deltaplane_services.processors.records import RETIREMENTS, SAMPLES
from deltaplane_services.processors.worker import WorkerProcessor
from deltaplane_services.settings import ServiceSettings


@dataclass(frozen=True)
class SourceAudit:
    """One source: rows found live, and None or what does not fit.

    ``from_log``: whether the rows were read again; False for the sources of other sites, and for a removed source.
    """

    position: SourcePosition
    rows: int
    fault: str | None
    from_log: bool

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.fault is not None:
            return self.fault
        if self.position.barred:
            return "removed"
        return "equal" if self.from_log else "of another site, taken from its deltas; run the audit there"


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
    """Audit the newest model at the site of ``settings``. Raises :class:`NothingToAudit`, :class:`LogUnavailable`."""
    central, site = reader(settings, "central"), reader(settings, "site")
    try:
        model = ModelFollower(central, settings.definition).model
        if model is None:
            raise NothingToAudit(f"{settings.definition.name}.models holds no model; has a merger run?")
        checkpoints = readable_checkpoints(settings, central)
        total = Statistics(settings.definition.dimension)
        sources = []
        for position in model.positions:
            accepted = state_at(settings, central, checkpoints, position)
            statistics, fault = accepted.statistics, None
            from_log = position.source.site == settings.site and not position.barred
            if from_log:
                statistics, fault = _rebuilt(settings, site, position, accepted)
            rows = sum(statistics.counts(settings.definition.ladder.longest).values())
            sources.append(SourceAudit(position, rows, fault, from_log))
            total = total + statistics
        return Audit(model, total.digest(settings.definition.data_fingerprint), tuple(sources))
    finally:
        central.close()
        site.close()


def _rebuilt(
    settings: ServiceSettings, site: LogReader, position: SourcePosition, accepted: SourceState
) -> tuple[Statistics, str | None]:
    """The statistics of a source's rows as the log has them at a model's position, and None or what does not fit."""
    definition, source = settings.definition, position.source
    processor = WorkerProcessor(definition, source, "audit")
    try:
        # Where no rows are held a worker goes on from the accepted statistics; an audit adds them all up again.
        processor.restore(accepted if definition.ladder.keep_rows else nothing_of(settings, source))
        bounds = [site.bounds(topic, source.partition) for topic in (SAMPLES, RETIREMENTS)]
        begins, ends = [begin for begin, _ in bounds], [end for _, end in bounds]
        if not definition.ladder.keep_rows and max(begins):
            raise DeltaGap(
                f"source {source}: the log begins at samples {begins[0]} and retirements {begins[1]}, and a window over"
                " everything that keeps no rows can only be checked from the first; it cannot be checked any more"
            )
        samples_at, retirements_at = processor.position
        processor.skip_to(max(samples_at, begins[0]), max(retirements_at, begins[1]))
        samples_at, retirements_at = processor.position
        # Retirements by content find the rows that they take out only behind them.
        for batch in in_batches(site.read(SAMPLES, source.partition, samples_at, position.samples)):
            processor.process(batch, [])
        for batch in in_batches(site.read(RETIREMENTS, source.partition, retirements_at, position.retirements)):
            processor.process([], batch)
        processor.read_to(min(ends[0], position.samples), min(ends[1], position.retirements))
        processor.process([], [])
    except (StateMismatch, DeltaGap, LogDisorder, SourceBarred) as found:
        return processor.partition.statistics, str(found)
    statistics, fault = processor.partition.statistics, None
    if not processor.serving or processor.position != (position.samples, position.retirements):
        fault = (
            f"the log ends at samples {processor.position[0]} and retirements {processor.position[1]}, the model"
            f" contains {position.samples} and {position.retirements}; were topics made anew?"
        )
    elif statistics != accepted.statistics:
        fault = f"the log gives {statistics!r}, the model contains {accepted.statistics!r}"
    return statistics, fault
