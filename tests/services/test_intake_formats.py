"""Records in Avro and Protobuf: what is read of them, and that bytes that are none are refused and crash nothing."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.errors import DefinitionError
from deltaplane_services.definition_file.intake_table import FormDefinition
from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.intake.formats import decoder_of
from deltaplane_services.intake.formats.avro_records import why_unbounded
from deltaplane_services.intake.formats.change import MOST_BYTES, BadRecord, Change, Decoder, RegistryUnavailable
from deltaplane_services.intake.reading import RecordReader
from deltaplane_services.kafka.clients import registry_properties
from services.intake_shop import DAY, FIRST_TIME, INTAKE, chargeback, record, shop
from services.payment_descriptors import descriptor_file, message_type

NOW = FIRST_TIME + 400 * DAY

PAYMENT: dict[str, Any] = {
    "type": "record",
    "name": "Payment",
    "namespace": "shop",
    "fields": [
        {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "created", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "country", "type": {"type": "enum", "name": "Country", "symbols": ["DE", "FR", "NG"]}},
        {"name": "known", "type": "boolean"},
        {"name": "blob", "type": "bytes", "default": ""},
    ],
}
REF = UUID(int=7)
TIME = datetime.fromtimestamp(FIRST_TIME / 1000, UTC)


def in_avro(schema: Any, row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def payment(**more: Any) -> dict[str, Any]:
    return {
        "ref": REF,
        "created": TIME,
        "amount": Decimal("12.50"),
        "country": "DE",
        "known": True,
        "blob": b"",
        **more,
    }


def avro_file(directory: Path, schema: Any = PAYMENT) -> str:
    path = directory / "payment.avsc"
    path.write_text(json.dumps(schema))
    return str(path)


def test_a_record_of_avro_is_read_as_its_schema_says_with_the_time_the_decimal_and_the_id_that_it_means(
    tmp_path: Path,
) -> None:
    definition, intake = shop(
        {
            "format": "avro",
            "schema": avro_file(tmp_path),
            "id": "ref",
            "time": "created",
            "time_unit": None,
            "row": None,
            "fields": None,
            "labels": {**INTAKE["labels"], "format": "json"},
        }
    )
    reader = RecordReader(definition, intake)
    good, none = in_avro(PAYMENT, payment()), in_avro(PAYMENT, payment(amount=None, ref=UUID(int=8)))
    late = in_avro(PAYMENT, payment(created=datetime(2126, 1, 1, tzinfo=UTC)))
    values = [good, b"", good[:-1], good + b"x", b'{"ref": "a"}', late, none]
    found = reader.read([record("payments", 0, at, value) for at, value in enumerate(values)], NOW)
    assert [(item.id, item.time) for item in found.items] == [(str(REF), FIRST_TIME), (str(UUID(int=8)), FIRST_TIME)]
    assert [json.loads(item.cells or "") for item in found.items] == [["12.50", "DE", True], [None, "DE", True]]
    letters = [letter.message for one in found.refused for letter in one.letters()]
    assert [(one.offset, one.kind) for one in letters] == [(at, "bad record") for at in (1, 2, 3, 4)] + [  # type: ignore[attr-defined]
        (5, "bogus time")
    ]
    assert "got 1 bytes more than it has" in letters[2].reason  # type: ignore[attr-defined]
    labels = reader.read([record("chargebacks", 0, 0, chargeback(str(REF)))], NOW)
    assert [(item.id, item.label) for item in labels.items] == [(str(REF), "fraud")]


def decoders(directory: Path) -> list[Decoder]:
    descriptors = str(descriptor_file(directory))
    forms = [FormDefinition("avro", avro_file(directory))]
    forms += [FormDefinition(name, descriptors, "shop.Payment") for name in ("protobuf", "confluent-protobuf")]
    return [decoder_of(form, {}) for form in forms]


@given(data=st.binary(max_size=200))
def test_no_bytes_whatever_raise_anything_but_a_bad_record(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    for decode in decoders(tmp_path_factory.getbasetemp()):
        try:
            change = decode(data, data)
        except BadRecord:
            continue
        assert isinstance(change, Change)


def test_a_record_that_is_too_large_or_has_no_value_is_refused(tmp_path: Path) -> None:
    for decode in decoders(tmp_path):
        with pytest.raises(BadRecord, match="expected at most 1,048,576 bytes"):
            decode(None, b"\0" * (MOST_BYTES + 1))
        with pytest.raises(BadRecord, match="the record has no value"):
            decode(None, None)


NESTED = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
EMPTY = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (NESTED, "its record 'L' may lie within itself"),
        ({**NESTED, "namespace": "a.b"}, "its record 'L' may lie within itself"),
        ({**NESTED, "fields": [{"name": "next", "type": {"type": "map", "values": "L"}}]}, "may lie within itself"),
        ({"type": "array", "items": "null"}, "items that take no bytes"),
        ({"type": "array", "items": EMPTY}, "items that take no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "items that take no bytes"),
    ],
)
def test_a_schema_by_which_a_few_bytes_have_a_reader_work_without_end_is_refused(
    tmp_path: Path, schema: Any, words: str
) -> None:
    assert words in (why_unbounded(schema) or "")
    within = {"type": "record", "name": "R", "fields": [{"name": "x", "type": schema}]}
    assert words in (why_unbounded(within) or "")
    with pytest.raises(DefinitionError, match=words):
        decoder_of(FormDefinition("avro", avro_file(tmp_path, within)), {})


def test_a_schema_that_uses_a_type_twice_side_by_side_is_taken() -> None:
    twice = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "one", "type": twice}, {"name": "two", "type": ["null", "A"]}]
    fields.append({"name": "many", "type": {"type": "array", "items": "A"}})
    assert why_unbounded({"type": "record", "name": "R", "fields": fields}) is None
    assert why_unbounded(PAYMENT) is None
    assert why_unbounded("string") is None


def test_messages_of_protobuf_are_read_bare_and_behind_the_framing_of_a_registry(tmp_path: Path) -> None:
    tx = {"ref": "a", "created": FIRST_TIME, "country": "NG"}
    bare = message_type("shop.Payment")(tx=tx).SerializeToString()
    file = str(descriptor_file(tmp_path))
    row = {"tx": {"ref": "a", "created": str(FIRST_TIME), "country": "NG", "known": False}}
    assert decoder_of(FormDefinition("protobuf", file, "shop.Payment"), {})(None, bare) == Change(row)
    framed = decoder_of(FormDefinition("confluent-protobuf", file, "shop.Payment"), {})
    # Type 1 of the file, as a list of one number; a single 0 is the first type.
    assert framed(None, b"\0\0\0\0\x09\x02\x02" + bare) == Change(row)
    with pytest.raises(BadRecord, match=r"expected shop.Payment, which is type \[1\] of its file, got .* type \[0\]"):
        framed(None, b"\0\0\0\0\x09\0" + bare)
    inner = decoder_of(FormDefinition("confluent-protobuf", file, "shop.Payment.Tx"), {})
    assert inner(None, b"\0\0\0\0\x09\x04\x02\0" + message_type("shop.Payment.Tx")(**tx).SerializeToString()) == Change(
        row["tx"]
    )
    with pytest.raises(BadRecord, match="Invalid magic byte"):
        framed(None, b"\x07" + bare)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"format": "avro"}, "intake.schema: expected the path of the file with its schema"),
        ({"format": "json", "schema": "x"}, "intake.schema: expected none: the format json needs none, got 'x'"),
        ({"format": "protobuf", "schema": "x"}, "intake.message: expected the name of the message type"),
        ({"format": "avro", "schema": "no-such.avsc"}, "intake.schema: 'no-such.avsc' cannot be read"),
        ({"format": "avro", "schema": __file__}, "is no schema of Avro"),
        ({"format": "protobuf", "schema": __file__, "message": "a.B"}, "has no message type 'a.B'"),
        ({"format": "confluent-avro"}, "needs a schema registry; give its address"),
    ],
)
def test_a_form_whose_schema_is_not_there_is_refused_by_name(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words.replace("(", r"\(")):
        RecordReader(*shop(keys))


def test_secrets_of_a_registry_are_in_a_file_and_in_no_message(tmp_path: Path) -> None:
    file = tmp_path / "registry.toml"
    file.write_text("'basic.auth.user.info' = 'shop:swordfish'\n")
    knobs = Knobs(registry="http://127.0.0.1:8081/x", registry_properties=str(file))
    properties = registry_properties(knobs)
    assert properties == {"url": "http://127.0.0.1:8081/x", "basic.auth.user.info": "shop:swordfish"}
    for text in ("'swordfish' = ", "'basic.auth.user.info' = 'swordfish'\n"):
        file.write_text(text)
        with pytest.raises(DefinitionError) as told:
            decoder_of(FormDefinition("confluent-avro"), registry_properties(knobs))
        assert "swordfish" not in str(told.value)
    with pytest.raises(DefinitionError, match="without user and password") as told:
        Knobs(registry="http://shop:swordfish@127.0.0.1:8081")
    assert "swordfish" not in str(told.value)


def test_a_registry_that_is_not_there_is_a_wait_and_no_fault_of_the_record() -> None:
    decode = decoder_of(FormDefinition("confluent-avro"), {"url": "http://127.0.0.1:1"})
    with pytest.raises(RegistryUnavailable, match=r"schema registry http://127.0.0.1:1: .*; waiting for it"):
        decode(None, b"\0\0\0\0\x09\2\2")
    with pytest.raises(BadRecord, match="Invalid magic byte"):
        decode(None, b"no framing")
