"""``deltaplane replay``: a file through the whole pipeline, in one process or on Kafka."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from deltaplane.errors import DefinitionError
from deltaplane.solve.solver_options import KINDS
from deltaplane_services.cli.file_options import INPUT, FormatOptions, TimeOptions
from deltaplane_services.cli.shared_options import (
    DataFile,
    Flags,
    KafkaProperty,
    RetireFraction,
    RowsPerSecond,
    Seed,
    with_settings,
    within,
)
from deltaplane_services.definition_file.file_formats import NAMES

if TYPE_CHECKING:
    from deltaplane_services.produce.feed_options import ReplayOptions
    from deltaplane_services.replay.result import ReplayResult
    from deltaplane_services.replay.saved import SavedReplay

__all__ = [
    "EXIT_CODES",
    "EngineOptions",
    "FigureOptions",
    "InputOptions",
    "KafkaOptions",
    "PlaneOptions",
    "RunOptions",
    "WindowOptions",
    "replay",
]

EXIT_CODES = """Exit codes:

 0: there are figures, and --verify, if it was asked for, has found the same

 1: the figures say nothing (rows of some class were never scored, or all are sorted by class), or --verify failed

 2: the file or the options cannot be used, or the file is damaged from some row on
"""


@dataclass(frozen=True)
class InputOptions:
    """What the columns of the file are."""

    panel: ClassVar[str] = INPUT

    label: Annotated[str | None, typer.Option(help="Column with the class.")] = None
    positive: Annotated[str | None, typer.Option(help="Label of the positive class; all others become one.")] = None
    classes: Annotated[
        list[str] | None,
        typer.Option(help="The labels that there are, with commas; rows of any other are refused. Open by default."),
    ] = None
    time: Annotated[str | None, typer.Option(help="Column with the event time: ISO 8601, or a number since 1970.")] = (
        None
    )
    id_column: Annotated[str | None, typer.Option("--id", help="Column with unique ids; line numbers by default.")] = (
        None
    )
    ignore: Annotated[list[str] | None, typer.Option(help="Column that is not a feature; may be repeated.")] = None
    file_format: Annotated[
        str | None,
        typer.Option("--format", help=f"{NAMES}; told from the file by default."),
    ] = None
    missing: Annotated[
        str | None,
        typer.Option(
            help="median: fill missing values in, also such as come late. Or take columns as numbers, and rows with"
            " missing values: refuse them, or offset (of the grid) for each."
        ),
    ] = None
    category: Annotated[
        list[str] | None, typer.Option(help="Columns that are categories, whatever they look like; with commas.")
    ] = None
    number: Annotated[list[str] | None, typer.Option(help="Columns that are numbers; with commas.")] = None


@dataclass(frozen=True)
class WindowOptions:
    """Which rows are live, and in how many partitions."""

    panel: ClassVar[str] = "The stream"

    window: Annotated[
        str | None,
        typer.Option(
            help="auto (default: several, weighed), rows (20000), span of event time (7d), all, or a list with commas."
        ),
    ] = None
    max_window: Annotated[int | None, typer.Option(help="Rows of the longest window of auto.")] = None
    partitions: Annotated[int | None, typer.Option(help="Partitions of the stream.")] = None


@dataclass(frozen=True)
class PlaneOptions:
    """How planes are solved for."""

    panel: ClassVar[str] = "The plane"

    feature_map: Annotated[
        str | None,
        typer.Option(
            help="auto: curved candidates beside flat ones, of a mixed map, for up to 8 classes and 64 features; the"
            " default where window and C are auto, without --definition and --prior. Else linear (none), the default"
            " elsewhere, or mixed, hidden, fourier: a curved boundary."
        ),
    ] = None
    units: Annotated[
        int | None,
        typer.Option(help="Features that the map makes; of auto the most: 160 by default, of hidden and fourier 200."),
    ] = None
    sigma: Annotated[float | None, typer.Option(help="Width of its kernel, in standardized units.")] = None
    prior: Annotated[Path | None, typer.Option(help="JSON of an earlier model that new planes are drawn to.")] = None
    kind: Annotated[str | None, typer.Option(help=f"Which plane is solved for: {', '.join(KINDS)}.")] = None
    c: Annotated[
        str | None,
        typer.Option(
            "--C", help="Regularisation, larger fits closer: auto (default), a number, or a list with commas to weigh."
        ),
    ] = None
    weighting: Annotated[
        str | None,
        typer.Option(
            help="auto (default where planes are weighed: inverse and none), inverse, none, balanced, or '0=1,1=5'."
        ),
    ] = None
    standardize: Annotated[
        bool | None, typer.Option("--standardize/--raw", help="Regularise in standardized or raw units.")
    ] = None
    objective: Annotated[
        str | None,
        typer.Option(
            help="What planes and thresholds are chosen for: gmean (default), kappa, mcc, f1, accuracy,"
            " cost:FN=50,FP=1, recall@alerts=100/day (or /1000rows), or precision>=0.5."
        ),
    ] = None


@dataclass(frozen=True)
class RunOptions:
    """How the rows go through, and what is written of it."""

    panel: ClassVar[str] = "The run"

    chunk: Annotated[
        int,
        typer.Option(
            callback=within(1, 2**31),
            help="Rows between two models: test, then train. 1: row by row, fast only for one window of rows or all,"
            " one C and weighting, two classes, one partition, here and not on Kafka, without --id, --retire-fraction,"
            " --label-delay, --speed, --feature-map, --prior and weights by class; else each row takes a millisecond"
            " and more.",
        ),
    ] = 100
    label_delay: Annotated[
        str | None,
        typer.Option(
            help="How late labels come: rows (500) or a span of event time (7d). A row is predicted when it comes, and"
            " learned when its label does; both scores are shown."
        ),
    ] = None
    speed: RowsPerSecond = None
    imbalance: Annotated[
        str | None, typer.Option(help="Thin out rows to negatives:positives by row, e.g. '0:1,20000:20'.")
    ] = None
    retire_fraction: RetireFraction = 0.0
    seed: Seed = 0
    shuffle: Annotated[
        int | None,
        typer.Option(
            callback=within(0, 2**64 - 1),
            help="Take the rows in a random order of this seed, for files that are sorted by class; not with --time.",
        ),
    ] = None
    save: Annotated[
        Path | None, typer.Option(help="Write what another replay can go on from, with the rows that come next.")
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on from what --save has written: FILE holds the rows behind its own. Definition and columns are"
            " those of the saved replay."
        ),
    ] = None
    verify: Annotated[
        bool, typer.Option("--verify", help="Refit from the live rows at the end and compare bit for bit.")
    ] = False
    json_to: Annotated[
        str | None, typer.Option("--json", help="Write the summary as JSON to a file, or - for standard output.")
    ] = None
    report: Annotated[Path | None, typer.Option(help="Write an HTML page that opens offline.")] = None
    plots: Annotated[Path | None, typer.Option(help="Write its pictures to a directory, as PNG and SVG.")] = None
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print warnings and what went wrong alone: no bar, no tables.")
    ] = False
    retired_ids: Annotated[
        Path | None, typer.Option(help="Write the retired ids to a file, a line each; in JSON what is no line.")
    ] = None
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Write what was predicted of each row before it was learned to a file that ends in .csv or .parquet:"
            " id, time, truth, predicted, score, probability, model_version. Not on Kafka."
        ),
    ] = None
    write_definition: Annotated[
        Path | None, typer.Option(help="Write down the definition that was used, fitted grid included.")
    ] = None
    write_model: Annotated[
        Path | None,
        typer.Option(
            help="Write the last model as JSON, as `model export` does: with the definition all that `predict` and"
            " `serve` need."
        ),
    ] = None


@dataclass(frozen=True)
class FigureOptions:
    """What the figures are of."""

    panel: ClassVar[str] = "The figures"

    metric: Annotated[
        str | None,
        typer.Option(
            help="The figure to be read first: gmean, precision, recall, f1, kappa, mcc, accuracy, false_alarms,"
            " roc_auc or pr_auc. By default what planes are weighed for (--objective). All of them are in --json."
        ),
    ] = None


@dataclass(frozen=True)
class KafkaOptions:
    """The cluster that a replay on Kafka runs on, and how it runs there."""

    panel: ClassVar[str] = "On Kafka"

    broker: Annotated[
        str | None, typer.Option(help="HOST:PORT of a Kafka cluster to run on, with topics and services of its own.")
    ] = None
    workers: Annotated[int, typer.Option(callback=within(1, 1024), help="Workers to start on Kafka.")] = 1
    services: Annotated[bool, typer.Option("--services/--no-services", help="Start them, or use those that run.")] = (
        True
    )
    keep_topics: Annotated[bool, typer.Option("--keep-topics", help="Leave the topics behind.")] = False
    kafka: KafkaProperty = None


@dataclass(frozen=True)
class EngineOptions:
    """What replays a table in pieces, if anything does."""

    panel: ClassVar[str] = "In pieces"

    engine: Annotated[
        Literal["local", "spark"] | None,
        typer.Option(
            help="Replay a file, or a folder of files in the order of their names, in pieces side by side: by processes"
            " of this machine, or by Spark. The counts and the digest are those of one replay; only for one window of"
            " rows or all, one C and weighting."
        ),
    ] = None
    processes: Annotated[
        int | None,
        typer.Option(callback=within(1, 1024), help="Processes of the engine local; as many as cores by default."),
    ] = None
    pieces: Annotated[
        int | None,
        typer.Option(callback=within(1, 2**20), help="Pieces of the table, of whole files; a few for each core."),
    ] = None


_KEYWORDS = {"id_column": "id", "file_format": "format", "c": "C"}
"""The keyword of Python for an option that a group calls otherwise."""


@with_settings("replay")
def replay(
    file: DataFile,
    columns: InputOptions,
    times: TimeOptions,
    form: FormatOptions,
    stream: WindowOptions,
    plane: PlaneOptions,
    run: RunOptions,
    figures: FigureOptions,
    on: KafkaOptions,
    engine: EngineOptions,
    definition: Annotated[
        Path | None, typer.Option(help="Stream definition (deltaplane.toml); the flags below override it.")
    ] = None,
    *,
    flags: Flags,
) -> None:
    """Run a file through the whole pipeline, test-then-train, on the embedded broker.

    deltaplane replay examples/electricity.csv.gz --label target --positive 1 --time event_time --window 2000
    """
    from deltaplane_services.definition_file.parsed_file import DefinitionFile
    from deltaplane_services.observe.report.report_outputs import check_outputs
    from deltaplane_services.replay.console import Console
    from deltaplane_services.replay.keywords import replay_options, with_keywords
    from deltaplane_services.replay.run import embedded
    from deltaplane_services.replay.run import replay as run_replay
    from deltaplane_services.replay.summary import write_json
    from deltaplane_services.system.closed_pipe import while_somebody_reads
    from deltaplane_services.system.output_files import check_output
    from deltaplane_services.system.table_files import check_kind

    check_outputs(run.report, run.plots)
    check_output(None if run.json_to in {None, "-"} else Path(str(run.json_to)), "json")
    check_output(run.retired_ids, "retired-ids")
    check_kind(run.predictions, "predictions")
    check_output(run.predictions, "predictions")
    if run.predictions is not None and on.broker is not None:
        raise DefinitionError("predictions: on Kafka each worker scores its own rows; leave --broker out")
    check_output(run.write_definition, "write-definition")
    check_output(run.write_model, "write-model")
    check_output(run.save, "save")
    saved = _resumed(run, definition, on.broker)
    declared = DefinitionFile.read(definition) if saved is None else saved.definition_file
    groups = (columns, times, form, stream, plane, run, figures)
    given = {_KEYWORDS.get(name, name): value for one in groups for name, value in asdict(one).items()}
    given["classes"] = None if columns.classes is None else ",".join(columns.classes)
    options = replay_options(
        file,
        with_keywords(declared, given),
        given | {"blas_threads": flags["blas_threads"]},
        os.environ,
        rows_per_second=run.speed,
        save=run.save,
        continues=saved is not None,
        retired_ids=run.retired_ids,
        predictions=run.predictions,
    )
    if _replayed_in_pieces(engine, options, run, on):
        return
    console = Console(to_error=run.json_to == "-")
    pipeline = embedded(options, console.warn, saved)
    if on.broker is not None:
        if run.chunk == 1:
            console.warn("chunk 1: on Kafka every row waits for its model, several milliseconds; use --chunk 100")
        from deltaplane_services.replay.on_kafka import KafkaRun, on_kafka

        properties, threads, service = tuple(on.kafka or ()), options.blas_threads, declared.service
        pipeline = on_kafka(KafkaRun(on.broker, properties, on.workers, on.keep_topics, on.services, service, threads))
    with console.progress(quiet=run.quiet) as show:
        result = run_replay(options, show, pipeline, saved)
    # Files are written first: printing may meet a closed pipe, which must cost no file.
    try:
        _write_files(result, run, file)
    finally:
        # A disk that is full by now must not cost the figures of a long run, too.
        with while_somebody_reads():
            console.summary(result, quiet=run.quiet)
            if run.json_to == "-":
                write_json(result, "-")
    if code := _exit_code(result):
        raise typer.Exit(code)


def _write_files(result: ReplayResult, run: RunOptions, file: str) -> None:
    from deltaplane_services.observe.report.record import run_of
    from deltaplane_services.observe.report.report_outputs import draw
    from deltaplane_services.operations.model_listing import model_as_json
    from deltaplane_services.replay.summary import definition_text, plain_summary, write_json
    from deltaplane_services.system.output_files import write_text
    from deltaplane_services.system.printable import json_text

    if run.json_to not in {None, "-"}:
        write_json(result, str(run.json_to))
    if run.report is not None or run.plots is not None:
        draw(run_of(plain_summary(result), file), run.report, run.plots)
    if run.write_definition is not None:
        write_text(run.write_definition, definition_text(result), "write-definition")
    if run.write_model is not None:
        write_text(run.write_model, f"{json_text(model_as_json(result.model, result.definition))}\n", "write-model")


def _replayed_in_pieces(engine: EngineOptions, options: ReplayOptions, run: RunOptions, on: KafkaOptions) -> bool:
    """Whether an engine was asked for; then it has replayed. Raises DefinitionError for an output that it has not."""
    if engine.engine is None:
        if engine.processes is not None or engine.pieces is not None:
            raise DefinitionError("processes, pieces: they are of --engine; name one, or leave them out")
        return False
    from deltaplane_services.definition_file.toml_writer import as_toml
    from deltaplane_services.replay.in_pieces import replay_in_pieces
    from deltaplane_services.replay.local_pieces import local_engine
    from deltaplane_services.replay.pieces_output import plain_summary_of_pieces, show_pieces
    from deltaplane_services.system.output_files import write_text
    from deltaplane_services.system.printable import json_text

    name = engine.engine
    others = {"--broker": on.broker, "--report": run.report, "--plots": run.plots, "--write-model": run.write_model}
    if bad := [flag for flag, given in others.items() if given is not None]:
        raise DefinitionError(f"engine: it has no {bad[0]}; leave that or --engine out")
    if name == "spark":
        from deltaplane_services.replay.spark_pieces import spark_engine

        found = replay_in_pieces(options, spark_engine(engine.pieces))
    else:
        found = replay_in_pieces(options, local_engine(engine.processes or os.cpu_count() or 1, engine.pieces))
    if run.write_definition is not None:
        tables = found.definition.to_tables() | {"input": options.input.table}
        write_text(run.write_definition, as_toml(tables), "write-definition")
    text = json_text(plain_summary_of_pieces(found, name)) + "\n"
    if run.json_to not in {None, "-"}:
        write_text(Path(str(run.json_to)), text, "json")
    if run.json_to == "-":
        sys.stdout.write(text)
    elif not run.quiet:
        show_pieces(found, name, options.metric)
    return True


def _resumed(run: RunOptions, definition: Path | None, broker: str | None) -> SavedReplay | None:
    """The saved replay to go on from, None if there is none. Raises DefinitionError for options that do not fit."""
    if broker is not None and (run.resume is not None or run.save is not None):
        raise DefinitionError(
            "save, resume: on Kafka a stream is kept by its topics (--keep-topics); leave --broker out"
        )
    if run.resume is None:
        return None
    if definition is not None:
        raise DefinitionError("resume: the saved replay has its own definition; leave --definition out")
    from deltaplane_services.replay.saved import read_saved

    return read_saved(run.resume)


def _exit_code(result: ReplayResult) -> int:
    if result.verification is not None and not result.verification.passed:
        return 1
    if result.ended_early is not None:
        return 130 if result.ended_early == "interrupted" else 2
    return 1 if result.verdict.says_nothing else 0
