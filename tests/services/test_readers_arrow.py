"""Arrow files, under the name of Feather, too: the rows are those of the same table in Parquet."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from deltaplane_services.readers import ReaderError, ReaderOptions, open_rows
from services.readers_samples import Rows, trickle

ROWS = 1000


def a_table() -> Any:
    random = np.random.default_rng(5)
    began = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "when": pa.array([began + dt.timedelta(minutes=n) for n in range(ROWS)], pa.timestamp("us", "UTC")),
            "amount": pa.array([Decimal(n) / 8 for n in range(ROWS)], pa.decimal128(10, 3)),
            "x": pa.array(random.normal(size=ROWS), mask=random.random(ROWS) < 0.1),
            "on": random.random(ROWS) < 0.5,
            "key": pa.array([f"k{n}" for n in range(ROWS)]).dictionary_encode(),
            "y": pa.array(random.choice(["p", "q"], ROWS)).dictionary_encode(),
        }
    )


def in_arrow(table: Any, batch_rows: int | None = None, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, batch_rows)
    return sink.getvalue()


@pytest.mark.parametrize(("batch_rows", "compression"), [(None, None), (7, "zstd"), (300, "lz4")])
def test_rows_of_an_arrow_file_are_those_of_parquet(batch_rows: int | None, compression: str | None) -> None:
    table, parquet = a_table(), io.BytesIO()
    pa.parquet.write_table(table, parquet)
    data = in_arrow(table, batch_rows, compression)
    for features in (None, ("on", "x")):
        chosen = ReaderOptions("y", id="key", time="when", missing="keep", features=features)
        with open_rows(io.BytesIO(parquet.getvalue()), chosen) as reader:
            expected = Rows(reader)
        for stream in (io.BytesIO(data), trickle(data, 1000)):
            with open_rows(stream, chosen) as reader:
                assert reader.format == "arrow"
                rows = Rows(reader)
            assert rows.features.tobytes() == expected.features.tobytes()
            assert (rows.labels, rows.ids, rows.times) == (expected.labels, expected.ids, expected.times)
            assert rows.line_numbers == expected.line_numbers == [*range(1, ROWS + 1)]


def test_feather_is_known_by_its_name_and_packed(tmp_path: Path) -> None:
    path = tmp_path / "t.feather"
    pa.feather.write_feather(a_table(), path)
    with open_rows(path, ReaderOptions("y", id="key", time="when", missing="keep")) as reader:
        assert (reader.format, reader.feature_names) == ("arrow", ("amount", "x", "on"))
        assert len(Rows(reader).labels) == ROWS


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (in_arrow(a_table())[:-200], "is not a whole Arrow file"),
        (in_arrow(pa.table({"labelname": ["p"]})).replace(b"labelname", b"l\xffbelname"), "is not a whole Arrow file"),
        (b"FEA1" + bytes(100), "is Feather of the first version"),
        (b"a,y\n1,p\n", "is not an Arrow file: it should start with b'ARROW1' and starts with b'a,y"),
        (in_arrow(a_table().select(["x", "y"]).slice(0, 0)), "has columns and no rows"),
        (in_arrow(pa.table({"v": [[1.0]], "y": ["p"]})), "`v` of the stream holds list<"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(data: bytes, told: str) -> None:
    with pytest.raises(ReaderError, match=told):
        open_rows(io.BytesIO(data), ReaderOptions("y", format="arrow", missing="keep"))


def test_a_batch_that_is_damaged_is_an_error_that_names_the_last_row_read() -> None:
    data = in_arrow(a_table().select(["y", "x"]), 100, "zstd")
    zstd = b"\x28\xb5\x2f\xfd"
    last = data.rindex(zstd)
    data = data[:last] + bytes(len(zstd)) + data[last + len(zstd) :]
    with (
        pytest.raises(ReaderError, match=r"cannot be read on after row [1-9]"),
        open_rows(io.BytesIO(data), ReaderOptions("y", missing="keep")) as reader,
    ):
        for _ in reader:
            pass
