"""What a record of a user's topic says, whatever its form: a row as it is now, or that a row is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from deltaplane.errors import DeltaplaneError

__all__ = [
    "MOST_BYTES",
    "BadRecord",
    "Change",
    "Decoder",
    "Parser",
    "RegistryUnavailable",
    "check_size",
    "kind_of",
    "row_reader",
]

MOST_BYTES = 2**20
"""Bytes of a record: Kafka's own bound for one, unless a topic says otherwise."""


class BadRecord(ValueError):
    """The reason why a record cannot be read."""


class RegistryUnavailable(DeltaplaneError):
    """A schema registry that does not answer; what needs its schemas waits."""


class Change(NamedTuple):
    """A row as parsed JSON has it; ``gone``: it was deleted, and of the row only what identifies it may be there.

    ``of_key``: the row is what the record's key says, which names only the members of its primary key.
    """

    row: Any
    gone: bool = False
    of_key: bool = False


Parser: TypeAlias = Callable[[bytes], Any]
"""From the bytes of a key or a value to what they say, as parsed JSON has it.

Raises :class:`BadRecord`, and :class:`RegistryUnavailable` where a registry has to be asked.
"""

Decoder: TypeAlias = Callable[[bytes | None, bytes | None], Change | None]
"""From key and value to the change; None for a record that says nothing of a row. Raises what a parser raises."""


def check_size(data: bytes, form: str) -> None:
    """Raise :class:`BadRecord` for more bytes than a record may have; ``form`` is what they are said to be."""
    if len(data) > MOST_BYTES:
        raise BadRecord(f"expected at most {MOST_BYTES:,} bytes of {form}, got {len(data):,}")


def row_reader(parse: Parser) -> Decoder:
    """The reader of records whose value is a row."""

    def read_change(key: bytes | None, value: bytes | None) -> Change:
        del key
        if value is None:
            raise BadRecord(
                "the record has no value; where a database deletes rows so, its records are of the form debezium-json"
            )
        row = parse(value)
        if not isinstance(row, dict):
            raise BadRecord(f"expected an object with members, got {kind_of(row)}")
        return Change(row)

    return read_change


def kind_of(value: Any) -> str:
    """What a value is that is no object, in words."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "a number"
