"""Bytes become arrays as the format says, and what is not as it says is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from deltaplane_benchmarks.data import formats
from deltaplane_benchmarks.data.archives import DataDamaged


def test_a_headless_table_gives_numbers_and_words_by_name() -> None:
    table = formats.headless(b"1, 2.5 ,red\n\n3,-4,blue\n", ["a", "b", "color"])
    assert table.numbers(["b", "a"]).tolist() == [[2.5, 1.0], [-4.0, 3.0]]
    assert table.ordinal("color", ("blue", "red")).tolist() == [1.0, 0.0]


def test_a_headed_table_and_a_keel_file_name_their_own_columns() -> None:
    assert list(formats.headed(b"a,b\n1,2\n").columns) == ["a", "b"]
    keel = formats.keel(b"@relation x\n@attribute One real [0,1]\n@Attribute Two {p,n}\n@data\n0.5, p\n")
    assert keel.numbers(["One"]).tolist() == [[0.5]]
    assert keel.take("Two").tolist() == ["p"]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [(b"1,2\n3\n", "got 1 in row 2"), (b"1,2,3\n", "got 3 in row 1"), (b"\n", "got no rows")],
)
def test_a_table_with_a_torn_row_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(DataDamaged, match=complaint):
        formats.headless(data, ["a", "b"])


def test_a_word_out_of_order_a_word_for_a_number_and_a_column_that_is_not_there_are_refused() -> None:
    table = formats.headless(b"x\ny\n", ["letter"])
    with pytest.raises(DataDamaged, match=r"'letter'.*expected one of \['x'\], got \['y'\]"):
        table.ordinal("letter", ("x",))
    with pytest.raises(DataDamaged, match=r"'letter'.*expected numbers"):
        table.numbers(["letter"])
    with pytest.raises(DataDamaged, match="'number'"):
        table.take("number")


def test_a_large_table_of_numbers_is_read_whole_or_refused() -> None:
    names, values = formats.numeric_csv(b"a,b\n1,2.5\n3,4\n")
    assert (names, values.tolist()) == (["a", "b"], [[1.0, 2.5], [3.0, 4.0]])
    with pytest.raises(DataDamaged, match="expected numbers"):
        formats.numeric_csv(b"a,b\n1,x\n")


def test_an_idx_file_gives_its_bytes_in_its_shape() -> None:
    data = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6])
    assert formats.idx(data).tolist() == [[[1, 2, 3]], [[4, 5, 6]]]


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0\x0d\1\0\0\0\1\0\0\0\0", b"\0\0\x08\1\0\0\0\2\1", b"\0\0\x08\1\0\0\0\1\1\2", b"\0\0\x08\3\0\0"],
)
def test_an_idx_file_of_another_kind_or_length_is_refused(data: bytes) -> None:
    with pytest.raises(DataDamaged, match="idx: expected"):
        formats.idx(data)


def test_a_picture_gives_its_pixels_row_by_row() -> None:
    assert formats.pgm(b"P5\n# a comment\n3 2\n255\nabcdef").tolist() == [[97, 98, 99], [100, 101, 102]]


@pytest.mark.parametrize("data", [b"P2\n1 1\n255\n0", b"P5\n2 2\n65535\n12345678", b"P5\n2 2\n255\nabc", b""])
def test_a_picture_of_another_kind_or_size_is_refused(data: bytes) -> None:
    with pytest.raises(DataDamaged, match="pgm: expected"):
        formats.pgm(data)


@pytest.mark.parametrize("seed", range(5))
def test_a_picture_that_was_treated_as_text_is_turned_back(seed: int) -> None:
    generator = np.random.default_rng(seed)
    # A smooth picture in which many pixels happen to be line feeds.
    pixels = (10 + np.add.outer(np.arange(20), np.arange(30)) % 3 + generator.integers(0, 2, (20, 30))).astype(np.uint8)
    header = b"P5\n30 20\n255\n"
    treated = (header + pixels.tobytes()).replace(b"\n", b"\r\n")
    assert np.array_equal(formats.pgm(treated), pixels)


def test_a_pair_of_pixels_that_looks_like_a_line_end_is_found_by_its_smoothness() -> None:
    columns = np.array([13, 10, 60, 120, 180, 240, 180, 120, 60, 30], dtype=np.uint8)
    pixels = np.tile(columns, (12, 1))
    pixels[:, 0] = 12
    pixels[5, 0] = 13
    data = b"P5\n10 12\n255\n" + pixels.tobytes()
    # The tool that turned line feeds into line ends left those alone that already were one.
    treated = data.replace(b"\r\n", b"\xff\xfe").replace(b"\n", b"\r\n").replace(b"\xff\xfe", b"\r\n")
    assert np.array_equal(formats.pgm(treated), pixels)
