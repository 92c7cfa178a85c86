"""How many items the lists of a message may have, told before one of them is made.

A decoder makes a Python object of every item of a list: 60 to 250 bytes of memory for one that takes 1 to 5 bytes of
the message. A message of 64 MB, which a topic carries in some kilobytes, would then cost gigabytes. So the lists of a
long message are walked through first, by position and without an object, and one that has more items than anything
honest could have is refused where its limit is passed. Lists of float64 have no limit here: their items weigh a quarter
of what they cost. Short messages cost little whatever is in them, and are decoded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from deltaplane import limits
from deltaplane.errors import WireError

__all__ = ["LABELS_OF_A_BATCH", "Skip", "list_skipper"]

Skip: TypeAlias = Callable[[bytes, int], int]
"""Where a value of some type ends that begins at a place of some bytes. Raises IndexError beyond their end."""

LABELS_OF_A_BATCH = 2**16
"""What the uint16 codes of its rows can reach."""

_CLASSES = 2 * limits.CLASSES
"""Names of classes: ``not`` and a label are others than the label."""

_MOST: Mapping[str, int] = {
    "SampleBatch.labels": LABELS_OF_A_BATCH,
    "NamedSample.cells": limits.COLUMNS,
    "NamedSampleBatch.labels": LABELS_OF_A_BATCH,
    "NamedSampleBatch.columns": limits.COLUMNS,
    "NamedQuery.cells": limits.COLUMNS,
    "Labelled.labels": limits.CLASSES,
    "Delta.change": limits.WINDOWS * _CLASSES,
    "Checkpoint.statistics": limits.WINDOWS * _CLASSES,
    "Delta.scores": limits.SCORES,
    "Checkpoint.scores": limits.SCORES,
    "Model.scores": limits.SCORES,
    "Delta.counts": limits.OUTCOMES,
    "Checkpoint.counts": limits.OUTCOMES,
    "Checkpoint.dropped": limits.OUTCOMES,
    "Model.totals": limits.OUTCOMES,
    "Model.counts": _CLASSES,
    "Model.positions": limits.SOURCES,
    "Plane.classes": _CLASSES,
    "Plane.sigmas": _CLASSES,
    "Plane.counts": _CLASSES,
    "Trials.choices": limits.CHOICES,
    "Trials.targets": _CLASSES,
    "Blend.choices": limits.CHOICES,
    "Blend.targets": _CLASSES,
    "Prediction.decisions": _CLASSES,
    "Unanswered.decisions": _CLASSES,
    "DeadLetter.rest": limits.OUTCOMES,
}
"""The most items of each list and map, by its record and field. One that is not here cannot be decoded at all."""

_LONG_BYTES = 10


def list_skipper(schema: Mapping[str, Any]) -> Skip:
    """What finds the end of a record and raises :class:`WireError` where one of its lists has too many items.

    ``schema`` is an Avro schema in the form of ``fastavro.parse_schema``. Raises KeyError for a list without a limit.
    """
    return _skipper(schema, "", {})


def _skipper(schema: Any, place: str, named: dict[str, Skip]) -> Skip:
    if isinstance(schema, list):
        return _union([_skipper(branch, place, named) for branch in schema])
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    if kind in {"array", "map"}:
        return _list_of(schema, place, named)
    if kind == "record":
        name = schema["name"].rpartition(".")[2]
        parts = [_skipper(field["type"], f"{name}.{field['name']}", named) for field in schema["fields"]]
        return named.setdefault(schema["name"], _record(parts))
    if kind == "fixed":
        return named.setdefault(schema["name"], _fixed(schema["size"]))
    return named[kind] if kind in named else _PLAIN[kind]


def _list_of(schema: Mapping[str, Any], place: str, named: dict[str, Skip]) -> Skip:
    if schema["type"] == "map":
        return _list(_record([_bytes, _skipper(schema["values"], place, named)]), place, _MOST[place])
    if schema["items"] == "double":
        return _doubles
    return _list(_skipper(schema["items"], place, named), place, _MOST[place])


def _long(data: bytes, at: int) -> tuple[int, int]:
    """(value, its end) of an Avro long."""
    byte = data[at]
    if byte < 0x80:  # Most are short.
        return (byte >> 1) ^ -(byte & 1), at + 1
    zigzag = shift = 0
    begin = at
    while byte & 0x80:
        zigzag |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if at - begin >= _LONG_BYTES:
            raise WireError(f"a number that begins at byte {begin} takes more than {_LONG_BYTES} bytes")
        byte = data[at]
    zigzag = (zigzag | byte << shift) & (2**64 - 1)
    return (zigzag >> 1) ^ -(zigzag & 1), at + 1


def _number(data: bytes, at: int) -> int:
    return _long(data, at)[1]


def _bytes(data: bytes, at: int) -> int:
    length, at = _long(data, at)
    if length < 0:
        raise WireError(f"a length before byte {at} is {length}, expected 0 or more")
    return at + length


def _fixed(size: int) -> Skip:
    return lambda _, at: at + size


def _union(branches: list[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        branch, at = _long(data, at)
        if not 0 <= branch < len(branches):
            raise WireError(f"a union's branch before byte {at} is {branch}, expected 0 to {len(branches) - 1}")
        return branches[branch](data, at)

    return skip


def _record(parts: list[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        for part in parts:
            at = part(data, at)
        return at

    return skip


def _block(data: bytes, at: int) -> tuple[int, int]:
    """(number of items, where the first begins) of a block of a list."""
    count, at = _long(data, at)
    # A negative number is followed by the block's size in bytes, which the decoder does not go by either.
    return (count, at) if count >= 0 else (-count, _number(data, at))


def _doubles(data: bytes, at: int) -> int:
    count, at = _block(data, at)
    while count:
        count, at = _block(data, at + 8 * count)
    return at


def _list(item: Skip, place: str, most: int) -> Skip:
    def skip(data: bytes, at: int) -> int:
        count, at = _block(data, at)
        items = count
        while count:
            if items > most:
                raise WireError(f"expected at most {most:,} items of {place}, got {items:,} or more")
            for _ in range(count):
                at = item(data, at)
            count, at = _block(data, at)
            items += count
        return at

    return skip


_PLAIN: Mapping[str, Skip] = {
    "null": _fixed(0),
    "boolean": _fixed(1),
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _bytes,
    "string": _bytes,
    "int": _number,
    "long": _number,
    "enum": _number,
}
