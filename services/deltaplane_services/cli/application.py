"""The command line. It reads options, calls what does the work, and turns errors into a message and exit code 2."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltaplane import __version__
from deltaplane.errors import DefinitionError, DeltaplaneError
from deltaplane_services.cli.access_commands import topics_acls
from deltaplane_services.cli.compare_commands import compare
from deltaplane_services.cli.copy_commands import register as register_copy
from deltaplane_services.cli.definition_commands import definition_app
from deltaplane_services.cli.grid_commands import grid_app
from deltaplane_services.cli.input_options import FILE_HELP, InputFlags, lay_over_input, with_input_flags
from deltaplane_services.cli.kafka_commands import register
from deltaplane_services.cli.retire_commands import register as register_retire
from deltaplane_services.cli.shared_options import SEED, SPEED, Flags, process, with_settings, within
from deltaplane_services.cli.source_commands import source_app
from deltaplane_services.cli.top_commands import live
from deltaplane_services.cli.topic_commands import topics_app
from deltaplane_services.system.output_files import NO_ROOM
from deltaplane_services.system.printable import plain

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

app = typer.Typer(
    name="deltaplane",
    help="Exact, un-learnable, sliding-window classification of streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

INPUT = "What the file holds"
STREAM = "The stream"
SOLVER = "The plane"
RUN = "The run"
KAFKA = "On Kafka"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"deltaplane {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Exact, un-learnable, sliding-window classification of streams."""


