"""A process that sums files, ``python -m deltaplane_services.lake.worker``: frames of jobs come in, results go out.

The first frame says which definition and which columns; then come jobs, one after the other, until the input ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DeltaplaneError
from deltaplane.wire import read_partial, write_partial
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.lake.file_sums import FileSums, hashes_of
from deltaplane_services.lake.frames import Frame, read_frame, write_frame
from deltaplane_services.lake.piece_replay import PieceJob, piece_scores
from deltaplane_services.produce.feed_options import reader_options

__all__ = ["main"]

_Result = tuple[Mapping[str, Any], Sequence[bytes]]


def _whole(sums: FileSums, job: Mapping[str, Any], _parts: Sequence[bytes]) -> _Result:
    span = job.get("span")
    found = sums.whole(Path(job["path"]), job["name"], hashes=job["hashes"], span=span and (span[0], span[1]))
    facts = {"rows": found.rows, "digest": found.partial.digest(), "ids": found.ids}
    return {"facts": facts, "id_bytes": found.id_bytes}, [write_partial(found.partial), found.hashes.tobytes()]


def _rows(sums: FileSums, job: Mapping[str, Any], parts: Sequence[bytes]) -> _Result:
    found = sums.rows(Path(job["path"]), job["name"], np.frombuffer(parts[0], dtype=np.int64))
    return {"row_ids": found.ids}, [found.times.tobytes()]


def _part(sums: FileSums, job: Mapping[str, Any], parts: Sequence[bytes]) -> _Result:
    found = sums.part(Path(job["path"]), job["name"], np.frombuffer(parts[0], dtype=np.int64))
    return {}, [write_partial(found)]


def _hashes(_sums: FileSums, job: Mapping[str, Any], _parts: Sequence[bytes]) -> _Result:
    return {}, [hashes_of(job["of"], len(job["of"])).tobytes()]


def _replay(sums: FileSums, job: Mapping[str, Any], parts: Sequence[bytes]) -> _Result:
    piece, start = PieceJob.of(job["piece"]), read_partial(parts[0], sums.definition)
    head, statistics = piece_scores(sums, piece, start.statistics)
    return head, [write_partial(replace(start, statistics=statistics))] if piece.ends else []


_JOBS: Mapping[str, Callable[[FileSums, Mapping[str, Any], Sequence[bytes]], _Result]] = {
    "whole": _whole,
    "rows": _rows,
    "part": _part,
    "hashes": _hashes,
    "replay": _replay,
}


def _answer(sums: FileSums, frame: Frame) -> _Result:
    """The result of a job, or the reason why there is none."""
    try:
        return _JOBS[frame.head["job"]](sums, frame.head, frame.parts)
    except DeltaplaneError as fault:
        return {"refused": str(fault)}, []


def main(jobs: BinaryIO, results: BinaryIO) -> None:
    """Do jobs until there are no more."""
    first = read_frame(jobs)
    if first is None:
        return
    file = DefinitionFile.of(first.head["tables"])
    sums = FileSums(file.definition, reader_options(file))
    with blas_threads(1):
        while (frame := read_frame(jobs)) is not None:
            head, parts = _answer(sums, frame)
            write_frame(results, head, *parts)


if __name__ == "__main__":
    # What a library prints must not come between the frames.
    with os.fdopen(os.dup(1), "wb") as results_file:
        os.dup2(2, 1)
        main(sys.stdin.buffer, results_file)
