"""``deltaplane grid refit``: a new grid when a feature has outgrown the grid of its stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaplane_services.cli.file_options import FormatOptions, TimeOptions, read_definition
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import IdleSeconds, SiteOptions, check, tell_secrets

__all__ = ["grid_app", "refit"]

grid_app = typer.Typer(help="The grid that a stream's values are placed on.", no_args_is_help=True)


@grid_app.callback()
def _grid() -> None:
    """Do nothing; without a callback Typer would merge a group that has one command with that command."""


@grid_app.command("refit")
@with_groups
def refit(
    stream: SiteOptions,
    times: TimeOptions,
    form: FormatOptions,
    out: Annotated[Path, typer.Option(help="Where the definition of the new stream is written.")],
    source: Annotated[
        str | None, typer.Option("--from", help="Fit on the rows of this file, and not on the log of the stream.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the new stream; the old one and -refit by default.")] = None,
    idle_seconds: IdleSeconds = 1.0,
) -> None:
    """Fit a wider grid for features that have outgrown theirs, for a new stream that takes over the window.

    It reads the raw rows from the oldest live one on, the refused ones among them, from the samples topic or from a
    file. Features that have not outgrown their grid keep it. Nothing of the running stream is changed.
    """
    from deltaplane_services.definition_file.definition_tables import load_tables
    from deltaplane_services.definition_file.settings import without_secrets_of
    from deltaplane_services.definition_file.toml_writer import as_toml
    from deltaplane_services.operations.copying import pass_live_log
    from deltaplane_services.operations.refitting import RowsSeen, check_new, refitted_tables, rows_of_file
    from deltaplane_services.system.output_files import check_output, mode_of, write_text

    settings = stream.settings()
    old, tables = settings.definition, load_tables(stream.definition)
    new_name = name or f"{old.name}-refit"
    check_new(out, new_name, old)
    check_output(out, "grid refit")
    if source is None:
        check(settings, "auditor")
        seen = RowsSeen(old)
        pass_live_log(settings, seen.add_records, idle_seconds)
    else:
        seen = rows_of_file(source, read_definition(stream.definition, times, form), old)
    found = seen.refit()
    public, secrets = without_secrets_of(refitted_tables(tables, old, found, new_name))
    write_text(out, as_toml(public), "grid refit", mode_of(stream.definition))
    for one in found.outgrown:
        typer.echo(
            f"{one.feature}: {one.rows:,} rows were outside ({one.old_range[0]:g}, {one.old_range[1]:g}); now"
            f" ({one.new_range[0]:g}, {one.new_range[1]:g}), resolution {one.old_step:g} → {one.new_step:g}"
        )
    typer.echo(
        f"{seen.fit:,} rows fitted the old grid; of {seen.refused:,} that did not, {found.still_refused:,} fit the new"
        f" one no more\ndefinition of stream {new_name}: {out}\nnext:"
        f"\n  deltaplane copy --regrid --definition {stream.definition} --to {out}"
        "    # the window, then what still comes"
        f"\n  deltaplane worker --definition {out} …; deltaplane merger --definition {out} …"
        f"\n  deltaplane audit --definition {out}; then point producers and scorers at {new_name}"
    )
    tell_secrets(secrets, out)
