"""``bootstrap compute`` by Spark: what a table adds up to, and which rows do not count where ids come several times.

The first pass over the files gives partials and, if rows have ids, shares of them by bucket; Spark keeps both on the
disks of its executors. Shares of a bucket then meet in one task, which says which rows of which portion do not count,
by the rules of the local engine. The portions that have such rows are read once more, what these add up to comes to the
driver in the tree of sums, and is taken out. The driver gets no id but those retired ones that have rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DeltaplaneError
from deltaplane_services.lake import spark
from deltaplane_services.lake.hashes_of_ids import HashesOfIds
from deltaplane_services.lake.id_shares import Share, bucket_of, losers_of_bucket
from deltaplane_services.lake.last_versions import LastBy
from deltaplane_services.lake.table_sums import ColumnsOfTable, LostRows, SummedTable, Told, ignore_progress
from deltaplane_services.lake.tables import LakeTable

__all__ = ["LosersOfBuckets", "PartsOfLosers", "SparkSums"]

_BYTES_OF_A_BUCKET = 2**25
"""Bytes of files for each bucket: the ids of so many, a million rows or so, a task holds at once."""

_LOSERS = "portion string, replaced binary, retired binary, gone string"
"""Rows of a portion that do not count: ordinals int64[n] of older versions and of retired ids; JSON of such ids."""

_Batches = Iterator[Any]


class SparkSums:
    """Sums the files of a table by Spark, whose executors find them under the same paths; a context manager.

    ``partitions``: how many tasks there are at once at most; as many as Spark has work for, if None.
    """

    def __init__(
        self, table: LakeTable, columns: ColumnsOfTable, _processes: int, partitions: int | None = None
    ) -> None:
        self.table = table
        self._tables = columns.tables
        self._session = spark.spark_session()
        self._portions = spark.portions_of([(str(file.path.resolve()), file.name) for file in table.files])
        self._partitions = partitions or spark.partitions_for(self._session, len(self._portions))
        size = sum(file.path.stat().st_size for file in table.files)
        self._buckets = max(self._partitions, -(-size // _BYTES_OF_A_BUCKET))
        self._summed: Any = None

    def whole(self, *, hashes: bool, told: Told = ignore_progress) -> SummedTable:
        """What the files add up to; ``hashes``: whether rows have ids, of which :meth:`lost` will be asked."""
        from pyspark import StorageLevel

        task = spark.SumOfFiles(json.dumps(self._tables), self._buckets if hashes else 0)
        frame = spark.frame_of(self._session, self._portions, self._partitions)
        summed = frame.mapInArrow(task, spark.SUMMED)
        if hashes:
            self._summed = summed = summed.persist(StorageLevel.DISK_ONLY)
        parts = summed.where("bucket is null")
        partial, facts = spark.sum_of_portions(parts, self._portions, self._tables, self._partitions)
        told(len(facts), len(facts))
        known = [{key: one[key] for key in ("name", "rows", "digest", "ids")} for one in facts]
        return SummedTable(partial, known, HashesOfIds())

    def lost(self, _summed: SummedTable, retired: frozenset[str], last_by: LastBy) -> LostRows:
        """The rows that do not count: older versions of their ids, and those of some ``retired`` ids."""
        assert self._summed is not None, "the whole table was summed with its ids before"
        count = self._partitions
        shares = self._summed.where("bucket is not null").select("bucket", "portion", *Share._fields)
        by_bucket = shares.repartition(count, "bucket").sortWithinPartitions("bucket")
        task = LosersOfBuckets(json.dumps(sorted(retired)), last_by, self._buckets)
        losers = by_bucket.mapInArrow(task, _LOSERS).repartition(count, "portion").sortWithinPartitions("portion")
        parts = losers.mapInArrow(PartsOfLosers(json.dumps(self._tables)), spark.PART)
        partial, facts = spark.tree_of_sums(parts, self._tables, count)
        replaced, of_retired = (sum(int(one[key]) for one in facts) for key in ("replaced", "retired"))
        gone = frozenset(sample_id for one in facts for sample_id in one["gone"])
        example = next((f"in {one['name']}" for one in facts if one["replaced"]), "")
        return LostRows(partial, replaced, of_retired, gone, example)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the session to whoever made it, and nothing on its disks."""
        if self._summed is not None:
            self._summed.unpersist()


@dataclass(frozen=True)
class LosersOfBuckets:
    """Shares, those of a bucket one after the other, to rows of :data:`_LOSERS`."""

    retired_json: str
    last_by: LastBy
    buckets: int

    def __call__(self, batches: _Batches) -> Iterator[Any]:
        """The rows of each bucket that do not count, portion by portion."""
        retired: dict[int, list[str]] = {}
        for sample_id in json.loads(self.retired_json):
            retired.setdefault(bucket_of(sample_id, self.buckets), []).append(sample_id)
        rows = spark.rows_of(batches, "bucket", "portion", *Share._fields)
        for bucket, of_bucket in groupby(rows, key=lambda row: row[0]):
            portions: dict[int, str] = {}
            shares = []
            for _, text, *parts in of_bucket:
                number = spark.Portion.of_json(text).number
                portions[number] = text
                shares.append((number, Share(*parts)))
            losers, gone = losers_of_bucket(shares, frozenset(retired.get(bucket, ())), self.last_by)
            found, ids = [], sorted(gone)
            for number, of_portion in losers.items():
                ordinals = {name: of_kind.tobytes() for name, of_kind in of_portion._asdict().items()}
                found.append({"portion": portions[number], **ordinals, "gone": json.dumps(ids)})
                ids = []
            if found:
                yield spark.batch_of(_LOSERS, found)


@dataclass(frozen=True)
class PartsOfLosers:
    """Rows of :data:`_LOSERS`, those of a portion one after the other, to what they add up to."""

    tables_json: str

    def __call__(self, batches: _Batches) -> Iterator[Any]:
        """One row of :data:`spark.PART` for each portion."""
        rows = spark.rows_of(batches, "portion", "replaced", "retired", "gone")
        with blas_threads(1):
            for text, of_portion in groupby(rows, key=lambda row: row[0]):
                try:
                    yield self._part(spark.Portion.of_json(text), list(of_portion))
                except DeltaplaneError as fault:
                    yield spark.part_of([], None, str(fault))

    def _part(self, portion: spark.Portion, rows: list[Any]) -> Any:
        replaced, retired = (_ordinals(data) for data in zip(*(row[1:3] for row in rows), strict=True))
        ordinals = np.sort(np.concatenate([replaced, retired]))
        partial = spark.sums_of(self.tables_json).part(Path(portion.path), portion.name, ordinals, portion.span)
        gone = [sample_id for row in rows for sample_id in json.loads(row[3])]
        counts: Mapping[str, Any] = {"replaced": len(replaced), "retired": len(retired), "gone": gone}
        return spark.part_of([{"number": portion.number, "name": portion.name, **counts}], partial)


def _ordinals(parts: tuple[bytes, ...]) -> Int64s:
    return np.concatenate([np.frombuffer(part, dtype=np.int64) for part in parts])
