"""The options that say what a data file holds, for all commands that read one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

__all__ = ["INPUT", "TimeOptions", "with_times"]

INPUT = "What the file holds"


@dataclass(frozen=True)
class TimeOptions:
    """How event times are written in the file."""

    panel: ClassVar[str] = INPUT

    time_unit: Annotated[
        str | None,
        typer.Option(
            help="What times that are numbers count: s, ms, us, ns since 1970, or days of a spreadsheet; told by the"
            " first rows by default."
        ),
    ] = None
    time_format: Annotated[
        str | None,
        typer.Option(
            help="Form of times that are not in ISO 8601, such as '%d/%m/%Y %H:%M'. Which comes first is never guessed."
        ),
    ] = None
    time_zone: Annotated[
        str | None, typer.Option(help="Zone of times without an offset, such as Europe/Berlin; UTC by default.")
    ] = None


def with_times(tables: Mapping[str, Any], times: TimeOptions) -> dict[str, Any]:
    """The tables of a definition with what the command line says of times."""
    from deltaplane_services.definition_file.definition_tables import lay_over

    if times.time_unit is not None or times.time_format is not None:
        # One on the command line takes the place of the other in the file.
        kept = {key: value for key, value in tables.get("input", {}).items() if key not in ("time_unit", "time_format")}
        tables = {**tables, "input": kept}
    return lay_over(
        tables, "input", time_unit=times.time_unit, time_format=times.time_format, time_zone=times.time_zone
    )
