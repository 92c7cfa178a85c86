"""Paper 4, §5.5 and §5.6: faces, while the classes' shares move, and with ever more persons.

Membership: half of the persons are members. The rows come in a tenth and nine increments, and in the end the classes
are balanced, but on the way there is a majority whose size falls, varies at random, or rises and then falls. In
recognition every person is a class. The thesis's own faces are not public; the ORL faces stand in, eight pictures of
each person to learn and two to test with, reduced to means over blocks of 16 x 4 pixels, in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from deltaplane.arrays import Flags, Floats, Integers, Positions, Texts, UInt8s
from deltaplane.exact.grid import Grid, fit_grid
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion, accuracy
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane_benchmarks import linear
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data import catalogue
from deltaplane_benchmarks.data.catalogue import PERSONS, PICTURES, Images
from deltaplane_benchmarks.exhibit import Cell, Chart, Column, Exhibit, Series, Target

__all__ = [
    "BLOCK",
    "DIP_POINTS",
    "LEARNED_PICTURES",
    "MEMBERSHIP_EXPERIMENT",
    "OPTIONS",
    "PENALTIES",
    "PERSON_COUNTS",
    "RECOGNITION_EXPERIMENT",
    "SCHEDULES",
    "STAGES",
    "STEP_DOWN_POINTS",
    "Draw",
    "Model",
    "block_means",
    "live_counts",
    "membership",
    "membership_exhibit",
    "recognition",
    "recognition_exhibit",
]

BLOCK = (16, 4)
LEARNED_PICTURES = 8
STAGES = 10
STEP_DOWN_POINTS = 0.5
"""A mean over the rounds that falls by less has not fallen."""

DIP_POINTS = 1.0

SCHEDULES: dict[str, tuple[float, ...]] = {
    "falling": (9, 8, 7, 6, 5, 4, 3, 2.2, 1.5, 1),
    "random variation": (),
    "rising then falling": (1, 2, 3, 4, 4.5, 3.5, 2.5, 1.8, 1.4, 1),
}
"""Live rows of the majority for one of the minority at each stage; the random ones are drawn once from the seed."""

PERSON_COUNTS = (10, 15, 20, 25, 30, 35, 40)
OPTIONS: dict[str, SolverOptions] = {"weighted": linear.PAPER_OPTIONS, "unweighted": linear.UNWEIGHTED_OPTIONS}
PENALTIES = {"standardized": True, "raw": False}


def block_means(pixels: UInt8s) -> Floats:
    """Means over blocks of pixels, in [0, 1]: float64[n, blocks]."""
    count, height, width = pixels.shape
    high, wide = BLOCK
    blocks = pixels.reshape(count, height // high, high, width // wide, wide)
    return np.asarray(blocks.mean(axis=(2, 4)).reshape(count, -1) / 255.0)


def live_counts(ratios: tuple[float, ...], minority: int, majority: int) -> list[tuple[int, int]]:
    """Rows of (minority, majority) live at each stage, all in the end, as near the ratios as rows that stay allow."""
    counts = []
    few = many = 0
    for stage, ratio in enumerate(ratios, start=1):
        total = round((minority + majority) * stage / len(ratios))
        few = min(max(round(total / (1.0 + ratio)), few, total - majority), minority, total - many)
        many = total - few
        counts.append((few, many))
    return counts


@dataclass(frozen=True)
class Draw:
    """A round: which persons are in it, which pictures are learned, and which are kept to test with."""

    learned: Positions
    tested: Positions

    @classmethod
    def of(cls, persons: Integers, chance: np.random.Generator) -> Draw:
        """``persons``: numbers of the persons. What is learned comes in random order."""
        pictures = chance.permuted(np.tile(np.arange(PICTURES), (len(persons), 1)), axis=1)
        rows = persons[:, None] * PICTURES + pictures
        return cls(chance.permutation(rows[:, :LEARNED_PICTURES].ravel()), rows[:, LEARNED_PICTURES:].ravel())


def membership(bench: Bench, features: Floats, schedule: str) -> tuple[dict[str, Floats], Floats]:
    """For one schedule: by model, G-mean float64[rounds, stages]; and the mean imbalance float64[stages]."""
    grid = fit_grid(features)
    models = _membership_models(grid)
    found = {name: np.empty((bench.rounds, STAGES)) for name in models}
    imbalance = np.zeros(STAGES)
    drawn_ratios = bench.generator("membership ratios").uniform(1.0, 5.0, STAGES - 1).tolist()
    ratios = SCHEDULES[schedule] or (*drawn_ratios, 1.0)
    for number in range(bench.rounds):
        chance = bench.generator("membership", schedule, number)
        members = np.zeros(PERSONS, dtype=np.bool_)
        members[chance.permutation(PERSONS)[: PERSONS // 2]] = True
        is_member = np.repeat(members, PICTURES)
        drawn = Draw.of(np.arange(PERSONS), chance)
        few, many = (drawn.learned[is_member[drawn.learned] == flag] for flag in (True, False))
        for stage, (minority, majority) in enumerate(live_counts(ratios, len(few), len(many))):
            live = np.concatenate([few[:minority], many[:majority]])
            imbalance[stage] += majority / minority / bench.rounds
            for name, model in models.items():
                predicted = model(features[live], is_member[live], features[drawn.tested])
                found[name][number, stage] = linear.measures(is_member[drawn.tested], predicted).gmean
    return found, imbalance


Model = Callable[[Floats, Flags, Floats], Flags]


def _membership_models(grid: Grid) -> dict[str, Model]:
    def proximal(options: SolverOptions) -> Model:
        def predict(rows: Floats, member: Flags, test: Floats) -> Flags:
            learned = linear.statistics_of(rows, np.where(member, "member", "rest"), grid)
            return linear.flags(linear.plane_of(learned, grid, options, "member"), test, "member")

        return predict

    def support_vectors(rows: Floats, member: Flags, test: Floats) -> Flags:
        from sklearn.svm import SVC

        return np.asarray(SVC(kernel="linear", C=1.0).fit(rows, member).predict(test))

    models = {name: proximal(options) for name, options in OPTIONS.items()}
    return {**models, "IncSVM (libsvm)": support_vectors}


def membership_exhibit(bench: Bench) -> list[Exhibit]:
    """Figure 5.2: G-mean at each stage, for three ways in which the imbalance changes."""
    images = bench.get("ORL faces", lambda: catalogue.faces(bench.cache))
    if images is None:
        return []
    features = block_means(images.pixels)
    rows: list[tuple[Cell, ...]] = []
    charts, targets = [], []
    for schedule in SCHEDULES:
        bench.say(f"Figure 5.2: imbalance {schedule}")
        found, imbalance = membership(bench, features, schedule)
        means = {name: 100.0 * gmeans.mean(axis=0) for name, gmeans in found.items()}
        rows += [
            (schedule, stage + 1, float(imbalance[stage]), *(float(mean[stage]) for mean in means.values()))
            for stage in range(STAGES)
        ]
        stages = tuple(float(stage + 1) for stage in range(STAGES))
        curves = tuple(Series(name, stages, tuple(mean.tolist())) for name, mean in means.items())
        charts.append(Chart(f"Figure 5.2 {schedule}", "stage", "G-mean %", curves))
        targets += _membership_targets(schedule, means, imbalance)
    columns = (
        Column("imbalance is"),
        Column("stage"),
        Column("majority / minority", ".2f"),
        *(Column(f"{name}, G-mean %", ".2f") for name in means),
    )
    note = (
        "The paper shows curves without figures: its weighted G-mean rises throughout, the two others dip where the"
        " imbalance rises, and all end close together."
    )
    title = "Face membership under dynamic class imbalance"
    data = (_said(images),)
    return [Exhibit(4, "Figure 5.2", title, columns, tuple(rows), tuple(charts), tuple(targets), data, (note,))]


def _membership_targets(schedule: str, means: dict[str, Floats], imbalance: Floats) -> list[Target]:
    steps = {name: np.diff(mean) for name, mean in means.items()}
    lowest = float(steps["weighted"].min())
    made = [
        Target(
            f"{schedule}: the weighted G-mean rises throughout (no step down of {STEP_DOWN_POINTS} points)",
            lowest > -STEP_DOWN_POINTS,
            f"smallest step {lowest:+.2f}",
        )
    ]
    rising = np.diff(imbalance) > 0.0
    if rising.any():
        dip = float(steps["unweighted"][rising].min())
        text = f"{schedule}: the unweighted dips where the imbalance rises (by {DIP_POINTS:g} point or more)"
        made.append(Target(text, dip <= -DIP_POINTS, f"largest step down {dip:+.2f}"))
    return made


def recognition(bench: Bench, features: Floats, labels: Texts, persons: int) -> dict[tuple[str, str], Floats]:
    """By units of the penalty and model: accuracy float64[rounds, stages] with so many persons to tell apart."""
    grid = fit_grid(features)
    models = {
        (units, name): replace(options, standardize=standardize)
        for units, standardize in PENALTIES.items()
        for name, options in OPTIONS.items()
    }
    found = {key: np.empty((_recognition_rounds(bench), STAGES)) for key in models}
    for number in range(_recognition_rounds(bench)):
        chance = bench.generator("recognition", persons, number)
        drawn = Draw.of(chance.permutation(PERSONS)[:persons], chance)
        total = Statistics(features.shape[1] + 1)
        for stage, chunk in enumerate(np.array_split(drawn.learned, STAGES)):
            total += linear.statistics_of(features[chunk], labels[chunk], grid)
            for key, options in models.items():
                plane = linear.plane_of(total, grid, options)
                found[key][number, stage] = _accuracy(plane, features[drawn.tested], labels[drawn.tested])
    return found


def _accuracy(plane: Plane, rows: Floats, labels: Texts) -> float:
    # A person none of whose pictures has been learned yet cannot be recognised, and counts as wrong.
    classes = tuple(sorted({*plane.classes, *labels.tolist()}))
    chosen = np.searchsorted(classes, np.array(plane.classes)[plane.predict(rows)])
    return accuracy(Confusion.of(np.searchsorted(classes, labels), chosen, classes))


def _recognition_rounds(bench: Bench) -> int:
    return max(2, bench.rounds // 5)


def recognition_exhibit(bench: Bench) -> list[Exhibit]:
    """Figure 5.5: the last accuracy, and the mean over all stages, by the number of persons."""
    images = bench.get("ORL faces", lambda: catalogue.faces(bench.cache))
    if images is None:
        return []
    features = block_means(images.pixels)
    rows: list[tuple[Cell, ...]] = []
    for persons in PERSON_COUNTS:
        bench.say(f"Figure 5.5: {persons} persons")
        found = recognition(bench, features, images.labels, persons)
        for units in PENALTIES:
            some = [100.0 * found[units, name] for name in OPTIONS]
            last, course = [float(one[:, -1].mean()) for one in some], [float(one.mean()) for one in some]
            rows.append((units, persons, *last, last[0] - last[1], *course, course[0] - course[1]))
    rows.sort(key=lambda row: list(PENALTIES).index(str(row[0])))
    standardized = [row for row in rows if row[0] == "standardized"]
    gains = [float(row[4] or 0.0) for row in standardized]
    target = Target(
        "standardized, weighted is no worse than unweighted at the end, for every number of persons",
        min(gains) >= 0.0,
        f"gains {', '.join(f'{gain:+.2f}' for gain in gains)}",
    )
    notes = (
        f"{_recognition_rounds(bench)} rounds, since each stage solves as many planes as there are persons; C = 1.",
        "The paper's figure: a gain from 30 persons on that grows to 3.5 points at 270. The units of its features are",
        "not given, and with C = 1 they decide: in raw pixels from 0 to 1 the weights leave so little of the data's",
        "part that the penalty tells, and unweighted ends ahead.",
    )
    title = "Face recognition with more and more persons: accuracy"
    data = (_said(images),)
    return [Exhibit(4, "Figure 5.5", title, _COLUMNS, tuple(rows), (_chart(standardized),), (target,), data, notes)]


_COLUMNS = (
    Column("penalty in units"),
    Column("persons"),
    *(Column(f"{name}, last %", ".2f") for name in OPTIONS),
    Column("gain, last", "+.2f"),
    *(Column(f"{name}, all stages %", ".2f") for name in OPTIONS),
    Column("gain, all stages", "+.2f"),
)


def _chart(rows: list[tuple[Cell, ...]]) -> Chart:
    x = tuple(float(row[1] or 0.0) for row in rows)
    curves = tuple(
        Series(_COLUMNS[at].name.removesuffix(" %"), x, tuple(float(row[at] or 0.0) for row in rows))
        for at in (2, 3, 5, 6)
    )
    return Chart("Figure 5.5", "persons", "accuracy %", curves)


def _said(images: Images) -> str:
    return f"{images.note}; {images.source}"


MEMBERSHIP_EXPERIMENT = Experiment(4, "face membership", membership_exhibit)
RECOGNITION_EXPERIMENT = Experiment(4, "face recognition", recognition_exhibit)
