"""Options that say what a data file holds and how it is written, for every command that reads one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

if TYPE_CHECKING:
    from deltaplane_services.definition_file.parsed_file import DefinitionFile

__all__ = ["INPUT", "MISSING_VALUES", "FormatOptions", "TimeOptions", "read_definition"]

INPUT = "What the file holds"
MISSING_VALUES = (
    "Texts and numbers that are missing values, besides ?, NA, null, …; a number however it is written; with commas."
)


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


@dataclass(frozen=True)
class FormatOptions:
    """How the file is written. Each option overrides the key of ``[input]`` with its name."""

    panel: ClassVar[str] = "How the file is written"

    features: Annotated[
        list[str] | None, typer.Option(help="Column that is a feature, in this order; may be repeated.")
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether a CSV file begins with names, or columns are 1, 2, …; told by its first line.",
        ),
    ] = None
    delimiter: Annotated[
        str | None, typer.Option(help="Character between cells of CSV, tab, or blanks: runs of them.")
    ] = None
    quote: Annotated[str | None, typer.Option(help='Character around cells; \\" if a backslash escapes it; none.')] = (
        None
    )
    comment: Annotated[str | None, typer.Option(help="What lines begin with that are no rows, such as '#'.")] = None
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of text: utf-8, utf-16, cp1252, …; told from its first bytes.")
    ] = None
    decimal: Annotated[
        str | None, typer.Option(help="Decimal sign of numbers in CSV and JSON Lines; a point by default.")
    ] = None
    thousands: Annotated[str | None, typer.Option(help="What separates thousands in numbers; nothing by default.")] = (
        None
    )
    missing_values: Annotated[list[str] | None, typer.Option("--missing-values", "--na", help=MISSING_VALUES)] = None
    rename: Annotated[list[str] | None, typer.Option(help="OLD=NEW: another name for a column; may be repeated.")] = (
        None
    )
    labels: Annotated[
        str | None, typer.Option(help="numbers (default: 1, 1.0 and +1 are one class), or text, as written.")
    ] = None
    libsvm_base: Annotated[
        str | None, typer.Option(help="First index of LIBSVM: 0, 1, or auto (default), told by the file.")
    ] = None
    number_of_features: Annotated[
        int | None, typer.Option(help="Features of LIBSVM; the highest index by default.")
    ] = None


def read_definition(definition: Path, times: TimeOptions, form: FormatOptions, **roles: Any) -> DefinitionFile:
    """A definition file, whose table ``[input]`` is overridden by the options on the data file and its columns."""
    from deltaplane_services.definition_file.parsed_file import DefinitionFile

    file = DefinitionFile.read(definition)
    return replace(file, input=file.input.with_options(**asdict(times), **asdict(form), **roles))
