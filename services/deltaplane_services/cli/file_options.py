"""The options that say what a data file holds, for all commands that read one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

INPUT = "What the file holds"

TimeUnit = Annotated[
    str | None,
    typer.Option(
        help="What times that are numbers count: s, ms, us, ns since 1970, or days of a spreadsheet; told by the first"
        " rows by default.",
        rich_help_panel=INPUT,
    ),
]
TimeFormat = Annotated[
    str | None,
    typer.Option(
        help="Form of times that are not in ISO 8601, such as '%d/%m/%Y %H:%M'. Day or month first is never guessed.",
        rich_help_panel=INPUT,
    ),
]
TimeZone = Annotated[
    str | None,
    typer.Option(help="Zone of times without an offset, such as Europe/Berlin; UTC by default.", rich_help_panel=INPUT),
]


def with_times(tables: Mapping[str, Any], unit: str | None, form: str | None, zone: str | None) -> dict[str, Any]:
    """The tables of a definition with what the command line says of times."""
    from deltaplane_services.definition_file.definition_tables import lay_over

    if unit is not None or form is not None:
        # One on the command line takes the place of the other in the file.
        kept = {key: value for key, value in tables.get("input", {}).items() if key not in ("time_unit", "time_format")}
        tables = {**tables, "input": kept}
    return lay_over(tables, "input", time_unit=unit, time_format=form, time_zone=zone)
