"""Which rule a column gets from its first rows, in words; what people say goes before; leakage is pointed out."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from deltaplane.columns.cells import MISSING
from deltaplane.columns.inference import Decision, Overrides, infer
from deltaplane.columns.rules import BooleanRule, CategoryRule, HashedRule, NumberRule, TimeRule
from deltaplane.errors import DefinitionError
from mixed_table import mixed_table

ROWS = 100
FILLER = [float(at % 7) for at in range(ROWS)]


def decided(cells: list[Any], column: str = "c", **overrides: tuple[str, ...]) -> Decision:
    table = {column: cells, "filler": (FILLER * len(cells))[: len(cells)]}
    return infer(table, None, Overrides(**overrides)).decisions[0]


def test_a_made_table_is_decided_column_by_column_with_a_reason() -> None:
    table, labels = mixed_table(1000, 0)
    inferred = infer(table, labels)
    gone = {name: f"{cells.count(None)} missing, with a feature for it" for name, cells in table.items()}
    middle = {
        name: sorted(cell for cell in table[name] if cell is not None)[(999 - table[name].count(None)) // 2]
        for name in ("amount", "account_age_days")
    }
    texts = len(set(table["merchant"]))
    assert {one.column: one.reason for one in inferred.decisions} == {
        "tx_id": "left out, unique in every row",
        "row": "left out, unique in every row",
        "amount": "number, by its logarithm: few are far larger than the others;"
        f" the median, {middle['amount']:g}, where missing; {gone['amount']}",
        "account_age_days": f"number; the median, {middle['account_age_days']}, where missing;"
        f" {gone['account_age_days']}",
        "country": f"category, 12 levels and other; {gone['country']}",
        "channel": "category, 4 levels and other",
        "merchant": f"left out, {texts} different texts in 1,000 rows",
        "known_device": f"boolean, no or yes; {gone['known_device']}",
        "chip": "boolean, false or true",
        "time": "time in UTC: hour, weekday, days",
        "currency": "left out, 'EUR' in every row",
    }
    assert not any(one.warning for one in inferred.decisions)
    assert inferred.refused_rows == 0
    encoded = inferred.encoder.encode(table)
    assert inferred.grid.quantize(encoded.features)[1].all()
    assert dict(zip(inferred.encoder.features, inferred.grid.steps, strict=True))["country=DE"] == 1.0


def test_the_same_rows_in_another_order_are_decided_alike() -> None:
    table, labels = mixed_table(500, 1)
    del table["row"]  # That its numbers run in order is what it is left out for.
    order = np.random.default_rng(0).permutation(500)
    shuffled = {name: [cells[row] for row in order] for name, cells in table.items()}
    one, other = infer(table, labels), infer(shuffled, [labels[row] for row in order])
    assert (one.encoder, one.decisions, one.grid) == (other.encoder, other.decisions, other.grid)


@pytest.mark.parametrize(
    ("cells", "rule"),
    [
        ([True, False] * 50, BooleanRule("c", "fill", fill=False)),
        (["Y", "n", "y", None] * 25, BooleanRule("c", fill=True)),
        ([0, 1] * 50, NumberRule("c", "fill", fill=0.0)),
        (["t", "?"] * 50, CategoryRule("c", levels=("t",))),
        (["01", "02"] * 50, CategoryRule("c", "fill", levels=("01", "02"))),
        ([5411.0, 5812.0, float("nan"), 7] * 25, NumberRule("c", fill=5411.0)),
        (["1.5", "x", "2.5", "2"] * 25, CategoryRule("c", "fill", levels=("1.5", "2", "2.5", "x"))),
        (
            [date(2026, 1, 1) + timedelta(days=at) for at in range(100)],
            TimeRule("c", "fill", parts=("weekday", "days")),
        ),
        (["2026-11-29T06:00", "2026-11-29 18:00"] * 50, TimeRule("c", "fill", parts=("hour",))),
        ([f"m{at // 2}" for at in range(600)], HashedRule("c", "fill", 32)),
        ([1.5 + at for at in range(100)], NumberRule("c", "fill", fill=50.5)),
        (np.array([1, 10, 100_000_000] * 30 + [1] * 10), NumberRule("c", "fill", fill=10.0, log=True)),
    ],
)
def test_a_column_gets_the_rule_of_its_kind(cells: Any, rule: Any) -> None:
    found = decided(cells).rule
    if isinstance(found, TimeRule):
        rule = TimeRule("c", rule.missing, rule.parts, 0, found.fill)
    assert found == rule


@pytest.mark.parametrize(
    ("cells", "column", "reason"),
    [
        ([f"u{at}" for at in range(ROWS)], "c", "left out, unique in every row"),
        (list(range(5, 105)), "c", "left out, unique in every row"),
        ([(at * 37) % 101 for at in range(ROWS)], "user_id", "left out, unique in every row"),
        (["x"] * ROWS, "c", "left out, 'x' in every row"),
        ([None, "", "NA", float("nan")] * 25, "c", "left out, missing in every row"),
    ],
)
def test_a_column_that_says_nothing_is_left_out(cells: list[Any], column: str, reason: str) -> None:
    assert decided(cells, column).reason == reason
    assert decided(cells, column).rule is None


def test_whole_numbers_that_are_unique_and_no_id_stay_numbers() -> None:
    assert decided([(at * 37) % 101 for at in range(ROWS)], "salary").reason == "number"


def test_a_number_that_may_be_a_code_says_so_and_a_word_makes_it_a_category() -> None:
    cells = [5000 + at % 12 for at in range(ROWS)]
    assert decided(cells).reason == "number, whole, 12 levels: say category if it is one"
    assert decided(cells, category=("c",)).rule == CategoryRule("c", "fill", tuple(map(str, range(5000, 5012))))
    assert decided(cells, number=("c",)).reason == "number"


def test_few_texts_among_numbers_are_told_of_and_can_be_declared_missing() -> None:
    cells = [*(f"{at}.5" for at in range(97)), "unknown", "unknown", "unknown"]
    found = decided(cells)
    assert isinstance(found.rule, NumberRule)
    assert found.warning == "3 rows are no numbers and are refused, such as 'unknown': is it a missing value?"
    assert infer({"c": cells}).refused_rows == 3
    declared = decided(cells, missing=("unknown",))
    assert (declared.rule, declared.warning) == (NumberRule("c", "indicator", fill=48.5), "")
    assert infer({"c": cells}, None, Overrides(missing=("unknown",))).refused_rows == 0


def test_null_in_brackets_among_the_first_rows_is_missing_and_the_rules_say_so() -> None:
    cells = [*(f"{at}.5" for at in range(97)), "<null>", "<null>", "<null>"]
    found = infer({"c": cells})
    assert found.decisions[0].rule == NumberRule("c", "indicator", fill=48.5)
    assert (found.refused_rows, found.encoder.missing) == (0, (*MISSING, "<null>"))
    beside: dict[str, list[Any]] = {"c": cells, "other": FILLER}
    assert infer(beside, None, Overrides(ignore=("c",))).encoder.missing == MISSING
    assert infer({"other": FILLER}).encoder.missing == MISSING
    told = infer({"c": cells}, None, Overrides(missing=("<null>",)))
    assert told.encoder.missing == (*MISSING, "<null>")


def test_rows_are_refused_where_a_value_is_missing_if_somebody_says_so() -> None:
    found = decided([1.0, 2.0, None, 4.0] * 25, refuse=("c",))
    assert found.reason == "number; 25 rows are missing it, and are refused"
    assert infer({"c": [1.0, None] * 50}, None, Overrides(refuse=("c",))).refused_rows == 50


def test_columns_are_left_out_or_taken_in_as_somebody_says() -> None:
    table: dict[str, list[Any]] = {"a": FILLER, "b": FILLER, "tx": [f"t{at}" for at in range(ROWS)]}
    assert infer(table, None, Overrides(ignore=("a",))).encoder.columns == ("b",)
    assert infer(table, None, Overrides(features=("b", "tx"))).encoder.columns == ("b", "tx")


def test_a_column_that_alone_gives_the_label_is_pointed_out() -> None:
    labels = ["fraud" if at % 10 == 0 else "ok" for at in range(ROWS)]
    table: dict[str, list[Any]] = {
        "reviewed": ["yes" if label == "fraud" else "no" for label in labels],
        "loss": [at + 1.5 if label == "fraud" else -0.5 - at for at, label in enumerate(labels)],
        "honest": [at % 3 for at in range(ROWS)],
    }
    warned = {one.column: one.warning for one in infer(table, labels).decisions if one.warning}
    assert warned.keys() == {"reviewed", "loss"}
    assert warned["loss"].startswith("alone gives the label in all 100 rows")


def test_many_texts_of_many_levels_share_the_features_there_may_be() -> None:
    table = {f"t{number}": [f"{number} {at // 2}" for at in range(600)] for number in range(40)}
    inferred = infer(table)
    assert len(inferred.encoder.features) == 40 * 16
    assert inferred.decisions[0].reason == "text, 300 levels, hashed into 16 buckets"


@pytest.mark.parametrize(("rare", "buckets"), [(5, 32), (40, 32), (100, 64), (300, 256)])
def test_a_text_has_as_many_buckets_as_the_rarest_class_has_rows(rare: int, buckets: int) -> None:
    labels = ["fraud" if at < rare else "ok" for at in range(600)]
    rule = infer({"c": [f"m{at // 2}" for at in range(600)]}, labels).encoder.rules[0]
    assert isinstance(rule, HashedRule)
    assert rule.buckets == buckets


def test_a_word_about_a_column_that_is_not_there_or_leaves_none_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"ignore: there is no column 'd'; there are c"):
        infer({"c": FILLER}, None, Overrides(ignore=("d",)))
    with pytest.raises(DefinitionError, match=r"no column is left.*c: left out, as you said"):
        infer({"c": FILLER}, None, Overrides(ignore=("c",)))
    with pytest.raises(DefinitionError, match=r"a category and a number"):
        infer({"c": FILLER}, None, Overrides(category=("c",), number=("c",)))
    with pytest.raises(DefinitionError, match=r"column 'c' has none, but 'x'"):
        infer({"c": ["x", "y"]}, None, Overrides(number=("c",)))


@pytest.mark.parametrize("mark", ["-", "\\N", "Na", "nil", "#DIV/0!", "-1.#IND", "-nan", "Missing", "(null)"])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_a_usual_mark_among_numbers_is_missing_however_often_it_comes(mark: str, share: float) -> None:
    cells = [mark if at < share * ROWS else f"{at}.5" for at in range(ROWS)]
    found = decided(cells)
    assert isinstance(found.rule, NumberRule)
    assert found.rule.missing == "indicator"
    assert infer({"c": cells}).refused_rows == 0
    if mark != "-nan":
        assert found.reason.endswith(f"{mark!r} taken for missing")


def test_a_usual_mark_among_texts_is_a_level_and_one_among_dates_is_missing() -> None:
    assert decided(["a", "b", "-", "none"] * 25).rule == CategoryRule("c", "fill", ("-", "a", "b", "none"))
    dates = [f"2026-03-{at % 28 + 1:02}" if at % 5 else "NaT" for at in range(ROWS)]
    assert isinstance(decided(dates).rule, TimeRule)


def test_a_few_words_that_come_again_among_many_numbers_do_not_make_texts_of_them() -> None:
    cells = ["to be told" if at % 4 == 0 else f"{at}.5" for at in range(ROWS)]
    found = decided(cells)
    assert isinstance(found.rule, NumberRule)
    assert found.warning == "25 rows are no numbers and are refused, such as 'to be told': is it a missing value?"
    flats = [f"{at % 30}{'A' if at % 4 == 0 else ''}" for at in range(ROWS)]
    assert isinstance(decided(flats).rule, CategoryRule)


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        ([f"{1 + n % 12:02}/{1 + n % 28:02}/2023" for n in range(336)], "dates, such as '01/01/2023'"),
        ([f"{1 + n % 28}.{1 + n % 12}.23 14:0{n % 10} Uhr" for n in range(ROWS)], "dates, such as '1.1.23 14:00 Uhr'"),
        ([f"2023/{1 + n % 12}/{1 + n % 28}" for n in range(ROWS)], "dates, such as '2023/1/1'"),
        ([f"{n % 24:02}:{n % 60:02}" for n in range(ROWS)], "times of day or durations, such as '00:00'"),
        ([f"{1 + n % 12}:{n % 60:02}:07 pm" for n in range(ROWS)], "times of day or durations, such as '1:00:07 pm'"),
        ([f"{n / 4} km" for n in range(ROWS)], "numbers with a unit, such as '0.0 km'"),
        ([f"{n - 9}°C" for n in range(ROWS)], "numbers with a unit, such as '-9°C'"),
        ([f"{n}{'kKM'[n % 3]}" for n in range(ROWS)], "numbers with a unit, such as '0k'"),
        ([f"{n}m" for n in range(95)] + ["short"] * 5, "numbers with a unit, such as '0m'"),
    ],
)
def test_texts_that_are_numbers_or_times_in_another_form_are_pointed_out(cells: list[str], what: str) -> None:
    found = decided(cells)
    assert not isinstance(found.rule, NumberRule | TimeRule)
    assert found.warning.startswith(f"looks like {what}: written ")
    assert decided(cells, category=("c",)).warning == ""
    assert decided(cells, ignore=("c",)).warning == ""
    with pytest.raises(DefinitionError, match=r"no column is left .*looks like"):
        infer({"c": [f"{n}:00" for n in range(ROWS)]})


@pytest.mark.parametrize(
    "cells",
    [
        [f"{1 + n // 6}{'ABCDEF'[n % 6]}" for n in range(ROWS)],  # Seats.
        [f"{n}-{n}" for n in range(ROWS)],
        [f"10.{n % 50}.0.{n % 7}" for n in range(ROWS)],  # Addresses.
        [f"{n % 3}h" for n in range(ROWS)],  # Few enough to be levels.
        [f"v{n}" for n in range(ROWS)],
        [f"{n:x}" for n in range(ROWS)],
        [f"{n}m" for n in range(80)] + [f"word {n}" for n in range(20)],
    ],
)
def test_codes_and_a_few_levels_are_left_in_peace(cells: list[str]) -> None:
    assert decided(cells).warning == ""
