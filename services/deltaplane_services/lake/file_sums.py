"""One file of a table: what it adds up to, which ids its rows have, and what some of its rows add up to.

Rows are told apart by their *ordinals*: the place of a row among those of its file that the definition admits, from 0.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import AdmittedSamples, Refusal
from deltaplane_services.lake.block_sums import (
    admitted_of_block,
    check_features,
    partial_of_admitted,
    partial_of_block,
)
from deltaplane_services.readers import ReaderOptions, RowBlock, open_rows

__all__ = ["FileSums", "RowsOfFile", "RunningSum", "Step", "SummedFile", "hashes_of", "is_empty_parquet"]

_NOTHING: Int64s = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class SummedFile:
    """What a file adds up to; ``rows`` are those that its definition admits.

    ``hashes`` int64[rows] of the ids are empty unless they were asked for.
    ``ids``: the CRC-32 of all ids, each followed by a zero byte; 0 without a column of ids. ``id_bytes``: these bytes.
    """

    partial: Partial
    hashes: Int64s
    ids: int
    id_bytes: int = 0

    @property
    def rows(self) -> int:
        """The rows that the definition admits, several of one id included."""
        return self.partial.rows


@dataclass(frozen=True)
class RowsOfFile:
    """The ids of some rows of a file, and their event times int64[n] in milliseconds."""

    ids: list[str]
    times: Int64s


class Step(NamedTuple):
    """A block of a file: its rows, those that the definition admits, and why it refuses the others."""

    block: RowBlock
    admitted: AdmittedSamples
    refused: list[Refusal]


class RunningSum:
    """What the blocks of a file add up to that were read so far; ``where`` is put before examples of refused rows."""

    def __init__(self, definition: StreamDefinition, where: str, *, has_ids: bool) -> None:
        self._definition, self._where, self._has_ids = definition, where, has_ids
        self._total, self._crc, self._id_bytes = Partial.zero(definition), 0, 0

    def add(self, step: Step) -> None:
        """Add the next block."""
        self._total = self._total + partial_of_admitted(self._definition, *step, self._where)
        if self._has_ids:
            texts = "".join(f"{one}\0" for one in step.admitted.ids).encode("utf-8", "surrogatepass")
            self._crc, self._id_bytes = zlib.crc32(texts, self._crc), self._id_bytes + len(texts)

    @property
    def summed(self) -> SummedFile:
        """The sum, without hashes."""
        return SummedFile(self._total, _NOTHING, self._crc, self._id_bytes)


def hashes_of(ids: Iterable[str | bytes], count: int) -> Int64s:
    """int64[count]: Python's hashes of some ids. They differ from process to process unless PYTHONHASHSEED is set."""
    return np.fromiter(map(hash, ids), dtype=np.int64, count=count)


@dataclass(frozen=True)
class FileSums:
    """Reads the files of one table as a definition says; ``options`` name the columns."""

    definition: StreamDefinition
    options: ReaderOptions

    def whole(self, path: Path, name: str, *, hashes: bool, span: tuple[int, int] | None = None) -> SummedFile:
        """What all rows of a file add up to; ``name`` is that of the file in examples of refused rows.

        ``span``: of a Parquet file only the row groups from the first to before the second number.
        """
        running, of_ids = self.begin(name), [_NOTHING]
        for step in self.steps(path, name, span):
            running.add(step)
            if hashes:
                of_ids.append(hashes_of(step.admitted.ids, len(step.admitted)))
        return replace(running.summed, hashes=np.concatenate(of_ids))

    def begin(self, name: str) -> RunningSum:
        """The sum of the first no blocks of a file, to which its :meth:`steps` are added."""
        return RunningSum(self.definition, f"{name}: ", has_ids=self.options.id is not None)

    def rows(self, path: Path, name: str, ordinals: Int64s) -> RowsOfFile:
        """The ids and times of the rows at some ordinals int64[n], which ascend."""
        ids: list[str] = []
        times: list[Int64s] = [_NOTHING]
        for _, admitted, places in self._places(path, name, ordinals):
            ids += [admitted.ids[place] for place in places.tolist()]
            times.append(admitted.event_times[places])
        return RowsOfFile(ids, np.concatenate(times))

    def part(self, path: Path, name: str, ordinals: Int64s, span: tuple[int, int] | None = None) -> Partial:
        """What the rows at some ordinals int64[n], which ascend, add up to; of a ``span`` they are those within it."""
        total = Partial.zero(self.definition)
        for block, admitted, places in self._places(path, name, ordinals, span):
            chosen = np.isin(block.line_numbers, admitted.rows[places])
            total = total + partial_of_block(self.definition, block.where(chosen).cut(0, len(places)))
        return total

    def ids(self, path: Path, name: str, span: tuple[int, int] | None = None) -> Iterator[AdmittedSamples]:
        """The rows of a file, or a ``span`` of it, that the definition admits, in order; see :meth:`whole`."""
        for _, admitted, _ in self.steps(path, name, span):
            yield admitted

    def _places(
        self, path: Path, name: str, ordinals: Int64s, span: tuple[int, int] | None = None
    ) -> Iterator[tuple[RowBlock, AdmittedSamples, Int64s]]:
        """(a block, its admitted rows, the places among these of the rows at some ordinals), if there are any."""
        first = 0
        for block, admitted, _ in self.steps(path, name, span):
            begin, end = np.searchsorted(ordinals, [first, first + len(admitted)]).tolist()
            if begin < end:
                yield block, admitted, ordinals[begin:end] - first
            first += len(admitted)
            if end == len(ordinals):
                return

    def blocks(self, path: Path, name: str, span: tuple[int, int] | None = None) -> Iterator[RowBlock]:
        """The rows of a file, in order; ``name`` is that of the file in errors. ``span``: see :meth:`whole`."""
        if is_empty_parquet(path):
            return
        with open_rows(path, replace(self.options, row_groups=span)) as reader:
            check_features(self.definition, reader.feature_names, name)
            yield from reader

    def admitted(self, block: RowBlock) -> AdmittedSamples:
        """The rows of a block that the definition admits."""
        return admitted_of_block(self.definition, block)[0]

    def steps(self, path: Path, name: str, span: tuple[int, int] | None = None) -> Iterator[Step]:
        """The rows of a file, block by block, in order, as far as the definition admits them; see :meth:`whole`."""
        for block in self.blocks(path, name, span):
            yield Step(block, *admitted_of_block(self.definition, block))


def is_empty_parquet(path: Path) -> bool:
    """Whether a file is of Parquet and has no rows, as engines write for parts that came out empty."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix.lower() not in (".parquet", ".pq"):
        return False
    try:
        return not pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError, ValueError):
        return False  # What is wrong with it is said where it is read.