@app.command()
@with_settings("replay")
@with_input_flags
def replay(
    file: Annotated[str, typer.Argument(help=FILE_HELP)],
    definition: Annotated[
        Path | None, typer.Option(help="Stream definition (deltaplane.toml); the flags below override it.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column with the class.", rich_help_panel=INPUT)] = None,
    positive: Annotated[
        str | None, typer.Option(help="Label of the positive class; all others become one.", rich_help_panel=INPUT)
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column with the event time (ISO 8601, or seconds since 1970).", rich_help_panel=INPUT),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column with unique ids; line numbers by default.", rich_help_panel=INPUT)
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column that is not a feature; may be repeated.", rich_help_panel=INPUT)
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="csv, parquet, libsvm, arff, keel or jsonl; told from the file by default.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="Rows with missing values: refuse them, or fill in the grid's offset.", rich_help_panel=INPUT
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="auto (default: several, weighed), rows (20000), span of event time (7d), all, or a list with commas.",
            rich_help_panel=STREAM,
        ),
    ] = None,
    max_window: Annotated[
        int | None, typer.Option(help="Rows of the longest window of auto.", rich_help_panel=STREAM)
    ] = None,
    partitions: Annotated[int | None, typer.Option(help="Partitions of the stream.", rich_help_panel=STREAM)] = None,
    feature_map: Annotated[
        str | None,
        typer.Option(help="none (default), hidden or fourier: a curved boundary.", rich_help_panel=SOLVER),
    ] = None,
    units: Annotated[
        int | None, typer.Option(help="Features that the map makes; 200 by default.", rich_help_panel=SOLVER)
    ] = None,
    sigma: Annotated[
        float | None, typer.Option(help="Width of its kernel, in standardized units.", rich_help_panel=SOLVER)
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(help="JSON of an earlier model that new planes are drawn to.", rich_help_panel=SOLVER),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="wlpsvm, lpsvm or lssvm.", rich_help_panel=SOLVER)] = None,
    c: Annotated[
        str | None,
        typer.Option(
            "--C",
            help="Regularisation, larger fits closer: auto (default), a number, or a list with commas to weigh.",
            rich_help_panel=SOLVER,
        ),
    ] = None,
    weighting: Annotated[
        str | None,
        typer.Option(
            help="auto (default where planes are weighed: inverse and none), inverse, none, balanced, or '0=1,1=5'.",
            rich_help_panel=SOLVER,
        ),
    ] = None,
    standardize: Annotated[
        bool | None,
        typer.Option("--standardize/--raw", help="Regularise in standardized or raw units.", rich_help_panel=SOLVER),
    ] = None,
    chunk: Annotated[
        int,
        typer.Option(
            callback=within(1, 2**31),
            help="Rows between two models: test, then train. 1: row by row, fast only for one window of rows or all,"
            " one C and weighting, two classes, one partition, here and not on Kafka, without --id, --retire-fraction,"
            " --speed, --feature-map, --prior and weights by class; else each row takes a millisecond and more.",
            rich_help_panel=RUN,
        ),
    ] = 100,
    speed: Annotated[
        float | None,
        typer.Option(callback=SPEED, help="Rows per second; as fast as it goes by default.", rich_help_panel=RUN),
    ] = None,
    imbalance: Annotated[
        str | None,
        typer.Option(help="Thin out rows to negatives:positives by row, e.g. '0:1,20000:20'.", rich_help_panel=RUN),
    ] = None,
    retire_fraction: Annotated[
        float,
        typer.Option(
            callback=within(0, 1),
            help="Part of the samples to retire by id at random later moments.",
            rich_help_panel=RUN,
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(callback=SEED, help="Seed of everything random.", rich_help_panel=RUN)] = 0,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Refit from the live rows at the end and compare bit for bit.", rich_help_panel=RUN
        ),
    ] = False,
    broker: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT of a Kafka cluster to run on, with topics and services of its own.", rich_help_panel=KAFKA
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(callback=within(1, 1024), help="Workers to start on Kafka.", rich_help_panel=KAFKA)
    ] = 1,
    services: Annotated[
        bool, typer.Option("--services/--no-services", help="Start them, or use those that run.", rich_help_panel=KAFKA)
    ] = True,
    keep_topics: Annotated[
        bool, typer.Option("--keep-topics", help="Leave the topics behind.", rich_help_panel=KAFKA)
    ] = False,
    kafka: Annotated[
        list[str] | None,
        typer.Option("--kafka", help="Any librdkafka property as KEY=VALUE; may be repeated.", rich_help_panel=KAFKA),
    ] = None,
    json_to: Annotated[
        str | None,
        typer.Option(
            "--json", help="Write the summary as JSON to a file, or - for standard output.", rich_help_panel=RUN
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML page that opens offline.", rich_help_panel=RUN)
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Write its pictures to a directory, as PNG and SVG.", rich_help_panel=RUN)
    ] = None,
    retired_ids: Annotated[
        Path | None,
        typer.Option(
            help="Write the retired ids to a file, a line each; in JSON what is no line.", rich_help_panel=RUN
        ),
    ] = None,
    write_definition: Annotated[
        Path | None,
        typer.Option(help="Write down the definition that was used, fitted grid included.", rich_help_panel=RUN),
    ] = None,
    *,
    written: InputFlags,
    flags: Flags,
) -> None:
    """Run a file through the whole pipeline, test-then-train, on the embedded broker.

    deltaplane replay examples/electricity.csv.gz --label target --positive 1 --time event_time --window 2000
    """
    from deltaplane_services.definition_file.definition_tables import lay_over, load_tables, read_prior
    from deltaplane_services.definition_file.settings import resolve_knob
    from deltaplane_services.observe.report.record import run_of
    from deltaplane_services.observe.report.report_outputs import check_outputs, draw
    from deltaplane_services.produce.feed_options import ImbalanceSchedule, ReplayOptions
    from deltaplane_services.replay.console import Console
    from deltaplane_services.replay.run import embedded
    from deltaplane_services.replay.run import replay as run_replay
    from deltaplane_services.replay.summary import definition_text, plain_summary, write_json
    from deltaplane_services.system.output_files import check_output, write_text

    check_outputs(report, plots)
    for asked, what in ((json_to, "json"), (retired_ids, "retired-ids"), (write_definition, "write-definition")):
        check_output(None if asked is None or asked == "-" else Path(asked), what)
    tables = load_tables(definition)
    tables = lay_over(tables, "input", label=label, time=time, id=id_column, ignore=ignore or None, format=file_format)
    tables = lay_over_input(tables, written)
    tables = lay_over(tables, "classes", positive=positive)
    tables = lay_over(tables, "features", missing=missing)
    tables = lay_over(tables, "window", length=_window(window), max=max_window)
    tables = lay_over(tables, "", partitions=partitions)
    tables = lay_over(tables, "feature_map", kind=feature_map, units=units, sigma=sigma)
    tables = lay_over(tables, "solver", kind=kind, C=_c(c), weighting=_weighting(weighting), standardize=standardize)
    if prior is not None:
        tables = {**tables, "prior": read_prior(prior)}
    options = ReplayOptions(
        source=file,
        tables=tables,
        chunk=chunk,
        rows_per_second=speed,
        imbalance=None if imbalance is None else ImbalanceSchedule.parse(imbalance),
        retire_fraction=retire_fraction,
        seed=seed,
        verify=verify,
        retired_ids=retired_ids,
        blas_threads=resolve_knob("blas_threads", flags["blas_threads"], os.environ, tables),
    )
    console = Console(to_error=json_to == "-")
    pipeline = embedded(options, console.warn)
    if broker is not None:
        if chunk == 1:
            console.warn("chunk 1: on Kafka every row waits for its model, several milliseconds; use --chunk 100")
        from deltaplane_services.replay.on_kafka import KafkaRun, on_kafka

        properties, threads = tuple(kafka or ()), options.blas_threads
        pipeline = on_kafka(KafkaRun(broker, properties, workers, keep_topics, services, tables, threads))
    with console.progress() as show:
        result = run_replay(options, show, pipeline)
    console.summary(result)
    if json_to is not None:
        write_json(result, json_to)
    if report is not None or plots is not None:
        draw(run_of(plain_summary(result), file), report, plots)
    if write_definition is not None:
        write_text(write_definition, definition_text(result), "write-definition")
    if result.verification is not None and not result.verification.passed:
        raise typer.Exit(1)
    if result.ended_early is not None:
        raise typer.Exit(130 if result.ended_early == "interrupted" else 2)


