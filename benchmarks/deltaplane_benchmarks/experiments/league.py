"""``bench imbalance``: many learners on made streams of two classes of which one is rare, and that change.

Whatever of it has been run is in a file of lines, and the tables are made from these lines alone; what is missing is
said. Learners are as they come, ours too: nothing is set for a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from deltaplane.errors import DefinitionError
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.exhibit import Exhibit
from deltaplane_benchmarks.experiments import league_tables
from deltaplane_benchmarks.experiments.peers import absent
from deltaplane_benchmarks.league.catalogue import DELAYS, Recipe, learners, learners_of, recipes
from deltaplane_benchmarks.league.results import Results, measured, settings_of
from deltaplane_benchmarks.peers import moa
from deltaplane_benchmarks.peers.task import Learner

__all__ = ["Part", "experiment", "run"]


Named = TypeVar("Named", Recipe, Learner)


@dataclass(frozen=True)
class Part:
    """What of the league is run, and where its lines are kept.

    ``streams`` and ``learners``: parts of names, of which one must be in a name, in small letters or large; empty means
    all. ``show_only``: nothing is run, and tables are made of the lines that there are.
    """

    results: Path
    moa_jars: Path | None = None
    rows: int = 20_000
    streams: Sequence[str] = ()
    learners: Sequence[str] = ()
    delays: Sequence[int] = field(default=DELAYS)
    show_only: bool = False


def run(part: Part, bench: Bench) -> list[Exhibit]:
    """Run what has no line yet, then make the tables of all lines of this seed and number of rows."""
    results = Results(part.results)
    streams = recipes(part.rows, bench.settings.seed)
    chosen = _named(streams, part.streams, "streams")
    wanted = {learner.name for learner in _named(learners(part.moa_jars), part.learners, "learners")}
    for delay in () if part.show_only else part.delays:
        for recipe in chosen:
            mine = [one for one in learners_of(recipe, part.moa_jars) if one.name in wanted]
            _run_stream(recipe, mine, delay, part, results, bench)
    return league_tables.exhibits(results, streams, bench.settings.seed)


def _run_stream(
    recipe: Recipe, mine: Sequence[Learner], delay: int, part: Part, results: Results, bench: Bench
) -> None:
    if recipe.made_by == "moa" and not moa.present(part.moa_jars):
        bench.missing["streams of MOA's generators"] = moa.ABSENT
        return
    task = None
    for learner in mine:
        if (reason := absent(learner, part.moa_jars)) is not None:
            bench.missing[learner.name] = reason
            continue
        settings = settings_of(recipe, learner, delay, part.moa_jars)
        if results.find(settings) is not None:
            continue
        bench.say(f"{recipe.name}, labels {delay:,} rows late: {learner.name}")
        task = recipe.task(part.moa_jars, delay) if task is None else task
        results.add(measured(learner, task, settings))


def _named(all_of: Sequence[Named], texts: Sequence[str], option: str) -> list[Named]:
    """Those whose name has one of the texts in it. Raises :class:`DefinitionError` if a text is in no name."""
    names = [one.name.lower() for one in all_of]
    for text in texts:
        if not any(text.lower() in name for name in names):
            raise DefinitionError(f"--{option} {text}: in no name; there are {', '.join(one.name for one in all_of)}")
    chosen = [any(text.lower() in name for text in texts) or not texts for name in names]
    return [one for one, taken in zip(all_of, chosen, strict=True) if taken]


def experiment(part: Part) -> Experiment:
    """The experiment on a part of the league."""
    return Experiment(0, "imbalance", partial(run, part))
