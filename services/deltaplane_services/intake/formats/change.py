"""What a record of a user's topic says, whatever its form: a row as it is now, or that a row is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

__all__ = ["BadRecord", "Change", "Decoder"]


class BadRecord(ValueError):
    """The reason why a record cannot be read."""


class Change(NamedTuple):
    """A row as parsed JSON has it; ``gone``: it was deleted, and of the row only what identifies it may be there.

    ``of_key``: the row is what the record's key says, which names only the members of its primary key.
    """

    row: Any
    gone: bool = False
    of_key: bool = False


Decoder: TypeAlias = Callable[[bytes | None, bytes | None], Change | None]
"""From key and value to the change; None for a record that says nothing of a row. Raises :class:`BadRecord`."""
