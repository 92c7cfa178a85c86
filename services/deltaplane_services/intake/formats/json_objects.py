"""Records that are objects of JSON, read within bounds: what is larger, deeper or no JSON is refused with the reason.

They are read one by one, as Python's values, or many at once: then only what lies at some paths is made, and whatever
is unusual is left to the first way.

A member that comes twice has its last value, as in most readers of JSON. Numbers keep all of their digits up to
:data:`MOST_DIGITS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NoReturn, TypeAlias

import msgspec

from deltaplane_services.definition_file.intake_table import Path
from deltaplane_services.intake.formats.change import MOST_BYTES, BadRecord, check_size

__all__ = ["MOST_DEPTH", "MOST_DIGITS", "Columns", "columns_of_many", "parsed"]

MOST_DEPTH = 64
"""Objects and lists within each other. Records of business are less than ten deep."""

_FRAMING_BYTES = 5
"""Bytes that serializers with a schema registry put before a message."""

MOST_DIGITS = 1000
"""Digits of a whole number: one of 309 is beyond every float64 already, and reading digits takes their square."""


_COUNTED_AT_ONCE = 16
"""Records whose brackets are counted together. Those of business have seldom as many as one may have within another."""

Columns: TypeAlias = Callable[[Sequence[Any]], list[Sequence[Any]] | None]


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
    if size > 2 * MOST_DEPTH and _brackets(data) > MOST_DEPTH and _depth(value) > MOST_DEPTH:
        raise BadRecord(_TOO_DEEP)
    return value


def columns_of_many(paths: Sequence[Path]) -> Columns | None:
    """The function from the bytes of records to what lies at each of these paths; None for paths that it cannot have.

    It gives what :func:`parsed` and :func:`at_path` would, or None: then one has to be looked at by itself, such as
    one that is no JSON, or has something else than an object on a path.
    """
    prefixes = sorted({path[:length] for path in paths for length in range(1, len(path) + 1)}, key=len)
    if {path[:-1] for path in prefixes} & set(paths):
        return None
    try:
        types = _types(prefixes)
    except ValueError:
        # A name that cannot be compared with the bytes as they are.
        return None
    decode = msgspec.json.Decoder(types[()]).decode
    steps = [(path, attrgetter(f"m{at}"), types[path]() if path in types else None) for at, path in enumerate(prefixes)]

    def columns(values: Sequence[Any]) -> list[Sequence[Any]] | None:
        if not _are_plain(values):
            return None
        found: dict[Path, list[Any]] = {}
        try:
            found[()] = list(map(decode, values))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        for path, member, empty in steps:
            cells = list(map(member, found[path[:-1]]))
            if empty is not None and None in cells:
                # Where an object is missing, so is what would be in it.
                cells = [empty if cell is None else cell for cell in cells]
            found[path] = cells
        return [found[path] for path in paths]

    return columns


def _types(prefixes: Sequence[Path]) -> Mapping[Path, Any]:
    """The type of the objects at each path that is within others: of the members that these go on with, and no others.

    ``prefixes``: all paths and what they begin with, the shortest first. Raises ValueError for names that cannot be.
    """
    members: dict[Path, list[int]] = {}
    for at, path in enumerate(prefixes):
        members.setdefault(path[:-1], []).append(at)
    types: dict[Path, Any] = {}
    for within in sorted(members, key=len, reverse=True):
        names = {f"m{at}": prefixes[at][-1] for at in members[within]}
        fields = [
            (f"m{at}", types[prefixes[at]] | None if prefixes[at] in types else Any, None) for at in members[within]
        ]
        types[within] = msgspec.defstruct("Row", fields, rename=names, gc=False)
    return types


def _are_plain(values: Sequence[Any]) -> bool:
    """Whether all values are bytes that a decoder reads as :func:`parsed` does, if it reads them at all."""
    if set(map(type, values)) != {bytes}:
        return False
    joined = b" ".join(values)
    largest = max(map(len, values))
    if largest > MOST_BYTES or (largest > MOST_DIGITS and _may_have_long_numbers(joined)):
        return False
    if not joined.isascii():
        # It passes over texts that nobody asks for without looking at their UTF-8.
        try:
            joined.decode()
        except UnicodeDecodeError:
            return False
    return largest <= 2 * MOST_DEPTH or all(
        _brackets(b"".join(values[at : at + _COUNTED_AT_ONCE])) <= MOST_DEPTH
        or max(map(_brackets, values[at : at + _COUNTED_AT_ONCE])) <= MOST_DEPTH
        for at in range(0, len(values), _COUNTED_AT_ONCE)
    )


def _brackets(data: bytes) -> int:
    """The brackets that open: as deep as it may be."""
    return data.count(b"{") + data.count(b"[")


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
