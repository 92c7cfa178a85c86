"""The commands that need Kafka: the services, topics, producers, retirements, models, audits."""

from __future__ import annotations

import gc
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane import limits
from deltaplane.public_names import extra_needed
from deltaplane_services.cli.bootstrap_commands import HistoryOptions, audited_history
from deltaplane_services.cli.file_options import FormatOptions, TimeOptions, read_definition
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import (
    SECONDS,
    AsJson,
    DataFile,
    Flags,
    RetireFraction,
    RowsPerSecond,
    Seed,
    SiteOptions,
    StreamOptions,
    check,
    log_at,
    with_settings,
    within,
)
from deltaplane_services.cli.topic_commands import topics_app
from deltaplane_services.system.arenas import keep_few_arenas
from deltaplane_services.system.printable import echo, json_text

if TYPE_CHECKING:
    from deltaplane_services.definition_file.settings import ServiceSettings

__all__ = [
    "ExportFormat",
    "audit",
    "intake",
    "judge",
    "merger",
    "model_app",
    "model_export",
    "model_show",
    "model_watch",
    "produce",
    "register",
    "scorer",
    "worker",
]


class ExportFormat(StrEnum):
    """The forms that a model is exported in."""

    JSON = "json"
    ONNX = "onnx"
    MLFLOW = "mlflow"


