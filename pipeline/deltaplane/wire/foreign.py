"""Names for bytes that are no message of ours, found by how they begin, and what to send instead.

These words stand in dead letters and logs, for whoever has pointed another topic, a converter or another stream's
producer at a topic. Bytes that begin like a known format are said to be that; if other bytes may begin so, too, the
word *perhaps* is added. The contents are never repeated, since they are rows of somebody. At most :data:`LOOK_BYTES`
bytes are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = [
    "LEAVE_PACKING",
    "LOOK_BYTES",
    "REGISTRY_HEADER_BYTES",
    "SEND_BYTES",
    "SEND_OURS",
    "is_text",
    "registry_framing",
    "what_came",
]

LOOK_BYTES = 4096
"""The number of bytes at the beginning of a message that are read."""

REGISTRY_HEADER_BYTES = 5
"""The bytes that a schema registry's serializer writes before a record: a zero, and four of the schema's number."""

SEND_OURS = (
    "send Avro single-object encoding with the schemas of this version (schemas/README.md), or use SampleProducer"
)
LEAVE_PACKING = "leave packing to the producer (compression.type)"
SEND_BYTES = "send the bytes themselves"

_BEGINNINGS = tuple(
    (re.compile(pattern, re.DOTALL), what, cure)
    for pattern, what, cure in (
        (rb"Obj\x01", "an Avro object container file", "send each record by itself, in single-object encoding"),
        (rb"PAR1", "a Parquet file", "send its rows: deltaplane produce reads Parquet"),
        (rb"\x1f\x8b", "bytes packed by gzip", LEAVE_PACKING),
        (rb"\x28\xb5\x2f\xfd", "bytes packed by zstd", LEAVE_PACKING),
        (rb"\x04\x22\x4d\x18", "bytes packed by lz4", LEAVE_PACKING),
        (rb"\xff\x06\0\0sNaPpY", "bytes packed by snappy", LEAVE_PACKING),
        (rb"\xac\xed\0\x05", "an object that Java has serialised", SEND_OURS),
        (rb"\x80[\x02-\x05][\x8c\x95}\](cX]", "a pickle of Python", SEND_OURS),
        (rb"ww[E-H][A-Za-z0-9+/_-]{8,}={0,2}\s*", "a message of ours written as base64", SEND_BYTES),
        (rb"(0x|\\x)?[cC]301[0-9a-fA-F]{16,}\s*", "a message of ours written in hexadecimal", SEND_BYTES),
    )
)
_GLUE = re.compile(rb"\x03[\0\x05].{6}[\x10-\x5f].[\x80-\xbf].{7}", re.DOTALL)
_JSON = re.compile(r"""\{|\[\s*([\[{"\-0-9tfn]|\]|$)""")
_JSON_WITHIN = re.compile(r"""\"\s*(\\"|\{|\[)""")
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def what_came(data: bytes) -> tuple[str, str]:
    """(what the bytes are, what to do about it), each as half a sentence; for ``data`` without a header of ours.

    Never raises, and takes a time that does not depend on the length of ``data``.
    """
    head, size = data[:LOOK_BYTES], f"{len(data):,} bytes"
    if not data:
        return "an empty value", "publish the record itself"
    for pattern, what, cure in _BEGINNINGS:
        if pattern.match(head):
            return f"{what} ({size})", cure
    if (framed := registry_framing(head)) is not None:
        return f"{framed} ({size})", SEND_OURS + "; a serializer of a schema registry writes another framing"
    if (text := _text(head)) is not None:
        return f"{_kind_of_text(text)} ({size})", SEND_OURS
    begins = f"{size} beginning {data[:10].hex()}"
    if head.startswith(b"\xc3\x01"):
        return (
            f"{begins}, the mark of a schema that this version does not have",
            "encode with the schemas of this version: another field, type or name is another schema",
        )
    return f"perhaps Protocol Buffers ({begins})" if _is_protobuf(data) else begins, SEND_OURS


def is_text(head: bytes) -> bool:
    """Whether ``head`` is the beginning of a printable text in UTF-8."""
    return _text(head) is not None


def registry_framing(head: bytes) -> str | None:
    """The framing of a schema registry that a record beginning with ``head`` has, in words; None if it has none."""
    if head[:1] == b"\0" and len(head) >= REGISTRY_HEADER_BYTES:
        number = int.from_bytes(head[1:5])
        if number:
            return f"Confluent schema registry framing (00, schema id {number})"
        if number := int.from_bytes(head[1:9]) if len(head) >= 9 else 0:
            return f"perhaps Apicurio registry framing (00, id {number})"
    if _GLUE.match(head):
        text = head[2:18].hex()
        return f"AWS Glue schema registry framing (schema {'-'.join(map(text.__getitem__, _UUID))})"
    return None


_UUID = (slice(0, 8), slice(8, 12), slice(12, 16), slice(16, 20), slice(20, 32))


def _text(head: bytes) -> str | None:
    """The beginning as a text, or None if it is not printable UTF-8."""
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        # The last character may have been cut in two.
        if fault.start < len(head) - 3 or len(head) < LOOK_BYTES:
            return None
        text = head[: fault.start].decode("utf-8-sig")
    printable = all(char.isprintable() or char in "\t\r\n" for char in text)
    return text if printable else None


def _kind_of_text(text: str) -> str:
    begun = text.lstrip()
    if _JSON.match(begun):
        return "JSON"
    if _JSON_WITHIN.match(begun):
        return "JSON within a JSON text"
    if begun.startswith("<"):
        return "XML or another markup"
    line = begun.partition("\n")[0]
    for mark, name in _SEPARATORS.items():
        if mark in line:
            return f"plain text with {name}, perhaps a line of CSV"
    return "plain text" if begun else "blank text"


def _is_protobuf(data: bytes) -> bool:
    """Whether the bytes are a sequence of whole fields of Protocol Buffers, which other bytes may be by chance."""
    ends = list(_protobuf_fields(data)) if 4 <= len(data) <= LOOK_BYTES else []
    return ends[-1:] == [len(data)]


def _protobuf_fields(data: bytes) -> Iterator[int]:
    """The end of each field, up to the first bytes that are no field."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if not 0 < number < 20_000 or kind not in _FIXED_BYTES:
            return
        value = _FIXED_BYTES[kind]
        if value is None:
            value, at = _varint(data, at)
        if value < 0:
            return
        at += 0 if kind == 0 else value
        if at > len(data):
            return
        yield at


_FIXED_BYTES = {0: None, 1: 8, 2: None, 5: 4}
"""Wire type to the number of bytes of a field; None if a varint gives the value (0) or its number of bytes (2)."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(number written in seven bits a byte, its end); -1 if there is no number."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    return -1, at
