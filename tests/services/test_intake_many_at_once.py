"""What an intake does for many records at once is what it does for each of them by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaplane_services.intake.formats import json_objects
from deltaplane_services.intake.formats.change import BadRecord
from deltaplane_services.intake.formats.json_objects import MOST_DEPTH, columns_of_many, parsed
from deltaplane_services.intake.joining import IntakeProcessor
from deltaplane_services.intake.paths import at_path
from deltaplane_services.intake.reading import RecordReader
from deltaplane_services.intake.waiting_rows import WaitingRow, WaitingRows
from services.intake_shop import DAY, FIRST_TIME, chargeback, payment, record, shop

NOW = FIRST_TIME + 400 * DAY

PATHS = [("a",), ("b", "c"), ("b", "d e"), ("b", "0"), ("e", "f", "g"), ("b", "c")]
PLAIN = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=3)
VALUES = st.recursive(PLAIN, lambda of: st.lists(of, max_size=3) | st.dictionaries(st.sampled_from("abcdefg"), of))
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "a": VALUES,
        "b": st.none() | st.dictionaries(st.sampled_from(["c", "d e", "0", "x"]), VALUES) | VALUES,
        "e": st.none()
        | st.dictionaries(st.sampled_from("fg"), st.none() | st.dictionaries(st.sampled_from("gh"), PLAIN)),
        "x": VALUES,
    },
)


def each_by_itself(values: Sequence[bytes], paths: Sequence[tuple[str, ...]] = PATHS) -> str | None:
    """What lies at the paths, as text, so that what is no number is equal; None if one is refused, or no object."""
    try:
        rows = [parsed(value) for value in values]
    except BadRecord:
        return None
    if not all(isinstance(row, dict) for row in rows):
        return None
    return repr([[at_path(row, path) for row in rows] for path in paths])


def all_at_once(values: Sequence[Any], paths: Sequence[tuple[str, ...]] = PATHS) -> str | None:
    columns = columns_of_many(paths)
    assert columns is not None
    found = columns(values)
    return None if found is None else repr([list(column) for column in found])


@given(
    rows=st.lists(OBJECTS, min_size=1, max_size=20),
    cut=st.integers(0, 60),
    put=st.binary(max_size=2) | st.sampled_from([b"{}", b'"a":1,', b"\\", b"\\ud800", b"0", b"e9999", b"[[", b"]]"]),
    ascii_alone=st.booleans(),
)
@example(rows=[{"x": "ä"}], cut=8, put=b"\xff", ascii_alone=False)
@example(rows=[{"x": 10**1200, "a": 1}], cut=0, put=b"", ascii_alone=True)
@example(rows=[{"a": 1}, {"x": "y" * 1100}], cut=0, put=b"", ascii_alone=True)
def test_what_is_made_of_many_records_at_once_is_what_lies_in_each(
    rows: list[Any], cut: int, put: bytes, *, ascii_alone: bool
) -> None:
    values = [json.dumps(row, ensure_ascii=ascii_alone).encode("utf-8", "surrogatepass") for row in rows]
    first = values[0]
    for one in (first, first[:cut] + put + first[cut:], first[:cut] + put + first[cut + 1 :], first + first):
        found = all_at_once([one, *values[1:]])
        assert found is None or found == each_by_itself([one, *values[1:]])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"a": 1, "x": "\xff"}', "a text that nobody asks for is no UTF-8"),
        (b'{"a": 1, "\xc3": 2}', "a name that nobody asks for is none"),
        (b'{"a": 1, "x": [1, 2}', "brackets that do not fit"),
        (b'{"a": 1, "x": 01}', "a number with a zero before it"),
        (b'{"a": 1} {}', "two values"),
        (b'{"a": 1, "x": "\\q"}', "an escape that there is not"),
        (b'{"a": 1, "x": nan}', "a number that there is not"),
        (b'{"a": 1, "x": ' + b"[" * MOST_DEPTH + b"]" * MOST_DEPTH + b"}", "too deep"),
        (b'{"a": 1, "x": ' + b"1" * 1001 + b"}", "too many digits"),
        (b'{"a": 1, "x": "' + b"y" * 2**20 + b'"}', "too large"),
        (b"[1]", "no object"),
    ],
)
def test_a_record_that_is_refused_by_itself_is_not_taken_among_others(value: bytes, why: str) -> None:
    assert each_by_itself([value]) is None, why
    assert all_at_once([value]) is None, why
    assert all_at_once([b'{"a": 2}'] * 20 + [value] + [b'{"a": 2}'] * 20) is None, why


def test_records_as_most_are_are_taken_together_with_numbers_of_any_size_and_what_is_missing() -> None:
    values = [
        b'{"a": 18446744073709551617, "b": {"c": -0.0, "d e": "\xc3\xa4"}, "x": {"y": [{}]}}',
        b'{"b": null, "e": {"f": null}, "a": [1], "a": {"b": "twice"}}',
        b'{"e": {"f": {"g": "\\u00e4", "h": 1}, "k": {}}}',
        b'{"a": 1, "x": ' + b"[" * (MOST_DEPTH - 1) + b"]" * (MOST_DEPTH - 1) + b"}",
        b"{}",
    ]
    found = all_at_once(values)
    assert found is not None
    assert found == each_by_itself(values)
    assert all_at_once([*values, None]) is None


def test_a_path_that_goes_on_from_another_one_or_a_name_with_quotes_is_none_of_many_at_once() -> None:
    assert columns_of_many([("a",), ("a", "b")]) is None
    assert columns_of_many([('"',)]) is None or all_at_once([b'{"\\"": 1}'], [('"',)]) == "[[1]]"


EVENTS = st.lists(
    st.builds(
        lambda ref, amount, country, junk: payment(ref, FIRST_TIME, amount, country, kind="ok", junk=junk),
        st.sampled_from(["a", "b-2", "ä", 17]),
        st.sampled_from([12.5, 7, "19.5", None, 3_000.0]),
        st.sampled_from(["DE", None, 5, "ü"]),
        st.sampled_from([None, [[1]], "ß", 10**20]),
    )
    | st.sampled_from([b"", b"{}", b'{"tx": 1}', b'{"tx": null}', b"\xff", b"[]"]),
    max_size=5,
)


@given(values=EVENTS, clock=st.sampled_from([FIRST_TIME + 1, NOW]), places=st.randoms(use_true_random=False))
def test_records_that_are_read_together_are_items_letters_and_logs_as_of_each(
    values: list[bytes], clock: int, places: Any
) -> None:
    of_logs: dict[int, int] = {}
    records = []
    for value in values:
        at = places.randrange(2)
        offset = of_logs[at] = of_logs.get(at, -1) + 1 + places.randrange(2)
        records.append(record("payments", at, offset, value, FIRST_TIME + places.randrange(3)))
    intake = {"labels": None, "label": "tx.kind"}

    def found(*, together: bool) -> Any:
        reader = RecordReader(*shop(intake))
        # It has met this label before, as it has almost always.
        reader.read([record("payments", 0, 0, payment("p", FIRST_TIME, kind="ok"))], NOW)
        with mock.patch.object(RecordReader, "_read_together", RecordReader._read_together if together else _never):
            read = reader.read(records, clock)
        logs = [{place: of.tolist() for place, of in one.items()} for one in (read.offsets, read.log_times)]
        return list(read.items), read.homes.tolist(), logs, [(one.record, one.letters()) for one in read.refused]

    assert found(together=True) == found(together=False)


def test_events_as_most_are_are_read_together() -> None:
    reader = RecordReader(*shop())
    records = [record("payments", at % 2, at, payment(f"p-{at}", FIRST_TIME)) for at in range(4)]
    with (
        mock.patch.object(json_objects, "_read", side_effect=AssertionError),
        mock.patch.object(RecordReader, "_read_each", side_effect=AssertionError),
    ):
        assert [item.id for item in reader.read(records, NOW).items] == ["p-0", "p-1", "p-2", "p-3"]


def _never(*_: Any) -> bool:
    return False


ROWS = st.lists(
    st.builds(
        lambda name, cells, time, label, wake: (
            WaitingRow(name, cells, time, wake=wake)
            if label is None
            else WaitingRow(name, cells, time, 0, 0, None, None, None, None, label, 1, 0, time, wake)
        ),
        st.sampled_from(["a", "b", "c", "d", "\0", "a\0"]),
        st.none() | st.just("[1]"),
        st.integers(0, 3),
        st.none() | st.just("ok"),
        st.none() | st.integers(0, 3),
    ),
    max_size=4,
    unique_by=lambda row: row.id,
)


@given(batches=st.lists(st.tuples(st.sampled_from(["put", "put_new", "delete", "commit"]), ROWS), max_size=6))
def test_rows_that_are_put_unasked_are_those_of_ids_that_nobody_had(
    batches: list[tuple[str, list[WaitingRow]]],
) -> None:
    store, expected = WaitingRows(), dict[str, WaitingRow]()
    for what, rows in batches:
        if what == "put":
            store.put(rows)
            expected |= {row.id: row for row in rows}
        elif what == "put_new":
            assert store.put_new(rows) == {row.id: expected[row.id] for row in rows if row.id in expected}
            expected = {**{row.id: row for row in rows}, **expected}
        elif what == "delete":
            store.delete([row.id for row in rows])
            expected = {name: row for name, row in expected.items() if name not in {row.id for row in rows}}
        else:
            store.commit()
        assert store.get(["a", "b", "c", "d", "\0", "a\0"]) == expected
    store.close()


STEPS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["event", "event", "event", "label"]), st.integers(0, 12), st.integers(0, 40)),
        max_size=6,
    ),
    max_size=6,
)


@pytest.mark.parametrize(
    "intake",
    [{"labels": None, "label": "tx.kind"}, {"labels": None, "label": "tx.kind", "keep": "20d"}, {}, {"keep": "35d"}],
    ids=["labels in events", "and kept for some days", "late labels", "late labels, kept for some days"],
)
@given(steps=STEPS)
def test_events_that_are_taken_for_new_ones_are_sent_and_kept_as_those_that_are_looked_up(
    intake: dict[str, Any], steps: list[list[tuple[str, int, int]]]
) -> None:
    definition, of_intake = shop(intake, partitions=1)
    reader = RecordReader(definition, of_intake)

    def outcome(*, unasked: bool) -> Any:
        rows, sent, offsets = WaitingRows(), list[Any](), {"payments": 0, "chargebacks": 0}
        processor = IntakeProcessor(definition, of_intake, 0, rows, "w")
        processor.restore({}, {("payments", 0): 0, ("chargebacks", 0): 0})
        with mock.patch.object(IntakeProcessor, "_fresh", IntakeProcessor._fresh if unasked else lambda *_: None):
            for days, step in enumerate(steps):
                came = []
                for kind, name, day in step:
                    topic = "payments" if kind == "event" or of_intake.labels is None else "chargebacks"
                    event = payment(f"p-{name}", FIRST_TIME + day * DAY, 12.5 + day, kind="ok" if day % 2 else "fraud")
                    value = event if topic == "payments" else chargeback(f"p-{name}")
                    came.append(record(topic, 0, offsets[topic], value, FIRST_TIME + 10 * days * DAY))
                    offsets[topic] += 1
                came.sort(key=lambda one: one.topic)
                outputs = list(processor.process(reader.read(came, NOW)))
                sent.append(
                    [[(out.topic, out.value, out.headers) for out in (*one.first, *one.then)] for one in outputs]
                )
        kept = rows.get([f"p-{name}" for name in range(13)])
        return sent, kept, rows.facts, processor.counts

    assert outcome(unasked=True) == outcome(unasked=False)
