"""The commands that need Kafka: the services, topics, producers, retirements, models, audits."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from deltaplane import limits
from deltaplane_services.cli.input_options import FILE_HELP, InputFlags, lay_over_input, with_input_flags
from deltaplane_services.cli.shared_options import (
    SECONDS,
    SEED,
    SPEED,
    Broker,
    CentralBroker,
    DefinitionFile,
    Flags,
    KafkaProperty,
    Site,
    check,
    log_at,
    resolve,
    with_settings,
    within,
)
from deltaplane_services.cli.topic_commands import topics_app
from deltaplane_services.system.arenas import keep_few_arenas
from deltaplane_services.system.printable import echo, json_text

model_app = typer.Typer(help="Look at a stream's live model.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    for command in (worker, merger, scorer, produce, audit):
        app.command()(command)
    app.add_typer(topics_app, name="topics")
    app.add_typer(model_app, name="model")


# Services ------------------------------------------------------------------------------------------------------------


@with_settings("worker")
def worker(
    definition: DefinitionFile,
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
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

    settings = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka, **flags)
    log_at(settings.knobs.log_level)
    keep_few_arenas()
    check(settings, "worker")
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
    definition: DefinitionFile,
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
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

    settings = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka, **flags)
    log_at(settings.knobs.log_level)
    keep_few_arenas()
    check(settings, "merger")
    knobs = settings.knobs
    pace = MergerPace(knobs.refresh_seconds, knobs.checkpoint_seconds)
    watch = MergerMetrics(settings.definition, site=settings.site)
    with serving(knobs, watch.answers()), topics_watched(settings, "merger", watch.unsafe_topics):
        service = MergerService(settings.definition, merger_clients(settings, watch.delivered), pace, watch)
        with trimmed(settings, lambda: service.elected, watch.trimmed):
            run(service, knobs, service.tell)


@with_settings("scorer")
def scorer(
    definition: DefinitionFile,
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
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

    settings = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka, **flags)
    log_at(settings.knobs.log_level)
    keep_few_arenas()
    check(settings, "scorer")
    watch = ScorerMetrics(settings.definition)
    with serving(settings.knobs, watch.answers()), topics_watched(settings, "scorer", watch.unsafe_topics):
        service = ScorerService(settings.definition, scorer_clients(settings, watch.delivered), watch)
        run(service, settings.knobs, service.tell)


# Producing -----------------------------------------------------------------------------------------------------------


@with_input_flags
def produce(
    file: Annotated[str, typer.Argument(help=FILE_HELP)],
    definition: DefinitionFile,
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
    speed: Annotated[
        float | None, typer.Option(callback=SPEED, help="Rows per second; as fast as it goes by default.")
    ] = None,
    batch: Annotated[
        int, typer.Option(callback=within(1, limits.BATCH_ROWS), help="Rows of one SampleBatch message.")
    ] = 500,
    retire_fraction: Annotated[
        float, typer.Option(callback=within(0, 1), help="Part of the samples to retire at random later moments.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(callback=SEED, help="Seed of everything random.")] = 0,
    within_seconds: Annotated[
        float,
        typer.Option(
            "--within", callback=SECONDS, help="Seconds after which rows of a pipe go out, full batch or not."
        ),
    ] = 0.5,
    *,
    written: InputFlags,
) -> None:
    """Publish the rows of a file, or of a pipe as they come, as samples; the definition says how its columns are read.

    Rows without a column of ids (input.id) get FILE:LINE:HASH, so that a file sent twice counts once.
    """
    from deltaplane_services.definition_file.definition_tables import load_tables
    from deltaplane_services.kafka.access import WRITE
    from deltaplane_services.kafka.start import check_topics
    from deltaplane_services.processors.messages import RETIREMENTS
    from deltaplane_services.produce.feed_options import ReplayOptions
    from deltaplane_services.produce.producing import produce as run_produce

    settings = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka)
    check(settings, "producer")
    if retire_fraction:
        check_topics(settings, "site", {RETIREMENTS: WRITE}, "retirer")
    options = ReplayOptions(
        source=file,
        tables=lay_over_input(load_tables(definition), written),
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
def model_show(
    definition: DefinitionFile,
    central_broker: CentralBroker = None,
    broker: Broker = None,
    kafka: KafkaProperty = None,
) -> None:
    """The live model as a table."""
    from deltaplane_services.operations.model_listing import newest_model, print_model

    settings = resolve(definition, broker=broker, central_broker=central_broker, kafka=kafka)
    check(settings, "viewer")
    print_model(newest_model(settings), settings.definition)


@model_app.command("export")
def model_export(
    definition: DefinitionFile,
    central_broker: CentralBroker = None,
    broker: Broker = None,
    kafka: KafkaProperty = None,
) -> None:
    """The live model as JSON on standard output."""
    from deltaplane_services.operations.model_listing import model_as_json, newest_model

    settings = resolve(definition, broker=broker, central_broker=central_broker, kafka=kafka)
    check(settings, "viewer")
    typer.echo(json_text(model_as_json(newest_model(settings), settings.definition)))


@model_app.command("watch")
def model_watch(
    definition: DefinitionFile,
    central_broker: CentralBroker = None,
    broker: Broker = None,
    kafka: KafkaProperty = None,
) -> None:
    """A line for each new model, until interrupted."""
    from deltaplane_services.operations.model_listing import follow_models, model_line

    settings = resolve(definition, broker=broker, central_broker=central_broker, kafka=kafka)
    check(settings, "viewer")
    for model in follow_models(settings):
        echo(model_line(model))


def audit(
    definition: DefinitionFile,
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Rebuild every live row from the log and compare with the model, bit for bit; exit code 1 where they differ.

    The logs are read from where they begin. Deltas are believed in nothing but how far they have come, and where a log
    has lost its beginning it is said from which offset on all is proved. The model is made again from what is found,
    planes and all. What cannot be found again is said to be not checked.
    """
    from deltaplane_services.operations.audit import audit as run_audit

    settings = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka)
    check(settings, "auditor")
    found = run_audit(settings)
    if json:
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
