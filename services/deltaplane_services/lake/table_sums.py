"""What the files of a table add up to, read by processes on this machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.errors import DefinitionError
from deltaplane.log.partial import Partial
from deltaplane.stream.declared import DeclaredStream
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_partial
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.lake.file_sums import SummedFile
from deltaplane_services.lake.hashes_of_ids import HashesOfIds
from deltaplane_services.lake.last_versions import LastBy, Versions, losers_of
from deltaplane_services.lake.processes import Job, Processes
from deltaplane_services.lake.spans import joined, spans_of
from deltaplane_services.lake.tables import LakeFile, LakeTable
from deltaplane_services.produce.feed_options import reader_options
from deltaplane_services.readers import ReaderOptions, format_of_name

__all__ = ["ColumnsOfTable", "LostRows", "SummedTable", "TableSums", "Told", "ignore_progress"]

Told = Callable[[int, int], None]
"""Is told how many files of how many have been summed."""


def ignore_progress(_done: int, _all: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class ColumnsOfTable:
    """A definition, and the table ``[input]`` of its file, which says what the columns of a table are.

    Raises :class:`DefinitionError` if these do not go together.
    """

    definition: StreamDefinition
    input: InputTable

    @property
    def tables(self) -> dict[str, Any]:
        """The tables of a definition file that processes are sent, to read the files by."""
        return {**self.definition.to_tables(), "input": self.input.table}

    @property
    def options(self) -> ReaderOptions:
        """The options of the reader."""
        return reader_options(DefinitionFile(DeclaredStream.of(self.definition.to_tables()), self.input))

    @property
    def needed(self) -> list[str]:
        """The columns that are read, as far as they are named."""
        roles = [self.options.label, self.options.id, self.options.time]
        columns = self.definition.columns
        features = self.definition.features if columns is None else columns.columns
        old_names = {new: old for old, new in self.options.renamed}
        return [old_names.get(name, name) for name in (*roles, *features) if name is not None]

    def check_times(self, table: LakeTable) -> None:
        """Raise :class:`DefinitionError` where each file would guess for itself how its times are written."""
        options = self.options
        declared = options.time is None or options.time_unit is not None or options.time_format is not None
        if declared or len(table.files) == 1 or all(_has_typed_times(file, options) for file in table.files[:1]):
            return
        raise DefinitionError(
            f"{table.name}: the times in the column {options.time!r} are numbers or texts, and each of its"
            f" {len(table.files)} files would be guessed at by itself; say what they are: --time-unit or --time-format"
        )


def _has_typed_times(file: LakeFile, options: ReaderOptions) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from deltaplane_services.readers.arrow_columns import is_typed_time

    if format_of_name(file.name) != "parquet":
        return False
    try:
        schema = pq.read_schema(file.path)
    except (pa.ArrowException, OSError, ValueError):
        return True  # What is wrong with it is said where it is read.
    renamed = {new: old for old, new in options.renamed}
    name = renamed.get(options.time or "", options.time)
    return name not in schema.names or is_typed_time(schema.field(name).type)


@dataclass(frozen=True)
class SummedTable:
    """What the files add up to: all together, and ``facts`` of each; ``hashes`` of their ids if they were asked for."""

    partial: Partial
    facts: Sequence[Mapping[str, Any]]
    hashes: HashesOfIds


@dataclass(frozen=True)
class LostRows:
    """Rows of a table that do not count: what they add up to, how many there are by the reason, and an ``example``.

    ``retired_ids``: the retired ids that had rows.
    """

    partial: Partial
    replaced: int
    retired: int
    retired_ids: frozenset[str]
    example: str


class TableSums:
    """Sums files of one table; a context manager, at whose end its processes have ended."""

    def __init__(self, table: LakeTable, columns: ColumnsOfTable, processes: int) -> None:
        self.table = table
        self._definition = columns.definition
        self._spans = [spans_of(file.path, file.name) for file in table.files]
        self.processes = Processes(table.name, columns.tables, min(processes, sum(map(len, self._spans))))

    def whole(self, files: Collection[int] | None = None, *, hashes: bool, told: Told = ignore_progress) -> SummedTable:
        """What the files add up to; or those of some numbers alone."""
        chosen = list(range(len(self.table.files)) if files is None else files)
        total = Partial.zero(self._definition)
        facts: dict[int, Mapping[str, Any]] = {}
        of_ids = HashesOfIds()
        under_way: dict[int, dict[int, SummedFile]] = {number: {} for number in chosen}
        for key, (head, parts) in self.processes.results(self._whole_jobs(chosen, hashes=hashes)):
            assert isinstance(key, tuple), "jobs on spans have the number of the file and the place of the span"
            number, place = key
            span = SummedFile(
                read_partial(parts[0], self._definition),
                np.frombuffer(parts[1], dtype=np.int64),
                head["facts"]["ids"],
                head["id_bytes"],
            )
            spans = under_way[number]
            spans[place] = span
            if len(spans) < len(self._spans[number]):
                continue
            found = joined([spans[at] for at in range(len(spans))])
            del under_way[number]
            total = total + found.partial
            known = {"rows": found.rows, "digest": found.partial.digest(), "ids": found.ids}
            facts[number] = {"name": self.table.files[number].name, **known}
            of_ids.add(number, found.hashes)
            told(len(facts), len(chosen))
        return SummedTable(total, [facts[number] for number in chosen], of_ids)

    def _whole_jobs(self, chosen: Iterable[int], *, hashes: bool) -> Iterator[Job]:
        """A job for each span of some files; its key is (number of the file, place of the span)."""
        for number in chosen:
            for place, span in enumerate(self._spans[number]):
                job = self._job(number, "whole", hashes=hashes, span=span)
                yield replace(job, key=(number, place))

    def lost(self, summed: SummedTable, retired: frozenset[str], last_by: LastBy) -> LostRows:
        """The rows that do not count: older versions of their ids, and those of some ``retired`` ids."""
        out: dict[int, Int64s] = {}
        gone, replaced, of_retired, example = set[str](), 0, 0, ""
        for suspects in summed.hashes.suspects(self.hashes(sorted(retired))):
            versions = self.versions(suspects)
            for number, of_file in sorted(losers_of(versions, retired, last_by).items()):
                if len(of_file.replaced) and not example:
                    example = f"in {self.table.files[number].name}"
                replaced, of_retired = replaced + len(of_file.replaced), of_retired + len(of_file.retired)
                of_part = np.union1d(of_file.replaced, of_file.retired)
                out[number] = np.union1d(out[number], of_part) if number in out else of_part
            gone |= {one for of_file in versions.values() for one in of_file.ids if one in retired}
        return LostRows(self.part(out), replaced, of_retired, frozenset(gone), example)

    def versions(self, ordinals: Mapping[int, Int64s]) -> dict[int, Versions]:
        """Number of a file to the ids and times of its rows at some ordinals int64[n]."""
        found = {}
        for key, (head, parts) in self._on_rows("rows", ordinals):
            found[key] = Versions(ordinals[key], head["row_ids"], np.frombuffer(parts[0], dtype=np.int64))
        return found

    def part(self, ordinals: Mapping[int, Int64s]) -> Partial:
        """What the rows at some ordinals int64[n] of files add up to."""
        total = Partial.zero(self._definition)
        for _, (_, parts) in self._on_rows("part", ordinals):
            total = total + read_partial(parts[0], self._definition)
        return total

    def hashes(self, ids: Sequence[str]) -> Int64s:
        """int64[n]: the hashes that the processes give to some ids."""
        if not ids:
            return np.zeros(0, dtype=np.int64)
        ((_, frame),) = self.processes.results([Job(0, {"job": "hashes", "of": list(ids)})])
        return np.frombuffer(frame.parts[0], dtype=np.int64)

    def _on_rows(self, job: str, ordinals: Mapping[int, Int64s]) -> Any:
        rows = {number: at for number, at in sorted(ordinals.items()) if len(at)}
        return self.processes.results(self._job(number, job, at.tobytes()) for number, at in rows.items())

    def _job(self, number: int, job: str, *parts: bytes, **more: Any) -> Job:
        file = self.table.files[number]
        return Job(number, {"job": job, "path": str(file.path), "name": file.name, **more}, parts)

    def __enter__(self) -> Self:
        self.processes.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.processes.__exit__(kind, error, trace)
