"""The engine of a replay in pieces that is Spark: the sums of the pieces never meet at the driver.

One task reads the sums in the order of the pieces, adds them up, and passes on what lies before each piece, which the
tasks that replay the pieces get by a shuffle. Spark hands rows to Python by up to 64 MB, so no process holds more sums
than that at once, and the driver gets counts alone, and one sum at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DeltaplaneError
from deltaplane.exact.statistics import Statistics
from deltaplane.log.partial import Partial
from deltaplane.wire import read_partial, write_partial
from deltaplane_services.lake.piece_replay import PieceJob, piece_scores
from deltaplane_services.lake.spark import batch_of, rows_of, spark_session, sums_of
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeError, LakeTable
from deltaplane_services.replay.in_pieces import OpenEngine, Piece, PieceFacts, Use
from deltaplane_services.replay.local_pieces import PIECES_OF_A_PROCESS, cut

__all__ = ["spark_engine"]

_SUMMED = "piece long, rows long, slots long, bare binary, partial binary, refused string"
_BEFORE = "job long, role long, partial binary"
_REPLAYED = "job long, head string, partial binary, refused string"

_PIECE, _LEFT = 0, 1
"""Roles of a sum in a job: what lies before the piece, and before the rows that leave the window."""


def spark_engine(pieces: int | None = None) -> OpenEngine:
    """Spark for any table, and as many pieces, or some for each of its cores."""

    def open_engine(table: LakeTable, columns: ColumnsOfTable) -> tuple[_SparkEngine, list[Piece]]:
        session = spark_session()
        cores = session.sparkContext.defaultParallelism
        found = cut(len(table.files), pieces or PIECES_OF_A_PROCESS * cores)
        return _SparkEngine(session, table, columns, found), found

    return open_engine


class _SparkEngine:
    def __init__(self, session: Any, table: LakeTable, columns: ColumnsOfTable, pieces: Sequence[Piece]) -> None:
        self._session = session
        self._tables = json.dumps(columns.tables)
        self._definition = columns.definition
        self._pieces = pieces
        files = [(str(file.path.resolve()), file.name) for file in table.files]
        self._rows = [(at, json.dumps(files[piece.first : piece.end])) for at, piece in enumerate(pieces)]
        self._sums: Any = None

    def sum(self) -> tuple[list[PieceFacts], Partial]:
        """(the facts of each piece, what all add up to but for the statistics); Spark keeps the sums on its disks."""
        from pyspark import StorageLevel

        pieces = self._session.createDataFrame(self._rows, "piece long, files string").repartition(len(self._rows))
        self._sums = pieces.mapInArrow(_SumPieces(self._tables), _SUMMED).persist(StorageLevel.DISK_ONLY)
        found = sorted(self._sums.drop("partial").collect(), key=lambda row: int(row["piece"]))
        _refuse(found)
        total = Partial.zero(self._definition)
        for row in found:
            total = total + read_partial(bytes(row["bare"]), self._definition)
        return [PieceFacts(row["rows"], row["slots"]) for row in found], total

    def replay(self, uses: Sequence[Use]) -> list[tuple[Mapping[str, Any], Statistics | None]]:
        """The result of each job."""
        if not uses:
            return []
        asked: dict[int, list[tuple[int, int]]] = {}
        for at, use in enumerate(uses):
            asked.setdefault(use.before, []).append((at, _PIECE))
            asked.setdefault(use.left, []).append((at, _LEFT))
        jobs = json.dumps([use.job.to_dict() for use in uses])
        in_order = self._sums.select("piece", "partial").repartition(1).sortWithinPartitions("piece")
        before = in_order.mapInArrow(_SumsBefore(self._tables, json.dumps(list(asked.items()))), _BEFORE)
        of_jobs = before.repartition(len(uses), "job").sortWithinPartitions("job", "role")
        found = of_jobs.mapInArrow(_ReplayPieces(self._tables, jobs), _REPLAYED).collect()
        found = sorted(found, key=lambda row: int(row["job"]))
        _refuse(found)
        return [(json.loads(row["head"]), self._statistics(row["partial"])) for row in found]

    def _statistics(self, data: Any) -> Statistics | None:
        return None if data is None else read_partial(bytes(data), self._definition).statistics

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sums is not None:
            self._sums.unpersist()


def _refuse(rows: Sequence[Any]) -> None:
    if refused := sorted(row["refused"] for row in rows if row["refused"] is not None):
        raise LakeError(refused[0])


@dataclass(frozen=True)
class _SumPieces:
    """Rows (piece, files) to :data:`_SUMMED`. It is sent to executors by its name and text, as those below are."""

    tables_json: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        sums = sums_of(self.tables_json)
        with blas_threads(1):
            for piece, files in rows_of(batches, "piece", "files"):
                total, refused = Partial.zero(sums.definition), None
                try:
                    for path, name in json.loads(files):
                        total = total + sums.whole(Path(path), name, hashes=False).partial
                except DeltaplaneError as fault:
                    refused = str(fault)
                facts = PieceFacts.of(total)
                bare = write_partial(replace(total, statistics=Statistics(sums.definition.dimension)))
                row = {"piece": piece, "rows": facts.rows, "slots": facts.slots, "bare": bare, "refused": refused}
                yield batch_of(_SUMMED, [{**row, "partial": write_partial(total)}])


@dataclass(frozen=True)
class _SumsBefore:
    """Sums of the pieces, in order, to :data:`_BEFORE`: ``asked`` has, for pieces, the jobs that ask for it."""

    tables_json: str
    asked: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        definition = sums_of(self.tables_json).definition
        asked = {int(piece): jobs for piece, jobs in json.loads(self.asked)}
        total = Partial.zero(definition)
        for at, (piece, partial) in enumerate(rows_of(batches, "piece", "partial")):
            assert piece == at, "one partition holds the sums of all pieces, in order"
            for job, role in asked.get(piece, ()):
                yield batch_of(_BEFORE, [{"job": job, "role": role, "partial": write_partial(total)}])
            total = total + read_partial(partial, definition)


@dataclass(frozen=True)
class _ReplayPieces:
    """Two rows of :data:`_BEFORE` for each job, one after the other, to one of :data:`_REPLAYED`."""

    tables_json: str
    jobs: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        sums, jobs = sums_of(self.tables_json), json.loads(self.jobs)
        rows = rows_of(batches, "job", "partial")
        with blas_threads(1):
            for (at, before), (_, left) in zip(rows, rows, strict=True):
                start, of_left = (read_partial(data, sums.definition) for data in (before, left))
                job, end, refused = PieceJob.of(jobs[at]), None, None
                head: dict[str, Any] = {}
                try:
                    head, statistics = piece_scores(sums, job, start.statistics - of_left.statistics)
                    end = write_partial(replace(start, statistics=statistics)) if job.ends else None
                except DeltaplaneError as fault:
                    refused = str(fault)
                row = {"job": at, "head": json.dumps(head), "partial": end, "refused": refused}
                yield batch_of(_REPLAYED, [row])
