"""``deltaplane bootstrap``: the rows of a file, a folder or a Delta table as a source of a stream, without its log."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from deltaplane.errors import DefinitionError
from deltaplane_services.cli.file_options import INPUT, FormatOptions, TimeOptions, read_definition
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import SECONDS, AsJson, DefinitionFile, SiteOptions, check, within
from deltaplane_services.system.printable import echo, json_text

if TYPE_CHECKING:
    from deltaplane.log.delta import SourceState
    from deltaplane.log.history import History
    from deltaplane_services.definition_file.settings import ServiceSettings
    from deltaplane_services.lake.auditing import HistoryAccount
    from deltaplane_services.lake.table_sums import ColumnsOfTable
    from deltaplane_services.processors.history_source import HistoryLog, HistorySource

__all__ = [
    "Columns",
    "HistoryFile",
    "HistoryOptions",
    "LastVersionBy",
    "MovedTable",
    "ProcessCount",
    "RetiredIds",
    "SourceName",
    "Table",
    "Version",
    "Wait",
    "audited_history",
    "bootstrap_app",
    "bootstrap_compute",
    "bootstrap_publish",
    "bootstrap_retire",
    "bootstrap_rows",
    "columns_of",
    "history_source",
    "wait_for_model",
]

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
LastVersionBy = Annotated[
    Literal["place", "time"] | None,
    typer.Option("--last-by", help="Which row is the last: by place in the table (default), or by event time."),
]
RetiredIds = Annotated[Path | None, typer.Option("--retired-ids", help="File with ids that do not count, one a line.")]
HistoryFile = Annotated[
    Path, typer.Argument(help="A file that bootstrap compute has written.", metavar="HISTORY", show_default=False)
]
SourceName = Annotated[
    str, typer.Option("--source", help="Name of the source, as of a site; each history of a stream has its own.")
]
MovedTable = Annotated[str | None, typer.Option("--table", help="Where the table of the history is, if it was moved.")]
Wait = Annotated[float, typer.Option(callback=SECONDS, help="Seconds to wait for a model that contains it.")]


@dataclass(frozen=True)
class HistoryOptions:
    """What an audit needs to compute a history again."""

    panel: ClassVar[str] = "A history among the sources"

    history: Annotated[
        Path | None, typer.Option(help="File of a history that was published: it is computed again from its table.")
    ] = None
    source: SourceName = "history"
    table: MovedTable = None
    retired_ids: Annotated[
        Path | None, typer.Option(help="The file of ids that did not count when the history was computed.")
    ] = None
    sql: Annotated[
        int, typer.Option(callback=within(0, 100_000), help="Entries of each class that plain SQL finds again besides.")
    ] = 0
    sql_seed: Annotated[
        int | None, typer.Option(help="Seed by which these are drawn; told in the result, new each time by default.")
    ] = None


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
    from deltaplane_services.lake.table_sums import ColumnsOfTable

    file = read_definition(definition, times, form, **vars(columns))
    return ColumnsOfTable(file.definition, file.input)


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
        Literal["local", "spark"],
        typer.Option(help="What reads the table: processes of this machine, or Spark, whose executors see its files."),
    ] = "local",
    last_by: LastVersionBy = None,
    retired_ids: RetiredIds = None,
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

    check_output(out, "out")
    computing = Computing(version, last_by, _ids_in(retired_ids), processes or os.cpu_count() or 1, _tell_files)
    asked = columns_of(definition, columns, times, form)
    if engine == "spark":
        from deltaplane_services.lake.spark_sums import SparkSums

        history = compute_history(table, asked, computing, SparkSums)
    else:
        history = compute_history(table, asked, computing)
    with OutputFile(out, "out", PRIVATE) as output:
        output.write(write_history(history))
        output.keep()
    _show(history, out, as_json=as_json)


@bootstrap_app.command("rows")
@with_groups
def bootstrap_rows(
    table: Table,
    definition: DefinitionFile,
    columns: Columns,
    times: TimeOptions,
    form: FormatOptions,
    out: Annotated[Path, typer.Option(help="The file to write (Avro), which deltaplane restore publishes.")],
    version: Version = None,
    last_by: LastVersionBy = None,
    retired_ids: RetiredIds = None,
) -> None:
    """Write the last rows of a table, all that windows of rows or of time would hold of it, as a backup.

    deltaplane restore publishes it on the topics of a new stream, which goes on from there as if all rows had come.
    """
    from deltaplane_services.lake.compute import Computing
    from deltaplane_services.lake.last_rows import last_rows_of_table
    from deltaplane_services.operations.backup import BackupWriter

    asked, now = columns_of(definition, columns, times, form), time.time_ns() // 1_000_000
    with BackupWriter(out, asked.definition, "out") as writer:
        computing = Computing(version, last_by, _ids_in(retired_ids), told=_tell_files)
        rows = last_rows_of_table(table, asked, computing, now)
        writer.begin(rows.labels)
        for record in rows.records():
            writer.add((record,))
        digest = rows.statistics.digest(asked.definition.data_fingerprint)
        writer.end(digest)
    echo(f"{rows.rows:,} rows of {rows.read:,} that were read, {len(rows.retired):,} retirements, written to {out}")
    _tell_refused(rows.refusals, rows.examples)
    echo(f"digest {digest}")


@bootstrap_app.command("publish")
@with_groups
def bootstrap_publish(
    file: HistoryFile,
    stream: SiteOptions,
    source: SourceName = "history",
    cut: Annotated[
        int | None,
        typer.Option(
            "--cut",
            help="Begin a live source (--source SITE/PARTITION) with the history; its worker goes on at this offset of"
            " samples, the one after the last in the table. Only for streams that keep no rows.",
        ),
    ] = None,
    wait: Wait = 120.0,
) -> None:
    """Make a history a source of a stream, in one tile; what is there already is not published again.

    It may be killed and run again at any time. Only windows over everything take a history.
    """
    from deltaplane_services.kafka.history_log import KafkaHistoryLog
    from deltaplane_services.processors.history_beginning import begin_source

    settings = stream.settings()
    # Whoever begins a live source does what its worker does.
    check(settings, "historian" if cut is None else "worker")
    history = history_source(settings, file, source) if cut is None else _live_source(settings, file, source)
    with KafkaHistoryLog(settings) as log:
        new = history.publish(log) if cut is None else begin_source(history, log, cut, log.bounds_of(history.source))
        state = log.state(history.source)
    partial = history.history.partial
    said = "published" if new else "published before, nothing was written"
    echo(f"{history.source}: {said}; {partial.rows:,} rows, tile {state.sequence - 1:,}, digest {partial.digest()}")
    wait_for_model(settings, state, wait)


@bootstrap_app.command("retire")
@with_groups
def bootstrap_retire(
    ids: Annotated[list[str], typer.Argument(help="Ids of rows of the history.")],
    stream: SiteOptions,
    history: Annotated[Path, typer.Option(help="The file that was published.")],
    source: SourceName = "history",
    table: MovedTable = None,
    retired_ids: RetiredIds = None,
    processes: ProcessCount = None,
    wait: Wait = 120.0,
) -> None:
    """Take rows of a history out again, by id: they are found in its table, at the version that it was computed from.

    Ids that have no row there, or are out already, are told and change nothing. Exit code 1: not all ids are out.
    """
    from deltaplane_services.kafka.history_log import KafkaHistoryLog
    from deltaplane_services.lake.recomputing import TableOfHistory

    settings = stream.settings()
    check(settings, "historian")
    published = history_source(settings, history, source)
    rows = TableOfHistory(published.history, table, processes or os.cpu_count() or 1, _tell_files)
    with KafkaHistoryLog(settings) as log:
        gone, before = rows.never_counted(ids), _ids_in(retired_ids)
        outcomes = published.retire(log, ids, lambda asked, at: rows.rows_of(asked, at, before), gone)
        state = log.state(published.source)
    for sample_id, outcome in outcomes.items():
        echo(f"{sample_id}: {_OUTCOMES[outcome]}", None if outcome == "retired" else typer.colors.YELLOW)
    wait_for_model(settings, state, wait)
    if "unknown" in outcomes.values():
        raise typer.Exit(1)


_OUTCOMES = {
    "retired": "retired, its row is taken out; there is a receipt",
    "duplicate": "duplicate: it was out before, this took nothing out",
    "unknown": "unknown: the table has no row of it that counts; nothing was taken out",
}


def history_source(settings: ServiceSettings, file: Path, name: str) -> HistorySource:
    """The history in a file as a source of a stream."""
    from deltaplane.log.delta import Source
    from deltaplane.wire.histories import history_name, read_history
    from deltaplane_services.processors.history_source import HistorySource

    if name == settings.site:
        raise DefinitionError(f"source: {name!r} is the site whose workers read samples; give a history another name")
    data = _bytes_of(file)
    return HistorySource(settings.definition, Source(name, 0), read_history(data), history_name(data))


def _live_source(settings: ServiceSettings, file: Path, name: str) -> HistorySource:
    """The history in a file as the beginning of a source of the site, which is named SITE/PARTITION."""
    from deltaplane.log.delta import Source
    from deltaplane.wire.histories import history_name, read_history
    from deltaplane_services.processors.history_source import HistorySource

    places = {str(one): one for one in (Source(settings.site, at) for at in range(settings.definition.partitions))}
    if name not in places:
        raise DefinitionError(
            f"source: with --cut expected SITE/PARTITION of a live source of this site, such as"
            f" {settings.site}/0, with up to {len(places)} partitions, got {name!r}"
        )
    data = _bytes_of(file)
    return HistorySource(settings.definition, places[name], read_history(data), history_name(data))


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as fault:
        raise DefinitionError(f"history: {str(file)!r} cannot be read: {fault.strerror}") from fault


def wait_for_model(settings: ServiceSettings, state: SourceState, wait: float) -> None:
    """Say which model contains a state first. Exit code 1 if none comes in time."""
    from deltaplane_services.operations.model_listing import first_model

    if wait <= 0:
        return
    model = first_model(settings, lambda model: model.contains(state.source, state.sequence - 1), wait)
    if model is None:
        echo(f"no model contains it within {wait:g} s; does a merger run?", typer.colors.YELLOW, err=True)
        raise typer.Exit(1)
    echo(f"model {model.version:,} contains it, digest {model.digest}")


def audited_history(settings: ServiceSettings, options: HistoryOptions, log: HistoryLog) -> HistoryAccount | None:
    """What ``audit`` computes again of a history; None if no history is named."""
    from deltaplane_services.lake.auditing import HistoryAccount
    from deltaplane_services.lake.recomputing import TableOfHistory
    from deltaplane_services.lake.sql_entries import Drawn

    if options.history is None:
        if options.sql:
            raise DefinitionError("sql: it reads the table of a history; name the file of the history (--history)")
        return None
    seed = secrets.randbelow(2**32) if options.sql_seed is None else options.sql_seed
    drawn = Drawn(options.sql, seed) if options.sql else None
    source = history_source(settings, options.history, options.source)
    table = TableOfHistory(source.history, options.table, os.cpu_count() or 1, _tell_files)
    return HistoryAccount(source, table, log, _ids_in(options.retired_ids), drawn)


def _ids_in(file: Path | None) -> frozenset[str]:
    """The ids in the lines of a file."""
    if file is None:
        return frozenset()
    try:
        return frozenset(line for line in file.read_text("utf-8").split("\n") if line)
    except (OSError, UnicodeDecodeError) as fault:
        raise DefinitionError(f"retired-ids: {str(file)!r} cannot be read: {fault}") from fault


def _tell_files(done: int, every: int) -> None:
    """Say how far it has come, if somebody looks."""
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
    _tell_refused({**others, **partial.refusals}, partial.examples)
    echo(f"digest {partial.digest()}")


def _tell_refused(counts: Mapping[str, int], examples: Mapping[str, str]) -> None:
    """Say what does not count, by its kind, with an example of each."""
    for name, count in counts.items():
        echo(f"{count:,} {name}{f' ({examples[name]})' if name in examples else ''}", typer.colors.YELLOW)
