"""JSON as it comes: arrays of objects, and objects within objects."""

from __future__ import annotations

import io
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from deltaplane_services.readers import ReaderError, ReaderOptions, RefusedRow, bounds, open_rows
from deltaplane_services.readers.json_array import ArrayLines
from services.readers_samples import Rows, read, trickle

BY_LABEL = ReaderOptions("y")
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
LAYOUTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 2, "\t"]),
        "separators": st.sampled_from([(",", ":"), (", ", ": "), (" ,\r\n", " : ")]),
        "ensure_ascii": st.booleans(),
    }
)


def lines_of(data: bytes, piece: int) -> list[bytes]:
    """All lines, read from a pipe that gives a few bytes at a time."""
    cut = ArrayLines(trickle(data, piece), "rows.json")
    return b"".join(iter(lambda: cut.read(7), b"")).splitlines()


@given(
    elements=st.lists(VALUES, max_size=6),
    layout=LAYOUTS,
    piece=st.integers(1, 40),
    blank=st.sampled_from(["", "\n \n"]),
)
def test_each_element_of_an_array_is_a_line_however_it_was_written(
    elements: list[Any], layout: dict[str, Any], piece: int, blank: str
) -> None:
    data = (blank + json.dumps(elements, **layout) + blank).encode()
    assert [json.loads(line) for line in lines_of(data, piece) if line] == elements


@pytest.mark.parametrize("piece", [1, 5, 1000])
def test_an_element_has_the_number_of_the_line_that_it_begins_at(piece: int) -> None:
    data = b'\n[\n\n {"a":\n 1},\n\n\n {"a": 2}, {"a": 3},\n{"a": [\n]}\n]\n'
    lines = lines_of(data, piece)
    assert {number: json.loads(line)["a"] for number, line in enumerate(lines, start=1) if line} == {
        4: 1,
        8: 2,
        9: 3,
        10: [],
    }


def test_an_array_of_objects_is_read_as_its_objects_are() -> None:
    rows = [{"a": n / 8, "b": -n, "y": "pq"[n % 2]} for n in range(500)]
    as_lines = read("".join(json.dumps(row) + "\n" for row in rows).encode(), BY_LABEL)
    for indent in (None, 2):
        data = json.dumps(rows, indent=indent).encode()
        for text in (data, b"\xef\xbb\xbf" + data, data.decode().encode("utf-16")):
            as_array = read(text, BY_LABEL, block_bytes=300)
            assert as_array.features.tobytes() == as_lines.features.tobytes()
            assert as_array.labels == as_lines.labels
    with open_rows(trickle(json.dumps(rows).encode(), 100), BY_LABEL) as reader:
        assert reader.format == "jsonl"
        assert Rows(reader).labels == as_lines.labels


def test_an_element_that_is_no_row_costs_no_other() -> None:
    good = b'\n{"a": 1, "y": "p"},' * 3000
    data = b"[" + good + b'\n{"a": , "y": "p"},\n7,\n[1, 2],\n{"a": 2, "y": "q"}] and more'
    rows = read(data, ReaderOptions("y", encoding="utf-8"))
    assert (len(rows.labels), rows.labels[-1]) == (3001, "q")
    assert {number: reason.split(":")[0] for number, reason in rows.reasons.items()} == {
        3002: "the line is not JSON",
        3003: "the line is '7', where an object in braces was expected",
        3004: "the line is '[1, 2]', where an object in braces was expected",
        3006: "the line is not JSON",
    }


