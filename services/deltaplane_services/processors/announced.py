"""Definitions that writers have announced, remembered so that a mismatch can say which settings differ.

A producer of single samples announces its definition with one record a minute. Records in between are explained by its
last announcement.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltaplane.errors import DefinitionMismatch, DeltaplaneError
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.mismatch import Announced, explained, read_announcement
from deltaplane_services.processors.messages import Record

__all__ = [
    "BAD_RECORD",
    "MOST_REMEMBERED",
    "OTHER_DEFINITION",
    "OtherDefinitions",
    "explained_mismatch",
    "other_definition",
]

BAD_RECORD, OTHER_DEFINITION = "bad record", "other definition"
"""Kinds of dead letters."""

MOST_REMEMBERED = 32
"""The most definitions of others that are remembered, by fingerprint; the oldest is forgotten first."""


class OtherDefinitions:
    """The other definitions that writers have announced on the topics of one processor."""

    def __init__(self, definition: StreamDefinition) -> None:
        self._definition = definition
        self._announced: dict[str, Announced] = {}
        self._texts: dict[bytes, str] = {}

    def kind_and_reason(self, record: Record, fault: DeltaplaneError) -> tuple[str, str]:
        """(kind, reason) of the dead letter for a record that cannot be read, or is of another definition."""
        if isinstance(fault, DefinitionMismatch):
            return OTHER_DEFINITION, self.reason(record, fault)
        return BAD_RECORD, str(fault)

    def reason(self, record: Record, fault: DefinitionMismatch) -> str:
        """Why a record is refused: what was expected, what came, and which settings differ as far as announced."""
        said = None if record.announced is None else read_announcement(record.announced)
        if said is not None:
            for fingerprint in (said.data_fingerprint, said.stream_fingerprint):
                self._remember(fingerprint, said)
        if said is not None or fault.came not in self._texts:
            if len(self._texts) >= MOST_REMEMBERED:
                self._texts.clear()
            came = fault.came.hex()
            self._texts[fault.came] = explained(self._definition, came, self._announced.get(came))
        return f"{fault}; {self._texts[fault.came]}"

    def _remember(self, fingerprint: str, said: Announced) -> None:
        self._announced.pop(fingerprint, None)
        if len(self._announced) >= MOST_REMEMBERED:
            del self._announced[next(iter(self._announced))]
        self._announced[fingerprint] = said


def explained_mismatch(definition: StreamDefinition, record: Record, fault: DefinitionMismatch) -> DefinitionMismatch:
    """``fault`` with the settings that differ, as far as the record itself announces its writer's definition."""
    return DefinitionMismatch(OtherDefinitions(definition).reason(record, fault), fault.came)


def other_definition(definition: StreamDefinition, records: Iterable[Record]) -> str:
    """The difference that the first record of another stream definition announces, in words; empty if none does."""
    for record in records:
        said = None if record.announced is None else read_announcement(record.announced)
        if said is not None and said.stream_fingerprint != definition.stream_fingerprint.hex():
            came = said.stream_fingerprint
            return f"; the first is of definition {came}: {explained(definition, said.stream_fingerprint, said)}"
    return ""
