"""Paper 1, Table I, and paper 4, Table 5.1: learned in steps, in parts, or both, the plane is that of the batch.

The papers measure a distance and find zero, or 1e-26: as close as floats print. Here the statistics are integers, so
the digests must be equal, and the weights, bit for bit. A second question the papers do not ask is how far the grid's
rounding moves the plane: beside each stands the largest relative difference of our standardized weights to those of a
plain batch in float64 on the features as they came.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Flags, Floats, Texts
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.statistics import Statistics
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane_benchmarks import linear
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.exhibit import Cell, Column, Exhibit, Target

__all__ = [
    "CHUNKS",
    "FINGERPRINT",
    "LARGEST_RELATIVE_DIFFERENCE",
    "TABLE_1",
    "TABLE_1_EXPERIMENT",
    "TABLE_5_1",
    "TABLE_5_1_EXPERIMENT",
    "WEB_PAGES",
    "WEB_ROWS",
    "Equality",
    "anonymous_web",
    "relative_difference",
    "table_1",
    "table_5_1",
    "ways",
]

FINGERPRINT = b"benchmark"
LARGEST_RELATIVE_DIFFERENCE = 1e-6
CHUNKS = 10
"""Paper 4: a tenth of the rows, then nine equal parts of the others."""

TABLE_1 = {
    "Heart (Cleveland)": "presence",
    "Breast Wisconsin (diagnostic)": "malignant",
    "AnonymousWeb (generated)": "visited",
    "CoverType": "2",
}
"""Positive class by data set."""

TABLE_5_1 = {
    ("Breast Wisconsin", "malignant"): (0.0, 1.20e-6),
    ("Iris", "setosa"): (7.63e-27, 0.0),
    ("Iris", "versicolor"): (2.10e-27, 0.0),
    ("Iris", "virginica"): (1.04e-26, 0.0),
}
"""Their distance and angle to the batch."""

WEB_ROWS, WEB_PAGES = 37_711, 294


def anonymous_web(bench: Bench, rows: int = WEB_ROWS) -> DataSet:
    """Flags of the size of the Anonymous Microsoft Web data: which of 294 pages each of 37,711 visitors saw.

    Generated: pages are popular by Zipf's law, a visit has three of them on average, and one page is the class.
    """
    chance = bench.generator("anonymous web")
    popularity = 1.0 / np.arange(1, WEB_PAGES + 2)
    popularity *= 3.0 / popularity.sum()
    pages = chance.random((rows, WEB_PAGES + 1)) < np.minimum(popularity * chance.gamma(2.0, 0.5, (rows, 1)), 1.0)
    labels = np.where(pages[:, 3], "visited", "rest")
    note = f"generated 0/1 rows of that size, seed {bench.settings.seed}: the data itself is not to be had"
    return DataSet(
        "AnonymousWeb (generated)", np.delete(pages, 3, axis=1).astype(np.float64), labels, "generated", note
    )


@dataclass(frozen=True)
class Equality:
    """How a plane learned in another way differs from the batch's: 2-norm of weights and bias, angle, digests."""

    distance: float
    angle: float
    same_digest: bool

    @classmethod
    def of(cls, found: Statistics, batch: Statistics, grid: Grid, positive: str) -> Equality:
        """Under the papers' options."""
        ours, whole = (_vector(linear.plane_of(part, grid, linear.PAPER_OPTIONS, positive)) for part in (found, batch))
        same = found.digest(FINGERPRINT) == batch.digest(FINGERPRINT)
        distance = float(np.linalg.norm(ours - whole))
        # Half the chord between unit vectors: no digits are lost at small angles, as an arc cosine would.
        chord = np.linalg.norm(ours / np.linalg.norm(ours) - whole / np.linalg.norm(whole))
        return cls(distance, float(2.0 * np.arcsin(chord / 2.0)), same)


def _vector(plane: Plane) -> Floats:
    return np.append(plane.weights[0], plane.biases[0])


def ways(rows: Floats, labels: Texts, grid: Grid) -> dict[str, Statistics]:
    """Statistics learned in two steps, on two nodes, both, and with rows that are taken out again (paper 1, §IV.A)."""
    half = len(rows) // 2
    first, second = slice(0, half), slice(half, None)

    def learned(*parts: slice) -> Statistics:
        return sum(
            (linear.statistics_of(rows[part], labels[part], grid) for part in parts), Statistics(grid.features + 1)
        )

    odd, even = slice(1, None, 2), slice(0, None, 2)
    both = [
        slice(start + node, start + step, 2) for start, step in ((0, half), (half, len(rows) - half)) for node in (1, 0)
    ]
    doubled = learned(first, second, first)
    return {
        "incremental": learned(first, second),
        "distributed": learned(odd, even),
        "both": learned(*both),
        "added and retired": doubled - learned(first),
    }