def test_an_element_that_is_too_long_is_refused_and_not_kept() -> None:
    long = b'{"a": 1, "y": "p", "more": [' + b'"xxxxxxx", ' * (bounds.LINE_BYTES // 10) + b"1]}"
    data = b'[{"a": 1, "y": "p"},\n' + long * 3 + b',\n{"a": 2, "y": "q"}]'
    rows = read(data, BY_LABEL)
    assert rows.labels == ["p", "q"]
    assert [row.line_number for row in rows.refused] == [2]


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (b'{"a": 3, "y": "q"', "ends near line 3002, within the array that it begins with"),
        (b'{"a": 3, "y": "q' + b"x" * 3 * bounds.LINE_BYTES, "a text near line 3002 has no end"),
    ],
)
def test_an_array_without_an_end_is_an_error_once_its_rows_are_read(end: bytes, told: str) -> None:
    data = b"[" + b'\n{"a": 1, "y": "p"},' * 3000 + b"\n" + end
    rows: list[int] = []
    with open_rows(io.BytesIO(data), BY_LABEL) as reader, pytest.raises(ReaderError, match=told):
        rows.extend(len(block.labels) for block in reader)
    assert sum(rows) == 3000


# Objects within objects -----------------------------------------------------------------------------------------------


def test_values_within_an_object_are_columns_named_by_their_path() -> None:
    data = (
        b'{"card": null, "n": {"m": {"o": 1}}, "y": {"kind": "p"}}\n'
        b'{"card": {"age": 2, "new": true}, "n": {"m": {"o": 3}}, "y": {"kind": "q"}}\n'
        b'{"card": {"age": 4}, "n": {}, "y": {"kind": "p"}}\n'
        b'{"n": null, "card": {"new": false, "age": null}, "y": {"kind": "q"}}\n'
    )
    with open_rows(io.BytesIO(data), ReaderOptions("y.kind", missing="keep")) as reader:
        assert reader.feature_names == ("n.m.o", "card.age", "card.new")
        rows = Rows(reader)
    assert rows.reasons == {}
    assert rows.labels == ["p", "q", "p", "q"]
    assert str(rows.features.tolist()) == str(
        [
            [1.0, float("nan"), float("nan")],
            [3.0, 2.0, 1.0],
            [float("nan"), 4.0, float("nan")],
            [float("nan")] * 2 + [0.0],
        ]
    )


def test_a_whole_object_is_ignored_by_its_name() -> None:
    data = b'{"a": 1, "more": {"b": [2], "c": "x"}, "y": "p"}\n{"a": 1, "more": null, "y": "q"}\n' * 2000
    with open_rows(
        io.BytesIO(data + b'{"a": 1, "more": {"d": 1}, "y": "q"}\n'), ReaderOptions("y", ignored=("more",))
    ) as it:
        assert it.feature_names == ("a",)
        assert len(Rows(it).labels) == 4001


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": {"b": 1}, "a.b": 2, "y": "p"}', "the key `a.b` is there twice"),
        (b'{"a": {"c": 1}, "y": "p"}', "the key `a.c` is none of the first rows"),
        (b'{"a": 5, "y": "p"}', "the key `a` is none of the first rows"),
        (b'{"a": {"b": [1]}, "y": "p"}', "the key `a.b` holds a list, of which no column is made"),
        (
            b'{"a": ' + b'{"b": ' * 5000 + b"1" + b"}" * 5000 + b', "y": "p"}',
            "the line is not JSON that can be read: it is nested too deeply",
        ),
    ],
)
def test_a_row_with_another_object_is_refused_alone(line: bytes, reason: str) -> None:
    first = b'{"a": {"b": 1}, "y": "p"}\n' * 4000
    rows = read(first + line + b'\n{"a": {"b": 2}, "y": "q"}\n', BY_LABEL)
    assert rows.refused == [RefusedRow(4001, reason, rows.refused[0].text)]
    assert len(rows.labels) == 4001


def test_lists_in_some_of_the_first_rows_refuse_these_rows_and_lists_in_all_of_them_the_file() -> None:
    rows = read(b'{"a": 1, "y": "p"}\n{"a": [1], "y": "p"}\n{"a": 2, "y": "q"}\n', BY_LABEL)
    assert (rows.labels, list(rows.reasons)) == (["p", "q"], [2])
    with pytest.raises(ReaderError, match=r"The key `c\.d` of .* holds lists.*`--ignore c\.d --ignore e`"):
        open_rows(io.BytesIO(b'{"a": 1, "c": {"d": []}, "e": [1], "y": "p"}\n' * 3), BY_LABEL)
