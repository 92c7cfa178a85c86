"""Every stream of the league, those that tell most first, and all learners that go through it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from deltaplane.arrays import Flags, Floats
from deltaplane_benchmarks.league.pools import GENERATORS, Generator, mixed_rows
from deltaplane_benchmarks.league.regions import KINDS, regions_rows
from deltaplane_benchmarks.league.rotating import rotating_rows
from deltaplane_benchmarks.league.schedule import AGAIN, RATIOS
from deltaplane_benchmarks.peers import batches, moa, no_change, ours
from deltaplane_benchmarks.peers.task import Learner, Task

__all__ = [
    "BEST_OF",
    "CHUNK",
    "DELAYS",
    "LINEAR",
    "OURS",
    "ROTATING",
    "TURNS",
    "Recipe",
    "first_half",
    "learners",
    "learners_of",
    "recipes",
]

CHUNK = 100
DELAYS = (100, 0, 1000)
TURNS = (0, 1, 2, 3, 5, 10)

ROTATING = "Rotating hyperplane"
OURS = {"gmean": ours.automatic("gmean"), "kappa": ours.automatic("kappa"), "mcc": ours.automatic("mcc")}
"""Ours by what it is asked for."""

LINEAR = ours.automatic("gmean", curved=False)
BEST_OF = ("MOA ARF", "MOA LeveragingBag", "MOA SRP")
"""The ensembles that are picked for accuracy, which ours is held against."""

_MAKERS = ("moa", "regions", "rotating")

_Rows = tuple[Floats, Flags, tuple[int, ...]]


@dataclass(frozen=True)
class Recipe:
    """How a stream is made. ``family``: streams of one generator, which are of one half. ``made_by``: moa, or ours.

    ``detail``: what a family has besides; ``seed``: of everything random in it.
    """

    family: str
    ratio: str
    drift: str
    rows: int
    seed: int
    made_by: str = "moa"
    detail: float = 0.0

    @property
    def name(self) -> str:
        """What tables call it."""
        if self.made_by == "rotating":
            return f"{self.family}, {self.ratio}, {self.detail:g} turns"
        return f"{self.family}, {self.ratio}, {self.drift}" if self.made_by == "moa" else f"{self.family}, {self.ratio}"

    def settings(self) -> dict[str, object]:
        """All that its rows depend on."""
        if self.made_by != "moa":
            return asdict(self)
        return {**asdict(self), "concepts": _generator(self.family).told(self.drift, self.seed)}

    def task(self, jars: Path | None, label_delay: int) -> Task:
        """Its rows, under the protocol of the league."""
        features, rare, levels = _MAKE[self.made_by](self, jars)
        return Task(features, rare, CHUNK, self.rows, label_delay, levels)


def _generator(name: str) -> Generator:
    return next(one for one in GENERATORS if one.name == name)


def _moa(recipe: Recipe, jars: Path | None) -> _Rows:
    assert jars is not None, "who makes it has looked for it"
    return mixed_rows(jars, _generator(recipe.family), recipe.rows, recipe.ratio, recipe.drift, recipe.seed)


def _regions(recipe: Recipe, _: Path | None) -> _Rows:
    kind = recipe.family.removeprefix("Regions ")
    return *regions_rows(recipe.rows, recipe.ratio, kind, f"{recipe.name} {recipe.seed}"), ()


def _rotating(recipe: Recipe, _: Path | None) -> _Rows:
    return *rotating_rows(recipe.rows, recipe.ratio, recipe.detail, f"{recipe.name} {recipe.seed}"), ()


_MAKE: dict[str, Callable[[Recipe, Path | None], _Rows]] = dict(zip(_MAKERS, (_moa, _regions, _rotating), strict=True))


def recipes(rows: int, seed: int) -> tuple[Recipe, ...]:
    """Every stream, of so many rows: fixed ratios and sudden drift first."""
    fixed, changing = RATIOS[:2], RATIOS[2:]
    of = partial(Recipe, rows=rows, seed=seed)
    families = [generator.name for generator in GENERATORS]
    return (
        *(of(family, ratio, "sudden") for ratio in fixed for family in families),
        *(of(f"Regions {kind}", ratio, kind, made_by="regions") for ratio in fixed for kind in KINDS),
        *(of(ROTATING, ratio, "turning", made_by="rotating", detail=turns) for ratio in fixed for turns in TURNS),
        *(of(family, ratio, "sudden") for ratio in changing for family in families),
        *(of(f"Regions {kind}", ratio, kind, made_by="regions") for ratio in changing for kind in KINDS),
        *(of(family, ratio, "gradual") for ratio in RATIOS for family in families),
        # Another hyperplane of MOA is another seed, so that its rows never come again.
        *(of(family, ratio, f"sudden{AGAIN}") for ratio in fixed for family in families if family != "Hyperplane"),
    )


def first_half(families: Sequence[str], seed: int) -> frozenset[str]:
    """Of families, every second one in the order of the SHA-256 of the seed and their names: where choices are made."""
    order = sorted(set(families), key=lambda family: hashlib.sha256(f"{seed} {family}".encode()).hexdigest())
    return frozenset(order[::2])


def learners(jars: Path | None) -> tuple[Learner, ...]:
    """All learners, in the order in which they run: the fast ones first."""
    return (
        no_change.NO_CHANGE,
        *OURS.values(),
        LINEAR,
        batches.WEIGHTED_SGD,
        batches.LIGHTGBM,
        *moa.learners_by_chunk(jars),
    )


def learners_of(recipe: Recipe, jars: Path | None) -> tuple[Learner, ...]:
    """Those that go through a stream: where a hyperplane turns, ours with and without curved candidates."""
    if recipe.made_by == "rotating":
        return (OURS["gmean"], LINEAR)
    return tuple(learner for learner in learners(jars) if learner is not LINEAR)