def relative_difference(features: Floats, flags: Flags, plane: Plane) -> float:
    """Largest difference of a standardized plane's weights and bias to a float64 batch, relative to the largest weight.

    The batch sees the features as given: ``(I/C + Σ σ_c E_cᵀE_c)⁻¹ (σ₊v₊ - σ₋v₋)`` on standardized rows.
    """
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation = np.where(deviation > 0.0, deviation, 1.0)
    rows = np.empty((len(features), len(mean) + 1))
    np.subtract(features, mean, out=rows[:, :-1])
    rows[:, :-1] /= deviation
    rows[:, -1] = -1.0
    weights = np.where(flags, 1.0 - flags.mean(), flags.mean())
    matrix = rows.T @ (rows * weights[:, None])
    matrix[np.diag_indices_from(matrix)] += 1.0 / plane.C
    batch = np.linalg.solve(matrix, rows.T @ (weights * np.where(flags, 1.0, -1.0)))
    ours = np.append(plane.weights[0] * deviation, plane.biases[0] - plane.weights[0] @ mean)
    return float(np.abs(ours - batch).max() / np.abs(batch).max())


def table_1(bench: Bench) -> list[Exhibit]:
    """Table I, and the relative difference to a plain float64 batch."""
    rows: list[tuple[Cell, ...]] = []
    data: list[str] = []
    relative: list[float] = []
    found: list[Equality] = []
    for name, positive in TABLE_1.items():
        table = anonymous_web(bench) if name.startswith("AnonymousWeb") else bench.table(name)
        if table is None:
            continue
        bench.say(f"Table I: {table.name}")
        table = table.against_rest(positive)
        grid = fit_grid(table.features)
        batch = linear.statistics_of(table.features, table.labels, grid)
        by_way = {
            way: Equality.of(part, batch, grid, positive)
            for way, part in ways(table.features, table.labels, grid).items()
        }
        standardized = linear.plane_of(batch, grid, SolverOptions(C=1.0), positive)
        flags = table.flags(positive)
        relative.append(relative_difference(table.features, flags, standardized))
        quantized = grid.quantize(table.features)[0]
        of_solver = relative_difference(grid.values(quantized), flags, standardized)
        found += by_way.values()
        data.append(f"{table.name}: {table.source}{', ' if table.note else ''}{table.note}")
        same = "equal" if all(way.same_digest for way in by_way.values()) else "DIFFERENT"
        size = f"{table.features.shape[0]:,} x {table.features.shape[1]}"
        rows.append((table.name, size, *(way.distance for way in by_way.values()), 0, same, relative[-1], of_solver))
    targets = (
        Target(
            "every difference is 0, and the digests are equal",
            all(way.distance == 0.0 and way.same_digest for way in found),
            f"largest difference {max(way.distance for way in found):g}",
        ),
        Target(
            f"standardized weights within {LARGEST_RELATIVE_DIFFERENCE:g} of a float64 batch on unrounded features",
            max(relative) <= LARGEST_RELATIVE_DIFFERENCE,
            ", ".join(f"{row[0]} {value:.1e}" for row, value in zip(rows, relative, strict=True)),
        ),
    )
    columns = (
        *map(Column, ("data set", "rows x features")),
        *(Column(way, "g") for way in ("incremental", "distributed", "both", "added and retired")),
        Column("paper", "g"),
        Column("digests"),
        Column("to float64, unrounded", ".1e"),
        Column("to float64, on the grid", ".1e"),
    )
    title = "Difference of the weights (2-norm) to the batch's, and relative to a plain float64 batch"
    note = (
        "To float64: standardized, C = 1; on features as they came, then on the same features rounded to the grid."
        " What is between the two is the grid's rounding; what is in the second is that of both solvers."
    )
    return [Exhibit(1, "Table I", title, columns, tuple(rows), targets=targets, data=tuple(data), notes=(note,))]


def table_5_1(bench: Bench) -> list[Exhibit]:
    """Table 5.1: a tenth of the rows, then nine increments."""
    rows: list[tuple[Cell, ...]] = []
    found, data = [], {}
    for (name, positive), theirs in TABLE_5_1.items():
        table = bench.table(name)
        if table is None:
            continue
        table = table.against_rest(positive)
        order = bench.generator("table 5.1", name).permutation(len(table.labels))
        features, labels = table.features[order], table.labels[order]
        grid = fit_grid(features)
        first = len(labels) // CHUNKS
        cuts = np.linspace(first, len(labels), CHUNKS).astype(int)[:-1].tolist()
        batch = linear.statistics_of(features, labels, grid)
        found.append(Equality.of(linear.in_chunks(features, labels, grid, cuts), batch, grid, positive))
        data[name] = f"{table.name}: {table.source}"
        rows.append((f"{name}: {positive} against the rest", found[-1].distance, theirs[0], found[-1].angle, theirs[1]))
    if not rows:
        return []
    target = Target(
        "distance and angle are 0, and the digests are equal",
        all(way.distance == way.angle == 0.0 and way.same_digest for way in found),
        f"largest distance {max(way.distance for way in found):g}",
    )
    heads = ("distance", "paper's distance", "angle", "paper's angle")
    columns = (Column("data set"), *(Column(head, "g") for head in heads))
    title = "Ten chunks one after another against the batch"
    return [Exhibit(4, "Table 5.1", title, columns, tuple(rows), targets=(target,), data=tuple(data.values()))]


TABLE_1_EXPERIMENT = Experiment(1, "equality to batch", table_1)
TABLE_5_1_EXPERIMENT = Experiment(4, "equality to batch", table_5_1)
