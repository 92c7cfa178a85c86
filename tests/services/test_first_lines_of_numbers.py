"""A first line of numbers: a row where columns are named by their places, names where somebody names one of them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from deltaplane.columns.encoder import Cells, CodedCells, Encoder
from deltaplane.columns.rules import CategoryRule
from deltaplane_services.readers import ReaderError, ReaderOptions, RowReader, open_rows


def read(data: bytes, options: ReaderOptions) -> tuple[RowReader, int]:
    reader = open_rows(io.BytesIO(data), options)
    return reader, sum(len(block) for block in reader)


IRIS = b"5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n5.8,2.7,setosa\n"
NUMBERS = b"5.1,3.5,0\n4.9,3.0,0\n6.3,3.3,1\n5.8,2.7,1\n"


def cells_of(cells: Cells) -> list[Any]:
    return [cells.cells[code] for code in cells.codes] if isinstance(cells, CodedCells) else list(cells)


def by_category(columns: Mapping[str, Cells], labels: Sequence[str]) -> Encoder:
    """A rule for each column by its texts."""
    assert len(labels) == 4
    return Encoder(
        tuple(
            CategoryRule(name, "fill", tuple(sorted({str(cell) for cell in cells_of(columns[name])})))
            for name in columns
        )
    )


WORDS = b"A11,b,good\nA12,b,bad\nA11,c,good\nA12,b,good\n"


@pytest.mark.parametrize("data", [IRIS, WORDS, NUMBERS, NUMBERS.replace(b",", b" "), b"# rows\n" + NUMBERS])
def test_a_bare_row_is_read_with_no_flag_but_the_place_of_its_label(data: bytes) -> None:
    reader, rows = read(data, ReaderOptions("3", decide=by_category if data is WORDS else None))
    assert (len(reader.feature_names), rows) == (6 if data is WORDS else 2, 4)
    assert "or come again below: the columns are named by their places" in "; ".join(reader.notes)


@pytest.mark.parametrize(
    ("data", "label", "features"),
    [
        (b"2019,2020,y\n1,2,a\n3,4,b\n", "y", ("2019", "2020")),
        (b"1,2,3\n5,6,0\n7,8,1\n", "3", ("1", "2")),
        (b"0,1,2\n5,6,0\n7,8,1\n", "2", ("0", "1")),
        (b"2019,2020,2021\n1,2,0\n3,4,1\n", "2021", ("2019", "2020")),
    ],
)
def test_names_that_are_numbers_stay_names(data: bytes, label: str, features: tuple[str, ...]) -> None:
    reader, rows = read(data, ReaderOptions(label))
    assert (reader.feature_names, rows) == (features, 2)


def test_a_number_that_may_be_a_name_or_a_place_is_asked_about() -> None:
    data = b"5,4,3,1\n1,2,3,0\n3,4,5,1\n"
    with pytest.raises(ReaderError, match="`4` may be the name of a column, or its place"):
        read(data, ReaderOptions("4"))
    assert read(data, ReaderOptions("4", header=False))[1] == 3
    assert read(data, ReaderOptions("4", header=True))[1] == 2


def test_a_line_of_names_is_no_row_although_somebody_counts_its_columns() -> None:
    with pytest.raises(ReaderError, match="named by their places"):
        read(b"v1,2,3,y\n1,2,3,0\n3,4,5,1\n", ReaderOptions("4"))


def test_rows_that_go_on_from_named_places_need_no_numbers_in_the_first() -> None:
    reader, rows = read(b"a,?,ok\n1,2,ok\n3,4,no\n", ReaderOptions("3", features=("1", "2"), missing="keep"))
    assert reader.feature_names == ("1", "2")
    assert rows == 2, "the row whose cell is no number is refused by itself"


def test_a_label_that_is_at_its_place_in_a_line_of_numbers_is_no_name() -> None:
    reader, rows = read(b"1,-0.395,0.264\n1,0.607,-0.972\n0,0.8,0.3\n", ReaderOptions("1"))
    assert (reader.feature_names, rows) == (("2", "3"), 3)
