"""A definition file, parsed once: what everything behind the command line is given in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltaplane.stream.declared import DeclaredStream
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.definition_tables import load_tables
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.definition_file.settings import SERVICE_TABLES

__all__ = ["DefinitionFile"]


@dataclass(frozen=True)
class DefinitionFile:
    """What a definition file says of its stream, and of data files.

    ``service``: the tables ``[service]`` and ``[kafka]`` as they stand, by their names; a run on Kafka gives them to
    the services that it starts, in a file of theirs.
    """

    stream: DeclaredStream = field(default_factory=DeclaredStream)
    input: InputTable = field(default_factory=InputTable)
    service: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, tables: Mapping[str, Any]) -> DefinitionFile:
        """The file with these tables.

        Raises :class:`~deltaplane.errors.DefinitionError` for an unknown key, or a value of another type.
        """
        service = {name: tables[name] for name in SERVICE_TABLES if name in tables}
        return cls(DeclaredStream.of(tables), InputTable.of(tables.get("input", {})), service)

    @classmethod
    def read(cls, path: Path | None) -> DefinitionFile:
        """The file at a path; one that says nothing for None. Raises as :meth:`of`, and if it cannot be read."""
        return cls.of(load_tables(path))

    @property
    def definition(self) -> StreamDefinition:
        """The definition of the stream. Raises :class:`~deltaplane.errors.DefinitionError` if it is not complete."""
        return StreamDefinition.of(self.stream)
