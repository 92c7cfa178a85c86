"""Spark as one more engine that adds rows up: each partition becomes a partial, and partials are added in a tree.

What a task reads is a file, or a span of the row groups of a large Parquet file, as processes of one machine take them.
Spark may run a task twice, kill it, and move it to another machine. That changes nothing: a partial is a value, all
that is counted rides in it, and what the driver gets at the end is one row. Spark's accumulators, which count a task
twice that ran twice, are not used. The driver never holds more than that row, however many partitions there are.

Executors need this distribution, numpy, scipy, fastavro, pyarrow and threadpoolctl, and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DeltaplaneError
from deltaplane.log.partial import Partial
from deltaplane.public_names import extra_needed
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_partial, write_partial
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.lake.block_sums import partial_of_batches
from deltaplane_services.lake.file_sums import FileSums, SummedFile, hashes_of
from deltaplane_services.lake.id_shares import Shares
from deltaplane_services.lake.spans import Span, joined, spans_of
from deltaplane_services.produce.feed_options import reader_options
from deltaplane_services.readers import ReaderError

__all__ = [
    "FAN_IN",
    "PART",
    "SUMMED",
    "JoinSpans",
    "Portion",
    "SumOfFiles",
    "batch_of",
    "frame_of",
    "part_of",
    "partial_of_data_frame",
    "partitions_for",
    "portions_of",
    "rows_of",
    "spark_session",
    "sum_of_files",
    "sum_of_portions",
    "sums_of",
    "tree_of_sums",
]

FAN_IN = 8
"""Partials that one task adds: few enough to lie side by side in an executor, of up to 64 MB each."""

PART = "facts string, partial binary, refused string"
"""A row on its way to the driver: JSON of what is known of each file, the partial of its rows, or why there is none."""

_SHARE = "bucket long, portion string, ids binary, lengths binary, ordinals binary, times binary"

SUMMED = f"file long, place long, {PART}, {_SHARE}"
"""What a task has summed. A row of :data:`PART` of the span at a ``place`` of a file, or of whole files, of which the
first has that number; or, where ids are resolved, a share of them, which is all that has a ``bucket``."""

_PARTITIONS_OF_A_CORE = 4

_Batches = Iterator[Any]
_Facts = list[Mapping[str, Any]]
_Found = tuple[_Facts, Partial]


def spark_session() -> Any:
    """The session that there is, or that spark-submit and spark-defaults.conf describe; else one on this machine.

    Raises :class:`ExtraMissing` where pyspark is not installed.
    """
    with extra_needed("the engine Spark", "spark"):
        from pyspark.sql import SparkSession
    session = SparkSession.builder.appName("deltaplane").getOrCreate()
    context = session.sparkContext
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        # Tasks would be run by whatever is called python3, which need not have this distribution.
        context.pythonExec = sys.executable
    return session


@dataclass(frozen=True)
class Portion:
    """What is read at once: a file, or one of several ``spans`` of it, at a ``place`` among them.

    ``number``: that of the portion, in the order of the table; ``file``: that of the file. ``path`` is where executors
    find it, ``name`` what messages call it.
    """

    number: int
    file: int
    place: int
    spans: int
    path: str
    name: str
    span: Span | None

    @classmethod
    def of_json(cls, text: str) -> Portion:
        """What :attr:`json` says."""
        number, file, place, spans, path, name, span = json.loads(text)
        return cls(number, file, place, spans, path, name, None if span is None else (span[0], span[1]))

    @property
    def json(self) -> str:
        """It as a text."""
        return json.dumps([*vars(self).values()])


def portions_of(paths: Sequence[tuple[str, str]]) -> list[Portion]:
    """The portions of some files, in order; ``paths`` are (where executors find the file, its name in messages)."""
    found = list[Portion]()
    for file, (path, name) in enumerate(paths):
        spans = spans_of(Path(path), name)
        for place, span in enumerate(spans):
            found.append(Portion(len(found), file, place, len(spans), path, name, span))
    return found


def partitions_for(session: Any, tasks: int) -> int:
    """How many partitions so many tasks are spread over: some for each core, so that a slow one holds nobody up."""
    return max(1, min(tasks, _PARTITIONS_OF_A_CORE * int(session.sparkContext.defaultParallelism)))


def frame_of(session: Any, portions: Sequence[Portion], partitions: int) -> Any:
    """A data frame of portions as texts, spread over so many partitions."""
    return session.createDataFrame([(portion.json,) for portion in portions], "portion string").repartition(partitions)


def sum_of_files(
    session: Any, paths: Sequence[tuple[str, str]], tables: Mapping[str, Any], partitions: int | None = None
) -> tuple[Partial, _Facts]:
    """(what the rows of some files add up to, the facts of each file: its ``number``, ``rows`` and ``digest``).

    ``paths``: see :func:`portions_of`. ``tables`` are those of the definition, with ``[input]``. There are as many
    ``partitions`` as Spark has work for, if None. Raises :class:`ReaderError` with the reason of a file that cannot be
    read.
    """
    portions = portions_of(paths)
    count = partitions or partitions_for(session, len(portions))
    summed = frame_of(session, portions, count).mapInArrow(SumOfFiles(json.dumps(tables)), SUMMED)
    return sum_of_portions(summed, portions, tables, count)


def sum_of_portions(
    summed: Any, portions: Sequence[Portion], tables: Mapping[str, Any], count: int
) -> tuple[Partial, _Facts]:
    """What :func:`sum_of_files` gives, from rows of :data:`SUMMED` in so many partitions, of which none is a share."""
    parts = summed.select("file", "place", "facts", "partial", "refused")
    if any(portion.spans > 1 for portion in portions):
        # The digest of a file is that of all its spans, so they meet in one task, which adds one after the other.
        together = parts.repartition(count, "file").sortWithinPartitions("file", "place")
        return tree_of_sums(together.mapInArrow(JoinSpans(json.dumps(tables)), PART), tables, count)
    return tree_of_sums(parts.drop("file", "place"), tables, count)


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


def batch_of(columns: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """A record batch of some rows under columns that are written as Spark's are; what a row does not name is null."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "binary": pa.binary(), "long": pa.int64()}
    schema = [(name, kinds[kind]) for name, kind in map(str.split, columns.split(", "))]
    return pa.RecordBatch.from_pylist(list(rows), pa.schema(schema))


