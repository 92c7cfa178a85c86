"""Spark as one more engine that adds rows up: each partition becomes a partial, and partials are added in a tree.

Spark may run a task twice, kill it, and move it to another machine. That changes nothing: a partial is a value, all
that is counted rides in it, and what the driver gets at the end is one row. Spark's accumulators, which count a task
twice that ran twice, are not used. The driver never holds more than that row, however many partitions there are.

Executors need this distribution, numpy, scipy, fastavro, pyarrow and threadpoolctl, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DeltaplaneError
from deltaplane.log.partial import Partial
from deltaplane.public_names import extra_needed
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_partial, write_partial
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.lake.block_sums import partial_of_batches
from deltaplane_services.lake.file_sums import FileSums
from deltaplane_services.lake.hashes_of_ids import HashesOfIds
from deltaplane_services.lake.table_sums import ColumnsOfTable, SummedTable, TableSums, Told, ignore_progress
from deltaplane_services.lake.tables import LakeError, LakeTable
from deltaplane_services.produce.feed_options import reader_options
from deltaplane_services.readers import ReaderError

__all__ = [
    "FAN_IN",
    "PART",
    "SparkSums",
    "SumOfFiles",
    "partial_of_data_frame",
    "row_of",
    "spark_session",
    "sum_of_files",
    "sums_of",
    "tree_of_sums",
]

FAN_IN = 8
"""Partials that one task adds: few enough to lie side by side in an executor, of up to 64 MB each."""

PART = "facts string, partial binary, refused string"
"""A row on its way to the driver: JSON of what is known of each file, the partial of its rows, or why there is none."""

_Batches = Iterator[Any]
_Facts = list[Mapping[str, Any]]
_Found = tuple[_Facts, Partial]


def spark_session() -> Any:
    """The session that there is, or that spark-submit and spark-defaults.conf describe; else one on this machine.

    Raises :class:`ExtraMissing` where pyspark is not installed.
    """
    with extra_needed("the engine Spark", "spark"):
        from pyspark.sql import SparkSession
    return SparkSession.builder.appName("deltaplane").getOrCreate()


class SparkSums(TableSums):
    """Sums the files of a table by Spark, whose executors find them under the same paths.

    Rows of ids are not resolved: who has read which version would have to be told from all rows at once.
    """

    def __init__(self, table: LakeTable, columns: ColumnsOfTable, _processes: int) -> None:
        self.table = table
        self._columns = columns

    def whole(self, files: Collection[int] | None = None, *, hashes: bool, told: Told = ignore_progress) -> SummedTable:
        """What the files add up to; or those of some numbers alone. Raises :class:`LakeError` where rows have ids."""
        if hashes:
            raise LakeError(
                "engine: Spark does not resolve ids; where no id comes twice and none is retired, leave --id out, or"
                " use --engine local"
            )
        chosen = list(range(len(self.table.files)) if files is None else files)
        paths = [(str(self.table.files[at].path.resolve()), self.table.files[at].name) for at in chosen]
        partial, facts = sum_of_files(spark_session(), paths, self._columns.tables)
        told(len(chosen), len(chosen))
        return SummedTable(
            partial, [{key: one[key] for key in ("name", "rows", "digest", "ids")} for one in facts], HashesOfIds()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the session to whoever made it."""


def sum_of_files(
    session: Any, paths: Sequence[tuple[str, str]], tables: Mapping[str, Any], partitions: int | None = None
) -> tuple[Partial, _Facts]:
    """(what the rows of some files add up to, the facts of each file: its ``number``, ``rows`` and ``digest``).

    ``paths`` are (where executors find the file, its name in messages). ``tables`` are those of the definition, with
    ``[input]``. Of ``partitions`` there are as many as Spark has cores for, and not more than files, if None.

    Raises :class:`ReaderError` with the reason of a file that cannot be read.
    """
    count = partitions or min(len(paths), 4 * session.sparkContext.defaultParallelism)
    rows = [(number, path, name) for number, (path, name) in enumerate(paths)]
    files = session.createDataFrame(rows, "number long, path string, name string").repartition(count)
    return tree_of_sums(files.mapInArrow(SumOfFiles(json.dumps(tables)), PART), tables, count)


