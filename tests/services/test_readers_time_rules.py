"""What the times of a file are: told by its first rows, declared, or refused; the same integers from every format."""

from __future__ import annotations

import io
import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.readers import ReaderError, ReaderOptions, open_rows
from deltaplane_services.readers.time_format import TimeFormat
from deltaplane_services.readers.time_rule import TimeRule, declared_rule
from deltaplane_services.readers.time_zone import LocalZone
from services.readers_samples import Rows, read

HOUR = 3_600_000
START = 1_696_118_400_000
"""2023-10-01, in milliseconds."""

HOURS = [START + HOUR * row for row in range(400)]


def csv_of(times: list[str]) -> bytes:
    return ("t,a,y\n" + "".join(f"{time},{row % 7},{row % 2}\n" for row, time in enumerate(times))).encode()


def arff_of(times: list[str], kind: str = "numeric") -> bytes:
    rows = "".join(f"'{time}',{row % 7},{row % 2}\n" for row, time in enumerate(times))
    return f"@relation r\n@attribute t {kind}\n@attribute a numeric\n@attribute y {{0,1}}\n@data\n{rows}".encode()


def parquet_of(times: pa.Array) -> bytes:
    rows = range(len(times))
    out = io.BytesIO()
    table = pa.table({"t": times, "a": [float(row % 7) for row in rows], "y": [row % 2 for row in rows]})
    pq.write_table(table, out, version="2.6")
    return out.getvalue()


def options(**more: Any) -> ReaderOptions:
    return ReaderOptions("y", time="t", **more)


def spelled(form: str) -> list[str]:
    return [datetime.fromtimestamp(time / 1000, UTC).strftime(form) for time in HOURS]


# Numbers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_millisecond", [0.001, 1, 1000, 10**6])
def test_the_unit_of_times_is_told_by_the_first_rows_in_every_format(per_millisecond: float) -> None:
    numbers = [int(time * per_millisecond) for time in HOURS]
    texts = list(map(str, numbers))
    for data in (csv_of(texts), arff_of(texts), parquet_of(pa.array(numbers)), parquet_of(pa.array(texts))):
        assert read(data, options()).times == HOURS
    if per_millisecond <= 1000:
        assert read(parquet_of(pa.array([float(number) for number in numbers])), options()).times == HOURS


def test_the_unit_is_told_by_a_single_row_and_blocks_of_any_size_agree() -> None:
    texts = [str(time) for time in HOURS]
    assert read(csv_of(texts[:1]), options()).times == HOURS[:1]
    assert read(csv_of(texts), options(), block_bytes=100).times == HOURS


def test_days_of_a_spreadsheet_are_told_and_so_are_dates_in_digits() -> None:
    days = [f"{45_200 + row}.5" for row in range(30)]
    expected = [START + HOUR * 12 + 24 * HOUR * row for row in range(30)]
    for data in (csv_of(days), arff_of(days), parquet_of(pa.array([float(day) for day in days]))):
        assert read(data, options()).times == expected
    digits = spelled("%Y%m%d")
    midnights = [time // (24 * HOUR) * 24 * HOUR for time in HOURS]
    for data in (csv_of(digits), arff_of(digits), parquet_of(pa.array([int(date) for date in digits]))):
        assert read(data, options()).times == midnights
    assert read(csv_of([f"{date}.0" for date in digits]), options()).times == midnights
    for form in ("%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y%m%dT%H%M%SZ"):
        assert read(csv_of(spelled(form)), options()).times == HOURS


def test_what_was_told_is_said_with_the_first_time() -> None:
    with open_rows(io.BytesIO(csv_of([str(time) for time in HOURS])), options()) as reader:
        note = "the times in `t` are milliseconds since 1970 (told by the first rows); the first is 1696118400000, 2023"
        assert reader.notes == (f"{note}-10-01 00:00:00 UTC",)
    with open_rows(io.BytesIO(csv_of(["2023-10-01", "2023-10-02"])), options()) as reader:
        assert reader.notes == ()


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["2014", "2015", "2016"], "2014 may be a year (--time-format %Y)"),
        (["201401", "201402"], "201401 may be a month of a year"),
        (["638317440000000000", "638317476000000000"], "ticks of 100 nanoseconds"),
        (["123456789012", "123456789013"], "in no unit are nearly all of the first rows between 1990 and 2100"),
        (["1696118400", "1696118401000"] * 9, "Declare it with `--time-unit` (s, ms, us, ns, days)"),
    ],
)
def test_numbers_that_do_not_tell_what_they_count_are_refused_with_the_cure(times: list[str], expected: str) -> None:
    for data in (csv_of(times), parquet_of(pa.array([int(time) for time in times]))):
        with pytest.raises(ReaderError, match="--time-unit") as raised:
            open_rows(io.BytesIO(data), options())
        assert expected in str(raised.value)


