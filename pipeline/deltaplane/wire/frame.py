"""The frame of every message: two marker bytes, the 8-byte fingerprint of its schema, and the record in Avro.

This is Avro's single-object encoding. The fingerprint says which record it is, and in which version, so that bytes of
another kind are refused before anything is decoded, with a name for what came. No message can make the decoder run
away: every item of an array takes bytes of the message, and a length that reaches beyond its end is refused before
anything is allocated. Many small items cannot take much memory either: those of a long message are counted before one
of them is made (items.py).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import fastavro

import deltaplane_schemas
from deltaplane import limits
from deltaplane.errors import DefinitionMismatch, LimitExceeded, WireError
from deltaplane.wire.foreign import LOOK_BYTES, REGISTRY_HEADER_BYTES, is_text, registry_framing, what_came
from deltaplane.wire.items import list_skipper

__all__ = ["HEADER_BYTES", "Fields", "check_fingerprint", "header", "read_record", "write_record"]

Fields: TypeAlias = dict[str, Any]
"""A decoded record: field name to value."""

HEADER_BYTES = 10


def _single_object_header(schema: Fields) -> bytes:
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


_RAW: Mapping[str, Fields] = {name: deltaplane_schemas.load(name) for name in deltaplane_schemas.NAMES}
_HEADERS = {name: _single_object_header(schema) for name, schema in _RAW.items()}
_PARSED: Mapping[str, Any] = {name: fastavro.parse_schema(schema) for name, schema in _RAW.items()}
_END_OF = {name: list_skipper(schema) for name, schema in _PARSED.items()}
_NAME_OF_HEADER = {header: name for name, header in _HEADERS.items()}


def header(name: str) -> bytes:
    """The first :data:`HEADER_BYTES` bytes of every message of a record, given the name of its schema."""
    return _HEADERS[name]


def write_record(name: str, fields: Mapping[str, Any]) -> bytes:
    """The message of one record, given the name of its schema.

    Raises :class:`WireError` if a field does not fit its type, such as a time beyond int64 or half of a surrogate pair,
    and :class:`LimitExceeded` if the message is longer than a reader would take.
    """
    out = io.BytesIO()
    out.write(_HEADERS[name])
    try:
        fastavro.schemaless_writer(out, _PARSED[name], fields)
    except (ValueError, TypeError, OverflowError) as fault:
        raise WireError(
            f"{name}: expected values that its schema can hold, got one that it cannot ({fault})"
        ) from fault
    if out.tell() > limits.MESSAGE_BYTES:
        raise LimitExceeded(
            f"{name}: expected at most {limits.MESSAGE_BYTES:,} bytes, got {out.tell():,}; send smaller batches"
        )
    return out.getvalue()


def read_record(data: bytes | None, allowed: Iterable[str]) -> tuple[str, Fields]:
    """(schema name, fields) of a message that may be one of ``allowed``. Raises :class:`WireError` on anything else."""
    allowed = tuple(allowed)
    expected = " or ".join(allowed)
    if data is None:
        raise WireError(
            f"message: expected {expected}, got a null value (a tombstone); publish the record itself, and a retirement"
            " to take a row out"
        )
    if len(data) > limits.MESSAGE_BYTES:
        raise WireError(
            f"message: expected at most {limits.MESSAGE_BYTES:,} bytes, got {len(data):,}; send smaller batches"
        )
    name = _NAME_OF_HEADER.get(data[:HEADER_BYTES])
    if name is None:
        came, cure = _what_came(data, allowed)
        raise WireError(f"message: expected {expected} in Avro single-object encoding, got {came}; {cure}")
    if name not in allowed:
        raise WireError(f"message: expected {expected}, got {name}; it was published to the wrong topic")
    _check_items(name, data)
    stream = io.BytesIO(data)
    stream.seek(HEADER_BYTES)
    try:
        fields = fastavro.schemaless_reader(stream, _PARSED[name], None)
    except Exception as fault:
        # The decoder raises whatever its C code runs into: end of data, bad UTF-8, an index out of range.
        raise WireError(
            f"{name}: {len(data)} bytes do not decode ({type(fault).__name__}: {fault}); publish it again"
        ) from fault
    if stream.tell() != len(data):
        raise WireError(f"{name}: expected {stream.tell()} bytes, got {len(data)}; bytes were appended to the record")
    assert isinstance(fields, dict), "every schema is a record"
    return name, fields


def _what_came(data: bytes, allowed: Iterable[str]) -> tuple[str, str]:
    """As :func:`what_came`, but a record of ours that lacks only its header is said to be that."""
    came, cure = what_came(data)
    if is_text(data[:LOOK_BYTES]):
        return came, cure
    framed = registry_framing(data[:LOOK_BYTES]) is not None
    for name in allowed:
        put = f"put the 10 bytes {_HEADERS[name].hex()} in front of the record, and nothing else"
        if _decodes(name, data):
            return f"perhaps a {name} without its header ({len(data):,} bytes beginning {data[:10].hex()})", put
        if framed and _decodes(name, data[REGISTRY_HEADER_BYTES:]):
            return f"a {name} in {came}", put
    return came, cure


def _decodes(name: str, body: bytes) -> bool:
    """Whether ``body`` is a whole record without a header; never for more than :data:`LOOK_BYTES` bytes."""
    stream = io.BytesIO(body)
    try:
        if 16 < len(body) <= LOOK_BYTES:
            fastavro.schemaless_reader(stream, _PARSED[name], None)
    except Exception:  # noqa: BLE001 - as in read_record: the decoder raises whatever its C code runs into.
        return False
    return 0 < stream.tell() == len(body)


def _check_items(name: str, data: bytes) -> None:
    """Raise :class:`WireError` if a list in a long message has more items than it may have."""
    if len(data) <= limits.UNWALKED_BYTES:
        return
    try:
        _END_OF[name](data, HEADER_BYTES)
    except IndexError:
        return  # The message ends too early. The decoder, which takes the same steps, reports that.
    except WireError as fault:
        raise WireError(f"{name}: {fault}; publish it again") from fault


def check_fingerprint(name: str, came: bytes, expected: bytes) -> None:
    """Raise :class:`DefinitionMismatch` if the data fingerprint that ``came`` is not the expected one."""
    if came != expected:
        raise DefinitionMismatch(
            f"{name}: expected data fingerprint {expected.hex()}, got {came.hex()}; give every process the same"
            " definition",
            came,
        )
