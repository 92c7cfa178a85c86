"""The account of a source that is a history: what its table gives now, held against what the deltas say."""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane.log.delta import Source, SourceState
from deltaplane_services.lake.recomputing import TableOfHistory
from deltaplane_services.lake.sql_entries import Drawn, draw_places, places_in_sql
from deltaplane_services.processors.account import RecomputedSource
from deltaplane_services.processors.history_source import HistoryLog, HistorySource

__all__ = ["HistoryAccount"]


@dataclass(frozen=True)
class HistoryAccount:
    """Recomputes the source ``history`` from its ``table``; ``retired_before``: see :meth:`TableOfHistory.again`.

    ``drawn``: the entries that SQL finds again besides, if any.
    """

    history: HistorySource
    table: TableOfHistory
    log: HistoryLog
    retired_before: frozenset[str] = frozenset()
    drawn: Drawn | None = None

    @property
    def source(self) -> Source:
        """The source that it is of."""
        return self.history.source

    def of(self, state: SourceState) -> RecomputedSource:
        """The account of the source at an accepted state.

        Raises :class:`LakeError` where the table cannot be read, :class:`HistoryRefused` where nobody can tell which
        ids were retired, and :class:`ExtraMissing` if SQL is asked for and its library is not there.
        """
        history = self.history.history
        standing = self.history.standing_at(state, self.log.receipts(self.source))
        out, version = standing.out, standing.version
        statistics = self.table.again(out, self.retired_before, version)
        faults: tuple[str, ...] = ()
        if statistics != state.statistics:
            faults = (f"the table {self.table.name} gives {statistics!r}, the model contains {state.statistics!r}",)
        rows = sum(state.statistics.counts(self.history.definition.nested_windows.longest).values()) + len(out)
        if not standing.followed and rows != history.partial.rows:
            faults += (f"deltas and receipts are of {rows:,} rows, the history is of {history.partial.rows:,}",)
        notes: tuple[str, ...] = ()
        if self.drawn is not None:
            definition = self.history.definition
            places = draw_places(places_in_sql(definition), self.drawn)
            in_sql = self.table.in_sql(out, self.retired_before, version)
            differences = in_sql.differences(state.statistics, definition.nested_windows.longest, places)
            faults += differences
            found = f"{len(differences):,} differ" if differences else "equal"
            looked_at = f"the counts of rows and {len(places):,} entries of each class"
            notes = (f"{self.source}: {looked_at} by plain SQL (seed {self.drawn.seed}): {found}",)
        return RecomputedSource(statistics, history.partial.watermark, 0, 0, faults, (), notes=notes)