def test_counts_from_nought_are_seconds_as_they_ever_were_and_any_unit_can_be_declared() -> None:
    counts = [str(60 * row) for row in range(400)]
    assert read(csv_of(counts), options()).times == [60_000 * row for row in range(400)]
    assert read(csv_of(counts), options(time_unit="ms")).times == [60 * row for row in range(400)]
    assert read(csv_of(["2014", "2015"]), options(time_unit="s")).times == [2_014_000, 2_015_000]
    assert read(csv_of(["2014", "2015"]), options(time_format="%Y")).times == [1_388_534_400_000, 1_420_070_400_000]
    assert read(csv_of(["25569.25", "0"]), options(time_unit="days")).times == [6 * HOUR, -25_569 * 24 * HOUR]


def test_a_row_in_another_unit_than_the_first_rows_is_refused_by_name_and_costs_no_other() -> None:
    texts = [str(time) for time in HOURS]
    texts[300] = "1696118400"
    rows = read(csv_of(texts), options())
    assert len(rows.times) == 399
    assert rows.reasons[302].startswith("the time '1696118400' is no time between 1990 and 2100 in milliseconds since")
    assert "--time-unit ms" in rows.reasons[302]
    assert len(read(csv_of(texts), options(time_unit="ms")).times) == 400


# Forms ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        *("%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d/%b/%Y:%H:%M:%S %z", "%B %d %Y %I:%M %p"),
        *("%m/%d/%y %I:%M:%S %p", "%Y-%j %H", "%A, %d %b %Y %T", "%F %R", "%Y%m%d%H%M%S.%f", "%Y-%m-%d %H:%M:%S %Z"),
    ],
)
def test_times_of_a_declared_form_are_the_same_integers_in_every_format(form: str) -> None:
    texts = spelled(form)
    for data in (csv_of([f'"{text}"' for text in texts]), arff_of(texts, "string"), parquet_of(pa.array(texts))):
        assert read(data, options(time_format=form)).times == HOURS


@pytest.mark.parametrize(
    ("form", "cure"),
    [
        ("%m/%d/%Y %H:%M", "`--time-format '%m/%d/%Y %H:%M'`"),
        ("%d.%m.%Y %H:%M", "`--time-format '%d.%m.%Y %H:%M'`"),
        ("%d/%m/%Y %I:%M %p", "`--time-format '%d/%m/%Y %I:%M %p'`"),
        ("%Y-%m-%d %H:%M:%S CEST", "--time-zone Europe/Berlin"),
    ],
)
def test_a_form_that_is_not_iso_is_never_guessed_and_the_message_names_those_it_may_be(form: str, cure: str) -> None:
    with pytest.raises(ReaderError, match="a form is not guessed here") as raised:
        open_rows(io.BytesIO(csv_of(spelled(form))), options())
    assert cure in str(raised.value)


def test_where_the_first_rows_may_be_days_or_months_first_both_are_named() -> None:
    with pytest.raises(ReaderError) as raised:
        open_rows(io.BytesIO(csv_of(["01/02/2023", "03/04/2023"])), options())
    assert "`--time-format '%d/%m/%Y'` or `--time-format '%m/%d/%Y'`" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "form", "reason"),
    [
        ("31.02.2023", "%d.%m.%Y", "names a day that does not exist"),
        ("366-2023", "%j-%Y", "names a day that does not exist"),
        ("1.1.2023 24:01", "%d.%m.%Y %H:%M", "names an hour, minute or second that does not exist"),
        ("1.1.2023 13:00 PM", "%d.%m.%Y %I:%M %p", "names an hour, minute or second that does not exist"),
        ("1.1.2023 x", "%d.%m.%Y", "is not of the form '%d.%m.%Y'"),
        ("1.1.2023 00:00 CST", "%d.%m.%Y %H:%M %Z", "say which with --time-zone"),
        ("1.1.2023 00:00 +2500", "%d.%m.%Y %H:%M %z", "names an offset that does not exist"),
        ("2023101", "%Y%m%d", "is not of the form"),
    ],
)
def test_a_time_that_is_not_of_the_declared_form_is_refused_with_what_it_was(text: str, form: str, reason: str) -> None:
    with pytest.raises(ValueError, match="the time") as raised:
        TimeFormat(form).read(text)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ("%d.%m", "it has no year"),
        ("%Y %q", "`%q` is no directive"),
        ("%Y %Y", "`%Y` is there twice"),
        ("%Y %d", "it has a day and no month"),
        ("%Y %m %j", "it says the month twice"),
        ("%Y-%m-%d %I", "`%I` and `%p`"),
        ("%Y%", "is no directive"),
    ],
)
def test_a_format_that_says_no_day_is_refused_before_any_row(form: str, fault: str) -> None:
    with pytest.raises(ReaderError) as raised:
        TimeFormat(form)
    assert fault in str(raised.value)


