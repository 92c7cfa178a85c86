"""A table adds up to the same partial whoever hands out its columns, and however they are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import write_partial
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.lake.block_sums import partial_of_batches, partial_of_block
from deltaplane_services.produce.feed_options import reader_options
from deltaplane_services.readers import ReaderError, open_rows

TABLES: dict[str, Any] = {
    "name": "history",
    "features": {"names": ["price", "demand"]},
    "grid": {"steps": [2.0**-20, 1.0]},
    "classes": {"names": ["DOWN", "UP"]},
    "window": {"length": "all"},
    "input": {"label": "target", "id": "id", "time": "at"},
}
DEFINITION = StreamDefinition.from_tables(TABLES)
OPTIONS = reader_options(DefinitionFile.of(TABLES))


def table_of(rows: int, seed: int = 0) -> pa.Table:
    """Rows of which some are refused: a label that is unknown, a value that is missing, one beyond the grid."""
    random = np.random.default_rng(seed)
    price = random.normal(size=rows)
    price[::50] = np.nan
    price[1::60] = 1e300
    return pa.table(
        {
            "id": [f"row-{number}" for number in range(rows)],
            "at": pa.array(np.arange(rows) * 1000, pa.timestamp("ms")),
            "price": price,
            "demand": random.integers(0, 1000, rows),
            "target": random.choice(["UP", "DOWN", "sideways"], rows, p=[0.5, 0.45, 0.05]),
        }
    )


@pytest.mark.parametrize("rows_at_once", [1, 7, 100, 1000])
def test_batches_of_an_engine_add_up_to_what_the_file_does(tmp_path: Path, rows_at_once: int) -> None:
    table, file = table_of(400), tmp_path / "history.parquet"
    pq.write_table(table, file)
    with open_rows(file, OPTIONS) as blocks:
        whole = sum((partial_of_block(DEFINITION, block) for block in blocks), start=Partial.zero(DEFINITION))
    batches = table.to_batches(max_chunksize=rows_at_once)
    assert write_partial(partial_of_batches(DEFINITION, OPTIONS, batches)) == write_partial(whole)
    assert whole.refusals == {"bad value": 7, "unknown class": 13, "unread": 8}
    assert whole.rows == whole.counts["applied"] == 400 - sum(whole.refusals.values())
    assert whole.watermark == 399_000


def test_rows_that_are_refused_are_named_by_file_row_and_reason() -> None:
    partial = partial_of_batches(DEFINITION, OPTIONS, table_of(100).to_batches(), "part-0: ")
    assert partial.examples["unread"] == "part-0: row 1: the feature `price` is missing"


def test_columns_that_are_not_those_of_the_definition_are_refused() -> None:
    with pytest.raises(ReaderError, match=r"no column `price`"):
        partial_of_batches(DEFINITION, OPTIONS, table_of(3).drop_columns(["price"]).to_batches())
    texts = table_of(3).drop_columns(["price"]).append_column("price", pa.array(["a", "b", "c"]))
    with pytest.raises(ReaderError, match=r"holds string where a feature must be a number"):
        partial_of_batches(DEFINITION, OPTIONS, texts.to_batches())
