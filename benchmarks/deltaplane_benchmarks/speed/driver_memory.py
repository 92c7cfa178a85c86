"""The memory of Spark's driver, by the number of partitions whose sums it is to have: as much for 2,000 as for 100.

The driver is a process of Python and a JVM, in a cluster of two executors on this machine, each a JVM of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DeltaplaneError
from deltaplane.log.partial import Partial
from deltaplane.public_names import extra_needed
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import write_partial
from deltaplane_benchmarks.speed.massive import rows_of_block
from deltaplane_benchmarks.speed.processes import cost_of, spark_process
from deltaplane_services.lake import spark

__all__ = ["DriverMemory", "cluster_session", "measure"]

_ROWS_OF_A_PARTITION = 20
"""What a sum takes does not depend on how many rows are in it."""

_EXECUTORS, _EXECUTOR_MEGABYTES, _DRIVER_MEGABYTES = 2, 1024, 512


@dataclass(frozen=True)
class DriverMemory:
    """The most memory that both processes of the driver had, and the bytes of all sums that it did not get."""

    partitions: int
    rows: int
    digest: str
    partial_megabytes: float
    python_megabytes: float
    jvm_megabytes: float
    load: float


def cluster_session() -> Any:
    """A session on a cluster of two executors of this machine, with a driver of half a gigabyte of heap."""
    with extra_needed("the engine Spark", "spark"):
        from pyspark.sql import SparkSession
    # Else whatever is called python3 would run the tasks.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.memory": f"{_DRIVER_MEGABYTES}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(f"local-cluster[{_EXECUTORS},1,{_EXECUTOR_MEGABYTES}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def measure(session: Any, definition: StreamDefinition, seed: int, partitions: int) -> DriverMemory:
    """Add the sums of so many partitions up, and say what that took of the driver's memory."""
    process = spark_process(session)
    if process is None:
        raise DeltaplaneError("massive: the process of Spark's driver is not ours to see; run it without spark-submit")
    pids, load = (os.getpid(), process.pid), os.getloadavg()[0]
    for pid in pids:
        # From here on the most memory is counted anew.
        Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")
    tables = definition.to_tables()
    numbers = session.range(0, partitions, 1, partitions)
    parts = numbers.mapInArrow(_SumOfFew(json.dumps(tables), seed), spark.PART)
    partial, _ = spark.tree_of_sums(parts, tables, partitions)
    python, jvm = (cost_of(pid).peak_megabytes for pid in pids)
    size = len(write_partial(partial)) / 2**20
    return DriverMemory(partitions, partial.rows, partial.digest(), size, python, jvm, load)


@dataclass(frozen=True)
class _SumOfFew:
    """Numbers of partitions to what a few rows add up to."""

    tables_json: str
    seed: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        definition = StreamDefinition.from_tables(json.loads(self.tables_json))
        with blas_threads(1):
            for (number,) in spark.rows_of(batches, "id"):
                rows = rows_of_block(self.seed, number + 2, _ROWS_OF_A_PARTITION)
                yield spark.part_of([], Partial.of(definition, rows))
