"""A history against its table as it is now: the rows of some ids, and what all of its rows add up to once more.

The table is pinned by what each of its files added up to. A file that is gone or adds up to something else may have
held any row, so nothing is concluded from such a table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.exact.statistics import Statistics
from deltaplane.log.history import History
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.lake.compute import Computing, compute_history, mark_of
from deltaplane_services.lake.last_versions import Versions, losers_of
from deltaplane_services.lake.sql_entries import SqlTable
from deltaplane_services.lake.table_sums import ColumnsOfTable, TableSums, Told, ignore_progress
from deltaplane_services.lake.tables import LakeError, LakeTable, open_table
from deltaplane_services.processors.history_source import Standing

__all__ = ["TableOfHistory"]


@dataclass(frozen=True)
class TableOfHistory:
    """The table of a history, at ``place`` if it has been moved since; ``processes`` read it side by side."""

    history: History
    place: str | None = None
    processes: int = 1
    told: Told = ignore_progress

    @property
    def name(self) -> str:
        """Where the table is."""
        return self.place or str(self.history.facts["table"])

    @property
    def columns(self) -> ColumnsOfTable:
        """The definition and the columns that the history was computed by."""
        return ColumnsOfTable(self.history.definition, InputTable.of(self.history.facts["input"]))

    def never_counted(self, ids: Collection[str]) -> frozenset[str]:
        """Those of some ids that had been retired already when the history was computed."""
        marks = set(self.history.facts.get("retired_marks", ()))
        return frozenset(one for one in ids if mark_of(one) in marks)

    def rows_of(
        self, ids: Sequence[str], standing: Standing | None = None, retired_before: frozenset[str] = frozenset()
    ) -> tuple[Statistics, Sequence[str]]:
        """(the statistics, in each window over everything, of the rows of some ids that count; those that have one).

        ``standing``: where the history stands if it has followed its table, whose rows are then those of that version;
        then it takes ``retired_before``, too: see :meth:`again`. Raises :class:`LakeError` where the table is not what
        it was.
        """
        if self.columns.options.id is None:
            raise LakeError(f"{self.name}: the history was computed without a column of ids, so that none can be found")
        if standing is not None and standing.followed:
            return self._rows_of_version(ids, standing, standing.out | self._not_counted(retired_before))
        with TableSums(self._pinned(), self.columns, self.processes) as sums:
            summed = sums.whole(hashes=True, told=self.told)
            self._check_files(summed.facts)
            versions = sums.versions(summed.hashes.having(sums.hashes(ids)))
            older = losers_of(versions, frozenset(), self.history.facts["last_by"] or "place")
            kept, found = {}, set[str]()
            for number, of_file in versions.items():
                asked = np.array([one in ids for one in of_file.ids], dtype=np.bool_)
                if number in older:
                    asked &= ~np.isin(of_file.ordinals, older[number].replaced)
                kept[number] = of_file.ordinals[asked]
                found |= {of_file.ids[row] for row in np.flatnonzero(asked).tolist()}
            return sums.part(kept).in_windows(self.history.definition), sorted(found)

    def _rows_of_version(
        self, ids: Sequence[str], standing: Standing, out: frozenset[str]
    ) -> tuple[Statistics, Sequence[str]]:
        """What :meth:`rows_of` says at a version that was followed to, at which no id has two rows."""
        table = open_table(self.name, standing.version, self.columns.needed, may_be_empty=True)
        definition = self.history.definition
        if not table.files:
            self._check_version(standing, Statistics(definition.dimension))
            return Statistics(definition.dimension), []
        with TableSums(table, self.columns, self.processes) as sums:
            summed = sums.whole(hashes=True, told=self.told)
            versions = sums.versions(summed.hashes.having(sums.hashes(sorted({*ids, *out}))))
            found = sorted({one for of_file in versions.values() for one in of_file.ids if one in ids})
            asked, gone = (sums.part(_rows_with(versions, chosen)) for chosen in (frozenset(found), out))
            self._check_version(standing, summed.partial.in_windows(definition) - gone.in_windows(definition))
            return asked.in_windows(definition), found

    def _check_version(self, standing: Standing, found: Statistics) -> None:
        """Raise :class:`LakeError` unless a version that was followed to gives what the source holds."""
        expected = standing.state.statistics
        if found != expected:
            raise LakeError(
                f"{self.name}: version {standing.version} of the table adds up to {found!r}, and not to what its source"
                f" holds ({expected!r}); bring the table back as it was, or compute the history anew"
            )

    def again(
        self, without: frozenset[str], retired_before: frozenset[str] = frozenset(), version: int | None = None
    ) -> Statistics:
        """The statistics, in each window over everything, of the table as it is now, minus the rows of some ids.

        They are of no row where none is left.

        ``version``: that of the table; that of the history if None. ``retired_before``: the ids that did
        not count when the history was computed, which holds marks of them alone. Raises :class:`LakeError` where these
        are not given, or the table cannot be read.
        """
        facts, out = self.history.facts, without | self._not_counted(retired_before)
        at = facts["version"] if version is None else version
        computing = Computing(at, facts["last_by"], out, self.processes, self.told, may_be_empty=True)
        return compute_history(self.name, self.columns, computing).partial.in_windows(self.history.definition)

    def in_sql(
        self, without: frozenset[str], retired_before: frozenset[str] = frozenset(), version: int | None = None
    ) -> SqlTable:
        """What :meth:`again` computes, as SQL reads it; raises the same errors."""
        facts, out = self.history.facts, without | self._not_counted(retired_before)
        at = facts["version"] if version is None else version
        table = open_table(self.name, at, self.columns.needed, may_be_empty=True)
        return SqlTable(table, self.columns, facts["last_by"], out, self.processes)

    def _not_counted(self, retired_before: frozenset[str]) -> frozenset[str]:
        """Those of some ids that did not count when the history was computed; all of these must be among them."""
        marks = frozenset(self.history.facts.get("retired_marks", ()))
        if missing := len(marks - frozenset(map(mark_of, retired_before))):
            raise LakeError(
                f"{self.name}: the history was computed without the rows of {len(marks):,} retired ids, and {missing:,}"
                " of these are not given; give the same file of them again (--retired-ids)"
            )
        return frozenset(one for one in retired_before if mark_of(one) in marks)

    def _pinned(self) -> LakeTable:
        """The table, with those files alone that the history was computed from."""
        table = open_table(self.name, self.history.facts["version"], self.columns.needed)
        by_name = {file.name: file for file in table.files}
        names = [one["name"] for one in self.history.facts["files"]]
        if absent := [name for name in names if name not in by_name]:
            raise LakeError(
                f"{self.name}: {len(absent):,} of the {len(names):,} files that the history was computed from are gone"
                f" ({absent[0]}, for one); bring the table back as it was, or compute the history anew"
            )
        return LakeTable(table.name, table.version, tuple(by_name[name] for name in names))

    def _check_files(self, facts: Sequence[Any]) -> None:
        """Raise :class:`LakeError` unless each file adds up to what it did."""
        for was, now in zip(self.history.facts["files"], facts, strict=True):
            if was != now:
                raise LakeError(
                    f"{self.name}: the file {was['name']} is not the one that the history was computed from"
                    f" ({was['rows']:,} rows and digest {was['digest'][:16]}… then, {now['rows']:,} and"
                    f" {now['digest'][:16]}… now); bring the table back as it was, or compute the history anew"
                )


def _rows_with(versions: Mapping[int, Versions], ids: frozenset[str]) -> dict[int, Int64s]:
    """Number of a file to the ordinals int64[n] of its rows that have one of some ids."""
    return {
        number: of_file.ordinals[np.array([one in ids for one in of_file.ids], dtype=np.bool_)]
        for number, of_file in versions.items()
    }
