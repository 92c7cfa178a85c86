"""The account of a source that is a history: what its table gives now, held against what the deltas say."""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane.log.delta import Source, SourceState
from deltaplane_services.lake.recomputing import TableOfHistory
from deltaplane_services.processors.account import RecomputedSource
from deltaplane_services.processors.history_source import HistoryLog, HistorySource, retired_ids_of

__all__ = ["HistoryAccount"]


@dataclass(frozen=True)
class HistoryAccount:
    """Recomputes the source ``history`` from its ``table``; ``retired_before``: see :meth:`TableOfHistory.again`."""

    history: HistorySource
    table: TableOfHistory
    log: HistoryLog
    retired_before: frozenset[str] = frozenset()

    @property
    def source(self) -> Source:
        """The source that it is of."""
        return self.history.source

    def of(self, state: SourceState) -> RecomputedSource:
        """The account of the source at an accepted state.

        Raises :class:`LakeError` where the table cannot be read, and :class:`HistoryRefused` where nobody can tell
        which ids were retired.
        """
        history = self.history.history
        out = retired_ids_of(state, self.log.receipts(self.source), self.history.definition, self.history.statistics)
        statistics = self.table.again(out, self.retired_before)
        faults: tuple[str, ...] = ()
        if statistics != state.statistics:
            faults = (f"the table {self.table.name} gives {statistics!r}, the model contains {state.statistics!r}",)
        rows = sum(state.statistics.counts(self.history.definition.nested_windows.longest).values()) + len(out)
        if rows != history.partial.rows:
            faults += (f"deltas and receipts are of {rows:,} rows, the history is of {history.partial.rows:,}",)
        return RecomputedSource(statistics, history.partial.watermark, 0, 0, faults, ())
