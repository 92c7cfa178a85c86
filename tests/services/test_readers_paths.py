"""The fast path over columns and the exact path row by row are one reader: same rows, same bits, same reasons.

The oracle knows what it wrote: each record is drawn as cells, what they mean is worked out cell by cell with nothing
but ``float``, ``datetime`` and ``str.strip``, and only then are they written down, quoted or not, faults between.
"""

from __future__ import annotations

import io
import math
import re
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.readers import ReaderOptions, open_rows
from deltaplane_services.readers.csv_format import CsvDialect
from deltaplane_services.readers.row_blocks import UNLABELLED
from services.readers_samples import Rows, read, same_bits

COLUMNS = ("k", "a", "t", "b", "note", "c", "y")
MISSING = {"", "?", "NA", "N/A", "n/a", "<NA>", "NULL", "null", "None"}
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE)

doubles = st.floats(allow_nan=False, allow_infinity=False)
good_numbers = st.one_of(
    doubles.map(repr),
    doubles.map(lambda value: f"{value:.20e}"),
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(-1000, 1000, places=3).map(str),
    st.sampled_from(["0", "1", "-0", "+1", "1.", ".5", "00012", "1E5", " 1", "2 ", "\t3"]),
)
odd_numbers = st.sampled_from(
    [
        "",
        " ",
        "?",
        "NA",
        " NA",
        "nan",
        "-NaN",
        "inf",
        "-Infinity",
        "1e999",
        "1e-999",
        "abc",
        "1_000",
        "0x10",
        "٣",
        "1 2",
        "1\xa0",
    ]
)
numbers = st.one_of(good_numbers, good_numbers, good_numbers, odd_numbers)
text = st.text(st.sampled_from('ab ,"\né'), max_size=4)
instants = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001 - the zone is given below
    lambda instant: instant.replace(microsecond=instant.microsecond // 1000 * 1000, tzinfo=UTC)
)
times = st.one_of(
    instants.map(lambda instant: instant.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]),
    instants.map(lambda instant: instant.strftime("%Y-%m-%dT%H:%MZ")),
    st.integers(-(10**12), 10**12).map(str),
    st.integers(-(10**12), 10**12).map(lambda milliseconds: f"{milliseconds / 1000:.3f}"),
    st.sampled_from(["", "soon", "1996-05-07", "1e300", "0000-01-01", " 5 "]),
)
records = st.tuples(text, numbers, times, numbers, text, numbers, text)


@dataclass
class Expected:
    rows: list[tuple[int, str, int, list[float], str]] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)


def number_of(cell: str) -> float | None:
    cell = cell.strip()
    if cell in MISSING:
        return math.nan
    return float(cell) if NUMBER.fullmatch(cell) else None


def time_of(cell: str) -> int | None:
    cell = cell.strip()
    seconds = number_of(cell)
    if seconds is not None:
        return round(seconds * 1000) if math.isfinite(seconds) and abs(seconds) < 2**63 / 1000 else None
    try:
        instant = datetime.fromisoformat(cell)
    except ValueError:
        return None
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    whole = instant.replace(microsecond=0)
    return int(whole.timestamp()) * 1000 + instant.microsecond // 1000


def expect(expected: Expected, line_number: int, cells: tuple[str, ...], *, keep_missing: bool) -> None:
    row_id, a, t, b, _, c, label = cells
    features = [number_of(cell) for cell in (a, b, c)]
    time = time_of(t)
    known = [feature for feature in features if feature is not None]
    missing = any(math.isnan(feature) for feature in known)
    unreadable = not label.strip() or not row_id.strip() or time is None or len(known) < len(features)
    if time is None or unreadable or (missing and not keep_missing):
        expected.refused.append(line_number)
    else:
        expected.rows.append((line_number, row_id.strip(), time, known, label.strip()))


def written(cells: tuple[str, ...], *, quote_all: bool) -> str:
    return ",".join(
        '"' + cell.replace('"', '""') + '"' if quote_all or re.search('[",\n]', cell) else cell for cell in cells
    )


FAULTS_BETWEEN = ["", "", "", "", "\n", "1,2\n", "\xff\n"]
FIRST = ("first", "1", "2", "3", "", "4", "one")


