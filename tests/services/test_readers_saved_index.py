"""The index of a data frame and the row names of R are no features, unless they are asked for."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane_services.readers import ReaderError, ReaderOptions, open_rows

COLUMNS = {"a": [2.5, 0.5, 3.5, 1.5], "y": ["p", "p", "q", "q"]}
SAID = "left out of the features: a saved row number, which tells the order of rows; name the features to use it"


def features(data: bytes, options: ReaderOptions) -> tuple[tuple[str, ...], tuple[str, ...], list[list[float]]]:
    with open_rows(io.BytesIO(data), options) as reader:
        rows = [row for block in reader for row in block.features.tolist()]
        return reader.feature_names, reader.notes, rows


def parquet(**columns: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({**COLUMNS, **columns}), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (parquet(__index_level_0__=[2, 0, 3, 1]), "__index_level_0__"),
        (b",a,y\n0,0.5,p\n1,1.5,q\n2,2.5,p\n", "column1"),
        (b",a,y\n2,2.5,p\n0,0.5,p\n1,1.5,q\n", "column1"),
        (b"Unnamed: 0,a,y\n2,2.5,p\n0,0.5,p\n1,1.5,q\n", "Unnamed: 0"),
        (b'"","a","y"\n"1",0.5,"p"\n"2",1.5,"q"\n"3",2.5,"p"\n', "column1"),
        (b'"a","y"\n"1",0.5,"p"\n"2",1.5,"q"\n"3",2.5,"p"\n', "row_names"),
        (b'"a","y"\n"Mazda RX4",0.5,"p"\n"Fiat 128",1.5,"q"\n', "row_names"),
    ],
)
def test_a_saved_index_is_left_out_and_said_and_can_be_asked_for(data: bytes, name: str) -> None:
    names, notes, rows = features(data, ReaderOptions("y"))
    assert (names, notes) == (("a",), (f"`{name}` {SAID}",))
    assert sorted(rows)[:2] == [[0.5], [1.5]]
    if b"Mazda" not in data:
        asked, nothing, _ = features(data, ReaderOptions("y", features=(name, "a")))
        assert (asked, nothing) == ((name, "a"), ())
    with open_rows(io.BytesIO(data), ReaderOptions("y", id=name)) as reader:
        assert (reader.feature_names, reader.notes) == (("a",), ())


def test_columns_that_only_look_alike_stay_features() -> None:
    data = b"index,Unnamed: 3,y\n1,5,p\n2,6,q\n"
    assert features(data, ReaderOptions("y"))[0] == ("index", "Unnamed: 3")
    # Every row ends in a delimiter, and none begins with a name.
    assert features(b"a,y\n1,p,\n2,q,\n", ReaderOptions("y"))[0] == ("a",)


def test_a_first_column_without_a_name_that_numbers_no_rows_is_refused_as_before() -> None:
    for data in (b",a,y\n1,5,p\n1,6,q\n", b",a,y\n0.5,5,p\n1.5,6,q\n"):
        with pytest.raises(ReaderError, match="--ignore column1"):
            open_rows(io.BytesIO(data), ReaderOptions("y"))
