"""Paper 4, Table 5.3: how the planes hold when one class has 1, 5, … 200 times the rows of the other.

The paper's setting: 20 rows of the minority and 20, 100, … 4000 of the rest (Table 5.2 has the two columns of the
training set swapped), 40 + 40 others to test with, fed in chunks of random sizes, C = 1, features as they are, 50
independent draws. IncSVM learns the optimum of the usual linear support vector machine, which libsvm finds at once.
The last model is ours as it comes: standardized, C chosen from the statistics alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Flags, Floats, Positions
from deltaplane.estimators import ProximalSVM
from deltaplane.exact.grid import fit_grid
from deltaplane.log.confusion import Measures
from deltaplane.solve.solver_options import SolverOptions
from deltaplane_benchmarks import linear
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.exhibit import Cell, Chart, Column, Exhibit, Series, Target

__all__ = [
    "COLLAPSE_BELOW_PERCENT",
    "DEFAULT",
    "DEFAULTS_FROM_IMBALANCE",
    "EXPERIMENT",
    "MINORITY",
    "MODELS",
    "POINTS_WITHIN",
    "PUBLISHED",
    "SUPPORT_VECTORS",
    "TEST_EACH",
    "THEIRS",
    "TRAIN_MINORITY",
    "UNWEIGHTED",
    "WEIGHTED",
    "Model",
    "Scores",
    "draw",
    "measure",
    "run",
]

Model = Callable[[Floats, Flags, Floats, np.random.Generator], Flags]
"""Training rows, which of them are positive, test rows, chance for the cuts: which test rows it takes for positive."""

TRAIN_MINORITY, TEST_EACH = 20, 40
POINTS_WITHIN = 1.5
COLLAPSE_BELOW_PERCENT = 10.0
DEFAULTS_FROM_IMBALANCE = 5

THEIRS = ("IncSVM", "IncLPSVM", "DCIL-IncLPSVM")
"""The paper's three, in the order of the figures below."""

PUBLISHED: dict[str, dict[int, tuple[float, float, float]]] = {
    "Breast Wisconsin": {
        1: (95.43, 93.03, 93.03),
        5: (91.27, 92.79, 93.43),
        10: (89.12, 91.07, 93.77),
        20: (84.24, 86.98, 93.53),
    },
    "Car": {1: (92.19, 89.50, 89.50), 5: (90.61, 77.77, 91.02), 20: (77.45, 0.0, 90.36), 80: (28.58, 0.0, 91.06)},
    "Abalone": {1: (89.73, 89.14, 89.14), 5: (94.57, 85.82, 89.99), 40: (0.0, 0.0, 90.99), 200: (0.0, 0.0, 90.60)},
}
"""Their G-mean in percent, by data set and imbalance."""

MINORITY = {"Breast Wisconsin": "malignant", "Car": "very good", "Abalone": "young"}


def _svm(rows: Floats, positive: Flags, test: Floats, chance: np.random.Generator) -> Flags:
    del chance
    from sklearn.svm import SVC

    return np.asarray(SVC(kernel="linear", C=1.0).fit(rows, positive).predict(test))


def _proximal(options: SolverOptions) -> Model:
    def predict(rows: Floats, positive: Flags, test: Floats, chance: np.random.Generator) -> Flags:
        order = chance.permutation(len(rows))
        cuts = np.sort(chance.integers(0, len(rows), size=4)).tolist()
        labels = np.where(positive, "positive", "rest")
        grid = fit_grid(rows)
        statistics = linear.in_chunks(rows[order], labels[order], grid, cuts)
        return linear.flags(linear.plane_of(statistics, grid, options, "positive"), test, "positive")

    return predict


def _as_it_comes(rows: Floats, positive: Flags, test: Floats, chance: np.random.Generator) -> Flags:
    del chance
    return np.asarray(ProximalSVM().fit(rows, positive).predict(test))


MODELS: dict[str, Model] = {
    "IncSVM (libsvm)": _svm,
    "IncLPSVM (unweighted)": _proximal(linear.UNWEIGHTED_OPTIONS),
    "weighted, as the paper": _proximal(linear.PAPER_OPTIONS),
    "ours by default": _as_it_comes,
}
SUPPORT_VECTORS, UNWEIGHTED, WEIGHTED, DEFAULT = MODELS


@dataclass(frozen=True)
class Scores:
    """Mean and standard deviation over the rounds of each measure; undefined where it was in any round."""

    sensitivity: tuple[float, float]
    specificity: tuple[float, float]
    f_measure: tuple[float, float]
    relative_sensitivity: tuple[float, float]
    gmean: tuple[float, float]

    @classmethod
    def of(cls, rounds: list[Measures]) -> Scores:
        """Over the measures of all rounds."""

        def spread(name: str) -> tuple[float, float]:
            values = np.array([getattr(one, name) for one in rounds])
            return float(values.mean()), float(values.std(ddof=1))

        names = ("sensitivity", "specificity", "f_measure", "relative_sensitivity", "gmean")
        return cls(*(spread(name) for name in names))


def draw(positive: Flags, imbalance: int, chance: np.random.Generator) -> tuple[Positions, Positions]:
    """Row numbers of one training set and of one test set that share none."""
    minority, rest = chance.permutation(np.flatnonzero(positive)), chance.permutation(np.flatnonzero(~positive))
    train = np.concatenate([minority[TEST_EACH:][:TRAIN_MINORITY], rest[TEST_EACH:][: TRAIN_MINORITY * imbalance]])
    return train, np.concatenate([minority[:TEST_EACH], rest[:TEST_EACH]])


def measure(bench: Bench, table: DataSet, imbalance: int) -> dict[str, Scores]:
    """Each model over the rounds: all models of a round learn and are tested on the same rows."""
    positive = table.flags(MINORITY[table.name])
    found: dict[str, list[Measures]] = {name: [] for name in MODELS}
    for number in range(bench.rounds):
        chance = bench.generator("table 5.3", table.name, imbalance, number)
        train, test = draw(positive, imbalance, chance)
        for name, model in MODELS.items():
            predicted = model(table.features[train], positive[train], table.features[test], chance)
            found[name].append(linear.measures(positive[test], predicted))
    return {name: Scores.of(rounds) for name, rounds in found.items()}


def run(bench: Bench) -> list[Exhibit]:
    """Table 5.3, with the five measures of the paper; its figures are G-mean in percent."""
    rows: list[tuple[Cell, ...]] = []
    charts, targets, data = [], [], []
    for table in bench.tables(PUBLISHED):
        data.append(f"{table.name}: {table.source}, {table.note}")
        found = {}
        for imbalance in PUBLISHED[table.name]:
            bench.say(f"Table 5.3: {table.name} at imbalance {imbalance}")
            found[imbalance] = measure(bench, table, imbalance)
            rows += [_row(table.name, imbalance, model, scores) for model, scores in found[imbalance].items()]
        charts.append(_chart(table.name, found))
        targets += _targets(table.name, found)
    if not rows:
        return []
    notes = (
        "IncSVM's optimum is that of libsvm, which learns the batch at once; IncLPSVM is ours without class weights.",
        "A measure is undefined, as in the paper, where it was in any round; ± is one standard deviation over rounds.",
    )
    title = "Planes under static class imbalance: G-mean in percent, ours beside the paper's"
    return [Exhibit(4, "Table 5.3", title, _COLUMNS, tuple(rows), tuple(charts), tuple(targets), tuple(data), notes)]


_COLUMNS = (
    Column("data set"),
    Column("imbalance"),
    Column("model"),
    Column("sensitivity %", ".2f"),
    Column("specificity %", ".2f"),
    Column("F %", ".2f"),
    Column("RS", ".2f"),
    Column("G-mean %", ".2f"),
    Column("±", ".2f"),
    Column("paper's G-mean %", ".2f"),
    Column("difference", "+.2f"),
)


def _theirs(name: str, imbalance: int, model: str) -> float:
    """What the paper has for a model; ours by default stands beside its DCIL-IncLPSVM."""
    return PUBLISHED[name][imbalance][min(list(MODELS).index(model), len(THEIRS) - 1)]


def _row(name: str, imbalance: int, model: str, scores: Scores) -> tuple[Cell, ...]:
    theirs = _theirs(name, imbalance, model)
    percents = [100 * scores.sensitivity[0], 100 * scores.specificity[0], 100 * scores.f_measure[0]]
    mean, deviation = 100 * scores.gmean[0], 100 * scores.gmean[1]
    ratio = scores.relative_sensitivity[0]
    return (name, imbalance, model, *percents, ratio, mean, deviation, theirs, mean - theirs)


def _chart(name: str, found: dict[int, dict[str, Scores]]) -> Chart:
    imbalances = tuple(map(float, found))
    ours = [
        Series(model, imbalances, tuple(100 * scores[model].gmean[0] for scores in found.values())) for model in MODELS
    ]
    theirs = [
        Series(f"paper: {model}", imbalances, tuple(PUBLISHED[name][imbalance][at] for imbalance in found), theirs=True)
        for at, model in enumerate(THEIRS)
    ]
    return Chart(f"Table 5.3 {name}", "imbalance", f"G-mean %, {name}", (*ours, *theirs), log_x=True)


def _targets(name: str, found: dict[int, dict[str, Scores]]) -> list[Target]:
    gmeans = {
        (imbalance, model): 100 * scores.gmean[0]
        for imbalance, by_model in found.items()
        for model, scores in by_model.items()
    }
    apart = {at: gmeans[at, WEIGHTED] - _theirs(name, at, WEIGHTED) for at in found}
    above = {at: gmeans[at, DEFAULT] - _theirs(name, at, DEFAULT) for at in found if at >= DEFAULTS_FROM_IMBALANCE}
    collapsed = [at for at in found if _theirs(name, at, UNWEIGHTED) < COLLAPSE_BELOW_PERCENT]
    made = [
        Target(
            f"{name}: weighted within {POINTS_WITHIN} points of the paper's in every row",
            all(abs(points) <= POINTS_WITHIN for points in apart.values()),
            _listed(apart),
        ),
        Target(
            f"{name}: ours by default above the paper's in every row from imbalance {DEFAULTS_FROM_IMBALANCE}",
            all(points > 0 for points in above.values()),
            _listed(above),
        ),
    ]
    if collapsed:
        here = {at: gmeans[at, UNWEIGHTED] for at in collapsed}
        text = f"{name}: unweighted collapses where the paper's does"
        made.append(Target(text, all(value < COLLAPSE_BELOW_PERCENT for value in here.values()), _listed(here)))
    return made


def _listed(values: dict[int, float]) -> str:
    return ", ".join(f"{at}: {value:+.2f}" if math.isfinite(value) else f"{at}: –" for at, value in values.items())


EXPERIMENT = Experiment(4, "static imbalance", run)
