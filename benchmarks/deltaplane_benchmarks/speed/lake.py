"""What a history costs beside the least that any program would: Arrow's columns as a matrix, put on the grid, summed.

The same digest comes of all ways. Times are those of the processor, and of its processes where there are some.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaplane.exact.statistics import Statistics, moments_by_class
from deltaplane.stream.definition import StreamDefinition
from deltaplane_benchmarks.speed.made_rows import LABELS, definition_for, make_rows
from deltaplane_benchmarks.speed.pairs import Ratio, in_rounds
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.lake.file_sums import FileSums
from deltaplane_services.lake.table_sums import ColumnsOfTable, TableSums
from deltaplane_services.lake.tables import open_table
from deltaplane_services.readers.bounds import rows_of_a_block

__all__ = ["FILES", "LakeSpeed", "measure"]

FILES = 4


@dataclass(frozen=True)
class LakeSpeed:
    """Processor nanoseconds a row, by the best round, and how many times the bare way another took.

    ``start``: seconds of the processor that a process costs before its first row.
    """

    bare: float
    local: float
    with_ids: float
    local_to_bare: Ratio
    ids_to_bare: Ratio
    start: float
    digest: str
    same_digest: bool


def measure(features: int, rows: int, rounds: int, seed: int) -> LakeSpeed:
    """A folder of Parquet files with so many rows, summed in each way, in rounds."""
    made = make_rows(rows, features, seed)
    definition = definition_for(made, "lake", "all", 1.0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "lake"
        folder.mkdir()
        table = pa.table(
            {name: made.features[:, at] for at, name in enumerate(definition.features)}
            | {"label": [LABELS[code] for code in made.codes], "id": [f"row-{at}" for at in range(rows)]}
        )
        for number in range(FILES):
            pq.write_table(table.slice(number * rows // FILES, rows // FILES), folder / f"part-{number}.parquet")
        files = sorted(folder.iterdir())
        without = ColumnsOfTable(definition, InputTable(label="label", ignore=("id",)))
        with_ids = ColumnsOfTable(definition, InputTable(label="label", id="id"))
        digests: dict[str, str] = {}

        def note(name: str, way: Callable[[], str]) -> Callable[[], None]:
            def run() -> None:
                digests[name] = way()

            return run

        ways = {
            "bare": note("bare", lambda: _bare(files, definition)),
            "local": note("local", lambda: _local(files, without, hashes=False)),
            "with ids": note("with ids", lambda: _local(files, with_ids, hashes=True)),
        }
        timed = in_rounds(ways, rounds)
        digests["processes"], start = _by_processes(folder, without)
    nanoseconds = {name: float(timed.cpu_seconds[name].min()) / rows * 1e9 for name in ways}
    return LakeSpeed(
        nanoseconds["bare"],
        nanoseconds["local"],
        nanoseconds["with ids"],
        timed.ratio_of_work("local", "bare"),
        timed.ratio_of_work("with ids", "bare"),
        start,
        digests["bare"],
        len(set(digests.values())) == 1,
    )


def _bare(files: list[Path], definition: StreamDefinition) -> str:
    """The digest by Arrow and the exact sums alone: no row is looked at, and what is odd would go unnoticed."""
    total, names = Statistics(definition.dimension), list(definition.features)
    for file in files:
        at_once = rows_of_a_block(len(names))
        for batch in pq.ParquetFile(file).iter_batches(at_once, columns=[*names, "label"], use_threads=False):
            matrix = np.empty((batch.num_rows, len(names)))
            for at, name in enumerate(names):
                matrix[:, at] = batch.column(name).to_numpy()
            quantized, _ = definition.grid.quantize(matrix)
            labels = batch.column("label").dictionary_encode()
            codes = labels.indices.to_numpy().astype(np.int32)
            moments = moments_by_class(quantized, codes, labels.dictionary.to_pylist())
            total = total + Statistics(definition.dimension, {(0, label): part for label, part in moments.items()})
    return total.digest(definition.data_fingerprint)


def _local(files: list[Path], columns: ColumnsOfTable, *, hashes: bool) -> str:
    """The digest by what each process of the local engine does."""
    sums = FileSums(columns.definition, columns.options)
    parts = [sums.whole(file, file.name, hashes=hashes).partial for file in files]
    return sum(parts[1:], start=parts[0]).digest()


def _by_processes(folder: Path, columns: ColumnsOfTable) -> tuple[str, float]:
    """(the digest by two processes, seconds of the processor that each took to start)."""
    with TableSums(open_table(str(folder), None), columns, 2) as sums:
        digest = sums.whole(hashes=False).partial.digest()
    before = _children_seconds()
    with TableSums(open_table(str(folder), None), columns, 1) as sums:
        sums.hashes(["nothing"])
    return digest, _children_seconds() - before


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
