"""One piece of a table, tested, then trained, by whoever is told what the rows before it add up to.

A piece is some files of a table, one after the other. Its last chunk may end in the files behind it, and the rows that
leave a window lie in the files before it; so a job names these, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.prefix_replay import PieceScores, PieceStart, replay_piece
from deltaplane.stream.sample import AdmittedSamples
from deltaplane_services.lake.file_sums import FileSums
from deltaplane_services.readers import RowBlock, rechunk

__all__ = ["PieceJob", "piece_scores", "scores_of_head"]

_File = tuple[str, str]
"""(Where a file is, its name in messages.)"""


@dataclass(frozen=True)
class PieceJob:
    """What is to be replayed.

    ``files`` are those of the piece and, behind these, as many as its last chunk may reach into; ``leaving`` those from
    which rows leave the window, from slot ``left`` on. ``rows_before`` and ``rows`` count what readers could read
    before the piece and in it; ``slots`` rows were admitted before it. ``chunk``: rows between two planes. ``ends``:
    the statistics at its end are asked for.
    """

    files: Sequence[_File]
    leaving: Sequence[_File]
    rows_before: int
    rows: int
    slots: int
    left: int
    chunk: int
    ends: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The job in plain values."""
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> PieceJob:
        """The job of plain values."""
        return cls(**{name: plain[name] for name in cls.__dataclass_fields__})


def piece_scores(sums: FileSums, job: PieceJob, statistics: Statistics) -> tuple[dict[str, Any], Statistics]:
    """(what came of a piece in plain values, the statistics at its end).

    ``statistics`` are those of the rows from slot ``job.left`` to the piece.
    """
    found = replay_piece(
        sums.definition,
        PieceStart(job.slots, job.left, statistics),
        _admitted(sums, _chunks(_blocks(sums, job.files), job)),
        (sums.admitted(block) for block in _blocks(sums, job.leaving)),
    )
    return _head_of(found), found.statistics


def _head_of(found: PieceScores) -> dict[str, Any]:
    scores = [[truth, predicted, count] for (truth, predicted), count in found.scores.counts.items()]
    return {"scores": scores, "waits": found.waits, "has_plane": found.has_plane}


def scores_of_head(head: Mapping[str, Any]) -> Confusion:
    """The scores in what :func:`piece_scores` gives."""
    return Confusion({(truth, predicted): count for truth, predicted, count in head["scores"]})


def _blocks(sums: FileSums, files: Sequence[_File]) -> Iterator[RowBlock]:
    for path, name in files:
        yield from sums.blocks(Path(path), name)


def _admitted(sums: FileSums, chunks: Iterable[tuple[bool, RowBlock]]) -> Iterator[tuple[bool, AdmittedSamples]]:
    for scored, block in chunks:
        yield scored, sums.admitted(block)


def _chunks(blocks: Iterator[RowBlock], job: PieceJob) -> Iterator[tuple[bool, RowBlock]]:
    """The chunks of the whole table that begin in the piece, after the rest of the one before, which is not scored."""
    at = -job.rows_before % job.chunk
    rest = at
    head: list[RowBlock] = []
    for block in blocks:
        of_before = min(rest, len(block))
        head.append(block.cut(of_before, len(block)))
        if rest:
            yield False, block.cut(0, of_before)
        rest -= of_before
        if not rest:
            break
    if at >= job.rows:
        return
    for block in rechunk(itertools.chain(head[-1:], blocks), job.chunk):
        if len(block):
            yield True, block
        at += len(block)
        if at >= job.rows:
            return
