"""Spark as one more engine that adds rows up: each partition becomes a partial, and partials are added in a tree.

Spark may run a task twice, kill it, and move it to another machine. That changes nothing: a partial is a value, all
that is counted rides in it, and what the driver gets at the end is one row. Spark's accumulators, which count a task
twice that ran twice, are not used. The driver never holds more than that row, however many partitions there are.

What runs in Spark's tasks is named in this module, so that executors need this distribution, numpy, scipy, fastavro and
pyarrow, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DeltaplaneError
from deltaplane.log.partial import Partial
from deltaplane.public_names import extra_needed
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_partial, write_partial
from deltaplane_services.lake.block_sums import partial_of_batches, partial_of_block
from deltaplane_services.produce.feed_options import ReplayOptions, reader_options
from deltaplane_services.readers import ReaderError, ReaderOptions, open_rows

__all__ = ["FAN_IN", "PART", "SumOfFiles", "partial_of_data_frame", "spark_session", "sum_of_files", "tree_of_sums"]

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
    definition = _definition_of(tables)
    if not rows:
        return Partial.zero(definition), []
    (row,) = rows
    if row["refused"] is not None:
        raise ReaderError(row["refused"])
    facts = sorted(json.loads(row["facts"]), key=lambda one: int(one["number"]))
    return read_partial(bytes(row["partial"]), definition), facts


def _definition_of(tables: Mapping[str, Any]) -> StreamDefinition:
    return StreamDefinition.from_tables({key: value for key, value in tables.items() if key != "input"})


def _options_of(tables: Mapping[str, Any]) -> ReaderOptions:
    return reader_options(ReplayOptions("table", tables))


def _row(facts: _Facts, partial: Partial | None, refused: str | None = None) -> Any:
    import pyarrow as pa

    data = None if partial is None else write_partial(partial)
    arrays = [
        pa.array([json.dumps(facts)], pa.string()),
        pa.array([data], pa.binary()),
        pa.array([refused], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, ["facts", "partial", "refused"])


def _one_row(work: Callable[[], _Found | None]) -> Iterator[Any]:
    """The one row of a task; a reason that is ours rides in the row, since Spark would try again what fails."""
    with blas_threads(1):
        try:
            found = work()
        except DeltaplaneError as fault:
            yield _row([], None, str(fault))
            return
    if found is not None:
        yield _row(*found)


@dataclass(frozen=True)
class SumOfFiles:
    """Rows (number, path, name) of files to what these add up to. It is sent to executors by its name and text."""

    tables_json: str

    def __call__(self, batches: _Batches) -> Iterator[Any]:
        return _one_row(lambda: self._sum(batches))

    def _sum(self, batches: _Batches) -> _Found | None:
        tables = json.loads(self.tables_json)
        definition, options = _definition_of(tables), _options_of(tables)
        total, facts = Partial.zero(definition), _Facts()
        for batch in batches:
            for file in batch.to_pylist():
                part = Partial.zero(definition)
                with open_rows(file["path"], options) as reader:
                    for block in reader:
                        part = part + partial_of_block(definition, block, f"{file['name']}: ")
                facts.append({"number": file["number"], "rows": part.rows, "digest": part.digest()})
                total = total + part
        return (facts, total) if facts else None


@dataclass(frozen=True)
class _SumOfBatches:
    """Rows of a data frame to what they add up to."""

    tables_json: str

    def __call__(self, batches: _Batches) -> Iterator[Any]:
        tables = json.loads(self.tables_json)
        definition, options = _definition_of(tables), _options_of(tables)
        return _one_row(lambda: ([], partial_of_batches(definition, options, batches)))


@dataclass(frozen=True)
class _Add:
    """Rows of :data:`PART` to one, if there are any; the first reason in the order of texts wins."""

    tables_json: str

    def __call__(self, batches: _Batches) -> Iterator[Any]:
        return _one_row(lambda: self._sum(batches))

    def _sum(self, batches: _Batches) -> _Found | None:
        definition = _definition_of(json.loads(self.tables_json))
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