def test_a_day_may_end_at_24_hours() -> None:
    assert TimeFormat("%d.%m.%Y %H:%M").read("30.09.2023 24:00") == START
    assert read(csv_of(["2023-09-30 24:00:00", "2023-10-01 01:00:00"]), options()).times == HOURS[:2]


instants = st.datetimes(datetime(1905, 1, 1), datetime(2095, 1, 1))  # noqa: DTZ001 - local times
fixed_forms = st.sampled_from(
    ["%Y%m%d", "%d.%m.%Y %H:%M", "%m/%d/%y", "%Y-%m-%d %H:%M:%S.%f", "%Y%m%d%H%M%S", "%H:%M %d/%m/%Y"]
)
zones = st.sampled_from([None, "UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca"])
odd_text = st.sampled_from(["", "31022023", "99.99.2023 00:00", "20231301", "20231001", "1.1.2023 00:00", "x" * 16])


@given(st.lists(instants, min_size=1, max_size=20), fixed_forms, zones, st.none() | odd_text, st.integers(0, 6))
def test_a_column_of_a_form_reads_as_its_cells_do(
    moments: list[datetime], form: str, zone: str | None, odd: str | None, cut: int
) -> None:
    texts = [moment.strftime(form)[: -cut if form.endswith("%f") and cut else None] for moment in moments]
    texts = [text for text in texts if not text.endswith(".")] + ([] if odd is None else [odd])
    rule = declared_rule(ReaderOptions("y", time="t", time_format=form, time_zone=zone))
    assert rule is not None
    together = rule.read_text(pa.array(texts, pa.string()))
    if together is not None:
        assert together.tolist() == [rule.read(text) for text in texts]
    sliced = rule.read_text(pa.array(["pad", *texts], pa.string()).slice(1))
    assert (sliced is None) == (together is None)


def test_ordinary_columns_of_a_form_are_read_as_a_whole() -> None:
    for form in ("%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%Y%m%d"):
        rule = declared_rule(ReaderOptions("y", time="t", time_format=form, time_zone="Europe/Berlin"))
        assert rule is not None
        assert rule.read_text(pa.array(spelled(form))) is not None


