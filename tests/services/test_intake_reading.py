"""Records of users' topics: what is read of them, and that whatever cannot be read is refused with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.errors import DefinitionError
from deltaplane.log.records import DeadLetter
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.definition_tables import load_tables
from deltaplane_services.definition_file.intake_table import FormDefinition, intake_of
from deltaplane_services.intake.formats import decoder_of
from deltaplane_services.intake.formats.change import MOST_BYTES, BadRecord, Change
from deltaplane_services.intake.formats.json_objects import MOST_DEPTH
from deltaplane_services.intake.reading import Item, RecordReader
from services.intake_shop import DAY, FIRST_TIME, SHOP, chargeback, payment, record, shop

NOW = FIRST_TIME + 400 * DAY


def read(
    *values: bytes | None, topic: str = "payments", intake: dict[str, Any] | None = None
) -> tuple[list[Item], Any]:
    """The items of some records of one log, and the dead letters."""
    reader = RecordReader(*shop(intake))
    found = reader.read([record(topic, 0, at, value) for at, value in enumerate(values)], NOW)
    letters = [letter.message for one in found.refused for letter in one.letters()]
    assert all(isinstance(letter, DeadLetter) for letter in letters)
    return list(found.items), letters


def test_an_event_has_its_id_its_time_and_the_cells_of_the_streams_columns_alone() -> None:
    (item,), letters = read(payment("a-1", FIRST_TIME - 5, 3.25, "NG", colour="red"))
    assert not letters
    assert (item.id, item.time, item.label, item.gone) == ("a-1", FIRST_TIME - 5, None, False)
    assert json.loads(item.cells or "") == [3.25, "NG", True]


def test_a_label_is_that_of_its_path_or_the_one_that_every_record_means() -> None:
    (item,), _ = read(chargeback("a-1", "fraud"), topic="chargebacks")
    assert (item.id, item.label, item.of_label, item.cells) == ("a-1", "fraud", True, None)
    labels = {"topic": "chargebacks", "id": "payment", "value": "fraud"}
    (item,), _ = read(b'{"payment": 17}', topic="chargebacks", intake={"labels": labels})
    assert (item.id, item.label) == ("17", "fraud")


def test_a_label_in_the_event_is_read_with_it() -> None:
    (item,), letters = read(payment("a", FIRST_TIME, kind="fraud"), intake={"labels": None, "label": "tx.kind"})
    assert (item.label, letters) == ("fraud", [])


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (b"\xff\xfe no json", "bad record", "expected JSON in UTF-8, got the byte 0xff at 0"),
        (b"", "bad record", "expected JSON, got what is none at character 0"),
        (b'{"tx": ', "bad record", "expected JSON, got what is none at character 7"),
        (b"[1, 2]", "bad record", "expected an object with members, got a list"),
        (b"null", "bad record", "expected an object with members, got null"),
        (None, "bad record", "the record has no value"),
        (b'{"tx": NaN}', "bad record", "which has no number NaN"),
        (b'{"a":' * 100_000, "bad record", f"at most {MOST_DEPTH} deep"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "bad record", f"at most {MOST_DEPTH} deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "bad record", "whole numbers of at most 1000 digits"),
        (b'"' + b"x" * MOST_BYTES + b'"', "bad record", "expected at most 1,048,576 bytes of JSON"),
        (b'{"tx": {"created": 1}}', "bad id", "expected an id, a text or a whole number, at 'tx.ref', got None"),
        (payment("", FIRST_TIME), "bad id", "got ''"),
        (payment("\\ud800", FIRST_TIME).replace(b"\\\\", b"\\"), "bad id", "half of a surrogate pair"),
        (payment("x" * 300, FIRST_TIME), "bad id", "300 bytes"),
        (payment("a", FIRST_TIME, created=None), "bad value", "expected the event time at 'tx.created', got None"),
        (payment("a", FIRST_TIME, created="soon"), "bad value", "the event time at 'tx.created'"),
        (payment("a", FIRST_TIME + 36_525 * DAY), "bogus time", "36,525.0 days ahead of the log, more than max_skew"),
        (payment("a", 10**400), "bogus time", "beyond any calendar"),
        (payment("a", FIRST_TIME, known="perhaps"), "bad value", "column 'known' is neither true nor false"),
        (payment("a", FIRST_TIME, country=["DE"]), "bad value", "column 'country' is no text"),
        (payment("a", FIRST_TIME, country="x" * 5000), "bad value", "has a text of 5,000 characters"),
        (payment("a", FIRST_TIME, "0." + "0" * 90_000), "bad value", "has a text of 90,002 characters"),
        (payment("a", FIRST_TIME, 1).replace(b": 1,", b": 1" + b"0" * 399 + b","), "bad value", "beyond 1.8e308"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason_and_loses_nothing_else(
    value: bytes | None, kind: str, words: str
) -> None:
    items, (letter,) = read(payment("before", FIRST_TIME), value, payment("behind", FIRST_TIME))
    assert [item.id for item in items] == ["before", "behind"]
    assert (letter.topic, letter.partition, letter.offset, letter.kind) == ("payments", 0, 1, kind)
    assert words in letter.reason
    assert letter.size == len(value or b"")


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (chargeback("a", None), "bad label", "expected a label at 'verdict', got none"),
        (chargeback("a", ""), "bad label", "got an empty text"),
        (b'{"payment": "a", "verdict": ["fraud"]}', "bad label", "the label at 'verdict' is no text"),
        (chargeback("a", "perhaps"), "unknown class", "expected the label 'perhaps' to be one of fraud, ok"),
    ],
)
def test_a_label_that_the_stream_does_not_know_is_refused(value: bytes, kind: str, words: str) -> None:
    items, (letter,) = read(value, topic="chargebacks")
    assert not items
    assert letter.kind == kind
    assert words in letter.reason


def test_a_record_with_many_brackets_that_is_not_deep_is_read() -> None:
    (item,), letters = read(payment("a", FIRST_TIME, lines=[{"n": n} for n in range(500)]))
    assert (item.id, letters) == ("a", [])


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_no_bytes_whatever_raise_anything_but_a_bad_record(data: bytes) -> None:
    for decode in (decoder_of(FormDefinition(name), {}) for name in ("json", "debezium-json")):
        try:
            change = decode(data, data)
        except BadRecord:
            continue
        assert change is None or isinstance(change, Change)


@pytest.mark.parametrize(
    ("time", "keys", "milliseconds"),
    [
        ("2023-11-14T22:13:20Z", {"time_unit": None}, FIRST_TIME),
        (1_700_000_000, {"time_unit": None}, FIRST_TIME),
        (1_700_000_000.25, {"time_unit": None}, FIRST_TIME + 250),
        (FIRST_TIME * 1000, {"time_unit": "us"}, FIRST_TIME),
        ("14/11/2023 22:13", {"time_unit": None, "time_format": "%d/%m/%Y %H:%M"}, FIRST_TIME - 20_000),
    ],
)
def test_times_are_read_by_the_rule_that_files_are_read_by(time: Any, keys: dict[str, Any], milliseconds: int) -> None:
    (item,), letters = read(payment("a", time), intake=keys)
    assert (item.time, letters) == (milliseconds, [])


def test_a_record_from_a_clock_that_is_a_century_ahead_is_taken_to_be_of_now() -> None:
    reader = RecordReader(*shop({"time": None, "time_unit": None}))
    far = FIRST_TIME + 36_525 * DAY
    found = reader.read([record("payments", 0, 0, payment("a", 0), far)], NOW)
    assert found.items[0].time == NOW
    assert found.log_times["payments", 0].tolist() == [NOW]


def envelope(operation: str, before: Any, after: Any, *, schema: bool) -> bytes:
    payload = {"op": operation, "before": before, "after": after, "ts_ms": FIRST_TIME}
    return json.dumps({"schema": {"type": "struct"}, "payload": payload} if schema else payload).encode()


@pytest.mark.parametrize("schema", [True, False])
def test_envelopes_of_debezium_are_events_and_deletions(*, schema: bool) -> None:
    decode, row = decoder_of(FormDefinition("debezium-json"), {}), {"id": 5, "amount": 2}
    for operation in "cru":
        assert decode(None, envelope(operation, None, row, schema=schema)) == Change(row)
    assert decode(None, envelope("d", row, None, schema=schema)) == Change(row, gone=True)
    key = json.dumps({"schema": {}, "payload": {"id": 5}} if schema else {"id": 5}).encode()
    assert decode(key, None) == Change({"id": 5}, gone=True, of_key=True)
    assert decode(key, envelope("d", None, None, schema=schema)) == Change({"id": 5}, gone=True, of_key=True)
    assert decode(None, envelope("m", None, None, schema=schema)) is None
    for bad, words in (
        (envelope("t", None, None, schema=schema), "a table was truncated"),
        (envelope("x", None, row, schema=schema), "expected the operation c, r, u, d, t or m, got 'x'"),
        (envelope("c", row, None, schema=schema), 'expected the row as it is now in "after"'),
        (b'{"id": 5}', "expected an envelope of Debezium"),
    ):
        with pytest.raises(BadRecord, match=words.replace("(", r"\(")):
            decode(None, bad)
    with pytest.raises(BadRecord, match="the record has no key that names it"):
        decode(None, None)


@pytest.mark.parametrize(
    ("intake", "words"),
    [
        ({"topik": "x"}, "unknown key 'intake.topik'; did you mean 'topic'"),
        ({"topic": ""}, "intake.topic: expected the name of a topic"),
        ({"id": None}, "intake.id: expected the path of the id in a record, got none"),
        ({"id": "a..b"}, "intake.id: expected a path such as 'tx.id'"),
        ({"format": "xml"}, "intake.format: expected one of json, avro, .* got 'xml'"),
        ({"label": "tx.kind"}, "intake.label: expected the path of the label in an event, or .* got both"),
        ({"labels": None}, "got neither"),
        ({"fields": {"colour": "tx.colour"}}, "unknown key 'intake.fields.colour'"),
        ({"time_unit": "h"}, "intake.time_unit: expected one of s, ms, us, ns, got 'h'"),
        ({"time": None}, "intake.time: expected the path of the event time"),
        ({"keep": "1d"}, "intake.keep: expected longer than intake.labels.after"),
        ({"labels": {"topic": "payments", "id": "i", "label": "l"}}, "expected another topic"),
        ({"labels": {"topic": "c", "id": "i"}}, "expected label = the path of the label, or value"),
        ({"labels": {"topic": "c", "id": "i", "label": "l", "after": "1d"}}, "after and otherwise go together"),
        ({"labels": {"topic": "c", "id": "i", "value": "maybe"}}, "expected one of fraud, ok, got 'maybe'"),
    ],
)
def test_a_wrong_key_of_the_intake_is_refused_by_name(intake: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        shop(intake)


def test_the_intake_changes_no_fingerprint(tmp_path: Any) -> None:
    without = {key: value for key, value in SHOP.items() if key != "intake"}
    assert (
        StreamDefinition.from_tables(SHOP).stream_fingerprint
        == StreamDefinition.from_tables(without).stream_fingerprint
    )
    assert intake_of(without, StreamDefinition.from_tables(without)) is None
    file = tmp_path / "deltaplane.toml"
    file.write_text("[intake]\ntopics = 'x'\n")
    with pytest.raises(DefinitionError, match=r"unknown key 'intake\.topics'"):
        load_tables(file)


def test_a_letter_of_a_record_whose_key_and_value_are_as_large_as_can_be_fits_its_topic() -> None:
    reader = RecordReader(*shop())
    huge = record("payments", 0, 0, b"x" * 2**20, key=b"k" * 2**20)
    (refused,) = reader.read([huge], NOW).refused
    (letter,) = refused.letters()
    assert len(letter.value or b"") < 1_000_000
