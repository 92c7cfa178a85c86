"""What lies at the paths of many rows: a column for each path, None where nothing does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from deltaplane_services.definition_file.intake_table import Path

__all__ = ["at_path", "columns_at"]

_Columns: TypeAlias = Callable[[Sequence[Any]], list[Sequence[Any]]]


def at_path(row: Any, path: Path) -> Any:
    """What lies at a path of one row, as parsed JSON has it; None if nothing does."""
    for name in path:
        if type(row) is dict:
            row = row.get(name)
        elif isinstance(row, list) and name.isdecimal() and int(name) < len(row):
            row = row[int(name)]
        else:
            return None
    return row


def columns_at(paths: Sequence[Path]) -> _Columns:
    """The function from rows to what lies at each of these paths, in their order."""
    # A path that others begin with comes before them, so that each step is taken once for all rows.
    prefixes = sorted({path[:length] for path in paths for length in range(1, len(path) + 1)}, key=len)

    def columns(rows: Sequence[Any]) -> list[Sequence[Any]]:
        found: dict[Path, Sequence[Any]] = {(): rows}
        only_objects: dict[Path, bool] = {}
        for path in prefixes:
            within, name = path[:-1], path[-1]
            parents = found[within]
            if within not in only_objects:
                only_objects[within] = set(map(type, parents)) <= {dict}
            if only_objects[within]:
                # As most are, which is several times as fast.
                found[path] = [parent.get(name) for parent in parents]
            else:
                found[path] = [at_path(parent, (name,)) for parent in parents]
        return [found[path] for path in paths]

    return columns
