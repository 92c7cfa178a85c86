"""Records that are objects of JSON, read within bounds: what is larger, deeper or no JSON is refused with the reason.

A member that comes twice has its last value, as in most readers of JSON. Numbers keep all of their digits up to
:data:`MOST_DIGITS`.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec

from deltaplane_services.intake.formats.change import BadRecord, check_size

__all__ = ["MOST_DEPTH", "MOST_DIGITS", "parsed"]

MOST_DEPTH = 64
"""Objects and lists within each other. Records of business are less than ten deep."""

_FRAMING_BYTES = 5
"""Bytes that serializers with a schema registry put before a message."""

MOST_DIGITS = 1000
"""Digits of a whole number: one of 309 is beyond every float64 already, and reading digits takes their square."""


def parsed(data: bytes) -> Any:
    """The value of a text in JSON. Raises :class:`BadRecord`."""
    size = len(data)
    if size > MOST_DIGITS:
        check_size(data, "JSON")
    try:
        # Three times as fast, and what it reads is what the other one reads. What it refuses, the other one looks at:
        # that has the reasons, and a few numbers and texts that this one has no room for.
        value = _read(data) if size > MOST_DIGITS and _may_have_long_numbers(data) else _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = _read(data)
    # Few records have so many brackets, and of these most are wide and not deep. None has more brackets than bytes.
    if size > 2 * MOST_DEPTH and data.count(b"{") + data.count(b"[") > MOST_DEPTH and _depth(value) > MOST_DEPTH:
        raise BadRecord(_TOO_DEEP)
    return value


_decode = msgspec.json.Decoder().decode


_TOO_DEEP = f"expected objects and lists at most {MOST_DEPTH} deep, got deeper ones"


def _no_number(text: str) -> NoReturn:
    raise BadRecord(f"expected JSON, which has no number {text}")


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise BadRecord(f"expected whole numbers of at most {MOST_DIGITS} digits, got one of {len(digits):,}")
    return int(digits)


def _may_have_long_numbers(data: bytes) -> bool:
    """Whether more than :data:`MOST_DIGITS` digits may stand side by side; looked at in a few places alone."""
    apart, length = MOST_DIGITS // 2, MOST_DIGITS // 4
    return any(data[at : at + length].isdigit() for at in range(0, len(data), apart))


_decoder = json.JSONDecoder(parse_constant=_no_number, parse_int=_whole)


def _read(data: bytes) -> Any:
    try:
        return _decoder.decode(data.decode())
    except UnicodeDecodeError as fault:
        what = f"the byte 0x{data[fault.start]:02x} at {fault.start:,}"
        raise BadRecord(f"expected JSON in UTF-8, got {what}{_looks_like(data)}") from None
    except RecursionError:
        raise BadRecord(_TOO_DEEP) from None
    except json.JSONDecodeError as fault:
        what = f"what is none at character {fault.pos:,}: {fault.msg}"
        raise BadRecord(f"expected JSON, got {what}{_looks_like(data)}") from None


def _looks_like(data: bytes) -> str:
    """What bytes that are no JSON look like by their beginning, and what to do then; empty if they look like nothing.

    JSON has no zero byte. A registry's framing is one, and four bytes of an id; in UTF-16 every other byte of plain
    text is one.
    """
    if data.startswith(b"\xef\xbb\xbf"):
        return "; it begins with a byte order mark, which JSON may not have: write UTF-8 without one"
    if data.startswith(b"\x1f\x8b"):
        return "; it looks like gzip: let Kafka's client compress, and not the program (compression.type)"
    if data.startswith(b"\0") and len(data) > _FRAMING_BYTES and data[1:2] != b"{":
        return "; it looks framed by a schema registry: see format in [intake]"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4]:
        return "; it looks like UTF-16 or UTF-32: write UTF-8"
    return ""


def _depth(value: Any) -> int:
    """How many objects and lists there are within each other."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth
