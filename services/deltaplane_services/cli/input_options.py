"""The flags that say how a data file is written: every command that reads one has them, each is a key of [input]."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import typer

from deltaplane_services.definition_file.definition_tables import Tables, lay_over

FILE_HELP = (
    "CSV, Parquet, LIBSVM, ARFF, KEEL or JSON Lines, packed (.gz .bz2 .xz .zst .zip) or not; - is standard input."
)
PANEL = "How the file is written"


@dataclass(frozen=True)
class InputFlag:
    """A flag, the key of [input] that it is laid over, and what it says."""

    key: str
    flag: str
    kind: Any
    help: str


FLAGS = (
    InputFlag("features", "--features", list[str], "Column that is a feature, in this order; may be repeated."),
    InputFlag("header", "--header/--no-header", bool, "Whether a CSV file begins with names; else columns are 1, 2, …"),
    InputFlag("delimiter", "--delimiter", str, "Character between cells of CSV, tab, or blanks: runs of them."),
    InputFlag("quote", "--quote", str, 'Character around cells; \\" if a backslash escapes it; none.'),
    InputFlag("comment", "--comment", str, "What lines begin with that are no rows, such as '#'."),
    InputFlag("encoding", "--encoding", str, "Encoding of text: utf-8, utf-16, cp1252, …; told from its first bytes."),
    InputFlag("decimal", "--decimal", str, "Decimal sign of numbers in CSV and JSON Lines; a point by default."),
    InputFlag("thousands", "--thousands", str, "What separates thousands in numbers; nothing by default."),
    InputFlag("na", "--na", list[str], "Text that is a missing value, instead of ?, NA, null, …; may be repeated."),
    InputFlag("rename", "--rename", list[str], "OLD=NEW: another name for a column; may be repeated."),
    InputFlag("labels", "--labels", str, "numbers (default: 1, 1.0 and +1 are one class), or text, as written."),
    InputFlag("libsvm_base", "--libsvm-base", str, "First index of LIBSVM: 0, 1, or auto (default), told by the file."),
    InputFlag("number_of_features", "--number-of-features", int, "Features of LIBSVM; the highest index by default."),
)

InputFlags = Mapping[str, Any]
"""What was given of :data:`FLAGS`, by key: see :func:`with_input_flags`."""


def with_input_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags that say how a file is written, as its one argument ``written``."""

    def called(**given: Any) -> None:
        written = {flag.key: given.pop(flag.key) for flag in FLAGS}
        command(**given, written=written)

    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters.items()
    own = [one.replace(annotation=hints[name]) for name, one in parameters if name != "written"]
    added = list(map(_parameter, FLAGS))
    # What can only be given by name comes last in a signature.
    every = sorted([*own, *added], key=lambda one: one.kind is inspect.Parameter.KEYWORD_ONLY)
    called.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in every}
    return called


def _parameter(flag: InputFlag) -> inspect.Parameter:
    option = typer.Option(flag.flag, help=flag.help, rich_help_panel=PANEL)
    kind: Any = flag.kind
    annotation = Annotated[kind | None, option]
    return inspect.Parameter(flag.key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


def lay_over_input(tables: Tables, written: InputFlags) -> Tables:
    """The tables with what was given on the command line."""
    given = {key: value for key, value in written.items() if value is not None and value != []}
    if given.get("delimiter") in ("tab", "\\t"):
        given["delimiter"] = "\t"
    return lay_over(tables, "input", **given)
