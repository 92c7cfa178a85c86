"""The few things that may happen to a caller, each named by what happened.

Every message says what, where, what was expected, what came, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = [
    "DefinitionError",
    "DefinitionMismatch",
    "DeltaGap",
    "DeltaplaneError",
    "ExtraMissing",
    "LimitExceeded",
    "LogDisorder",
    "LogReplaced",
    "RowsRefused",
    "SolveRefused",
    "SourceRemoved",
    "StateMismatch",
    "TableMismatch",
    "WireError",
]


class DeltaplaneError(Exception):
    """Any failure that Deltaplane itself reports; its text is meant for the person who runs it."""


class DefinitionError(DeltaplaneError):
    """A stream definition, or an option that overrides it, cannot be used as written."""


class RowsRefused(DeltaplaneError, ValueError):
    """Rows or labels that can be neither learned nor answered; nothing came of the call they were given to.

    ``refusals``: the reason for each row that is refused by itself, by its place in the call, counted from 0.
    """

    def __init__(self, text: str, refusals: Mapping[int, str] = MappingProxyType({})) -> None:
        super().__init__(text)
        self.refusals = refusals


class DefinitionMismatch(DeltaplaneError):
    """A message or a stored state was made under another stream definition: one with the fingerprint ``came``."""

    def __init__(self, text: str, came: bytes = b"") -> None:
        super().__init__(text)
        self.came = came


class TableMismatch(DeltaplaneError):
    """A table has not the columns that its encoder reads, or not as many cells in each."""


class WireError(DeltaplaneError):
    """Bytes on a topic are not the record they should be."""


class DeltaGap(DeltaplaneError):
    """Deltas of a source do not tile: something between two positions is missing."""


class LogDisorder(DeltaplaneError):
    """Records of a log do not come in the order of their offsets, or lie where the log has none."""


class LogReplaced(DeltaplaneError):
    """A log is not the one that a state was read from: it was made anew, or has lost its end."""


class StateMismatch(DeltaplaneError):
    """Two states that must be the same integers are not."""


class SourceRemoved(DeltaplaneError):
    """A source was removed from the stream and comes back unasked."""


class SolveRefused(DeltaplaneError):
    """The statistics do not determine a plane; the last good model stays in force."""


class LimitExceeded(DeltaplaneError):
    """A bound of :mod:`deltaplane.limits` was reached."""


class ExtraMissing(DeltaplaneError, ModuleNotFoundError):
    """A library is not installed that the asked-for part needs; the text names the extra that brings it."""
