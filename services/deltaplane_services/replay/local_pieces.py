"""The engine of a replay in pieces that is made of processes on this machine."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from deltaplane.exact.statistics import Statistics
from deltaplane.log.partial import Partial
from deltaplane.wire import read_partial, write_partial
from deltaplane_services.lake.processes import Job, Processes
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeTable
from deltaplane_services.replay.in_pieces import OpenEngine, Piece, PieceFacts, Use

__all__ = ["PIECES_OF_A_PROCESS", "cut", "local_engine"]

PIECES_OF_A_PROCESS = 4
"""Pieces for each process, so that none is idle for long at the end. Each takes the memory of its statistics."""


def cut(files: int, most: int) -> list[Piece]:
    """Up to ``most`` pieces with nearly as many of the ``files`` each."""
    count = max(1, min(files, most))
    bounds = [piece * files // count for piece in range(count + 1)]
    return [Piece(first, end) for first, end in itertools.pairwise(bounds)]


def local_engine(processes: int, pieces: int | None = None) -> OpenEngine:
    """Processes for any table, and as many pieces as these can do side by side several times over."""

    def open_engine(table: LakeTable, columns: ColumnsOfTable) -> tuple[_LocalEngine, list[Piece]]:
        found = cut(len(table.files), pieces or PIECES_OF_A_PROCESS * processes)
        return _LocalEngine(table, columns, min(processes, len(found)), found), found

    return open_engine


class _LocalEngine:
    def __init__(self, table: LakeTable, columns: ColumnsOfTable, processes: int, pieces: Sequence[Piece]) -> None:
        self._table = table
        self._definition = columns.definition
        self._pieces = pieces
        self._before: list[Statistics] = []
        self._processes = Processes(table.name, columns.tables, processes)

    def sum(self) -> tuple[list[PieceFacts], Partial]:
        """(the facts of each piece, what all add up to); what lies before each piece stays in this process."""
        zero = Partial.zero(self._definition)
        of_piece = [zero for _ in self._pieces]
        piece_of = {number: at for at, piece in enumerate(self._pieces) for number in range(piece.first, piece.end)}
        for key, frame in self._processes.results(self._whole(number) for number in piece_of):
            assert isinstance(key, int), "jobs on files have their numbers"
            at = piece_of[key]
            of_piece[at] = of_piece[at] + read_partial(frame.parts[0], self._definition)
        total, self._before = zero, []
        for partial in of_piece:
            self._before.append(total.statistics)
            total = total + partial
        return [PieceFacts.of(partial) for partial in of_piece], total

    def _whole(self, number: int) -> Job:
        file = self._table.files[number]
        return Job(number, {"job": "whole", "path": str(file.path), "name": file.name, "hashes": False})

    def replay(self, uses: Sequence[Use]) -> list[tuple[Mapping[str, Any], Statistics | None]]:
        """The result of each job; only as many sums are written at a time as there are processes for."""
        found: dict[int, tuple[Mapping[str, Any], Statistics | None]] = {}
        for key, (head, parts) in self._processes.results(self._replay(at, use) for at, use in enumerate(uses)):
            assert isinstance(key, int), "jobs on pieces have their numbers"
            found[key] = head, read_partial(parts[0], self._definition).statistics if parts else None
        return [found[at] for at in range(len(uses))]

    def _replay(self, at: int, use: Use) -> Job:
        start = self._before[use.before] - self._before[use.left]
        part = write_partial(replace(Partial.zero(self._definition), statistics=start))
        return Job(at, {"job": "replay", "path": use.job.files[0][1], "piece": use.job.to_dict()}, [part])

    def __enter__(self) -> Self:
        self._processes.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, trace)
