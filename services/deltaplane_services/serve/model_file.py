"""A model that ``deltaplane model export`` has written, read from its file."""

from __future__ import annotations

import json
from pathlib import Path

from deltaplane.errors import DefinitionError
from deltaplane.log.exported_model import ExportedModel, exported_model
from deltaplane.stream.definition import StreamDefinition

__all__ = ["read_model_file"]


def read_model_file(path: Path, definition: StreamDefinition) -> ExportedModel:
    """The model of a file, for rows of the definition's stream. Raises :class:`DeltaplaneError`."""
    try:
        tables = json.loads(path.read_text("utf-8"))
    except OSError as fault:
        raise DefinitionError(f"model: {str(path)!r} cannot be read: {fault}") from fault
    except (ValueError, RecursionError) as fault:
        raise DefinitionError(f"model: {str(path)!r} is not JSON ({str(fault)[:200]})") from fault
    return exported_model(tables, definition)
