"""What every experiment is handed: settings, data sets, chance from one seed, and a way to say how far it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from deltaplane_benchmarks.data import catalogue
from deltaplane_benchmarks.data.archives import Cache, DataDamaged, DataMissing
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.exhibit import Exhibit

__all__ = ["Bench", "Experiment", "Settings"]

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Settings:
    """``rounds``: independent draws to average over. ``quick``: smaller everywhere. ``seed``: of everything random.

    ``label_delay``: rows by which labels of streams come late.
    """

    rounds: int = 50
    quick: bool = False
    seed: int = 0
    label_delay: int = 0


@dataclass
class Bench:
    """One run. What data could not be had is kept in ``missing``, and the experiments do the rest."""

    settings: Settings
    cache: Cache
    say: Callable[[str], None] = lambda _: None
    missing: dict[str, str] = field(default_factory=dict)
    _tables: dict[str, DataSet] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """Draws to average over: a fifth when quick."""
        return max(2, self.settings.rounds // 5) if self.settings.quick else self.settings.rounds

    def generator(self, *what: str | int) -> np.random.Generator:
        """Chance for one purpose: the same for the same seed and purpose, whatever else runs before it."""
        name = "\0".join(map(str, (self.settings.seed, *what))).encode()
        return np.random.default_rng(int.from_bytes(hashlib.sha256(name).digest()[:16], "little"))

    def table(self, name: str) -> DataSet | None:
        """A data set of the catalogue, or None where it cannot be had, which is kept in ``missing``."""
        if name not in self._tables:
            loaded = self.get(name, lambda: catalogue.load(name, self.cache))
            if loaded is None:
                return None
            self._tables[name] = loaded
        return self._tables[name]

    def tables(self, names: Iterable[str]) -> list[DataSet]:
        """Those of the named data sets that can be had."""
        return [found for found in map(self.table, names) if found is not None]

    def get(self, name: str, load: Callable[[], Thing]) -> Thing | None:
        """What ``load`` gives, or None where the data is missing or damaged: kept in ``missing`` under ``name``."""
        self.say(f"data: {name}")
        try:
            return load()
        except (DataMissing, DataDamaged) as fault:
            self.missing[name] = str(fault)
            return None


@dataclass(frozen=True)
class Experiment:
    """``run`` gives the exhibits of one group of tables and figures of a paper; none where all its data is missing."""

    paper: int
    name: str
    run: Callable[[Bench], list[Exhibit]]