model_app = typer.Typer(help="Look at a stream's live model.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    for command in (worker, merger, scorer, intake, judge, produce, audit):
        app.command()(command)
    app.add_typer(topics_app, name="topics")
    app.add_typer(model_app, name="model")


# Services ------------------------------------------------------------------------------------------------------------


def _service_settings(stream: SiteOptions, flags: Flags, role: str) -> ServiceSettings:
    """The settings of a service of this role, checked; its log and its memory are set up from here on."""
    settings = stream.settings(flags)
    log_at(settings.knobs.log_level)
    keep_few_arenas()
    check(settings, role)
    return settings


@with_settings("worker")
def worker(
    stream: SiteOptions,
    *,
    flags: Flags,
) -> None:
    """Keep the windows of some partitions and publish their deltas."""
    from deltaplane_services.kafka.clients import worker_clients, writer_name
    from deltaplane_services.kafka.service_life import run
    from deltaplane_services.kafka.worker_loop import Worker
    from deltaplane_services.observe.health import serving
    from deltaplane_services.observe.metrics import WorkerMetrics
    from deltaplane_services.operations.unsafe_topics import topics_watched

    settings = _service_settings(stream, flags, "worker")
    watch = WorkerMetrics(settings.definition, settings.site)
    with serving(settings.knobs, watch.answers()), topics_watched(settings, "worker", watch.unsafe_topics):
        clients = worker_clients(settings, watch.delivered)
        service = Worker(settings.definition, settings.site, writer_name(settings), clients, watch)
        committed = time.monotonic()

        def each_turn() -> None:
            nonlocal committed
            service.tell()
            if time.monotonic() - committed > 5.0:
                committed = time.monotonic()
                service.commit_positions()

        run(service, settings.knobs, each_turn)


@with_settings("merger")
def merger(
    stream: SiteOptions,
    *,
    flags: Flags,
) -> None:
    """Add the deltas of all sources and publish the model. Run several: one is elected, the others stand by."""
    from deltaplane_services.kafka.clients import merger_clients
    from deltaplane_services.kafka.merger_loop import MergerPace, MergerService
    from deltaplane_services.kafka.service_life import run
    from deltaplane_services.observe.health import serving
    from deltaplane_services.observe.metrics import MergerMetrics
    from deltaplane_services.operations.trim import trimmed
    from deltaplane_services.operations.unsafe_topics import topics_watched

    settings = _service_settings(stream, flags, "merger")
    knobs = settings.knobs
    pace = MergerPace(knobs.refresh_seconds, knobs.checkpoint_seconds)
    watch = MergerMetrics(settings.definition, site=settings.site)
    with serving(knobs, watch.answers()), topics_watched(settings, "merger", watch.unsafe_topics):
        service = MergerService(settings.definition, merger_clients(settings, watch.delivered), pace, watch)
        with trimmed(settings, lambda: service.elected, watch.trimmed):
            run(service, knobs, service.tell)


@with_settings("scorer")
def scorer(
    stream: SiteOptions,
    *,
    flags: Flags,
) -> None:
    """Answer queries with predictions of the newest model."""
    from deltaplane_services.kafka.clients import scorer_clients
    from deltaplane_services.kafka.scorer_loop import ScorerService
    from deltaplane_services.kafka.service_life import run
    from deltaplane_services.observe.health import serving
    from deltaplane_services.observe.metrics import ScorerMetrics
    from deltaplane_services.operations.unsafe_topics import topics_watched

    settings = _service_settings(stream, flags, "scorer")
    watch = ScorerMetrics(settings.definition)
    with serving(settings.knobs, watch.answers()), topics_watched(settings, "scorer", watch.unsafe_topics):
        service = ScorerService(settings.definition, scorer_clients(settings, watch.delivered), watch)
        run(service, settings.knobs, service.tell)


@with_settings("intake")
def intake(
    stream: SiteOptions,
    *,
    flags: Flags,
    accept_gaps: Annotated[
        bool, typer.Option("--accept-gaps", help="Go on behind records that were deleted before they were read.")
    ] = False,
) -> None:
    """Read your own topics, join events with their labels, and publish samples."""
    from deltaplane.errors import DefinitionError
    from deltaplane_services.kafka.clients import intake_clients, writer_name
    from deltaplane_services.kafka.intake_loop import IntakeService
    from deltaplane_services.kafka.service_life import run
    from deltaplane_services.observe.health import serving
    from deltaplane_services.observe.metrics import IntakeMetrics
    from deltaplane_services.operations.unsafe_topics import topics_watched

    # Records are many small lists and dictionaries without cycles, which need no looking for.
    gc.set_threshold(50_000)
    settings = _service_settings(stream, flags, "intake")
    if settings.intake is None:
        raise DefinitionError("intake: expected a table [intake] that names your topics, got none")
    watch = IntakeMetrics(settings.definition, settings.site)
    with serving(settings.knobs, watch.answers()), topics_watched(settings, "intake", watch.unsafe_topics):
        clients, name = intake_clients(settings, watch.delivered), writer_name(settings, "intake")
        service = IntakeService(settings.definition, settings.intake, name, clients, watch, accept_gaps=accept_gaps)
        run(service, settings.knobs, service.tell)


@with_settings("judge")
def judge(
    stream: SiteOptions,
    *,
    flags: Flags,
) -> None:
    """Hold predictions against labels that come later: quality as it was served, for metrics. Run one a site."""
    from deltaplane_services.kafka.clients import judge_clients
    from deltaplane_services.kafka.judge_loop import JudgeService
    from deltaplane_services.kafka.service_life import run
    from deltaplane_services.observe.health import serving
    from deltaplane_services.observe.metrics import JudgeMetrics
    from deltaplane_services.operations.unsafe_topics import topics_watched

    settings = _service_settings(stream, flags, "judge")
    watch = JudgeMetrics(settings.definition, settings.site)
    with serving(settings.knobs, watch.answers()), topics_watched(settings, "judge", watch.unsafe_topics):
        service = JudgeService(settings.definition, judge_clients(settings), watch)
        run(service, settings.knobs, service.tell)


# Producing -----------------------------------------------------------------------------------------------------------


@with_groups
def produce(
    file: DataFile,
    stream: SiteOptions,
    times: TimeOptions,
    form: FormatOptions,
    speed: RowsPerSecond = None,
    batch: Annotated[
        int, typer.Option(callback=within(1, limits.BATCH_ROWS), help="Rows of one SampleBatch message.")
    ] = 500,
    retire_fraction: RetireFraction = 0.0,
    seed: Seed = 0,
    within_seconds: Annotated[
        float,
        typer.Option(
            "--within", callback=SECONDS, help="Seconds after which rows of a pipe go out, full batch or not."
        ),
    ] = 0.5,
) -> None:
    """Publish the rows of a file, or of a pipe as they come, as samples; the definition says how its columns are read.

    Rows without a column of ids (input.id) get FILE:LINE:HASH, so that a file sent twice counts once.
    """
    from deltaplane_services.kafka.access import WRITE
    from deltaplane_services.kafka.start import check_topics
    from deltaplane_services.processors.messages import RETIREMENTS
    from deltaplane_services.produce.feed_options import ReplayOptions
    from deltaplane_services.produce.producing import produce as run_produce

    settings = stream.settings()
    check(settings, "producer")
    if retire_fraction:
        check_topics(settings, "site", {RETIREMENTS: WRITE}, "retirer")
    options = ReplayOptions(
        source=file,
        definition_file=read_definition(stream.definition, times, form),
        chunk=batch,
        rows_per_second=speed,
        retire_fraction=retire_fraction,
        seed=seed,
    )
    produced = run_produce(settings, options, within_seconds)
    typer.echo(
        f"{produced.rows:,} rows and {produced.retirements:,} retirements published in {produced.seconds:.2f} s"
        f" ({produced.rows / max(produced.seconds, 1e-9):,.0f} rows/s), {produced.refused:,} rows refused"
    )
    for item in produced.first_refused:
        echo(f"line {item.line_number:,}: {item.reason}", typer.colors.YELLOW, err=True)
    if produced.interrupted:
        raise typer.Exit(130)


# Models --------------------------------------------------------------------------------------------------------------


@model_app.command("show")
@with_groups
def model_show(
    stream: StreamOptions,
    raw: Annotated[bool, typer.Option("--raw", help="Weights in raw units, with the intercept.")] = False,
) -> None:
    """The live model as a table: its features, those with the largest weights first.

    Weights are standardized: times the deviation of the feature over the live rows, which takes reading checkpoints and
    the deltas since. If that cannot be had, they are raw, and the reason is said.
    """
    from deltaplane.errors import DeltaplaneError
    from deltaplane_services.operations.model_listing import live_deviations, newest_model, print_model

    settings = stream.settings()
    check(settings, "viewer")
    model, spread = newest_model(settings), None
    if not raw and model.plane is not None:
        try:
            spread = live_deviations(settings, model)
        except DeltaplaneError as why:
            echo(f"weights are in raw units, and cannot be ranked: {why}", typer.colors.YELLOW, err=True)
    print_model(model, settings.definition, spread)


@model_app.command("export")
@with_groups
def model_export(
    stream: StreamOptions,
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="json: all of it. onnx: a graph from raw rows to classes. mlflow: a directory that MLflow loads.",
        ),
    ] = ExportFormat.JSON,
    out: Annotated[
        Path | None, typer.Option(help="The file to write, or the directory of mlflow; standard output without it.")
    ] = None,
    encoded: Annotated[
        bool, typer.Option("--encoded", help="onnx: a graph that takes features, encoded already, and not \\[columns].")
    ] = False,
) -> None:
    """The live model for use elsewhere, as JSON, ONNX or for MLflow, on standard output, in a file or a directory."""
    from deltaplane_services.operations.model_listing import model_as_json, newest_model

    settings = stream.settings()
    if form is ExportFormat.ONNX:
        with extra_needed("model export --format onnx", "export"):
            from deltaplane_services.operations.onnx_export import onnx_model
    check(settings, "viewer")
    if form is ExportFormat.MLFLOW:
        _export_to_mlflow(settings, out)
        return
    tables = model_as_json(newest_model(settings), settings.definition)
    encoder = None if encoded else settings.definition.columns
    _write_out(onnx_model(tables, encoder) if form is ExportFormat.ONNX else f"{json_text(tables)}\n".encode(), out)