@given(
    drawn=st.lists(st.tuples(records, st.booleans(), st.sampled_from(FAULTS_BETWEEN)), max_size=30),
    keep_missing=st.booleans(),
    line_end=st.sampled_from(["\n", "\r\n"]),
    block_bytes=st.sampled_from([1, 13, 200, 2**20]),
)
def test_every_row_comes_out_as_it_was_written_or_is_refused(
    *, drawn: list[tuple[tuple[str, ...], bool, str]], keep_missing: bool, line_end: str, block_bytes: int
) -> None:
    expected = Expected()
    data = bytearray(",".join(COLUMNS).encode() + b"\n")
    # A first row that can be read, so that a file of text columns is no fault of the file.
    for cells, quote_all, fault in [(FIRST, False, ""), *drawn]:
        if fault:
            if fault != "\n":
                expected.refused.append(data.count(b"\n") + 1)
            data += fault.encode("latin-1")
        expect(expected, data.count(b"\n") + 1, cells, keep_missing=keep_missing)
        data += (written(cells, quote_all=quote_all) + line_end).encode()
    options = ReaderOptions(
        "y", id="k", time="t", time_unit="s", ignored=("note",), missing="keep" if keep_missing else "refuse"
    )
    rows = read(bytes(data), options, block_bytes)
    assert rows.line_numbers == [row[0] for row in expected.rows]
    assert rows.ids == [row[1] for row in expected.rows]
    assert rows.times == [row[2] for row in expected.rows]
    assert same_bits(rows.features, np.array([row[3] for row in expected.rows]).reshape(-1, 3))
    assert rows.labels == [row[4] for row in expected.rows]
    assert [row.line_number for row in rows.refused] == expected.refused


@given(st.lists(st.tuples(numbers, times, numbers, st.text(st.sampled_from("ab 1"), max_size=2)), min_size=1))
def test_the_fast_path_and_the_exact_path_give_the_same_blocks_and_the_same_reasons(
    drawn: list[tuple[str, str, str, str]],
) -> None:
    lines = ["a,t,b,y", "1,2,3,one", *(",".join(cells) for cells in drawn)]
    data = "\n".join(lines).encode()
    options = ReaderOptions("y", time="t", time_unit="s")
    fast = read(data, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CsvDialect, "is_plain", lambda _self, _data: False)
        exact = read(data, options)
    assert same_bits(fast.features, exact.features)
    assert (fast.labels, fast.times, fast.line_numbers) == (exact.labels, exact.times, exact.line_numbers)
    assert fast.refused == exact.refused


@given(st.lists(st.tuples(numbers, times, numbers, st.text(st.sampled_from("ab 1"), max_size=2)), min_size=1))
def test_rows_that_are_read_without_a_label_are_those_of_a_file_that_lacks_none(
    drawn: list[tuple[str, str, str, str]],
) -> None:
    rows = [("1", "2", "3", "one"), *drawn]
    without = "\n".join(["a,t,b,y", *(",".join(cells) for cells in rows)]).encode()
    labelled = "\n".join(["a,t,b,y", *(",".join((*cells[:3], "some")) for cells in rows)]).encode()
    known = read(labelled, ReaderOptions("y", time="t", time_unit="s"))
    options = ReaderOptions(labelled=False, time="t", time_unit="s", features=("a", "b"))
    fast = read(without, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CsvDialect, "is_plain", lambda _self, _data: False)
        exact = read(without, options)
    for found in (fast, exact):
        assert same_bits(found.features, known.features)
        assert (found.times, found.line_numbers, found.reasons) == (known.times, known.line_numbers, known.reasons)
        assert set(found.labels) == {UNLABELLED}


@given(st.lists(st.integers(0, 2**64 - 1).filter(lambda bits: (bits >> 52) & 0x7FF != 0x7FF), min_size=1))
def test_the_shortest_text_of_any_double_reads_back_to_its_bits(bits: list[int]) -> None:
    values = [struct.unpack("<d", struct.pack("<Q", pattern))[0] for pattern in bits]
    data = "x,y\n" + "".join(f"{value!r},p\n" for value in values)
    assert read(data.encode(), ReaderOptions("y")).features.ravel().view(np.uint64).tolist() == bits


@given(st.integers(1, 10**40), st.integers(-340, 320))
def test_a_decimal_of_many_digits_reads_to_the_nearest_double(digits: int, exponent: int) -> None:
    cell = f"{digits}e{exponent}"
    assert read(f"x,y\n{cell},p\n".encode(), ReaderOptions("y")).features[0, 0] == float(cell)


def test_the_fast_path_is_taken_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_record(_self: CsvDialect, _data: bytes, _at: int, *, final: bool) -> None:
        raise AssertionError(final)

    data = b"x,t,y\n" + b'1,1996-05-07 00:30,"p"\n\n2,1996-05-07 01:00,q\r\n\r\n,1996-05-07 02:00,r\n' * 50_000
    with open_rows(io.BytesIO(data), ReaderOptions("y", time="t", time_unit="s", missing="keep")) as reader:
        monkeypatch.setattr(CsvDialect, "record", no_record)
        assert len(Rows(reader).labels) == 150_000
