"""Poison on every input of an intake: each is taken as what it says, or refused for a reason that an operator reads.

Whatever it is, the records before and behind it are read, and it is one item or one letter, never both or neither.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from deltaplane.log.records import DeadLetter
from deltaplane_services.intake.formats.json_objects import MOST_DEPTH
from deltaplane_services.intake.reading import Item, RecordReader
from services.intake_shop import DAY, FIRST_TIME, chargeback, payment, record, shop

NOW = FIRST_TIME + 400 * DAY
GOOD = payment("a", FIRST_TIME)
CENTURY = 36_525 * DAY


def with_(old: bytes, new: bytes) -> bytes:
    """The good payment, with one part of its bytes replaced."""
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def amount(text: str) -> bytes:
    return with_(b"12.5", text.encode())


def created(text: str) -> bytes:
    return with_(str(FIRST_TIME).encode(), text.encode())


def ref(text: str) -> bytes:
    return with_(b'"ref": "a"', b'"ref": ' + text.encode())


def met(
    value: bytes | None, topic: str = "payments", intake: dict[str, Any] | None = None, key: bytes | None = b"k"
) -> Item | DeadLetter:
    """What becomes of a record between two good ones of its topic."""
    around = ("before", "behind")
    before, behind = [payment(one, FIRST_TIME) if topic == "payments" else chargeback(one) for one in around]
    reader = RecordReader(*shop(intake))
    values = (before, value, behind)
    found = reader.read([record(topic, 0, at, one, key=key) for at, one in enumerate(values)], NOW)
    items = [item for item in found.items if item.offset == 1]
    assert [item.id for item in found.items if item.offset != 1] == ["before", "behind"]
    letters = [letter.message for one in found.refused for letter in one.letters()]
    outcomes: list[Any] = [*items, *letters]
    (outcome,) = outcomes
    if isinstance(outcome, DeadLetter):
        assert (outcome.topic, outcome.partition, outcome.offset) == (topic, 0, 1)
    assert isinstance(outcome, Item | DeadLetter)
    return outcome


MARK = "it begins with a byte order mark, which JSON may not have: write UTF-8 without one"
UTF_16 = "it looks like UTF-16 or UTF-32: write UTF-8"

REFUSED: dict[str, tuple[bytes | None, str, str]] = {
    # Bytes that are no JSON, or not in UTF-8.
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, "bad record", MARK),
    "UTF-16 with its mark": (GOOD.decode().encode("utf-16"), "bad record", UTF_16),
    "UTF-16, little end first": (GOOD.decode().encode("utf-16-le"), "bad record", UTF_16),
    "UTF-16, big end first": (GOOD.decode().encode("utf-16-be"), "bad record", UTF_16),
    "UTF-32": (GOOD.decode().encode("utf-32"), "bad record", UTF_16),
    "Latin-1": (with_(b"EUR", b"\xe9"), "bad record", "expected JSON in UTF-8, got the byte 0xe9 at 82"),
    "gzip": (gzip.compress(GOOD), "bad record", "it looks like gzip: let Kafka's client compress"),
    "a registry's framing": (b"\0\0\0\0\7" + GOOD, "bad record", "it looks framed by a schema registry: see format"),
    "no bytes": (b"", "bad record", "expected JSON, got what is none at character 0"),
    "no value": (None, "bad record", "the record has no value; where a database deletes rows so"),
    "two objects": (GOOD + GOOD, "bad record", "got what is none at character 145: Extra data"),
    "a zero byte behind": (GOOD + b"\0", "bad record", "got what is none at character 145: Extra data"),
    "a comma too many": (b'{"a": 1,}', "bad record", "got what is none at character 8"),
    "single quotes": (b"{'a': 1}", "bad record", "got what is none at character 1"),
    "a control character": (with_(b'"DE"', b'"D\1E"'), "bad record", "Invalid control character"),
    "a text alone": (b'"tx"', "bad record", "expected an object with members, got a text"),
    "half of a pair in UTF-8": (with_(b'"DE"', b'"\xed\xa0\x80"'), "bad record", "got the byte 0xed at 101"),
    # Numbers.
    "NaN": (amount("NaN"), "bad record", "expected JSON, which has no number NaN"),
    "Infinity": (amount("Infinity"), "bad record", "which has no number Infinity"),
    "-Infinity": (amount("-Infinity"), "bad record", "which has no number -Infinity"),
    "1e999": (amount("1e999"), "bad value", "column 'amount' is infinite"),
    "-1e999": (amount("-1e999"), "bad value", "column 'amount' is infinite"),
    "400 digits": (amount("1" * 400), "bad value", "column 'amount' is a number beyond 1.8e308"),
    "400 digits in a text": (amount(f'"{"1" * 400}"'), "bad value", "column 'amount' is infinite"),
    "1,001 digits": (amount("1" * 1001), "bad record", "whole numbers of at most 1000 digits, got one of 1,001"),
    "2 to the 63rd": (amount(str(2**63)), "bad value", "outside the grid's range (-1024, 1024)"),
    "a zero before": (amount("012"), "bad record", "got what is none at character 64"),
    "a boolean for a number": (amount("true"), "bad value", "column 'amount' is no number: True"),
    "an object for a number": (amount("{}"), "bad value", "column 'amount' is no number: {}"),
    # Texts.
    "half of a pair": (with_(b'"DE"', rb'"\ud800"'), "bad value", "half of a surrogate pair"),
    "a text of 900,000 characters": (
        *(with_(b"DE", b"x" * 900_000), "bad value"),
        "column 'country' has a text of 900,000 characters, and may have 4,096",
    ),
    "a record beyond a megabyte": (with_(b"EUR", b"x" * 2**20), "bad record", "at most 1,048,576 bytes of JSON"),
    # Depth.
    "100,000 lists": (b"[" * 100_000, "bad record", f"at most {MOST_DEPTH} deep, got deeper ones"),
    "depth where nobody looks": (
        *(with_(b'"EUR"', b"[" * MOST_DEPTH + b"]" * MOST_DEPTH), "bad record"),
        f"at most {MOST_DEPTH} deep, got deeper ones",
    ),
    # Paths that lead nowhere.
    "a path through a list": (b'{"tx": [1, 2]}', "bad id", "expected an id, a text or a whole number, at 'tx.ref'"),
    "a path through a number": (b'{"tx": 5}', "bad id", "at 'tx.ref', got None"),
    "a path through a text": (b'{"tx": "ref"}', "bad id", "at 'tx.ref', got None"),
    "a path through null": (b'{"tx": null}', "bad id", "at 'tx.ref', got None"),
    "an object that comes again and lacks the time": (
        *(GOOD[:-1] + b', "tx": {"ref": "c"}}', "bad value"),
        "expected the event time at 'tx.created', got None",
    ),
    # Ids.
    "an infinite id": (ref("1e999"), "bad id", "at 'tx.ref', got inf"),
    "an id with a point": (ref("1.0"), "bad id", "at 'tx.ref', got 1.0"),
    "a boolean for an id": (ref("true"), "bad id", "at 'tx.ref', got True"),
    "an object for an id": (ref('{"x": 1}'), "bad id", "at 'tx.ref', got {'x': 1}"),
    "an id of 400 digits": (ref("1" * 400), "bad id", "is a text of 400 bytes, and may have 256"),
    "half of a pair in an id": (ref(r'"\udc00"'), "bad id", "half of a surrogate pair"),
    # Clocks.
    "a century ahead": (created(str(FIRST_TIME + CENTURY)), "bogus time", "36,525.0 days ahead of the log"),
    "a time of 400 digits": (created("1" * 400), "bogus time", "is beyond any calendar"),
    "a time before all calendars": (created(str(-(2**63) - 1)), "bogus time", "is beyond any calendar"),
    "an infinite time": (created("1e999"), "bad value", "the time 'inf' is not finite"),
    "a boolean for a time": (created("true"), "bad value", "expected the event time at 'tx.created', got True"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_poison_in_an_event_is_one_letter_with_a_reason_that_an_operator_understands(name: str) -> None:
    value, kind, words = REFUSED[name]
    letter = met(value)
    assert isinstance(letter, DeadLetter), letter
    assert (letter.kind, letter.size) == (kind, len(value or b""))
    assert words in letter.reason
    assert len(letter.reason) < 300


TAKEN: dict[str, tuple[bytes, str, int, list[Any]]] = {
    "a member twice has its last value": (ref('"z", "ref": "a"'), "a", FIRST_TIME, [12.5, "DE", True]),
    "blanks around": (b" \r\n" + GOOD + b"\n", "a", FIRST_TIME, [12.5, "DE", True]),
    "half of a pair where nobody looks": (with_(b'"EUR"', rb'"\ud800"'), "a", FIRST_TIME, [12.5, "DE", True]),
    "a long text where nobody looks": (with_(b"EUR", b"x" * 900_000), "a", FIRST_TIME, [12.5, "DE", True]),
    "a number too small for float64": (amount("1e-999"), "a", FIRST_TIME, [0.0, "DE", True]),
    "a path through a list is missing": (
        *(with_(b'{"value": 12.5, "currency": "EUR"}', b'[{"value": 12.5}]'), "a", FIRST_TIME),
        [None, "DE", True],
    ),
    "a path through a number is missing": (
        *(with_(b'{"value": 12.5, "currency": "EUR"}', b"7"), "a", FIRST_TIME),
        [None, "DE", True],
    ),
    "an id beyond 64 bits keeps its digits": (ref(str(2**70)), str(2**70), FIRST_TIME, [12.5, "DE", True]),
    "an id with U+0000": (ref(r'"a\u0000b"'), "a\0b", FIRST_TIME, [12.5, "DE", True]),
    "a century behind": (created(str(FIRST_TIME - CENTURY)), "a", FIRST_TIME - CENTURY, [12.5, "DE", True]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_odd_and_yet_has_a_meaning_is_taken_for_what_it_says(name: str) -> None:
    value, sample_id, time, cells = TAKEN[name]
    item = met(value)
    assert isinstance(item, Item), item
    assert (item.id, item.time, json.loads(item.cells or "")) == (sample_id, time, cells)


LABELS = {"topic": "chargebacks", "id": "payment", "label": "verdict"}
NOUGHTS = ("0", "0.0", "-0", "-0.0", "0e5", '"0"')


@pytest.mark.parametrize("text", [*NOUGHTS, "false", '"0.0"', '" 0"', "1e999", "null", '""', "{}", str(2**70)])
def test_a_nought_is_one_label_however_it_is_written_and_no_boolean_or_other_text_is_taken_for_it(text: str) -> None:
    value = b'{"payment": "a", "verdict": %s}' % text.encode()
    reader = RecordReader(*shop({"labels": LABELS}, classes={"names": ["0", "1"], "positive": "1"}))
    found = reader.read([record("chargebacks", 0, 0, value)], NOW)
    if text in NOUGHTS:
        assert [item.label for item in found.items] == ["0"]
        return
    ((letter,),) = [one.letters() for one in found.refused]
    assert isinstance(letter.message, DeadLetter)
    assert letter.message.kind == ("bad label" if text in {"null", '""', "{}"} else "unknown class")
    assert len(found.items) == 0


def test_a_boolean_is_a_label_where_the_classes_are_its_words() -> None:
    reader = RecordReader(*shop({"labels": LABELS}, classes={"names": ["false", "true"], "positive": "true"}))
    values = [b'{"payment": "a", "verdict": %s}' % text for text in (b"true", b"false", b'"true"', b"1", b"0")]
    found = reader.read([record("chargebacks", 0, at, value) for at, value in enumerate(values)], NOW)
    assert [item.label for item in found.items] == ["true", "false", "true"]
    assert [one.record.offset for one in found.refused] == [3, 4]


@pytest.mark.parametrize("key", [None, b"", b"\xff\xfe", b"k" * 2**20])
def test_a_key_is_not_looked_at_where_a_value_says_all(key: bytes | None) -> None:
    item = met(GOOD, key=key)
    assert isinstance(item, Item)
    letter = met(b"no JSON", key=key)
    assert isinstance(letter, DeadLetter)
    assert letter.kind == "bad record"


DATABASE = {
    "format": "debezium-json",
    "id": "ref",
    "time": "created",
    "row": None,
    "labels": None,
    "label": "kind",
    "fields": {"amount": "amount", "country": "country", "known": "known"},
}
ROW = {"ref": "a", "created": FIRST_TIME, "amount": 1.5, "country": "DE", "known": True, "kind": "ok"}


def envelope(**more: Any) -> bytes:
    return json.dumps({"op": "c", "before": None, "after": ROW, **more}).encode()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (None, None, "the record has no key that names it; the table needs a primary key"),
        (b"", None, "expected JSON, got what is none at character 0"),
        (b"no JSON", None, "expected JSON, got what is none at character 0"),
        (b'"a"', None, "the record's key is no object that names it"),
        (b'{"a":' * 1000, None, f"at most {MOST_DEPTH} deep"),
        (b'{"other": 1}', None, "expected an id, a text or a whole number, at 'ref', got None"),
        (b'{"ref": "a"}', b"", "expected JSON, got what is none at character 0"),
        (b"k", envelope(op=5), "expected the operation c, r, u, d, t or m, got 5"),
        (b"k", envelope(op=["c"]), "expected the operation c, r, u, d, t or m, got ['c']"),
        (b"k", envelope(after=[1]), 'in "after" of operation c, got a list'),
        (b"k", envelope(after=None), 'in "after" of operation c, got null'),
        (b"k", b'{"schema": {}, "payload": [1]}', "expected an envelope of Debezium"),
        (b"no JSON", envelope(op="d", after=None), "expected JSON, got what is none at character 0"),
    ],
)
def test_poison_from_a_database_is_one_letter_and_a_row_is_retired_by_its_key_alone(
    key: bytes | None, value: bytes | None, words: str
) -> None:
    reader = RecordReader(*shop(DATABASE))
    records = [record("payments", 0, 0, envelope()), record("payments", 0, 1, value, key=key)]
    found = reader.read([*records, record("payments", 0, 2, None, key=b'{"ref": "a"}')], NOW)
    assert [(item.id, item.gone) for item in found.items] == [("a", False), ("a", True)]
    ((letter,),) = [one.letters() for one in found.refused]
    assert isinstance(letter.message, DeadLetter)
    assert letter.message.offset == 1
    assert words in letter.message.reason
