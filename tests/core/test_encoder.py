"""What each rule makes of its cells, what is refused and how, and which encoders cannot be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import pytest

from column_rows import ENCODER, GOOD
from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import (
    BooleanRule,
    CategoryRule,
    ColumnRule,
    HashedRule,
    NumberRule,
    SubjectRule,
    TimeRule,
)
from deltaplane.errors import DefinitionError, TableMismatch


def encoded(rule: ColumnRule, *cells: Any) -> list[dict[str, float]]:
    found = Encoder((rule,)).encode({rule.column: list(cells)})
    assert not found.refused, found.refused
    return [dict(zip(rule.features, row, strict=True)) for row in found.features.tolist()]


def reason(rule: ColumnRule, cell: Any) -> str:
    (refused,) = Encoder((rule,)).encode({rule.column: [cell]}).refused
    return refused.reason


def test_a_number_is_itself_however_it_is_written() -> None:
    cells = [12, 12.0, "12", " 12.0 ", "1.2e1", Decimal("12.00"), np.float32(12), np.int8(12)]
    assert encoded(NumberRule("a", "fill"), *cells) == [{"a": 12.0}] * len(cells)


def test_a_missing_number_is_filled_in_and_says_so() -> None:
    cells = [None, float("nan"), "", " ? ", "NA", "nan", np.datetime64("NaT")]
    assert encoded(NumberRule("a", fill=7.5), *cells) == [{"a": 7.5, "a missing": 1.0}] * len(cells)
    assert encoded(NumberRule("a", fill=7.5), 1) == [{"a": 1.0, "a missing": 0.0}]


def test_a_number_that_is_declared_missing_is_so_in_an_array_a_list_and_a_text() -> None:
    encoder = Encoder((NumberRule("a", fill=1.0),), ("", "-999"))
    for cells in (np.array([-999.0, 2]), [-999, 2], ["-999", "2"], ["-999.0", "2"], np.array([-999, 2])):
        assert encoder.encode({"a": cells}).features.tolist() == [[1.0, 1.0], [2.0, 0.0]]
    codes = Encoder((CategoryRule("a", levels=("2",)),), ("", "-999"))
    for cells in (np.array([-999.0, 2]), [-999, 2], ["-999", "2"]):
        assert codes.encode({"a": cells}).features.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


def test_a_logarithm_is_taken_of_the_fill_too() -> None:
    (there, missing) = encoded(NumberRule("a", fill=-1.0, log=True), 1.0, None)
    assert there["a"] == -missing["a"] == pytest.approx(np.log(2.0), abs=2**-33)


def test_words_of_truth_are_taken_in_any_case() -> None:
    rule = BooleanRule("b", fill=True)
    cell: Any
    for cell in ("TRUE", "Yes", "y", "T", "1", 1, 1.0, True, np.True_, None):
        assert encoded(rule, cell)[0]["b"] == 1.0
    for cell in ("false", "NO", "n", "f", "0", 0, 0.0, False, np.False_):
        assert encoded(rule, cell)[0]["b"] == 0.0


def test_a_level_has_a_feature_and_what_is_unseen_is_other_and_never_refused() -> None:
    rule = CategoryRule("c", levels=("DE", "5411"))
    de, code, other, missing = encoded(rule, " DE", 5411.0, "XX", None)
    assert de == {"c=DE": 1, "c=5411": 0, "c other": 0, "c missing": 0}
    assert code == {"c=DE": 0, "c=5411": 1, "c other": 0, "c missing": 0}
    assert other == {"c=DE": 0, "c=5411": 0, "c other": 1, "c missing": 0}
    assert missing == {"c=DE": 0, "c=5411": 0, "c other": 0, "c missing": 1}
    assert encoded(CategoryRule("c", "fill", levels=("DE",)), None) == [{"c=DE": 0, "c other": 1}]


def test_a_hashed_text_falls_into_one_bucket_and_a_missing_one_into_none() -> None:
    rule = HashedRule("h", buckets=5)
    (one, again, missing) = encoded(rule, "corner shop", "corner shop ", None)
    assert one == again
    assert sum(one.values()) == 1.0
    assert missing == dict.fromkeys(rule.own_features, 0.0) | {"h missing": 1.0}


def test_a_time_is_points_of_circles_and_days() -> None:
    (monday,) = encoded(TimeRule("t", "fill"), "2024-01-01T06:00:00Z")  # A Monday, a quarter through the day.
    assert monday == {
        "t hour sine": 1.0,
        "t hour cosine": 0.0,
        "t weekday sine": 0.0,
        "t weekday cosine": 1.0,
        "t day of year sine": 0.0,
        "t day of year cosine": 1.0,
        "t days": 19723.25,
    }


@pytest.mark.parametrize(
    "cell",
    [
        "2026-11-29T18:00:00Z",
        "2026-11-29 19:00",
        "2026-11-29T13:00:00-05:00",
        1795975200,
        1795975200.0,
        "1795975200",
        datetime(2026, 11, 29, 19),  # noqa: DTZ001 - it has no zone, and so has that of the rule.
        datetime(2026, 11, 29, 18, tzinfo=UTC),
        datetime(2026, 11, 29, 20, tzinfo=timezone(timedelta(hours=2))),
        np.datetime64("2026-11-29T19:00"),
        np.datetime64("2026-11-29T19:00:00.000000000"),
    ],
)
def test_one_time_is_the_same_however_it_is_written_and_without_a_zone_it_has_that_of_the_rule(cell: Any) -> None:
    rule = TimeRule("t", "fill", parts=("hour", "days"), zone_minutes=60)
    assert encoded(rule, cell) == encoded(rule, "2026-11-29T18:00:00+00:00")


def test_a_date_is_its_midnight_in_the_zone_of_the_rule() -> None:
    rule = TimeRule("t", "fill", parts=("days",), zone_minutes=-300)
    cells = [date(2026, 11, 29), "2026-11-29", np.datetime64("2026-11-29")]
    assert encoded(rule, *cells) == [{"t days": 20786.0}] * 3


def test_parts_of_milliseconds_are_rounded_alike_in_texts_datetimes_and_arrays() -> None:
    rule = TimeRule("t", "fill", parts=("days",))
    for micros in (500, 1500, 1501, 999_500):
        at = datetime(1969, 12, 31, 23, 59, 59, micros)  # noqa: DTZ001 - as above.
        assert len({row["t days"] for row in encoded(rule, at, at.isoformat(), np.datetime64(at))}) == 1


@pytest.mark.parametrize(
    ("rule", "cell", "said"),
    [
        (NumberRule("a"), "1,234.5", "column 'a' is no number: '1,234.5'; correct the value, count it among"),
        (NumberRule("a"), "1_000", "is no number"),
        (NumberRule("a"), "٣", "is no number"),
        (NumberRule("a"), True, "is no number"),
        (NumberRule("a"), "1e999", "is infinite"),
        (NumberRule("a"), 10**400, "is a number beyond"),
        (NumberRule("a", "refuse"), None, "column 'a' is missing"),
        (BooleanRule("a"), "maybe", "is neither true nor false"),
        (BooleanRule("a"), 2, "is neither true nor false"),
        (CategoryRule("a", levels=("x",)), "y" * 201, "is a text of 201 bytes, and may have 200"),
        (CategoryRule("a", levels=("x",)), ["x"], "is no text: ['x']"),
        (CategoryRule("a", levels=("x",)), "\ud800", "is no Unicode text"),
        (HashedRule("a"), "y" * 4097, "is a text of 4097 bytes"),
        (TimeRule("a"), "2026-02-30", "names a day that does not exist: '2026-02-30'; write it as 2026-11-29 or"),
        (TimeRule("a"), "2026-02-03T25:00", "names an hour"),
        (TimeRule("a"), "next week", "is no time"),
        (TimeRule("a"), 1e17, "is a time outside the years 1 to 9999"),
    ],
)
def test_what_cannot_be_read_is_refused_with_column_value_and_cure(rule: ColumnRule, cell: Any, said: str) -> None:
    assert said in reason(rule, cell)


def test_one_bad_row_costs_no_other() -> None:
    found = ENCODER.encode_records([GOOD, {**GOOD, "begun": "soon", "kind": None}, GOOD])
    assert found.fits.tolist() == [True, False, True]
    ((row, column),) = [(one.row, one.column) for one in found.refused]
    assert (row, column) == (1, "kind")  # The first of its cells, in the order of the rules.
    assert np.isfinite(found.features[[0, 2]]).all()
    assert np.isnan(found.features[1]).all()


def test_an_unknown_column_refuses_its_record_and_names_the_nearest() -> None:
    found = ENCODER.encode_records([GOOD, {**GOOD, "contry": "DE"}])
    assert found.fits.tolist() == [True, False]
    assert found.refused[0].reason.endswith("did you mean 'country'?")


def test_a_table_without_a_column_or_with_columns_of_different_lengths_is_no_table() -> None:
    with pytest.raises(TableMismatch, match=r"no column 'amount'.*did you mean 'Amount'"):
        ENCODER.encode({"Amount": [1]})
    columns: dict[str, list[Any]] = {name: [GOOD[name]] for name in ENCODER.columns}
    with pytest.raises(TableMismatch, match=r"1 cells in column 'amount' and 2 in 'kind'"):
        ENCODER.encode({**columns, "kind": ["a", "a"]})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: NumberRule(""), "name of a column"),
        (lambda: NumberRule("a", fill=float("nan")), "fill: expected a finite number"),
        (lambda: NumberRule("a", "drop"), "expected indicator, fill or refuse"),  # type: ignore[arg-type]
        (lambda: BooleanRule("a", fill=1), "expected true or false"),  # type: ignore[arg-type]
        (lambda: CategoryRule("a"), "expected 1 to 1000 levels, got 0"),
        (lambda: CategoryRule("a", levels=tuple(map(str, range(1001)))), "got 1001; make the column hashed"),
        (lambda: CategoryRule("a", levels=("x", "x")), "got one twice"),
        (lambda: CategoryRule("a", levels=("x" * 201,)), "texts of 1 to 200 bytes"),
        (lambda: HashedRule("a", buckets=1), "expected 2 to 1024"),
        (lambda: HashedRule("a", hashed_by="crc32"), "expected blake2b-64"),
        (lambda: TimeRule("a", parts=("month",)), "expected some of hour"),
        (lambda: TimeRule("a", zone_minutes=2000), "from -1080 to 1080"),
        (lambda: TimeRule("a", fill=1e15), "outside the years"),
        (lambda: Encoder(()), "expected 1 to 2000 columns, got 0"),
        (lambda: Encoder((NumberRule("a"), NumberRule("a"))), "two would have the column 'a'"),
        (lambda: Encoder((NumberRule("a"), NumberRule("a missing"))), "two would have the feature 'a missing'"),
        (lambda: Encoder((HashedRule("a", buckets=1024), HashedRule("b", buckets=1024))), "at most 2000 features"),
        (lambda: Encoder((CategoryRule("a" * 200, levels=("x" * 100,)),)), "more than 256 bytes"),
        (lambda: Encoder((NumberRule("a"),), (" x",)), "without blanks"),
        (lambda: Encoder((NumberRule("a"),), ("x", "x")), "texts that differ"),
    ],
)
def test_an_encoder_that_cannot_be_used_is_refused_when_it_is_defined(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        make()


def test_a_column_without_a_rule_is_compared_with_few_others() -> None:
    rules = tuple(NumberRule(f"column number {at:04}", "fill") for at in range(2000))
    with mock.patch("deltaplane.columns.encoder.difflib.get_close_matches", return_value=[]) as compared:
        assert Encoder(rules).without_rule("x" * 10_000_000).endswith("has no rule in columns.rules; leave it out")
        assert not compared.called
        Encoder(rules).without_rule("columm number 0008")
        assert len(compared.call_args.args[1]) <= 32


def test_a_subject_is_no_feature_and_changes_none() -> None:
    rules = (NumberRule("a", "fill"), SubjectRule("customer"), BooleanRule("b", "fill"))
    table: dict[str, Any] = {"a": [1, 2, 3], "customer": ["c1", 17, None], "b": [True, False, True]}
    found, without = Encoder(rules).encode(table), Encoder((rules[0], rules[2])).encode(table)
    assert Encoder(rules).features == ("a", "b")
    assert not found.refused
    assert found.features.tolist() == without.features.tolist()


def test_a_subject_may_be_asked_for_and_has_no_indicator() -> None:
    assert "is missing" in reason(SubjectRule("customer", "refuse"), None)
    with pytest.raises(DefinitionError, match="missing: expected fill or refuse, since a subject has no feature"):
        SubjectRule("customer", "indicator")
