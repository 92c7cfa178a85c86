"""Tables of the tests: folders of Parquet, rows whose ids come several times, and what a partition makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Retirement, admit
from deltaplane.window.partition import Partition
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.lake.block_sums import samples_of_block
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.readers import open_rows

TABLES: dict[str, Any] = {
    "name": "history",
    "features": {"names": ["price", "demand"]},
    "grid": {"steps": [2.0**-20, 1.0]},
    "classes": {"names": ["DOWN", "UP"]},
    "window": {"length": "all"},
    "solver": {"C": 1.0},
}
INPUT = InputTable(label="target", id="id", time="at")
DEFINITION = StreamDefinition.from_tables(TABLES)
COLUMNS = ColumnsOfTable(DEFINITION, INPUT)
WITHOUT_IDS = ColumnsOfTable(DEFINITION, InputTable(label="target", time="at", ignore=("id",)))


def table_of(rows: int, seed: int = 0, ids: Sequence[str] | None = None) -> pa.Table:
    """Rows of which some are refused: a label that is unknown, a value that is missing, one beyond the grid."""
    random = np.random.default_rng(seed)
    price = random.normal(size=rows)
    price[::50] = np.nan
    price[1::60] = 1e300
    return pa.table(
        {
            "id": [f"row-{number}" for number in range(rows)] if ids is None else list(ids),
            "at": pa.array(random.permutation(rows) * 1000, pa.timestamp("ms")),
            "price": price,
            "demand": random.integers(0, 1000, rows),
            "target": random.choice(["UP", "DOWN", "sideways"], rows, p=[0.5, 0.45, 0.05]),
        }
    )


def write_folder(folder: Path, table: pa.Table, files: int, rows_of_a_group: int | None = None) -> Path:
    """The table as so many Parquet files, named in the order of its rows."""
    folder.mkdir()
    ends = np.linspace(0, len(table), files + 1).astype(int).tolist()
    for number, (begin, end) in enumerate(itertools.pairwise(ends)):
        path = folder / f"part-{number:05d}.parquet"
        pq.write_table(table.slice(begin, end - begin), path, row_group_size=rows_of_a_group)
    (folder / "_SUCCESS").touch()
    return folder


def ids_of(numbers: Iterable[int]) -> list[str]:
    """Ids of rows by number."""
    return [f"row-{number}" for number in numbers]


def partition_of_folder(folder: Path, retired: list[str]) -> Partition:
    """A partition that has read the rows of a folder in order, and then the retirements of some ids."""
    partition = Partition(DEFINITION, 0)
    for file in sorted(folder.glob("*.parquet")):
        with open_rows(file, COLUMNS.options) as blocks:
            for block in blocks:
                partition.step(admit(samples_of_block(block), DEFINITION)[0], [])
    partition.step(admit(samples_of_block(block.cut(0, 0)), DEFINITION)[0], [Retirement(one, "", 0) for one in retired])
    return partition