def _export_to_mlflow(settings: ServiceSettings, out: Path | None) -> None:
    from deltaplane.errors import DefinitionError
    from deltaplane.log.exported_model import model_tables
    from deltaplane_services.operations.mlflow_model import mlflow_files
    from deltaplane_services.operations.model_listing import newest_model
    from deltaplane_services.system.output_files import OutputDirectory

    if out is None:
        raise DefinitionError("model export: mlflow is a directory; give --out DIRECTORY")
    with OutputDirectory(out, "out") as output:
        output.keep(mlflow_files(model_tables(newest_model(settings), settings.definition), settings.definition))


def _write_out(data: bytes, out: Path | None) -> None:
    """Write bytes to a file, whole or not at all, or to standard output."""
    from deltaplane.errors import DefinitionError
    from deltaplane_services.system.output_files import OutputFile

    if out is not None:
        with OutputFile(out, "out") as output:
            output.file.write(data)
            output.keep()
        return
    stdout = typer.get_binary_stream("stdout")
    if stdout.isatty() and not data.isascii():
        raise DefinitionError("model export: these are bytes, and no text for a terminal; give --out FILE")
    stdout.write(data)
    stdout.flush()


@model_app.command("watch")
@with_groups
def model_watch(
    stream: StreamOptions,
) -> None:
    """A line for each new model, until interrupted."""
    from deltaplane_services.operations.model_listing import follow_models, model_line

    settings = stream.settings()
    check(settings, "viewer")
    for model in follow_models(settings):
        echo(model_line(model, settings.definition))


@with_groups
def audit(
    stream: SiteOptions,
    history: HistoryOptions,
    as_json: AsJson = False,
) -> None:
    """Rebuild every live row from the log and compare with the model, bit for bit; exit code 1 if they differ.

    The logs are read from where they begin. Deltas are believed in nothing but how far they have come, and if a log has
    lost its beginning, it is said from which offset on all is proved. The model is made again from what is found,
    planes and all. What cannot be found again is said to be not checked.
    """
    from deltaplane_services.kafka.history_log import KafkaHistoryLog
    from deltaplane_services.operations.audit import audit as run_audit

    settings = stream.settings()
    check(settings, "auditor")
    with KafkaHistoryLog(settings) as log:
        computed = audited_history(settings, history, log)
        found = run_audit(settings, histories=[] if computed is None else [computed])
    if as_json:
        typer.echo(json_text(found.as_json()))
        raise typer.Exit(0 if found.equal else 1)
    for source in found.sources:
        position = source.position
        echo(
            f"{position.source}: {source.rows:,} live rows at samples {position.samples:,},"
            f" retirements {position.retirements:,}, tile {position.sequence:,}: {source.verdict}"
        )
        if source.proved:
            echo(f"  {source.proved}")
    echo(f"model {found.model.version:,} digest {found.model.digest}")
    echo(f"log digest {found.digest}")
    echo(f"planes and figures of the model, made again: {found.verdict_on_planes}")
    for said in found.notes:
        echo(f"note: {said}")
    for said in found.not_checked:
        echo(f"not checked: {said}")
    typer.secho("equal" if found.equal else "NOT EQUAL", fg=typer.colors.GREEN if found.equal else typer.colors.RED)
    if not found.equal:
        raise typer.Exit(1)
