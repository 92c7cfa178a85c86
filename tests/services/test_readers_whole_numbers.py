"""Tables of whole numbers: what is read without a parser is what the rules say, and all else is left to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.readers import ReaderError, ReaderOptions, whole_numbers
from deltaplane_services.readers.layout import Layout
from deltaplane_services.readers.lines import count_newlines
from deltaplane_services.readers.whole_numbers import WholeNumberParser, WholeNumbers
from services.readers_samples import Rows, read, same_bits

whole = st.one_of(
    st.integers(-99_999_999, 99_999_999).map(str),
    st.integers(0, 9).map(str),
    st.sampled_from(["-0", "00", "-007", "00000000", "12345678", "-12345678"]),
)
texts = st.one_of(st.text(st.sampled_from("ab-1 .\r_%0"), max_size=12), st.integers(0, 10**20).map(str))
not_whole = st.sampled_from(
    [
        *(
            "",
            " ",
            "-",
            "--1",
            "1-",
            "-1-",
            "1-2",
            "+1",
            "1.0",
            ".5",
            "1e3",
            " 1",
            "1 ",
            "\t1",
            "123456789",
            "-000000001",
        ),
        *("?", "NA", "nan", "inf", "0x1", "1_0", "1:", "/1", "1\r", "1\0", "٣", "1é"),
    ]
)
orders = st.permutations(range(5)).map(tuple)
pieces = st.sampled_from([1, 20, 200, 2**17])


def parsed(lines: list[list[str]], order: tuple[int, ...], bytes_at_once: int) -> WholeNumbers | None:
    """Rows of three features, an id and a label, the columns being in any order and the first feature last."""
    one, two, three, row_id, label = order
    layout = Layout(tuple("abcde"), label, row_id, None, (three, one, two))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_numbers, "_BYTES_AT_ONCE", bytes_at_once)
        return WholeNumberParser(layout, ",").parse("".join(",".join(line) + "\n" for line in lines).encode())


def in_order(cells: tuple[str, ...], order: tuple[int, ...]) -> list[str]:
    line = [""] * len(order)
    for position, cell in zip(order, cells, strict=True):
        line[position] = cell
    return line


rows = st.tuples(whole, whole, whole, texts, texts)


@given(st.lists(rows, min_size=1, max_size=20), orders, pieces)
def test_whole_numbers_read_to_the_bits_of_float_and_texts_to_themselves(
    drawn: list[tuple[str, ...]], order: tuple[int, ...], bytes_at_once: int
) -> None:
    found = parsed([in_order(cells, order) for cells in drawn], order, bytes_at_once)
    assert found is not None
    assert same_bits(found.features, np.array([[float(c), float(a), float(b)] for a, b, c, _, _ in drawn]))
    assert found.texts == {order[3]: [cells[3] for cells in drawn], order[4]: [cells[4] for cells in drawn]}


@given(st.lists(rows, max_size=9), st.data(), orders, pieces)
def test_a_feature_that_is_no_short_whole_number_is_left_to_the_other_paths(
    drawn: list[tuple[str, ...]], data: st.DataObject, order: tuple[int, ...], bytes_at_once: int
) -> None:
    odd = list(data.draw(rows))
    odd[data.draw(st.integers(0, 2))] = data.draw(not_whole)
    drawn.insert(data.draw(st.integers(0, len(drawn))), tuple(odd))
    assert parsed([in_order(cells, order) for cells in drawn], order, bytes_at_once) is None


@given(st.lists(st.lists(whole, min_size=1, max_size=9), min_size=1, max_size=12), orders, pieces)
def test_lines_with_another_number_of_cells_are_left_to_the_other_paths(
    lines: list[list[str]], order: tuple[int, ...], bytes_at_once: int
) -> None:
    found = parsed(lines, order, bytes_at_once)
    assert (found is not None) == all(len(line) == len(order) for line in lines)


cells = st.one_of(whole, whole, whole, whole, not_whole)
times = st.one_of(st.integers(-(10**10), 10**10).map(str), st.sampled_from(["1996-05-07", "soon", ""]))


def read_or_refuse(data: bytes, options: ReaderOptions, block_bytes: int) -> Rows | str:
    """The rows of a file, or why it is not read: what its times count may not be told."""
    try:
        return read(data, options, block_bytes)
    except ReaderError as refused:
        return str(refused)


@given(
    st.lists(st.tuples(cells, times, cells, texts), min_size=1, max_size=20),
    st.sampled_from([10, 60, 2**20]),
    st.sampled_from([",", "-", "0", ".", " "]),
)
def test_a_file_reads_the_same_with_and_without(drawn: list[tuple[str, ...]], block_bytes: int, delimiter: str) -> None:
    lines = [("a", "t", "b", "y"), ("1", "2", "3", "one"), *drawn]
    data = "".join(delimiter.join(line) + "\n" for line in lines).encode()
    options = ReaderOptions("y", time="t", delimiter=delimiter, format="csv")
    fast = read_or_refuse(data, options, block_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WholeNumberParser, "parse", lambda _self, _data: None)
        slow = read_or_refuse(data, options, block_bytes)
    if isinstance(fast, str) or isinstance(slow, str):
        assert fast == slow
        return
    assert same_bits(fast.features, slow.features)
    assert (fast.labels, fast.times, fast.line_numbers) == (slow.labels, slow.times, slow.line_numbers)
    assert fast.refused == slow.refused


@given(st.binary(max_size=40).map(lambda data: data.replace(b"a", b"\n")))
def test_newlines_are_counted_as_bytes_count_them(data: bytes) -> None:
    assert count_newlines(data) == data.count(b"\n")


def test_quotes_are_left_to_the_other_paths() -> None:
    rows = read(b'a,b,y\n1,2,"p"\n3,4,q\n', ReaderOptions("y"))
    assert rows.labels == ["p", "q"]
