"""The schemas: valid Avro, documented to the last field, one file a record."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import fastavro
import pytest

import deltaplane_schemas
from deltaplane.wire.frame import HEADER_BYTES
from golden.wire_examples import EXAMPLES


def parts(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every record, and every field of it, with its place."""
    if isinstance(schema, list):
        for branch in schema:
            yield from parts(branch, place)
    elif isinstance(schema, dict):
        if schema["type"] == "record":
            yield schema["name"], schema
            for field in schema["fields"]:
                yield f"{schema['name']}.{field['name']}", field
                yield from parts(field["type"], f"{schema['name']}.{field['name']}")
        for inner in ("items", "values"):
            yield from parts(schema.get(inner), place)


@pytest.mark.parametrize("name", deltaplane_schemas.NAMES)
def test_a_schema_is_valid_avro_by_itself(name: str) -> None:
    schema = deltaplane_schemas.load(name)
    parsed = fastavro.parse_schema(schema)
    assert isinstance(parsed, dict)
    assert parsed["name"] == f"deltaplane.{schema['name']}"


@pytest.mark.parametrize("name", deltaplane_schemas.NAMES)
def test_every_record_and_every_field_is_documented(name: str) -> None:
    found = list(parts(deltaplane_schemas.load(name), name))
    assert len(found) > 2
    bare = [place for place, part in found if not str(part.get("doc", "")).endswith(".")]
    assert not bare, f"say what each of these holds, in a sentence: {bare}"


def test_records_that_occur_in_several_schemas_are_the_same_in_all() -> None:
    shared: dict[str, set[str]] = {}
    for name in deltaplane_schemas.NAMES:
        for place, part in parts(deltaplane_schemas.load(name), name):
            if part.get("type") == "record":
                shared.setdefault(place, set()).add(str(part))
    assert {"Score", "ClassMoments"} <= shared.keys()
    assert all(len(forms) == 1 for forms in shared.values()), shared


def test_every_file_is_a_schema_that_is_listed() -> None:
    files = {file.name for file in resources.files(deltaplane_schemas).iterdir() if file.name.endswith(".avsc")}
    assert files == {f"{name}.avsc" for name in deltaplane_schemas.NAMES}
    with pytest.raises(KeyError, match=r"expected one of sample, .*, got 'samples'"):
        deltaplane_schemas.load("samples")


def rabin(data: bytes) -> int:
    """CRC-64-AVRO, as the Avro specification defines it: bit by bit."""
    code = 0xC15D213AA4D7A795
    for byte in data:
        code ^= byte
        for _ in range(8):
            code = code >> 1 ^ (0xC15D213AA4D7A795 if code & 1 else 0)
    return code


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_a_message_begins_with_the_fingerprint_that_the_avro_specification_gives_its_schema(example: Any) -> None:
    canonical = fastavro.schema.to_parsing_canonical_form(deltaplane_schemas.load(example.schema))
    head = b"\xc3\x01" + rabin(canonical.encode()).to_bytes(8, "little")
    assert example.golden()[:HEADER_BYTES] == head


def test_the_readme_has_a_row_for_every_record() -> None:
    readme = resources.files(deltaplane_schemas).joinpath("README.md").read_text("utf-8")
    assert all(f"`{name}.avsc`" in readme for name in deltaplane_schemas.NAMES)
