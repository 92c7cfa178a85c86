"""Parquet: typed columns become the same rows that text would, in bounded batches."""

from __future__ import annotations

import io
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.readers import ReaderError, ReaderOptions, RowBlock, open_rows
from services.readers_samples import Rows, read, same_bits

BY_LABEL = ReaderOptions(label="y")


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    data = io.BytesIO()
    pq.write_table(pa.table(columns), data, **options)
    return data.getvalue()


def test_numbers_booleans_and_decimals_are_features() -> None:
    columns = {
        "i": pa.array([1, -2], pa.int8()),
        "u": pa.array([2**63 + 1, 0], pa.uint64()),
        "f": pa.array([0.1, 1e300]),
        "h": pa.array(np.array([0.5, 2.0], dtype=np.float16)),
        "s": pa.array([0.5, 2.0], pa.float32()),
        "b": pa.array([True, False]),
        "d": pa.array([Decimal("1.25"), Decimal("-3.00")]),
        "y": ["p", "q"],
    }
    with open_rows(io.BytesIO(parquet(columns)), BY_LABEL) as reader:
        assert (reader.format, reader.feature_names) == ("parquet", ("i", "u", "f", "h", "s", "b", "d"))
        rows = Rows(reader)
    assert rows.features.tolist() == [[1, 2.0**63, 0.1, 0.5, 0.5, 1, 1.25], [-2, 0, 1e300, 2, 2, 0, -3]]
    assert (rows.labels, rows.line_numbers) == (["p", "q"], [1, 2])


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (pa.array([1, 2]), ["1", "2"]),
        (pa.array([1.0, -2.0]), ["1", "-2"]),
        (pa.array([0.5, 1e300]), ["0.5", "1e+300"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([Decimal("1.00"), Decimal("2.50")]), ["1", "2.5"]),
        (pa.array([" p ", "007"]), ["p", "007"]),
        (pa.array(["p", "q"]).dictionary_encode(), ["p", "q"]),
        (pa.array([b"p", b"\xff"]), ["p", "\\xff"]),
        (pa.array([date(1996, 5, 7), date(1998, 12, 5)]), ["1996-05-07", "1998-12-05"]),
    ],
)
def test_labels_and_ids_have_one_spelling_whatever_their_type(values: pa.Array, labels: list[str]) -> None:
    data = parquet({"x": [1.0, 2.0], "y": values, "k": values})
    rows = read(data, ReaderOptions("y", id="k"))
    assert (rows.labels, rows.ids) == (labels, labels)


def test_nulls_and_nan_are_refused_by_name_and_row() -> None:
    columns = {
        "a": [1.0, None, 3.0, 4.0, 5.0, 6.0],
        "b": pa.array([1, 2, None, 4, 5, 6]),
        "y": [1.0, 1.0, 1.0, None, float("nan"), 1.0],
        "k": ["r1", "r2", "r3", "r4", "r5", None],
    }
    rows = read(parquet(columns), ReaderOptions("y", id="k"))
    assert (rows.labels, rows.line_numbers) == (["1"], [1])
    assert rows.reasons == {
        2: "the feature `a` is missing",
        3: "the feature `b` is missing",
        4: "the label is missing",
        5: "the label is missing",
        6: "the id is empty",
    }
    assert rows.refused[1].text == "a=3.0, b=None, y=1.0, k=r3"


def test_missing_features_may_be_kept() -> None:
    data = parquet({"a": [1.0, None], "b": pa.array([None, 4]), "y": ["p", "q"]})
    rows = read(data, ReaderOptions("y", missing="keep"))
    assert same_bits(rows.features, np.array([[1.0, np.nan], [np.nan, 4.0]]))


