"""Changes of a database as Debezium publishes them: in JSON, with schemas beside them or without, or in Avro.

``c``, ``r`` and ``u`` say how a row is now, ``d`` says that it is gone. So does a tombstone, a record without a value,
which follows each ``d``: the row is named by the record's key then.
"""

from __future__ import annotations

from typing import Any

from deltaplane.columns.cells import shown
from deltaplane_services.intake.formats.change import BadRecord, Change, Decoder, Parser, kind_of

__all__ = ["change_reader"]

_NOW, _GONE = ("c", "r", "u"), "d"


def change_reader(parse: Parser) -> Decoder:
    """The reader of envelopes; of a message that is of no row (``m``) it returns None."""
    return lambda key, value: _change(parse, key, value)


def _change(parse: Parser, key: bytes | None, value: bytes | None) -> Change | None:
    if value is None:
        return Change(_named(parse, key), gone=True, of_key=True)
    envelope = _unwrapped(parse(value))
    if not isinstance(envelope, dict) or "op" not in envelope:
        raise BadRecord('expected an envelope of Debezium, with "op", "before" and "after", got something else')
    operation = envelope["op"]
    if operation == "m":
        return None
    if operation == "t":
        raise BadRecord("a table was truncated, which names no row; retire its rows by id, or begin another stream")
    if operation == _GONE:
        before = envelope.get("before")
        if isinstance(before, dict):
            return Change(before, gone=True)
        return Change(_named(parse, key), gone=True, of_key=True)
    if operation not in _NOW:
        raise BadRecord(f"expected the operation c, r, u, d, t or m, got {shown(operation)}")
    after = envelope.get("after")
    if not isinstance(after, dict):
        raise BadRecord(f'expected the row as it is now in "after" of operation {operation}, got {kind_of(after)}')
    return Change(after)


def _unwrapped(value: Any) -> Any:
    """The payload, if a schema is beside it."""
    if isinstance(value, dict) and "payload" in value and value.keys() <= {"schema", "payload"}:
        return value["payload"]
    return value


def _named(parse: Parser, key: bytes | None) -> dict[str, Any]:
    if key is None:
        raise BadRecord("a row is gone, and the record has no key that names it; the table needs a primary key")
    row = _unwrapped(parse(key))
    if not isinstance(row, dict):
        raise BadRecord("a row is gone, and the record's key is no object that names it")
    return row