def partial_of_data_frame(frame: Any, tables: Mapping[str, Any]) -> Partial:
    """What the rows of a data frame of Spark add up to, wherever Spark reads them from.

    ``tables`` are those of the definition, with ``[input]``. Rows have no ids here: no id may come twice. Times must be
    dates or timestamps, or be declared. Raises :class:`ReaderError` where columns and definition do not go together.
    """
    count = frame.rdd.getNumPartitions()
    return tree_of_sums(frame.mapInArrow(_SumOfBatches(json.dumps(tables)), PART), tables, count)[0]


def tree_of_sums(parts: Any, tables: Mapping[str, Any], count: int) -> tuple[Partial, _Facts]:
    """(the sum of the partials of a frame of :data:`PART`, all facts), added by :data:`FAN_IN` at a time.

    ``count``: the partitions of the frame. Raises :class:`ReaderError` with the first reason why one has no partial.
    """
    add = _Add(json.dumps(tables))
    while True:
        # Within a partition first, so that what is shuffled is one row each.
        parts = parts.mapInArrow(add, PART)
        if count == 1:
            break
        count = -(-count // FAN_IN)
        parts = parts.repartition(count)
    rows = parts.collect()
    definition = add.definition
    if not rows:
        return Partial.zero(definition), []
    (row,) = rows
    if row["refused"] is not None:
        raise ReaderError(row["refused"])
    facts = sorted(json.loads(row["facts"]), key=lambda one: int(one["number"]))
    return read_partial(bytes(row["partial"]), definition), facts


def sums_of(tables_json: str) -> FileSums:
    """What reads files as the tables of a definition, with ``[input]``, say."""
    file = DefinitionFile.of(json.loads(tables_json))
    return FileSums(file.definition, reader_options(file))


def row_of(**cells: tuple[str, Any]) -> Any:
    """A record batch of one row: name of a column to (its Arrow type, the value)."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "binary": pa.binary(), "long": pa.int64()}
    arrays = [pa.array([value], kinds[kind]) for kind, value in cells.values()]
    return pa.RecordBatch.from_arrays(arrays, list(cells))


def _part(facts: _Facts, partial: Partial | None, refused: str | None = None) -> Any:
    data = None if partial is None else write_partial(partial)
    return row_of(facts=("string", json.dumps(facts)), partial=("binary", data), refused=("string", refused))


def _one_row(work: Callable[[], _Found | None]) -> Iterator[Any]:
    """The one row of a task; a reason that is ours rides in the row, since Spark would try again what fails."""
    with blas_threads(1):
        try:
            found = work()
        except DeltaplaneError as fault:
            yield _part([], None, str(fault))
            return
    if found is not None:
        yield _part(*found)


@dataclass(frozen=True)
class SumOfFiles:
    """Rows (number, path, name) of files to what these add up to. It is sent to executors by its name and text."""

    tables_json: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """One row of :data:`PART` for record batches of files; none for none."""
        return _one_row(lambda: self._sum(batches))

    def _sum(self, batches: _Batches) -> _Found | None:
        sums = sums_of(self.tables_json)
        total, facts = Partial.zero(sums.definition), _Facts()
        for batch in batches:
            for file in batch.to_pylist():
                found = sums.whole(Path(file["path"]), file["name"], hashes=False)
                known = {"rows": found.rows, "digest": found.partial.digest(), "ids": found.ids}
                facts.append({"number": file["number"], "name": file["name"], **known})
                total = total + found.partial
        return (facts, total) if facts else None


@dataclass(frozen=True)
class _SumOfBatches:
    """Rows of a data frame to what they add up to."""

    tables_json: str

    def __call__(self, batches: _Batches) -> Iterator[Any]:
        sums = sums_of(self.tables_json)
        return _one_row(lambda: ([], partial_of_batches(sums.definition, sums.options, batches)))


@dataclass(frozen=True)
class _Add:
    """Rows of :data:`PART` to one, if there are any; the first reason in the order of texts wins."""

    tables_json: str

    @property
    def definition(self) -> StreamDefinition:
        return sums_of(self.tables_json).definition

    def __call__(self, batches: _Batches) -> Iterator[Any]:
        return _one_row(lambda: self._sum(batches))

    def _sum(self, batches: _Batches) -> _Found | None:
        definition = self.definition
        total: Partial | None = None
        facts, refused = _Facts(), list[str]()
        for batch in batches:
            for row in batch.to_pylist():
                if row["refused"] is not None:
                    refused.append(row["refused"])
                    continue
                part = read_partial(row["partial"], definition)
                total, facts = part if total is None else total + part, facts + json.loads(row["facts"])
        if refused:
            raise ReaderError(min(refused))
        return None if total is None else (facts, total)
