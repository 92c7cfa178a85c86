"""``deltaplane bootstrap``: the rows of a file, a folder or a Delta table as a source of a stream, without its log."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from deltaplane.errors import DefinitionError
from deltaplane_services.cli.file_options import INPUT, FormatOptions, TimeOptions, with_file
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import AsJson, DefinitionFile, within
from deltaplane_services.system.printable import echo, json_text

if TYPE_CHECKING:
    from deltaplane.log.history import History
    from deltaplane_services.lake.table_sums import ColumnsOfTable

__all__ = ["Columns", "ProcessCount", "Table", "Version", "bootstrap_app", "bootstrap_compute", "columns_of"]

bootstrap_app = typer.Typer(
    help="Rows of a file, a folder or a Delta table as a source of a stream, without sending them.",
    no_args_is_help=True,
)

Table = Annotated[
    str, typer.Argument(help="A file, a folder of files, or a Delta table.", metavar="TABLE", show_default=False)
]
Version = Annotated[
    int | None, typer.Option("--version", help="Version of a Delta table; the newest by default, which is then pinned.")
]
ProcessCount = Annotated[
    int | None,
    typer.Option("--processes", callback=within(1, 1024), help="Processes that read files; as many as cores."),
]


@bootstrap_app.callback()
def _bootstrap() -> None:
    """Keep each a command of its own, however few there are."""


@dataclass(frozen=True)
class Columns:
    """What the columns of the table are, laid over ``[input]`` of the definition."""

    panel: ClassVar[str] = INPUT

    label: Annotated[str | None, typer.Option(help="Column with the class.")] = None
    id: Annotated[
        str | None, typer.Option("--id", help="Column with ids; without one every row counts, and none can be retired.")
    ] = None
    time: Annotated[str | None, typer.Option(help="Column with event times.")] = None
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None


def columns_of(definition: Path, columns: Columns, times: TimeOptions, form: FormatOptions) -> ColumnsOfTable:
    """The definition of a stream, and what the columns of a table are."""
    from deltaplane.stream.definition import StreamDefinition
    from deltaplane_services.definition_file.definition_tables import lay_over_input, load_tables
    from deltaplane_services.lake.table_sums import ColumnsOfTable

    tables = lay_over_input(with_file(load_tables(definition), times, form), **vars(columns))
    stream = StreamDefinition.from_tables({key: tables[key] for key in tables if key not in _NOT_OF_THE_STREAM})
    return ColumnsOfTable(stream, tables.get("input", {}))


_NOT_OF_THE_STREAM = ("input", "service", "kafka", "intake")


@bootstrap_app.command("compute")
@with_groups
def bootstrap_compute(
    table: Table,
    definition: DefinitionFile,
    columns: Columns,
    times: TimeOptions,
    form: FormatOptions,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("history.stats"),
    version: Version = None,
    engine: Annotated[
        Literal["local"], typer.Option(help="What reads the table: processes of this machine.")
    ] = "local",
    last_by: Annotated[
        Literal["place", "time"] | None,
        typer.Option(help="Which version of an id counts: the last by place in the table (default), or by event time."),
    ] = None,
    retired_ids: Annotated[Path | None, typer.Option(help="File with ids that do not count, one a line.")] = None,
    processes: ProcessCount = None,
    as_json: AsJson = False,
) -> None:
    """Add up the rows of a table under a stream definition, exactly, and write their statistics with their provenance.

    Rows are admitted as a worker admits them; then the last version of each id counts, and retired ids do not. The file
    has no rows and no ids in it, and the same table gives the same bytes.
    """
    from deltaplane.wire.histories import write_history
    from deltaplane_services.lake.compute import Computing, compute_history
    from deltaplane_services.system.output_files import PRIVATE, OutputFile, check_output

    assert engine == "local"
    check_output(out, "out")
    computing = Computing(version, last_by, _ids_in(retired_ids), processes or os.cpu_count() or 1, _tell_files)
    history = compute_history(table, columns_of(definition, columns, times, form), computing)
    with OutputFile(out, "out", PRIVATE) as output:
        output.write(write_history(history))
        output.keep()
    _show(history, out, as_json=as_json)


def _ids_in(file: Path | None) -> frozenset[str]:
    """The ids in the lines of a file."""
    if file is None:
        return frozenset()
    try:
        return frozenset(line for line in file.read_text("utf-8").split("\n") if line)
    except (OSError, UnicodeDecodeError) as fault:
        raise DefinitionError(f"retired-ids: {str(file)!r} cannot be read: {fault}") from fault


def _tell_files(done: int, every: int) -> None:
    """Say how far it has come, where somebody looks."""
    if sys.stderr.isatty():
        typer.echo(f"\r{done:,} of {every:,} files", err=True, nl=done == every)


def _show(history: History, out: Path, *, as_json: bool) -> None:
    from deltaplane.wire.histories import history_name

    partial, facts = history.partial, history.facts
    if as_json:
        told = {
            "name": history_name(out.read_bytes()),
            "digest": partial.digest(),
            "rows": partial.rows,
            "classes": partial.statistics.counts(),
            "counts": dict(partial.counts),
            "refusals": dict(partial.refusals),
            "examples": dict(partial.examples),
            "rounding": dict(zip(history.definition.features, partial.rounding.tolist(), strict=True)),
            **{key: facts.get(key) for key in ("table", "version", "input")},
            "files": len(facts.get("files", ())),
        }
        typer.echo(json_text(told))
        return
    version = "" if facts.get("version") is None else f", version {facts['version']}"
    echo(f"{partial.rows:,} rows of {facts['table']}{version}, {len(facts['files']):,} files, written to {out}")
    echo(", ".join(f"{label}: {count:,}" for label, count in partial.statistics.counts().items()))
    others = {name: count for name, count in partial.counts.items() if name != "applied"}
    for name, count in {**others, **partial.refusals}.items():
        example = f" ({partial.examples[name]})" if name in partial.examples else ""
        echo(f"{count:,} {name}{example}", typer.colors.YELLOW)
    echo(f"digest {partial.digest()}")
