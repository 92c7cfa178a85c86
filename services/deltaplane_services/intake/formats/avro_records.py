"""Records in Avro: of one schema that a file has, or each of the schema whose id stands before it, by a registry.

The registry's client and its framing are those of confluent-kafka. What a schema could have a reader do without end is
refused with the schema: lists of items that take no bytes, and records within themselves, which overflow the stack.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro

from deltaplane.errors import DefinitionError
from deltaplane_services.intake.formats.change import BadRecord, Parser, check_size
from deltaplane_services.intake.formats.registry import Registry

__all__ = ["by_registry", "of_file", "why_unbounded"]

_FAULTS = (EOFError, ValueError, LookupError, TypeError, ArithmeticError, struct.error, RecursionError)
"""What fastavro raises for bytes that are none of the schema."""


def of_file(path: Path, where: str) -> Parser:
    """The parser of records that all have the schema of a file, ``where`` being the key that names it.

    Raises :class:`DefinitionError` if the file has none, or one that is refused.
    """
    try:
        raw = json.loads(path.read_text("utf-8"))
        schema = fastavro.parse_schema(raw)
    except OSError as fault:
        raise DefinitionError(
            f"{where}: {str(path)!r} cannot be read: {fault}; paths begin where the process does"
        ) from None
    except Exception as fault:  # noqa: BLE001 - fastavro has many errors, some of which are bare.
        raise DefinitionError(f"{where}: {str(path)!r} is no schema of Avro: {str(fault)[:200]}") from None
    if why := why_unbounded(raw):
        raise DefinitionError(f"{where}: {str(path)!r}: {why}")

    def parse(data: bytes) -> Any:
        check_size(data, "Avro")
        stream = io.BytesIO(data)
        return _read(lambda: fastavro.schemaless_reader(stream, schema, None), lambda: stream)

    return parse


def by_registry(registry: Registry) -> Parser:
    """The parser of records before which the id of their schema stands."""
    from confluent_kafka.schema_registry import dual_schema_id_deserializer
    from confluent_kafka.schema_registry.avro import AvroDeserializer

    streams: list[io.BytesIO] = []
    checked: set[Any] = set()

    def framed(data: bytes, context: Any, schema_id: Any) -> io.BytesIO:
        """The bytes behind the id; kept, so that what is left of them can be looked at."""
        streams[:] = [dual_schema_id_deserializer(data, context, schema_id)]
        name = schema_id.id if schema_id.id is not None else schema_id.guid
        if name not in checked:
            for each in registry.schemas_of(schema_id):
                if why := why_unbounded(each):
                    raise BadRecord(f"schema {name}: {why}")
            checked.add(name)
        return streams[0]

    read = AvroDeserializer(registry.client, conf={"schema.id.deserializer": framed})

    def parse(data: bytes) -> Any:
        check_size(data, "Avro")
        with registry.asked():
            return _read(lambda: read(data, None), lambda: streams[0])

    return parse


def _read(read: Callable[[], Any], rest: Callable[[], io.BytesIO]) -> Any:
    """What ``read`` has read, if nothing of the record is left then in ``rest``."""
    try:
        value = read()
    except BadRecord:
        raise
    except _FAULTS as fault:
        said = str(fault) or type(fault).__name__
        raise BadRecord(f"expected Avro of its schema, got bytes that are none: {said[:200]}") from None
    if more := len(rest().read()):
        raise BadRecord(f"expected Avro of its schema, got {more:,} bytes more than it has")
    return _plain(value)


def _plain(value: Any) -> Any:
    """A value of Avro as JSON has it: times as ISO 8601, decimals with all of their digits; bytes stay bytes."""
    if isinstance(value, str | int | float) or value is None:
        return value
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, UUID | Decimal) else value


def why_unbounded(schema: Any) -> str | None:
    """Why a schema, as JSON has it, may have a reader work without end; None if it may not."""
    try:
        _Walk().may_be_empty(schema, (), "")
    except _Unbounded as found:
        return str(found)
    except RecursionError:
        return "the schema is nested too deep"
    return None


class _Unbounded(Exception):
    """What is unbounded in a schema."""


class _Walk:
    """A walk through a schema, which knows of each type with a name whether its values may take no bytes."""

    def __init__(self) -> None:
        self._empty: dict[str, bool] = {}

    def may_be_empty(self, schema: Any, within: Collection[str], space: str) -> bool:
        """Whether values may take no bytes. Raises :class:`_Unbounded`. ``within``: the records around it."""
        if isinstance(schema, str):
            return self._named(schema, within, space)
        if isinstance(schema, list):
            # Which of them it is takes a byte.
            for one in schema:
                self.may_be_empty(one, within, space)
            return False
        return isinstance(schema, Mapping) and self._declared(schema, within, space)

    def _named(self, name: str, within: Collection[str], space: str) -> bool:
        full = name if "." in name or not space else f"{space}.{name}"
        if name in within or full in within:
            raise _Unbounded(f"its record {name!r} may lie within itself, without end; flatten it")
        return name == "null" or self._empty.get(full, self._empty.get(name, False))

    def _declared(self, schema: Mapping[str, Any], within: Collection[str], space: str) -> bool:
        kind = schema.get("type")
        if kind in ("record", "error", "fixed"):
            name, space = _full(schema, space)
            types = [one.get("type") for one in schema.get("fields", [])]
            fields = [self.may_be_empty(one, [*within, name], space) for one in types]
            return self._empty.setdefault(name, schema.get("size") == 0 if kind == "fixed" else all(fields))
        if kind in ("array", "map"):
            empty = self.may_be_empty(schema.get("items" if kind == "array" else "values"), within, space)
            if empty and kind == "array":
                raise _Unbounded("it has a list of items that take no bytes: a few bytes may be one without end")
            return False
        return kind != "enum" and self.may_be_empty(kind, within, space)


def _full(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """(the full name of a type that is declared, the namespace of what lies within)."""
    name = str(schema.get("name", ""))
    if "." in name:
        return name, name.rpartition(".")[0]
    space = str(schema.get("namespace", space))
    return (f"{space}.{name}" if space else name), space
