"""A history of rows as the bytes of a file: its definition and provenance in JSON, and its statistics.

The same table gives the same bytes, so that their hash names the history wherever it is published.
"""

from __future__ import annotations

import hashlib
import json

from deltaplane.errors import DeltaplaneError, WireError
from deltaplane.log.history import History
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire.partials import read_partial, write_partial
from deltaplane.wire.sealed_parts import open_sealed, seal

__all__ = ["history_name", "read_history", "write_history"]

_MAGIC = b"deltaplane history of rows, 1\n"
_CURE = "give a file that deltaplane bootstrap compute has written, whole"
_NAME_DIGITS = 16


def write_history(history: History) -> bytes:
    """The bytes of a history; equal ones give equal bytes."""
    head = {"definition": history.definition.to_tables(), "facts": dict(history.facts)}
    return seal(_MAGIC, [json.dumps(head, sort_keys=True).encode(), write_partial(history.partial)])


def read_history(data: bytes) -> History:
    """The history that was written. Raises :class:`WireError` for what is none, is damaged, or contradicts itself."""
    parts = list(open_sealed("history", _MAGIC, data, _CURE))
    if len(parts) != 2:
        raise WireError(f"history: expected 2 parts, got {len(parts)}; {_CURE}")
    try:
        head = json.loads(parts[0])
        definition = StreamDefinition.from_tables(head["definition"])
        return History(definition, read_partial(parts[1], definition), dict(head["facts"]))
    except DeltaplaneError as fault:
        raise WireError(f"history: {fault}") from fault
    except (KeyError, TypeError, ValueError, RecursionError) as fault:
        raise WireError(f"history: its parts do not hold together ({str(fault)[:200]}); {_CURE}") from fault


def history_name(data: bytes) -> str:
    """The name of a history: the first hexadecimal digits of the SHA-256 of its bytes."""
    return hashlib.sha256(data).hexdigest()[:_NAME_DIGITS]
