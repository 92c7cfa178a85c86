"""Event times: one rule for seconds and ISO 8601, by whole columns as by single cells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.readers import ReaderError, ReaderOptions
from deltaplane_services.readers.time_rule import SECONDS_OR_ISO, rule_of_rows
from deltaplane_services.readers.time_text import milliseconds_of_ticks
from deltaplane_services.readers.time_units import told_by_rows
from services.readers_samples import read

read_time, times_of_text = SECONDS_OR_ISO.read, SECONDS_OR_ISO.read_text


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("-1", -1000),
        (" 1.5 ", 1500),
        ("1e3", 1_000_000),
        ("19960507", 19_960_507_000),
        ("9223372036854775", 9_223_372_036_854_775_000),
        ("0.0005", 0),
        ("0.0015", 2),
        ("1996-05-07", 831_427_200_000),
        ("1996-05-07 00:30", 831_429_000_000),
        ("1996-05-07T00:30:15", 831_429_015_000),
        ("1996-05-07t00:30:15.5z", 831_429_015_500),
        ("1996-05-07 00:30:15,25 UTC", 831_429_015_250),
        ("1996-05-07T00:30Z", 831_429_000_000),
        ("1996-05-07T00:30+10:00", 831_393_000_000),
        ("1996-05-07T00:30-0130", 831_434_400_000),
        ("1996-05-07 00:30:00 +01", 831_425_400_000),
        ("1996-05-07T003015", 831_429_015_000),
        ("19960507T003015Z", 831_429_015_000),
        ("19960507T0030+1000", 831_393_000_000),
        ("1996-05-07T24:00", 831_513_600_000),
        ("1996-05-07 24:00:00.000Z", 831_513_600_000),
        ("1996-05-07 00:30:15 GMT", 831_429_015_000),
        ("1996-05-07 00:30:15.0004999999999", 831_429_015_000),
        ("1996-05-07 00:30:15.0005", 831_429_015_000),
        ("1996-05-07 00:30:15.0015", 831_429_015_002),
        ("1996-05-07 00:30:15.9999", 831_429_016_000),
        ("1969-12-31T23:59:59.9996", 0),
        ("0001-01-01", -62_135_596_800_000),
        ("9999-12-31T23:59:59.999", 253_402_300_799_999),
    ],
)
def test_a_time_is_the_nearest_millisecond_in_utc(text: str, milliseconds: int) -> None:
    assert read_time(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "?", "nan", "inf", "-inf", "1e400", "9223372036854776", "-9223372036854776", "1" * 5000, "1_0", "0x1"),
        *("today", "1996-5-7", "1996-05", "96-05-07", "1996-02-30", "1996-13-01", "0000-01-01", "1996-05-07T24:01"),
        *("1996-05-07T00:60", "1996-05-07T00:00:60", "1996-05-07T", "1996-05-07T00:30+24:00", "1996-05-07T00:30+02:60"),
        *("1996-05-07 00:30 CET", "1996-05-07Z", "07/05/1996", "1996-05-07 00:30:15.", "١٩٩٦-05-07"),
    ],
)
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="the time"):
        read_time(text)


seconds_text = st.one_of(
    st.integers(-(2**62), 2**62).map(str),
    st.floats().map(repr),
    st.decimals(-(10**10), 10**10, places=4).map(str),
)
iso_text = st.builds(
    lambda instant, separator, cut, zone: instant.isoformat(separator)[:cut] + zone,
    st.datetimes(),
    st.sampled_from("T "),
    st.sampled_from([10, 13, 16, 19, 23, 26]),
    st.sampled_from(["", "", "", "Z", "+01:00", "-0530", "+14", " +01:00"]),
)
faulty_text = st.sampled_from(
    ["", " 5", "soon", "0000-01-01", "1996-05-07T24:00", "0x10", "1e300", "nan", "1996-05-07T00"]
)


@given(
    st.one_of(
        st.lists(seconds_text, min_size=1),
        st.lists(iso_text, min_size=1),
        st.lists(st.one_of(seconds_text, iso_text, faulty_text), min_size=1),
    )
)
def test_a_whole_column_reads_as_its_cells_do_or_leaves_them_to_be_read_one_by_one(texts: list[str]) -> None:
    together = times_of_text(pa.array(texts))
    if together is not None:
        assert together.tolist() == [read_time(text) for text in texts]


def test_the_year_0_of_arrow_is_no_year_here() -> None:
    assert times_of_text(pa.array(["1996-05-07", "0000-12-31"])) is None


def test_ordinary_columns_are_read_as_a_whole() -> None:
    for texts in (["1", "2.5"], ["1996-05-07", "1996-05-07 00:30"], ["1996-05-07T00:30Z", "1996-05-07T00:30+01:00"]):
        assert times_of_text(pa.array(texts)) is not None


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.integers(-1439, 1439))  # noqa: DTZ001 - given below
def test_an_iso_time_is_what_the_calendar_says(instant: datetime, offset_minutes: int) -> None:
    instant = instant.replace(
        microsecond=instant.microsecond // 1000 * 1000, tzinfo=timezone(timedelta(minutes=offset_minutes))
    )
    since_epoch = instant - datetime(1970, 1, 1, tzinfo=UTC)
    assert read_time(instant.isoformat()) == since_epoch // timedelta(milliseconds=1)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.sampled_from([1, 1000, 10**6]))
def test_ticks_go_to_the_nearest_millisecond_and_ties_to_the_even_one(ticks: list[int], per_millisecond: int) -> None:
    milliseconds = milliseconds_of_ticks(np.array(ticks, dtype=np.int64), per_millisecond).tolist()
    for tick, millisecond in zip(ticks, milliseconds, strict=True):
        distance = abs(tick - millisecond * per_millisecond)
        assert 2 * distance <= per_millisecond
        assert 2 * distance < per_millisecond or millisecond % 2 == 0


@pytest.mark.parametrize(
    ("first", "step", "hint"),
    [
        (739_157.0, 1 / 24, "counted from another day"),
        (2_460_215.5, 1 / 24, "counted from another day"),
        (19_628.0, 1 / 24, "counted from another day"),
        (471_072, 1, "days, hours or minutes"),
        (28_264_320, 60, "days, hours or minutes"),
        (230_901, 1, "days, hours or minutes"),
        (2_023_092_800, 1, "--time-format %Y%m%d%H"),
        (2_309_281_200, 1, "--time-format %y%m%d%H%M"),
    ],
)
def test_counts_of_something_else_than_seconds_are_not_taken_for_seconds(first: float, step: float, hint: str) -> None:
    with pytest.raises(ReaderError, match="cannot be told") as refused:
        told_by_rows([first + step * at for at in range(20)], "t", "rows.csv")
    assert hint in str(refused.value)


def test_counts_from_nought_and_single_small_numbers_are_seconds() -> None:
    for numbers in ([60.0 * at for at in range(50)], [500.0 + at for at in range(50)], [1_000_000.0]):
        assert told_by_rows(numbers, "t", "rows.csv") == "s"
    assert told_by_rows([1_711_102_030.0 + 3600 * at for at in range(20)], "t", "rows.csv") == "s"


def test_a_decimal_comma_is_that_of_times_that_are_numbers_too() -> None:
    cells = [f"{45_197 + at / 24}".replace(".", ",") for at in range(24)]
    rule, _ = rule_of_rows(cells, ReaderOptions("y", decimal=","), "t", "rows.csv")
    assert rule.read("45197,5") == 1_695_902_400_000
    assert rule.read("2023-09-28T12:00:00,5") == 1_695_902_400_500


@pytest.mark.parametrize("wild", ["1e308", "-1e308", "1e20"])
def test_a_number_that_is_no_time_in_any_unit_is_refused_alone(wild: str) -> None:
    cells = [*(str(1_700_000_000 + n) for n in range(30)), wild]
    data = "t,a,y\n" + "".join(f"{cell},{n},{'pq'[n % 2]}\n" for n, cell in enumerate(cells))
    rows = read(data.encode(), ReaderOptions("y", time="t"))
    assert (len(rows.labels), list(rows.reasons)) == (30, [32])
