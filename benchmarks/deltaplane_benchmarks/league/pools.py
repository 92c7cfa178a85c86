"""Rows of MOA's generators, by class: a stream takes the next row of the class and concept that its schedule says.

MOA's own streams with drift and imbalance count the rows that are drawn, not those that are left once most of a class
have been thrown away, so that where a drift lies would depend on the ratio. Here it does not.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from deltaplane.arrays import Flags, Floats
from deltaplane.errors import DeltaplaneError
from deltaplane_benchmarks.league.schedule import AGAIN, rare_rows, second_concept
from deltaplane_benchmarks.peers import moa

__all__ = ["GENERATORS", "MOST_ROWS", "Generator", "Pool", "drawn", "mixed_rows", "read_arff"]

MOST_ROWS = 2_000_000
"""Rows that are drawn of one concept at most, until each class has as many as its stream needs."""


@dataclass(frozen=True)
class Generator:
    """A generator of MOA: its text for each of two concepts, and the rare class.

    ``{seed}`` is where its seed goes, and ``{other}`` where another one goes, or the same if the second concept is to
    judge the rows of the first again.
    """

    name: str
    concepts: tuple[str, str]
    rare: str

    def told(self, drift: str, seed: int) -> list[str]:
        """MOA's texts of both concepts."""
        other = seed if drift.endswith(AGAIN) else f"1{seed}"
        return [concept.format(seed=seed, other=other) for concept in self.concepts]


GENERATORS = (
    Generator("Agrawal", ("AgrawalGenerator -f 1 -i {seed}", "AgrawalGenerator -f 3 -i {other}"), "groupB"),
    Generator("RandomRBF", ("RandomRBFGenerator -r 1 -i {seed}", "RandomRBFGenerator -r 2 -i {other}"), "class2"),
    Generator("RandomTree", ("RandomTreeGenerator -r 1 -i {seed}", "RandomTreeGenerator -r 2 -i {other}"), "class2"),
    Generator("Hyperplane", ("HyperplaneGenerator -i {seed}", "HyperplaneGenerator -i 1{seed}"), "class2"),
    Generator("Sine", ("SineGenerator -f 1 -i {seed}", "SineGenerator -f 3 -i {other}"), "positive"),
    Generator("LED", ("LEDGenerator -i {seed}", "LEDGeneratorDrift -d 7 -i {other}"), "8"),
    Generator("SEA", ("SEAGenerator -f 1 -i {seed}", "SEAGenerator -f 3 -i {other}"), "groupB"),
    Generator("Mixed", ("MixedGenerator -f 1 -i {seed}", "MixedGenerator -f 2 -i {other}"), "positive"),
)
"""Defaults of MOA but for concept and seed; of the classes, the rare one is the second, or of LED's digits the 8."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows float64[n, d] of one concept, which are of the rare class bool[n], and the levels of features of words."""

    features: Floats
    rare: Flags
    levels: tuple[int, ...]


def read_arff(text: str, rare: str) -> Pool:
    """The rows of an ARFF file of MOA, whose last attribute is the class and whose lines end in a comma."""
    head, _, body = text.partition("@data")
    kinds = [line.split(None, 2)[2].strip() for line in head.splitlines() if line.startswith("@attribute")]
    words = [kind.strip("{}").split(",") if kind.startswith("{") else [] for kind in kinds]
    if not kinds or rare not in words[-1]:
        raise DeltaplaneError(f"bench: expected a file of MOA with the class {rare!r}, got {kinds[-1:]}")
    names = [str(at) for at in range(len(kinds))]
    texts = {name: pa.string() if levels else pa.float64() for name, levels in zip(names, words, strict=True)}
    table = csv.read_csv(
        pa.BufferReader(body.lstrip().replace(",\n", "\n").encode("latin-1")),
        csv.ReadOptions(column_names=names),
        convert_options=csv.ConvertOptions(column_types=texts),
    )
    columns = [
        (pc.index_in(table[name], pa.array(levels)) if levels else table[name]).to_numpy().astype(np.float64)
        for name, levels in zip(names, words, strict=True)
    ]
    own = columns.pop() == words[-1].index(rare)
    return Pool(np.column_stack(columns), own, tuple(map(len, words[:-1])))


@functools.lru_cache(maxsize=4)
def drawn(jars: Path, generator: str, rare: str, rows: int) -> Pool:
    """The first so many rows of a generator of MOA."""
    with tempfile.TemporaryDirectory(prefix="deltaplane-bench-") as directory:
        place = Path(directory) / "rows.arff"
        moa.java(jars, ["moa.DoTask", f"WriteStreamToARFFFile -s (generators.{generator}) -f {place} -m {rows}"], place)
        return read_arff(place.read_text("latin-1"), rare)


def mixed_rows(
    jars: Path, generator: Generator, rows: int, ratio: str, drift: str, seed: int
) -> tuple[Floats, Flags, tuple[int, ...]]:
    """Features float64[rows, d], which rows are of the rare class bool[rows], and the levels of features of words.

    Raises :class:`DeltaplaneError` if a concept gives too few rows of a class.
    """
    text = f"{generator.name} {ratio} {drift.removesuffix(AGAIN)} {seed}"
    rare, second = rare_rows(rows, ratio, text), second_concept(rows, drift, text)
    features: Floats | None = None
    levels: tuple[int, ...] = ()
    for at, concept in enumerate(generator.told(drift, seed)):
        mine = second == bool(at)
        if not mine.any():
            continue
        needed = [int(np.count_nonzero(mine & (rare == side))) for side in (False, True)]
        pool = _enough(jars, concept, generator.rare, needed)
        features, levels = np.empty((rows, pool.features.shape[1])) if features is None else features, pool.levels
        for side in (False, True):
            features[mine & (rare == side)] = pool.features[pool.rare == side][: needed[side]]
    assert features is not None, "a stream has rows of one concept at least"
    return features, rare, levels


def _enough(jars: Path, generator: str, rare: str, needed: list[int]) -> Pool:
    rows = 40_000
    while rows < max(needed):
        rows *= 2
    while rows <= MOST_ROWS:
        pool = drawn(jars, generator, rare, rows)
        if all(int(np.count_nonzero(pool.rare == side)) >= needed[side] for side in (False, True)):
            return pool
        rows *= 2
    raise DeltaplaneError(f"bench: {generator} gave too few rows of a class among {rows // 2:,}: expected {needed}")