@pytest.mark.parametrize(
    ("times", "milliseconds"),
    [
        (pa.array([5, -1], pa.timestamp("s")), [5000, -1000]),
        (pa.array([5, -1], pa.timestamp("ms")), [5, -1]),
        (pa.array([1500, -2500], pa.timestamp("us")), [2, -2]),
        (pa.array([1_500_001, -1_500_001], pa.timestamp("ns", "Europe/Paris")), [2, -2]),
        (pa.array([date(1970, 1, 2), date(1969, 12, 31)]), [86_400_000, -86_400_000]),
        (pa.array([7, 2**53 // 1000 + 1]), [7000, (2**53 // 1000 + 1) * 1000]),
        (pa.array([0.0015, -1.25]), [2, -1250]),
        (pa.array(["1996-05-07", "1996-05-07T00:30+01:00"]), [831427200000, 831425400000]),
        (pa.array(["1.5", "2"]).dictionary_encode(), [1500, 2000]),
    ],
)
def test_times_of_every_type_are_milliseconds_since_the_epoch(times: pa.Array, milliseconds: list[int]) -> None:
    # Version 2.6 keeps nanoseconds as they are.
    data = parquet({"t": times, "x": [1.0, 2.0], "y": ["p", "q"]}, version="2.6")
    assert read(data, ReaderOptions("y", time="t")).times == milliseconds


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        (pa.array([None, 1], pa.timestamp("us")), "the time is missing"),
        (pa.array([None, 1], pa.int64()), "the time is missing"),
        (pa.array([float("nan"), 1.0]), "the time is missing"),
        (pa.array([float("inf"), 1.0]), "the time 'inf' is not finite"),
        (pa.array([None, "1970-01-01"]), "the time is missing"),
        (
            pa.array(["soon", "1970-01-01"]),
            "the time 'soon' is neither seconds since the epoch nor ISO 8601; declare its form with --time-format",
        ),
        (pa.array([2**62, 1]), f"the time '{2**62}' is outside the range of 64-bit milliseconds"),
        (pa.array([1e300, 1.0]), "the time '1e+300' is outside the range of 64-bit milliseconds"),
    ],
)
def test_a_bad_time_is_refused_with_what_it_was(times: pa.Array, reason: str) -> None:
    rows = read(parquet({"t": times, "x": [1.0, 2.0], "y": ["p", "q"]}), ReaderOptions("y", time="t"))
    assert (rows.labels, rows.reasons) == (["q"], {1: reason})


@given(st.lists(st.tuples(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_every_double_comes_through_to_the_bit_and_every_integer_to_the_nearest_double(
    rows: list[tuple[float, int]],
) -> None:
    doubles, integers = [row[0] for row in rows], [row[1] for row in rows]
    features = read(parquet({"x": doubles, "i": integers, "y": [1] * len(rows)}), BY_LABEL).features
    assert same_bits(features[:, 0].copy(), np.array(doubles))
    assert features[:, 1].tolist() == [float(integer) for integer in integers]


def test_a_row_group_of_any_length_comes_in_bounded_blocks_with_row_numbers_going_on() -> None:
    rows = 30_000
    data = parquet({"x": np.arange(rows) / 3, "y": np.arange(rows) % 2}, row_group_size=20_000)
    with open_rows(io.BytesIO(data), BY_LABEL) as reader:
        blocks = list(reader)
        assert reader.bytes_read == len(data)
    assert max(len(block) for block in blocks) <= 8192
    joined = Rows(blocks)
    assert joined.line_numbers == list(range(1, rows + 1))
    assert np.array_equal(joined.features.ravel(), np.arange(rows) / 3)


def test_columns_that_are_not_read_may_hold_anything() -> None:
    columns = {"n": [[1, 2], [3]], "x": [1.0, 2.0], "y": ["p", "q"], "s": ["a", "b"]}
    assert read(parquet(columns), ReaderOptions("y", ignored=("n", "s"))).features.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (parquet({"city": ["Paris"], "y": [1]}), "`city` of the stream holds string where a feature must be a number"),
        (parquet({"city": ["Paris"], "y": [1]}), "its first value is 'Paris'. Leave it out with `--ignore city`"),
        (parquet({"v": [[1.0, 2.0]], "y": [1]}), "holds list<"),
        (parquet({"t": [datetime(2020, 1, 1)], "y": [1]}), "holds timestamp[us]"),  # noqa: DTZ001 - as files hold it
        (parquet({"x": pa.array([], pa.float64()), "y": pa.array([], pa.int64())}), "has columns and no rows"),
        (parquet({"x": [1.0], "z": [1]}), "no column `y` for the label; its columns are x, z."),
        (b"PAR1", "is not a whole Parquet file"),
        (parquet({"x": [1.0], "y": [1]})[:-4], "is not a whole Parquet file"),
        (b"x,y\n1,p\n", "is not a Parquet file: it should start with b'PAR1' and starts with b'x,y\\n'"),
    ],
)
def test_faults_of_the_file_are_told_when_it_is_opened(data: bytes, expected: str) -> None:
    with pytest.raises(ReaderError) as raised:
        open_rows(io.BytesIO(data), ReaderOptions("y", format="parquet"))
    assert expected in str(raised.value)


def test_damage_in_the_middle_is_told_after_the_rows_before_it() -> None:
    rows = 20_000
    columns = {"x": np.arange(rows, dtype=np.float64), "y": np.arange(rows)}
    data = bytearray(parquet(columns, row_group_size=10_000, compression="none", use_dictionary=False))
    second_group = pq.read_metadata(io.BytesIO(bytes(data))).row_group(1).column(0).data_page_offset
    data[second_group : second_group + 16] = b"\xff" * 16
    blocks: list[RowBlock] = []
    with open_rows(io.BytesIO(bytes(data)), BY_LABEL) as reader, pytest.raises(ReaderError) as raised:
        blocks.extend(reader)
    assert "cannot be read on after row 8192" in str(raised.value)
    assert Rows(blocks).features.ravel().tolist() == list(range(8192))


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("different", [2, 20_000])
def test_labels_that_stay_codes_of_long_row_groups_are_those_of_their_texts(kind: Any, different: int) -> None:
    rows, group = 34_000, 17_000
    labels: list[str | None] = [f"l{row * 7919 % different}" for row in range(rows)]
    labels[3] = labels[-1] = None
    columns = {"x": np.arange(float(rows)), "y": pa.array(labels).cast(kind)}
    # Either all pages have the dictionary of their group, or a page that is full ends it, and texts follow.
    for page_bytes in (2**20, 1000):
        data = parquet(columns, row_group_size=group, dictionary_pagesize_limit=page_bytes)
        with open_rows(io.BytesIO(data), BY_LABEL) as reader:
            blocks = list(reader)
        come = Rows(blocks)
        assert group in np.cumsum([len(block) + len(block.refused) for block in blocks]), "a group has its own codes"
        assert come.line_numbers == [row for row, label in enumerate(labels, start=1) if label]
        assert come.labels == [label for label in labels if label]
        assert come.features[:, 0].tolist() == [row - 1.0 for row in come.line_numbers]