def rows_of(batches: _Batches, *names: str) -> Iterator[Any]:
    """The rows of record batches, each as the values of the named columns."""
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def part_of(facts: Sequence[Mapping[str, Any]], partial: Partial | None, refused: str | None = None) -> Any:
    """A record batch of one row of :data:`PART`."""
    return batch_of(PART, [_part(facts, partial, refused)])


def _part(facts: Sequence[Mapping[str, Any]], partial: Partial | None, refused: str | None = None) -> Mapping[str, Any]:
    data = None if partial is None else write_partial(partial)
    return {"facts": json.dumps(facts), "partial": data, "refused": refused}


def _one_row(work: Callable[[], _Found | None]) -> Iterator[Any]:
    """The one row of a task; a reason that is ours rides in the row, since Spark would try again what fails."""
    with blas_threads(1):
        try:
            found = work()
        except DeltaplaneError as fault:
            yield part_of([], None, str(fault))
            return
    if found is not None:
        yield part_of(*found)


@dataclass(frozen=True)
class SumOfFiles:
    """Portions as texts to what these add up to. It is sent to executors by its name and numbers.

    ``buckets``: how many shares of ids there are to be, if any.
    """

    tables_json: str
    buckets: int = 0

    def __call__(self, batches: _Batches) -> Iterator[Any]:
        """Rows of :data:`SUMMED`: one of all files that are whole, one of each span of others, and shares of ids."""
        with blas_threads(1):
            try:
                yield from self._sums(batches)
            except DeltaplaneError as fault:
                yield batch_of(SUMMED, [_part([], None, str(fault))])

    def _sums(self, batches: _Batches) -> Iterator[Any]:
        sums = sums_of(self.tables_json)
        first, total, facts = -1, Partial.zero(sums.definition), _Facts()
        for (text,) in rows_of(batches, "portion"):
            portion = Portion.of_json(text)
            running, shares = sums.begin(portion.name), Shares(self.buckets) if self.buckets else None
            for step in sums.steps(Path(portion.path), portion.name, portion.span):
                running.add(step)
                if shares is not None:
                    shares.add(step.admitted)
                    if shares.full:
                        yield _batch_of_shares(portion, shares)
            if shares is not None:
                yield _batch_of_shares(portion, shares)
            found = running.summed
            if portion.spans > 1:
                of_span = {"number": portion.file, "name": portion.name, "ids": found.ids, "id_bytes": found.id_bytes}
                here = {"file": portion.file, "place": portion.place}
                yield batch_of(SUMMED, [{**here, **_part([of_span], found.partial)}])
                continue
            total, first = total + found.partial, portion.file if first < 0 else first
            facts.append(_facts_of(portion.file, portion.name, found))
        if facts:
            yield batch_of(SUMMED, [{"file": first, "place": 0, **_part(facts, total)}])


def _facts_of(number: int, name: str, found: SummedFile) -> Mapping[str, Any]:
    return {"number": number, "name": name, "rows": found.rows, "digest": found.partial.digest(), "ids": found.ids}


def _batch_of_shares(portion: Portion, shares: Shares) -> Any:
    text = portion.json
    return batch_of(SUMMED, [{"bucket": at, "portion": text, **share._asdict()} for at, share in shares.take()])


@dataclass(frozen=True)
class JoinSpans:
    """Rows of :data:`SUMMED` without shares, those of a file one after the other, to rows of :data:`PART`.

    The spans of a file become one; what is of whole files is passed on.
    """

    tables_json: str

    def __call__(self, batches: _Batches) -> Iterator[Any]:
        """One row for each file that has spans, and the others."""
        definition = sums_of(self.tables_json).definition
        rows = rows_of(batches, "file", "facts", "partial", "refused")
        for file, of_file in groupby(rows, key=lambda row: row[0]):
            try:
                yield from self._joined(definition, file, of_file)
            except DeltaplaneError as fault:
                yield part_of([], None, str(fault))

    def _joined(self, definition: StreamDefinition, file: int, rows: Iterator[Any]) -> Iterator[Any]:
        name, together = "", list[SummedFile]()
        for _, facts, data, refused in rows:
            known = json.loads(facts)
            if refused is not None or "digest" in known[0]:
                yield batch_of(PART, [{"facts": facts, "partial": data, "refused": refused}])
                continue
            name, ids, id_bytes = (known[0][key] for key in ("name", "ids", "id_bytes"))
            span = SummedFile(read_partial(data, definition), hashes_of([], 0), ids, id_bytes)
            together = [joined([*together, span])]
        for found in together:
            yield part_of([_facts_of(file, name, found)], found.partial)


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
        for told, data, reason in rows_of(batches, "facts", "partial", "refused"):
            if reason is not None:
                refused.append(reason)
                continue
            part = read_partial(data, definition)
            total, facts = part if total is None else total + part, facts + json.loads(told)
        if refused:
            raise ReaderError(min(refused))
        return None if total is None else (facts, total)
