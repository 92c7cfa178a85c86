"""A check of the number of items in the lists of a message, before the decoder makes any of them.

The problem: the decoder makes a Python object of every item of a list, 60 to 250 bytes of memory for an item that takes
1 to 5 bytes of the message. A message of 64 MB, which compresses to some kilobytes on a topic, would take gigabytes.
How it is solved: the lists of a long message are first walked through by position, without making objects, and a list
with more items than any honest one could have is refused. Lists of float64 have no limit here, since the 8 bytes of an
item are a quarter of what it takes in memory. Short messages take little whatever is in them, and are decoded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from deltaplane import limits
from deltaplane.errors import WireError

__all__ = ["LABELS_OF_A_BATCH", "Skip", "list_skipper"]

Skip: TypeAlias = Callable[[bytes, int], int]
"""(bytes, position of a value) to the position at which the value ends. Raises IndexError beyond the last byte."""

LABELS_OF_A_BATCH = 2**16
"""The most labels of a batch: as many as a uint16 code can tell apart."""

_CLASSES = 2 * limits.CLASSES
"""The most names of classes: each label, and each label with a ``not`` before it."""

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
    "Trials.choices": limits.CANDIDATES_OF_A_WINDOW,
    "Trials.targets": _CLASSES,
    "Tallied.targets": _CLASSES,
    "Aimed.targets": _CLASSES,
    "Binned.targets": limits.CALIBRATED_CLASSES,
    "Calibrated.targets": limits.CALIBRATED_CLASSES,
    "Blend.choices": limits.CANDIDATES_OF_A_WINDOW,
    "Blend.targets": _CLASSES,
    "Prediction.decisions": _CLASSES,
    "FullPrediction.decisions": _CLASSES,
    "FullPrediction.probabilities": _CLASSES,
    "FullPrediction.reasons": limits.COLUMNS,
    "Unanswered.decisions": _CLASSES,
    "DeadLetter.rest": limits.OUTCOMES,
    "Partial.statistics": _CLASSES,
    "Partial.counts": limits.OUTCOMES,
    "Partial.refusals": limits.OUTCOMES,
    "Partial.examples": limits.OUTCOMES,
}
"""``Record.field`` to the most items of that list or map. A schema with a list that is missing here does not load."""

_LONG_BYTES = 10


def list_skipper(schema: Mapping[str, Any]) -> Skip:
    """A function that finds the end of a record, and raises :class:`WireError` if a list in it has too many items.

    ``schema`` is the Avro schema, as ``fastavro.parse_schema`` returns it. Raises KeyError for a list without a limit.
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
    """(value, end) of the Avro long at position ``at``."""
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
    """(number of items, position of the first) of the block of a list at position ``at``."""
    count, at = _long(data, at)
    # A negative number is followed by the block's size in bytes, which the decoder ignores, too.
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
