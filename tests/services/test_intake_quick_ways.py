"""What is read quickly, many records at once, is what is read of each by itself, to the last reason of a refusal."""

from __future__ import annotations

import json
import math
from typing import Any
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from deltaplane.log.records import DeadLetter
from deltaplane_services.intake.formats import json_objects
from deltaplane_services.intake.formats.change import BadRecord
from deltaplane_services.intake.formats.json_objects import parsed
from deltaplane_services.intake.paths import at_path, columns_at
from deltaplane_services.intake.reading import RecordReader
from deltaplane_services.intake.row_cells import as_texts, from_texts
from services.intake_shop import DAY, FIRST_TIME, SHOP, payment, record, shop

NOW = FIRST_TIME + 400 * DAY

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.integers(-(10**30), 10**30)
VALUES = st.recursive(PLAIN, lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text(), of, max_size=3))


def outcome(data: bytes) -> tuple[str, Any]:
    """What is read, as text, so that numbers that are none are equal; or the reason for the refusal."""
    try:
        value = parsed(data)
    except BadRecord as fault:
        return "refused", str(fault)
    return "read", repr(value)


@given(value=VALUES, cut=st.integers(0, 40), put=st.binary(max_size=2), ascii_alone=st.booleans())
@example(value={"a": 10**1200}, cut=0, put=b"", ascii_alone=True)
@example(value=["x" * 700, 10**999], cut=0, put=b"", ascii_alone=True)
@example(value=2**64, cut=0, put=b"", ascii_alone=True)
@example(value=-(2**63) - 1, cut=0, put=b"", ascii_alone=True)
def test_json_that_is_read_quickly_is_read_as_by_the_slow_way(
    value: Any, cut: int, put: bytes, *, ascii_alone: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_alone).encode("utf-8", "surrogatepass")
    for data in (text, text[:cut] + put + text[cut:], text[:cut] + put + text[cut + 1 :]):
        quickly = outcome(data)
        with mock.patch.object(json_objects, "_may_have_long_numbers", return_value=True):
            assert outcome(data) == quickly


@given(value=st.sampled_from(["1e400", "-1e400", '"\\ud800"', "-0", "-0.0", "1E5", "0.1e-400", "1" * 1001, "1" * 4400]))
def test_numbers_and_texts_that_the_quick_way_has_no_room_for_are_read_by_the_slow_one(value: str) -> None:
    data = f'{{"a": {value}}}'.encode()
    quickly = outcome(data)
    with mock.patch.object(json_objects, "_may_have_long_numbers", return_value=True):
        assert outcome(data) == quickly


PATHS = [("a",), ("b", "c"), ("b", "c", "d"), ("b", "0"), ("e",), ("b", "c")]


@given(
    rows=st.lists(
        st.dictionaries(
            st.sampled_from("abe"),
            PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.sampled_from("cd"), VALUES, max_size=2),
        ),
        max_size=5,
    )
)
def test_what_lies_at_the_paths_of_many_rows_is_what_lies_at_those_of_each(rows: list[Any]) -> None:
    columns = columns_at(PATHS)(rows)
    assert [list(column) for column in columns] == [[at_path(row, path) for row in rows] for path in PATHS]


ODD_IDS = ["", "ä", None, 17, True, "x" * 300, ["a"]]
ODD_TIMES = [None, "soon", "2023-11-14T00:00:00Z", True, FIRST_TIME + 0.5, 10**400, FIRST_TIME + 40_000 * DAY]
ODD_LABELS = ["fraud ", "never heard of", None, 1, True, ["fraud"], ""]
EVENTS = st.builds(
    lambda ref, time, amount, country, kind: payment(ref, time, amount, country, kind=kind),
    st.sampled_from(["a", "b-2", *ODD_IDS]),
    st.sampled_from([FIRST_TIME, FIRST_TIME + 1, *ODD_TIMES]),
    st.sampled_from([12.5, 7, "19.5", None, "many", 1e300, 3_000.0, [1]]),
    st.sampled_from(["DE", None, 5, "y" * 70_000]),
    st.sampled_from(["fraud", "ok", *ODD_LABELS]),
)


@given(values=st.lists(EVENTS, max_size=5))
def test_events_that_are_looked_at_together_are_the_items_and_letters_of_each_by_itself(values: list[bytes]) -> None:
    intake = {"labels": None, "label": "tx.kind"}
    records = [record("payments", 0, at, value) for at, value in enumerate(values)]
    plain = [payment(f"p-{at}", FIRST_TIME, kind="ok" if at else "fraud") for at in range(2)]

    def found() -> Any:
        reader = RecordReader(*shop(intake))
        # It has met these labels before, as it has almost always.
        reader.read([record("payments", 0, 0, value) for value in plain], NOW)
        return reader.read(records, NOW)

    together = found()
    with mock.patch.object(RecordReader, "_plain_events", return_value=None):
        alone = found()
    assert list(together.items) == list(alone.items)
    for one, other in zip(together.refused, alone.refused, strict=True):
        assert (one.record, one.letters()) == (other.record, other.letters())


def test_a_number_outside_of_the_grid_is_a_letter_that_holds_the_users_record_and_can_come_back() -> None:
    value = payment("a", FIRST_TIME, 3_000.0)
    found = RecordReader(*shop()).read([record("payments", 0, 0, value)], NOW)
    (letter,) = (one.message for refused in found.refused for one in refused.letters())
    assert isinstance(letter, DeadLetter)
    assert (letter.kind, letter.value, letter.row) == ("bad value", value, None)
    assert letter.reason.startswith("feature 'amount' is 3000.0, outside the grid's range (-1024, 1024)")
    wider = {"steps": [2.0**-10] * len(SHOP["grid"]["steps"])}
    found = RecordReader(*shop(grid=wider)).read([record("payments", 0, 0, value)], NOW)
    assert [item.id for item in found.items] == ["a"]


def test_numbers_that_json_does_not_have_come_out_of_the_store_as_they_went_in() -> None:
    rows: list[list[Any]] = [[math.inf, None, "null"], [-math.inf, 2**70, "\ud800"], [1e16, 5e-324, True]]
    assert from_texts(as_texts(rows)) == rows
    assert from_texts(as_texts(rows[:1])) == rows[:1]
    (row,) = from_texts(as_texts([[math.nan]]))
    assert math.isnan(row[0])
