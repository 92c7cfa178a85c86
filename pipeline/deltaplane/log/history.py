"""A history of rows that was summed outside the stream: its statistics, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition

__all__ = ["History"]


@dataclass(frozen=True)
class History:
    """What the rows of a table add up to under a definition.

    ``facts``: where they came from, in plain values of JSON: ``table``, its ``version`` if it has versions, the
    ``columns`` by their role, the ``files`` with what each adds up to, and how ids that come several times were
    resolved. Nothing in them depends on when or by how many processes it was computed, so that the same table gives the
    same bytes.
    """

    definition: StreamDefinition
    partial: Partial
    facts: Mapping[str, Any] = field(default_factory=dict)
