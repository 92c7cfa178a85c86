"""``deltaplane bootstrap compute``: what the rows of a table add up to, by processes on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from deltaplane.errors import DefinitionError
from deltaplane.log.history import History
from deltaplane.log.partial import Partial
from deltaplane.window.outcomes import SampleOutcome
from deltaplane_services.lake.hashes_of_ids import HashesOfIds
from deltaplane_services.lake.last_versions import LastBy
from deltaplane_services.lake.table_sums import (
    ColumnsOfTable,
    LostRows,
    SummedTable,
    TableSums,
    Told,
    ignore_progress,
)
from deltaplane_services.lake.tables import LakeError, LakeTable, open_table

__all__ = ["Computing", "OpenSums", "Sums", "compute_history", "mark_of"]

_MARK_DIGITS = 16


class Sums(Protocol):
    """What sums the files of a ``table``; a context manager."""

    table: LakeTable

    def whole(self, *, hashes: bool, told: Told = ignore_progress) -> SummedTable:
        """What all files add up to; ``hashes``: whether rows have ids, of which :meth:`lost` will be asked."""

    def lost(self, summed: SummedTable, retired: frozenset[str], last_by: LastBy) -> LostRows:
        """The rows that do not count: older versions of their ids, and those of some ``retired`` ids."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


OpenSums = Callable[[LakeTable, ColumnsOfTable, int], Sums]
"""Makes what sums the files of a table: processes of this machine, as many as said, or Spark."""


def mark_of(sample_id: str) -> str:
    """What a history remembers of an id that it does not count: the first digits of its SHA-256, and not the id."""
    return hashlib.sha256(sample_id.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_DIGITS]


@dataclass(frozen=True)
class Computing:
    """How a history is computed.

    ``version`` is that of a Delta table. ``last_by``: which version of an id counts; None where no id may come twice,
    unless the table is one file or a folder, whose order is that of the names. ``retired``: ids that do not count.
    ``processes``: how many work at once. ``may_be_empty``: whether there may be no row that counts.
    """

    version: int | None = None
    last_by: LastBy | None = None
    retired: frozenset[str] = frozenset()
    processes: int = 1
    told: Told = ignore_progress
    may_be_empty: bool = False


def compute_history(
    name: str, columns: ColumnsOfTable, computing: Computing, open_sums: OpenSums = TableSums
) -> History:
    """What the rows of a table add up to, with where they came from; ``open_sums`` makes the engine that adds.

    Raises :class:`LakeError` for a table that cannot be read, and :class:`DefinitionError` for columns, ids or times
    that do not say what is to be done.
    """
    options = columns.options
    if options.id is None and computing.retired:
        raise DefinitionError("retired-ids: rows have no ids here; name their column with --id")
    if options.time is None and computing.last_by == "time":
        raise DefinitionError("last-by: rows have no times here; name their column with --time")
    table = open_table(name, computing.version, columns.needed, may_be_empty=computing.may_be_empty)
    if not table.files:
        nothing = SummedTable(Partial.zero(columns.definition), [], HashesOfIds())
        facts = _facts(table, columns, nothing, computing)
        return History(columns.definition, nothing.partial, {**facts, "retired_marks": []})
    columns.check_times(table)
    with open_sums(table, columns, computing.processes) as sums:
        summed = sums.whole(hashes=options.id is not None, told=computing.told)
        partial, gone = _resolved(sums, summed, computing) if options.id is not None else (summed.partial, [])
    if not partial.rows and not computing.may_be_empty:
        raise LakeError(f"{name}: none of its rows counts: {_in_words(partial)}; nothing is computed")
    facts = _facts(table, columns, summed, computing)
    return History(columns.definition, partial, {**facts, "retired_marks": sorted(map(mark_of, gone))})


def _resolved(sums: Sums, summed: SummedTable, computing: Computing) -> tuple[Partial, Collection[str]]:
    """(what the rows that count add up to, the retired ids that had rows)."""
    lost = sums.lost(summed, computing.retired, computing.last_by or "place")
    if computing.last_by is None and sums.table.is_delta and lost.replaced:
        raise DefinitionError(
            f"{sums.table.name}: ids come several times ({lost.example}, for one), and the files of a Delta table are"
            " in no order; say which version counts: --last-by time with --time COLUMN"
        )
    counts = {str(SampleOutcome.REPLACED): lost.replaced, str(SampleOutcome.RETIRED_ID): lost.retired}
    return summed.partial.without(lost.partial.statistics, counts), lost.retired_ids


def _facts(table: LakeTable, columns: ColumnsOfTable, summed: SummedTable, computing: Computing) -> dict[str, Any]:
    return {
        "table": table.name,
        "version": table.version,
        "input": columns.input.table,
        "files": list(summed.facts),
        "last_by": computing.last_by,
    }


def _in_words(partial: Partial) -> str:
    counted = {**partial.counts, **partial.refusals}
    said = ", ".join(f"{count:,} {name}" for name, count in sorted(counted.items())) or "it has none"
    return said + "".join(f"; {reason}" for reason in list(partial.examples.values())[:1])
