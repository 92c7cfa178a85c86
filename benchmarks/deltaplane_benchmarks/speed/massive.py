"""``bench massive``: paper 3's extreme support vector machine over 80 million rows of 64 features, in one pass.

The paper's rows are not to be had. These are made where they are summed, block by block, from raw words of a seeded
generator whose output NumPy promises to keep, and by whole numbers alone: so they are the same on every machine, and so
is their digest. Features are whole numbers of 16 bits. The class follows from a sum that is flat in some features and
curved in others, with noise, so that a plane over a random hidden layer does better than one without.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaplane.arrays import Int64s
from deltaplane.blas_threads import blas_threads
from deltaplane.log.confusion import Confusion, accuracy, gmean
from deltaplane.log.merger import plane_of
from deltaplane.log.partial import Partial
from deltaplane.log.scoring import PlaneAlone, score
from deltaplane.solve.solver import Plane
from deltaplane.stream.component_tables import fit_feature_map
from deltaplane.stream.declared import DeclaredMap
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples, admit
from deltaplane.wire import read_partial, write_partial
from deltaplane_benchmarks.speed.processes import cost_of, spark_process
from deltaplane_services.lake import spark

__all__ = ["BLOCK_ROWS", "FEATURES", "Summed", "by_processes", "by_spark", "definition_of", "quality", "rows_of_block"]

FEATURES = 64
BLOCK_ROWS = 20_000
"""Rows that are made, mapped and summed at once."""

_WORDS_OF_ROW = FEATURES // 4 + 1
"""Four features of 16 bits in a word, and a word of noise."""

_LABELS = ("no", "yes")
_FLAT, _CURVED = 8, 8
"""Features that move the class linearly, and as their distance from the middle."""

_TASKS_OF_A_CORE = 4


@dataclass(frozen=True)
class Summed:
    """What an engine did: ``cpu_seconds`` those of Python and its libraries, ``others`` those of the JVM."""

    engine: str
    cores: int
    partial: Partial
    seconds: float
    cpu_seconds: float
    others: float
    load: float


def rows_of_block(seed: int, block: int, rows: int = BLOCK_ROWS) -> Samples:
    """The rows of a block: the same for the same seed and number, whoever makes them."""
    words = np.random.Philox(key=np.array([seed, block], dtype=np.uint64)).random_raw(rows * _WORDS_OF_ROW)
    words = np.asarray(words, dtype="<u8").reshape(rows, _WORDS_OF_ROW)
    whole = np.ascontiguousarray(words[:, :-1]).view("<i2").astype(np.int64)
    codes = (_scores(whole, words[:, -1]) > 0).astype(np.int32)
    return Samples.of_record(["-"] * rows, 0, _LABELS, codes, whole.astype(np.float64))


def _scores(whole: Int64s, noise: np.ndarray[Any, Any]) -> Int64s:
    """int64[n]: above 0 for ``yes``; flat features, curved ones less their mean, and noise, in units of a feature."""
    flat = whole[:, :_FLAT].sum(axis=1)
    curved = np.abs(whole[:, _FLAT : _FLAT + _CURVED]).sum(axis=1) - _CURVED * 2**14
    away = (noise >> np.uint64(48)).astype(np.int64) - 2**15
    return np.asarray(flat + curved + away, dtype=np.int64)


def definition_of(units: int, seed: int) -> StreamDefinition:
    """The stream of these rows: a hidden layer of so many sigmoid units, or none; one window over everything."""
    tables: dict[str, Any] = {
        "name": "massive",
        "features": {"names": [f"f{feature}" for feature in range(FEATURES)]},
        "grid": {"steps": [1.0] * FEATURES},
        "classes": {"names": list(_LABELS), "positive": _LABELS[1]},
        "window": {"length": "all", "keep_rows": False},
        "solver": {"C": 1.0, "weighting": "none"},
    }
    if units:
        plain = StreamDefinition.from_tables(tables)
        hidden = DeclaredMap(kind="hidden", units=units, seed=seed)
        tables["feature_map"] = fit_feature_map(hidden, plain.grid, rows_of_block(seed, 0).features).table
    return StreamDefinition.from_tables(tables)


def by_processes(definition: StreamDefinition, seed: int, blocks: int, processes: int) -> Summed:
    """The sum of so many blocks by processes of this machine."""
    tables, began, load = json.dumps(definition.to_tables()), time.perf_counter(), os.getloadavg()[0]
    total, cpu = Partial.zero(definition), 0.0
    jobs = [(tables, seed, first, end) for first, end in _tasks(blocks, processes)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for data, seconds in pool.map(_sum_of, *zip(*jobs, strict=True)):
            total, cpu = total + read_partial(data, definition), cpu + seconds
    return Summed("local", processes, total, time.perf_counter() - began, cpu, 0.0, load)


def by_spark(definition: StreamDefinition, seed: int, blocks: int, session: Any) -> Summed:
    """The sum of so many blocks by Spark: rows are made in its tasks, partials added in a tree."""
    tables, cores, load = definition.to_tables(), session.sparkContext.defaultParallelism, os.getloadavg()[0]
    process = spark_process(session)
    before = math.nan if process is None else cost_of(process.pid).cpu_seconds
    began = time.perf_counter()
    tasks = _tasks(blocks, cores)
    frame = session.createDataFrame(tasks, "first long, end long").repartition(len(tasks))
    parts = frame.mapInArrow(_SumOfBlocks(json.dumps(tables), seed), spark.PART)
    partial, facts = spark.tree_of_sums(parts, tables, len(tasks))
    seconds = time.perf_counter() - began
    others = math.nan if process is None else cost_of(process.pid).cpu_seconds - before
    return Summed("spark", cores, partial, seconds, sum(one["cpu_seconds"] for one in facts), others, load)


def _tasks(blocks: int, cores: int) -> list[tuple[int, int]]:
    count = min(blocks, _TASKS_OF_A_CORE * cores)
    return [(task * blocks // count, (task + 1) * blocks // count) for task in range(count)]


def _partial_of(definition: StreamDefinition, seed: int, first: int, end: int) -> Partial:
    total = Partial.zero(definition)
    for block in range(first, end):
        # Block 0 is what the hidden layer is fitted on, and what the plane is tried on is none of these either.
        total = total + Partial.of(definition, rows_of_block(seed, block + 2))
    return total


def _sum_of(tables: str, seed: int, first: int, end: int) -> tuple[bytes, float]:
    began = time.process_time()
    with blas_threads(1):
        partial = _partial_of(StreamDefinition.from_tables(json.loads(tables)), seed, first, end)
    return write_partial(partial), time.process_time() - began


@dataclass(frozen=True)
class _SumOfBlocks:
    """Rows (first, end) of blocks to their sums, and the processor seconds that these took."""

    tables_json: str
    seed: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for task in batch.to_pylist():
                data, seconds = _sum_of(self.tables_json, self.seed, task["first"], task["end"])
                facts = json.dumps([{"number": task["first"], "cpu_seconds": seconds}])
                yield spark.batch_of(spark.PART, [{"facts": facts, "partial": data}])


def quality(definition: StreamDefinition, partial: Partial, seed: int) -> tuple[Plane, float, float]:
    """(the plane of a sum, its accuracy, its G-mean on a block of rows that are not in it)."""
    plane = plane_of(partial.statistics, definition)
    scores: Confusion = score(PlaneAlone(plane), admit(rows_of_block(seed, 1), definition)[0], []).scores
    return plane, accuracy(scores), gmean(scores)
