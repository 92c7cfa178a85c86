"""``deltaplane audit``: recompute the statistics from the logs, from their beginning, and compare them with the model.

The only thing that is taken from the deltas is how far they have read: see
:mod:`deltaplane_services.processors.account`. Nothing is taken from the model; it is solved again: see
:mod:`deltaplane_services.processors.model_account`.

The rows of a site are on the cluster of that site, so an audit checks the sources of one site. What the other sites
contribute to the model is taken from their accepted deltas, and the audit says so. Run it at each site.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import SourceOrder, SourceState
from deltaplane.log.model import Model, SourcePosition
from deltaplane.log.model_proof import ModelProof
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.accepted import WENT_BY_CONTENT, dated_checkpoints, rows_went_by_content
from deltaplane_services.kafka.clients import readers
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log import LogReader, in_batches
from deltaplane_services.kafka.log_errors import RecordsDeleted
from deltaplane_services.lake.auditing import HistoryAccount
from deltaplane_services.processors.account import LostRows, RecomputedSource, account_of_site
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.history_source import WRITER
from deltaplane_services.processors.messages import DELTAS, Record
from deltaplane_services.processors.model_account import NothingToAudit, account_of_model
from deltaplane_services.system.printable import json_value

__all__ = ["NOT_CHECKED", "TRIALS", "Audit", "SourceAudit", "audit", "unprovable"]

NOT_CHECKED = (
    "what workers say of scores, outcomes and trials, beyond that the model adds it up",
    "the counts of scores that probabilities are calibrated by; their units, and the means of rows, are proved",
    "when the model was made, by the merger's clock",
)
"""What no audit can recompute: the models that scored the rows are gone, and rows have been learned since."""

TRIALS = 3
"""How often an audit begins, if logs are trimmed while it reads them. A merger trims once in some seconds at most."""


@dataclass(frozen=True)
class SourceAudit:
    """The audit of one source: the number of its live rows, and the ``account`` of it that the logs give.

    The account is None if the rows were not read: for sources of other sites, and for a removed source.
    ``disagreements`` are the differences between the model and the deltas that it is made of.
    """

    position: SourcePosition
    rows: int
    account: RecomputedSource | None
    disagreements: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """All differences, in words."""
        return self.disagreements + (() if self.account is None else self.account.faults)

    @property
    def verdict(self) -> str:
        """The result in a few words."""
        if self.faults:
            return "; ".join(self.faults)
        if self.position.removed:
            return "removed"
        if self.account is None and self.position.owner.startswith(WRITER):
            return "a history, taken from its deltas; name its file (--history) to have it computed again"
        if self.account is None:
            return "of another site, taken from its deltas; run the audit there"
        return "equal"

    @property
    def proved(self) -> str | None:
        """The offsets from which the source is proved, and what is believed without proof, in words.

        None if everything is proved from offset 0 on, and also if the rows were not read.
        """
        account = self.account
        if account is None or not (account.samples_from or account.retirements_from or account.believed):
            return None
        said = f"proved from offset {account.samples_from} of samples and {account.retirements_from} of retirements on"
        if account.samples_from or account.retirements_from:
            said += "; the logs no longer hold what came before, and no live row needs it"
        return said if not account.believed else f"{said}; believed from its deltas: {'; '.join(account.believed)}"

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        account, position = self.account, self.position
        tables: dict[str, Any] = json_value(
            {
                "source": str(position.source),
                "rows": self.rows,
                "samples": position.samples,
                "retirements": position.retirements,
                "tile": position.sequence,
                "removed": position.removed,
                "equal": None if account is None and not self.faults else not self.faults,
                "faults": list(self.faults),
                "proved_from": None
                if account is None
                else {"samples": account.samples_from, "retirements": account.retirements_from},
                "believed": [] if account is None else list(account.believed),
            }
        )
        return tables


@dataclass(frozen=True)
class Audit:
    """The result of an audit. ``digest`` is that of the rows found live in the logs, at the positions of ``model``.

    ``proof`` is the comparison with the model solved again. ``notes`` are remarks that are no faults.
    """

    model: Model
    digest: str
    sources: tuple[SourceAudit, ...]
    proof: ModelProof
    notes: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether the logs and the model agree, bit for bit."""
        found = self.digest == self.model.digest and not any(source.faults for source in self.sources)
        return found and not self.proof.faults

    @property
    def not_checked(self) -> tuple[str, ...]:
        """What is taken unchecked from the model or from a checkpoint."""
        return (*self.proof.unproved, *NOT_CHECKED)

    @property
    def verdict_on_planes(self) -> str:
        """Whether the model is what a merger computes from the statistics at its positions, in a few words."""
        if self.proof.faults:
            return f"NOT EQUAL: {'; '.join(self.proof.faults)}"
        if self.proof.rounding:
            return f"equal, but for rounding on another processor: {self.proof.rounding:.1e} of their size"
        return "equal"

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "equal": self.equal,
            "model": {"version": self.model.version, "digest": self.model.digest},
            "log_digest": self.digest,
            "sources": [source.as_json() for source in self.sources],
            "planes": json_value(
                {
                    "equal": not self.proof.faults,
                    "faults": list(self.proof.faults),
                    "rounding": self.proof.rounding,
                    "not_checked": list(self.not_checked),
                }
            ),
            "notes": json_value(list(self.notes)),
        }