def _window(text: str | None) -> Any:
    """One window, or several with commas."""
    return [part.strip() for part in text.split(",")] if text is not None and "," in text else text


def _c(text: str | None) -> Any:
    """``auto``, one C, or several with commas."""
    if text is None or text == "auto":
        return text
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise DefinitionError(f"C: expected auto, a number, or numbers with commas, got {text!r}") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _weighting(text: str | None) -> Any:
    """A name, or explicit weights: ``'0=1,1=5'``."""
    if text is None or "=" not in text:
        return text
    weights = {}
    for part in text.split(","):
        label, _, weight = part.rpartition("=")
        try:
            weights[label.strip()] = float(weight)
        except ValueError:
            raise DefinitionError(f"weighting: expected LABEL=WEIGHT pairs such as '0=1,1=5', got {part!r}") from None
    return weights


def _add_plugins(words: Sequence[str]) -> None:
    """Add what other packages bring, unless the words of the command line name a command of our own.

    Loading them takes longer than all else at start, and a service is started often, and waited for.
    """
    named = next((word for word in words if not word.startswith("-")), None)
    known = {found.name or getattr(found.callback, "__name__", "") for found in app.registered_commands}
    known.update(found.name for found in app.registered_groups if found.name)
    if named in known:
        return
    from importlib.metadata import entry_points

    for plugin in entry_points(group="deltaplane.commands"):
        if plugin.name not in known:
            _add_plugin(plugin)


def _add_plugin(found: EntryPoint) -> None:
    """Add a command group of another package; one that cannot be loaded says so when it is called."""
    try:
        app.add_typer(found.load(), name=found.name)
    except ImportError as fault:
        reason = f"{found.name}: {found.value} cannot be loaded ({fault}); install deltaplane[{found.name}]"

        def refuse() -> None:
            raise DeltaplaneError(reason)

        extra = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command(found.name, help="Not installed.", context_settings=extra)(refuse)


register(app)
topics_app.command("acls")(topics_acls)
app.command()(compare)
app.command("top")(live)
register_copy(app)
register_retire(app)
app.add_typer(source_app, name="source")
app.add_typer(grid_app, name="grid")
app.add_typer(definition_app, name="definition")


def main() -> None:
    """Run the command line; a failure that Deltaplane knows is a message and exit code 2, never a traceback."""
    _add_plugins(sys.argv[1:])
    try:
        try:
            app()
        finally:
            process.close()
            # What the disk, or whoever reads, does not take is found out here and not at the very end.
            sys.stdout.flush()
    except DeltaplaneError as fault:
        typer.secho(plain(f"deltaplane: {fault}", keep="\n"), fg=typer.colors.RED, err=True)
        sys.exit(2)
    except OSError as fault:
        if fault.filename is not None or fault.errno not in {*NO_ROOM, errno.EPIPE}:
            raise
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - open for what is left of this process.
        if fault.errno != errno.EPIPE:
            typer.secho(f"deltaplane: standard output cannot be written: {fault.strerror}", fg="red", err=True)
        sys.exit(1 if fault.errno == errno.EPIPE else 2)


if __name__ == "__main__":
    main()
