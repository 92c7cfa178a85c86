"""What a message costs to decode: lists of small items are counted before one of them is made."""

from __future__ import annotations

import contextlib
import io
import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltaplane_schemas
from deltaplane import limits
from deltaplane.errors import WireError
from deltaplane.wire import items, read_samples, single_samples
from deltaplane.wire.frame import HEADER_BYTES, header, read_record
from golden.wire_examples import DATA, EXAMPLES, zigzag

SCHEMAS: dict[str, Any] = {
    name: fastavro.parse_schema(deltaplane_schemas.load(name)) for name in deltaplane_schemas.NAMES
}
MANY = 8_000_000
MOST_BYTES = 10**6
"""Memory that a refusal takes at most, whatever the message."""


def least(schema: Any, place: str, named: dict[str, Any]) -> Iterator[tuple[str, bytes, bytes]]:
    """(place, message up to a list, its least item) of every list with small items; lists before it are empty."""
    before = b""
    for field in schema["fields"]:
        kind = field["type"]
        for branch, one in enumerate(kind) if isinstance(kind, list) else [(None, kind)]:
            index = b"" if branch is None else zigzag(branch)
            if isinstance(one, Mapping):
                named[one.get("name", "")] = one
                if one["type"] == "record":
                    yield from (
                        (at, before + index + head, item)
                        for at, head, item in least(one, one["name"].rpartition(".")[2], named)
                    )
                elif one["type"] in {"array", "map"} and one.get("items") != "double":
                    value = smallest(one.get("items", one.get("values")), named)
                    item = value if one["type"] == "array" else b"\0" + value
                    yield f"{place}.{field['name']}", before + index, item
                    if isinstance(one.get("items"), Mapping):
                        list(least(one["items"], "", named))
        before += smallest(kind, named)


def smallest(schema: Any, named: Mapping[str, Any]) -> bytes:
    """The shortest bytes of a type."""
    if isinstance(schema, list):
        return b"\0" + smallest(schema[0], named)
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    if kind == "record":
        return b"".join(smallest(field["type"], named) for field in schema["fields"])
    if kind == "fixed":
        return bytes(schema["size"])
    return {"null": b"", "double": bytes(8)}.get(kind, b"\0")


LISTS = [
    (name, place, head, item)
    for name, schema in SCHEMAS.items()
    for place, head, item in least(schema, schema["name"].rpartition(".")[2], {})
]


def peak_of(name: str, data: bytes) -> int:
    """The most memory held at once while a message is refused for its number of items."""
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match=r"expected at most [\d,]+ items of"):
            read_record(data, (name,))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_every_list_with_small_items_is_among_those_that_are_tried() -> None:
    assert {place.rpartition(".")[2] for _, place, _, _ in LISTS} == {at.rpartition(".")[2] for at in items._MOST}
    assert len(LISTS) >= len(items._MOST)


@pytest.mark.parametrize(("name", "place", "head", "item"), LISTS, ids=[f"{one[0]}-{one[1]}" for one in LISTS])
@pytest.mark.parametrize("block", ["one block", "blocks of one", "a block that says its size"])
def test_many_small_items_are_refused_before_they_are_made(
    name: str, place: str, head: bytes, item: bytes, block: str
) -> None:
    count = MANY // len(item) if block != "blocks of one" else max(items._MOST[place], limits.UNWALKED_BYTES) + 1
    body = {
        "one block": zigzag(count) + item * count,
        "blocks of one": (zigzag(1) + item) * count,
        "a block that says its size": zigzag(-count) + zigzag(0) + item * count,
    }[block]
    data = header(name) + head + body + zigzag(0)
    assert peak_of(name, data) <= MOST_BYTES, place


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_ends_for_the_counter_where_it_ends_for_the_decoder(name: str) -> None:
    example = EXAMPLES[name]
    golden = example.golden()
    assert items.list_skipper(SCHEMAS[example.schema])(golden, HEADER_BYTES) == len(golden)


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
def test_whatever_the_decoder_reads_of_damaged_bytes_the_counter_has_walked_through(
    name: str, data: st.DataObject
) -> None:
    example = EXAMPLES[name]
    golden = example.golden()
    start = data.draw(st.integers(HEADER_BYTES, len(golden)))
    stop = data.draw(st.integers(start, min(len(golden), start + 4)))
    damaged = golden[:start] + data.draw(st.binary(max_size=12)) + golden[stop:]
    stream = io.BytesIO(damaged)
    stream.seek(HEADER_BYTES)
    try:
        fastavro.schemaless_reader(stream, SCHEMAS[example.schema], None)
        end = stream.tell()
    except Exception:  # noqa: BLE001 - whatever it says, it has made no item beyond what it could read.
        return
    with contextlib.suppress(WireError):  # It may be stricter; what is refused is not decoded.
        assert items.list_skipper(SCHEMAS[example.schema])(damaged, HEADER_BYTES) == end


def test_a_label_table_larger_than_codes_reach_is_refused_and_one_within_reach_is_read() -> None:
    def batch(labels: int) -> bytes:
        return b"".join(
            (header("sample_batch"), DATA, zigzag(1), zigzag(2), b"\1\0", zigzag(1), b"i", zigzag(8), bytes(8))
        ) + b"".join((zigzag(labels), b"\2x" * labels, zigzag(0), zigzag(2), b"\0\0", zigzag(1), zigzag(16), bytes(16)))

    assert peak_of("sample_batch", batch(31_000_000)) <= MOST_BYTES
    assert peak_of("sample_batch", batch(2**16 + 1)) <= MOST_BYTES
    assert read_samples(batch(2**16), 2, DATA, 0, 0).label_table == ("x",)


def test_a_number_without_end_is_left_at_its_tenth_byte() -> None:
    gathered = single_samples(2, DATA)
    head, tail = header("sample") + DATA + zigzag(1) + b"i", zigzag(2) + bytes(16) + zigzag(0)
    # Quadratic, were it read to its end: minutes.
    data = head + b"\xff" * 7_000_000 + b"\1" + zigzag(1) + b"x" + tail
    assert not gathered.take(data, 0, 0)
    with pytest.raises(WireError, match="takes more than 10 bytes"):
        read_record(data, ("sample",))