class _ClusterLog:
    """The samples and retirements of a site, in the form in which an account reads them."""

    def __init__(self, log: LogReader) -> None:
        self._log = log

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self._log.bounds(topic, partition)

    def batches(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Sequence[Record]]:
        return in_batches(self._log.read(topic, partition, start, stop))


def audit(settings: ServiceSettings, asked: Collection[str] = (), histories: Sequence[HistoryAccount] = ()) -> Audit:
    """The audit of the newest model at the site of ``settings``.

    ``asked``: ids for which the accounts say whether they are live. ``histories`` are computed again from their tables.
    Raises :class:`NothingToAudit`, :class:`LogUnavailable`, and :class:`LakeError`, :class:`HistoryRefused` and
    :class:`ExtraMissing` if a history cannot be computed again.
    """
    for _ in range(TRIALS - 1):
        # A merger may trim a log while it is read here; the next trial begins where the log begins then.
        with contextlib.suppress(RecordsDeleted):
            return _audit(settings, asked, histories)
    return _audit(settings, asked, histories)


def _audit(settings: ServiceSettings, asked: Collection[str], histories: Sequence[HistoryAccount]) -> Audit:
    """The audit in one trial. Raises :class:`RecordsDeleted`, and what :func:`audit` raises."""
    definition = settings.definition
    with readers(settings) as (central, site):
        follower = ModelFollower(central, definition)
        model, newest = follower.model, follower.newest
        if model is None or newest is None:
            raise NothingToAudit(f"{definition.name}.models holds no model; has a merger run?")
        told = account_of_model(definition, model, newest, central, dated_checkpoints(settings, central))
        states = [told.states[position.source] for position in model.positions]
        bygone = LostRows(newest.log_time, lambda: _any_orders(settings, central))
        accounts = account_of_site(definition, settings.site, states, _ClusterLog(site), bygone, asked)
        for history in histories:
            if history.source not in told.states:
                raise NothingToAudit(f"source {history.source}: the model has no such history; was it published?")
            accounts[history.source] = history.of(told.states[history.source])
        total = Statistics(definition.dimension)
        sources = []
        for position, state in zip(model.positions, states, strict=True):
            account = accounts.get(position.source)
            statistics = state.statistics if account is None else account.statistics
            rows = sum(statistics.counts(definition.nested_windows.longest).values())
            faults = (*told.faults[position.source], *unprovable(definition, state, account))
            sources.append(SourceAudit(position, rows, account, faults))
            total = total + statistics
        proof = told.prove(model, total, definition)
        notes = (*told.notes, *(note for account in accounts.values() for note in account.notes))
        return Audit(model, total.digest(definition.data_fingerprint), tuple(sources), proof, notes)


def unprovable(definition: StreamDefinition, state: SourceState, account: RecomputedSource | None) -> tuple[str, ...]:
    """The reason why the faults of an account prove nothing about its source; empty if there is none."""
    has_faults = account is not None and bool(account.faults)
    return (WENT_BY_CONTENT,) if has_faults and rows_went_by_content(definition, state.counts) else ()


def _any_orders(settings: ServiceSettings, central: LogReader) -> bool:
    """Whether the deltas that are still there hold an order to remove or admit a source."""
    codec = codec_of(settings.definition)
    return any(
        isinstance(codec.change(record), SourceOrder)
        for partition in range(settings.definition.partitions)
        for record in central.read(DELTAS, partition)
    )
