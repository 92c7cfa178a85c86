"""``deltaplane inspect``: the features that each column of a file would become, and why."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from deltaplane_services.cli.file_options import FormatOptions
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import DataFile
from deltaplane_services.system.printable import echo

__all__ = ["inspect"]


@with_groups
def inspect(
    file: DataFile,
    form: FormatOptions,
    label: Annotated[str | None, typer.Option(help="Column with the class.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column with unique ids.")] = None,
    time: Annotated[str | None, typer.Option(help="Column with the event time.")] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="Columns that are categories, whatever they look like; with commas.")
    ] = None,
    number: Annotated[list[str] | None, typer.Option(help="Columns that are numbers; with commas.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Columns to leave out; with commas.")] = None,
    refuse_missing: Annotated[
        list[str] | None, typer.Option(help="Columns whose missing values refuse a row; with commas.")
    ] = None,
    write_definition: Annotated[
        Path | None, typer.Option(help="Write the stream definition, with a reason above each rule.")
    ] = None,
) -> None:
    """Look at the first 10,000 rows of a file: which features each column becomes, and why.

    Ids and constants are left out; texts become categories, or are hashed if they are many; what is missing is filled
    in, and has a feature that says so. A column that alone gives the label is pointed out.
    """
    from deltaplane.columns.inference import Overrides
    from deltaplane_services.definition_file.definition_tables import names_of
    from deltaplane_services.definition_file.input_table import InputTable
    from deltaplane_services.definition_file.parsed_file import DefinitionFile
    from deltaplane_services.operations.inspecting import Roles, definition_text, first_rows, inspect
    from deltaplane_services.produce.feed_options import reader_options
    from deltaplane_services.system.output_files import check_output, write_text

    check_output(write_definition, "write-definition")
    given = InputTable().with_options(**asdict(form))
    written = replace(given, features=None)
    said = Overrides(
        category=names_of(category),
        number=names_of(number),
        ignore=names_of(ignore),
        features=names_of(given.features),
        refuse=names_of(refuse_missing),
        missing=written.missing_values or (),
    )
    options = reader_options(DefinitionFile(input=written))
    roles = Roles(label, id_column, time)
    found = inspect(first_rows(file, options, roles.named.values()), roles, said)
    decisions = found.inferred.decisions
    width = min(40, max(len(one.column) for one in decisions))
    for one in decisions:
        echo(f"{one.column:<{width}}  {one.reason}", None if one.rule else typer.colors.BRIGHT_BLACK)
        if one.warning:
            echo(f"{'':<{width}}  {one.warning}", typer.colors.YELLOW)
    used, width = sum(one.rule is not None for one in decisions), len(found.inferred.encoder.features)
    echo(f"{found.rows:,} rows: {used} of {len(decisions)} columns become {width} features")
    if found.labels:
        echo(f"labels: {', '.join(f'{text} {rows:,}' for text, rows in found.labels[:10])}")
    for rows, what in ((found.inferred.refused_rows, "cannot be encoded"), (found.passed_over, "have other cells")):
        if rows:
            echo(f"{rows:,} rows {what} and would be refused", typer.colors.YELLOW)
    if write_definition is not None:
        write_text(write_definition, definition_text(found, said=written.table), "write-definition")