@given(
    st.sampled_from(["s", "ms", "us", "ns", "days"]),
    st.lists(
        st.one_of(
            st.integers(-(2**63), 2**63 - 1).map(str),
            st.integers(-(10**16), 10**16).map(str),
            st.floats(allow_nan=False).map(repr),
            st.floats(0, 5e15).map(repr),
            st.floats(0, 80_000).map(repr),
            st.sampled_from(["", "0x10", "1e400", "soon"]),
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_a_column_of_numbers_reads_as_its_cells_do_in_every_unit(unit: str, texts: list[str]) -> None:
    rule = declared_rule(ReaderOptions("y", time="t", time_unit=unit))
    assert isinstance(rule, TimeRule)
    together = rule.read_text(pa.array(texts, pa.string()))
    if together is not None:
        assert together.tolist() == [rule.read(text) for text in texts]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.sampled_from(["s", "ms", "us", "ns", "days"]))
def test_whole_numbers_of_a_typed_column_read_as_text_would(numbers: list[int], unit: str) -> None:
    rule = declared_rule(ReaderOptions("y", time="t", time_unit=unit))
    assert isinstance(rule, TimeRule)
    together = rule.read_numbers(pa.array(numbers, pa.int64()))
    if together is not None:
        assert together.tolist() == [rule.read(str(number)) for number in numbers]


# Zones ---------------------------------------------------------------------------------------------------------------


def test_local_times_of_a_zone_are_the_same_integers_in_every_format() -> None:
    berlin = [datetime.fromtimestamp(time / 1000, zoneinfo.ZoneInfo("Europe/Berlin")) for time in HOURS]
    texts = [moment.strftime("%Y-%m-%d %H:%M:%S") for moment in berlin]
    ticks = pa.array(np.array(texts, dtype="datetime64[us]"))
    for data in (csv_of(texts), arff_of(texts, "date 'yyyy-MM-dd HH:mm:ss'"), parquet_of(ticks)):
        assert read(data, options(time_zone="Europe/Berlin")).times == HOURS
    dates = [moment.strftime("%Y%m%d") for moment in berlin]
    midnights = [int(datetime(d.year, d.month, d.day, tzinfo=d.tzinfo).timestamp()) * 1000 for d in berlin]
    assert read(csv_of(dates), options(time_zone="Europe/Berlin")).times == midnights


def test_an_hour_that_a_zone_has_not_or_has_twice_is_refused_by_name() -> None:
    texts = ["2023-03-26 01:30:00", "2023-03-26 02:30:00", "2023-10-29 02:30:00", "2023-10-29 02:30:00+01:00"]
    expected = {
        3: "the time '2023-03-26 02:30:00' does not exist in Europe/Berlin, where clocks were put forward over it",
        4: "the time '2023-10-29 02:30:00' happened twice in Europe/Berlin, where clocks were put back over it",
    }
    rows = read(csv_of(texts), options(time_zone="Europe/Berlin"))
    assert rows.reasons == expected
    assert rows.times == [1_679_790_600_000, 1_698_543_000_000]
    ticks = pa.array(np.array(texts[:3], dtype="datetime64[ms]"))
    assert sorted(read(parquet_of(ticks), options(time_zone="Europe/Berlin")).reasons) == [2, 3]


def test_the_name_of_a_zone_tells_which_of_two_hours_it_was_and_may_be_that_of_summer_all_year() -> None:
    form = TimeFormat("%Y-%m-%d %H:%M %Z", LocalZone("Europe/Berlin"))
    assert form.read("2023-10-29 02:30 CEST") == 1_698_539_400_000
    assert form.read("2023-10-29 02:30 CET") == 1_698_543_000_000
    assert form.read("2023-12-01 02:00 CEST") == 1_701_388_800_000
    with pytest.raises(ValueError, match="is in PST, which Europe/Berlin is not called then"):
        form.read("2023-10-29 02:30 PST")


@given(st.lists(instants, min_size=1, max_size=20), zones.filter(bool))
def test_a_column_of_local_times_is_turned_as_its_cells_are(moments: list[datetime], name: str) -> None:
    zone = LocalZone(name)
    local = np.array([(moment - datetime(1970, 1, 1)) // timedelta(milliseconds=1) for moment in moments])  # noqa: DTZ001
    together = zone.to_utc_each(local)
    if together is not None:
        assert together.tolist() == [zone.to_utc(time) for time in local.tolist()]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"time_zone": "Mars/Olympus"}, "There is no time zone `Mars/Olympus`"),
        ({"time_zone": "../etc/passwd"}, "There is no time zone"),
        ({"time_zone": "Europe/Berlin"}, "which is UTC wherever they come from. Leave `--time-zone` out"),
        ({"time_unit": "ms", "time_zone": "Europe/Berlin"}, "Leave `--time-zone` out"),
    ],
)
def test_a_zone_that_is_none_or_means_nothing_is_refused(more: dict[str, str], expected: str) -> None:
    with pytest.raises(ReaderError) as raised:
        open_rows(io.BytesIO(csv_of([str(time) for time in HOURS])), options(**more))
    assert expected in str(raised.value)


def test_what_a_typed_column_says_itself_is_not_declared_again() -> None:
    data = parquet_of(pa.array(HOURS, pa.timestamp("ms", "UTC")))
    assert read(data, options()).times == HOURS
    for more in ({"time_unit": "ms"}, {"time_format": "%Y"}, {"time_zone": "Europe/Berlin"}):
        with pytest.raises(ReaderError, match="leave `--time"):
            open_rows(io.BytesIO(data), options(**more))


def test_options_of_times_need_a_column_of_times_and_go_together() -> None:
    alone: list[dict[str, Any]] = [{"time_unit": "ms"}, {"time_format": "%Y"}, {"time_zone": "UTC"}]
    for more in alone:
        with pytest.raises(ReaderError, match="name it with `--time`"):
            ReaderOptions("y", **more)
    with pytest.raises(ReaderError, match="no time unit `minutes`; choose one of s, ms, us, ns, days"):
        options(time_unit="minutes")
    with pytest.raises(ReaderError, match="or the other"):
        options(time_unit="ms", time_format="%Y")


def test_arff_dates_of_their_declared_form_are_the_same_integers() -> None:
    for java, form in (
        ("dd.MM.yyyy HH:mm", "%d.%m.%Y %H:%M"),
        ("yyyy-MM-dd'T'HH:mm:ss", "%Y-%m-%dT%H:%M:%S"),
        ("MM/dd/yy hh:mm:ss a", "%m/%d/%y %I:%M:%S %p"),
        ("EEE MMM dd HH:mm:ss Z yyyy", "%a %b %d %H:%M:%S %z %Y"),
    ):
        assert read(arff_of(spelled(form), f'date "{java}"'), options()).times == HOURS
    assert len(Rows(open_rows(io.BytesIO(arff_of(spelled("%F %T"), "date")), options())).times) == 400
