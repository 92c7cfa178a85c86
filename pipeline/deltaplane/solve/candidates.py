"""The automatic mode: many candidate planes, every one scored before it learns, one blended plane.

The problem: the best window, C, class weighting and threshold depend on the stream and change along it, and
nobody is there to tune them. To try every choice in a pipeline of its own costs as many pipelines.

How it is solved: one set of statistics has several nested windows. Each window gives a plane for each C and weighting,
and each plane has two thresholds: the midpoint that it was solved for, and that with the best G-mean if the decision
values of each class were normal, with the mean and deviation that follow from the Gram matrices. Workers test every
candidate on samples that are not learned yet, which takes one small matrix product. Hits are kept per class and fade
with the rows of that class, so that a rare class is not forgotten before it comes again. The published plane is

    Σ α_i [w_i; b_i],    α_i ∝ exp(SHARPNESS · G-mean_i)

which is still one plane. With several classes this is done for each of them against the rest.

If the objective is not the G-mean, the histograms of all scores give the value of each candidate at its best threshold.
The shares α follow from these values, and the blended plane has the best threshold of its own histogram.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Flags, Floats, Integers
from deltaplane.errors import SolveRefused
from deltaplane.exact.grid import Grid
from deltaplane.solve.aims import NO_TIME, Aim, Quantized, shares_by, take_aim
from deltaplane.solve.objectives import GMEAN, Objective
from deltaplane.solve.prequential_counts import Choice, PrequentialCounts
from deltaplane.solve.score_histograms import known_units, score_units
from deltaplane.solve.solver import Grams, Plane, Problem, contest, live_counts
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.solve.together import by_penalty, solved_together

__all__ = [
    "AUTOMATIC_C",
    "AUTOMATIC_WEIGHTINGS",
    "CLASS_ROWS",
    "FADE_ROWS",
    "PRIOR_ROWS",
    "SHARPNESS",
    "THRESHOLDS",
    "THRESHOLD_POINTS",
    "Blend",
    "Candidates",
    "Fitted",
    "Leaning",
    "blended",
    "fit",
    "fit_windows",
    "gaussian_threshold",
    "together",
    "weigh",
]

THRESHOLDS = ("midpoint", "gmean")
"""The two thresholds of a plane, in the order of every array here."""

AUTOMATIC_C = (1e-3, 1e-1, 10.0)
"""The choices of C if none is given, in standardized units: from close to the difference of class means to a full fit.
"""

AUTOMATIC_WEIGHTINGS = ("inverse", "none")
"""The class weightings tried if none is given. Unweighted planes have other directions, and their second threshold
corrects for the imbalance that they ignore: on some streams they are the better ones."""

SHARPNESS = 72.0
"""A candidate whose recent G-mean is 0.01 lower has about half the share. With half as many candidates (weighted ones
alone), 60 did as well: the more candidates there are, the more of them take a part of the share of the best."""

FADE_ROWS = 300.0
"""The number of scored rows of a class after which its hits have faded to 1/e."""

PRIOR_ROWS = 1e-3
"""Right and wrong rows of each side that each candidate has at the start: a recall without rows is a half."""

CLASS_ROWS = 2
"""A window with fewer rows on a side gives no candidate: one row has no deviation."""

THRESHOLD_POINTS = 41
"""The number of thresholds tried, from one projected mean to the other."""

_ORDINARY_EXPONENT = -10
"""Decision values below 2**-11 are scaled to a size near one first."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """All candidates for one class against the rest, by window w and choice c, with their faded hits and shares.

    Each has t = 2 thresholds. ``weights`` float64[w, c, d] and ``biases`` float64[w, c, t] are in raw units, NaN if the
    statistics gave no plane. ``hits`` float64[w, c, t, 2 sides] and ``rows`` float64[w, c, 2 sides] are faded counts.
    ``shares`` float64[w, c, t] are the α of the blend; they add to 1, or are all 0 if there is no plane.
    """

    weights: Floats
    biases: Floats
    hits: Floats
    rows: Floats
    shares: Floats

    @property
    def exist(self) -> Flags:
        """bool[w, c]: whether there is a plane."""
        return ~np.isnan(self.biases[..., 0])

    @property
    def gmeans(self) -> Floats:
        """float64[w, c, 2 thresholds]: the recent G-mean of each candidate, zero if it was never tried."""
        recalls = (self.hits + PRIOR_ROWS) / (self.rows[:, :, None, :] + 2 * PRIOR_ROWS)
        tried = self.rows.sum(axis=-1)[..., None] > 0.0
        return np.where(tried, np.sqrt(recalls.prod(axis=-1)), 0.0)


class Leaning(NamedTuple):
    """The shares of the blend, averaged over classes: ``shares`` float64[w, c, 2 thresholds], which add to 1."""

    choices: tuple[Choice, ...]
    shares: Floats


@dataclass(frozen=True, eq=False)
class Blend:
    """Every candidate of a model.

    ``choices``: the c choices of C and weighting, in the order of every array. ``of``: class label to its candidates;
    one label for a binary problem. ``aim``: None if the objective is the G-mean; otherwise all shares are of the second
    threshold, and the plane has that of the aim.
    """

    choices: tuple[Choice, ...]
    of: Mapping[str, Candidates]
    aim: Aim | None = None

    @property
    def leaning(self) -> Leaning:
        """The mean shares over the classes that have a plane."""
        shares = [candidates.shares for candidates in self.of.values() if candidates.exist.any()]
        return Leaning(self.choices, np.asarray(np.mean(shares, axis=0), dtype=np.float64))

    @functools.cached_property
    def _planes(self) -> tuple[Floats, Floats]:
        """Weights float64[d, m] and biases float64[m, 2 thresholds] of all candidates; missing ones claim no row."""
        weights = [candidates.weights.reshape(-1, candidates.weights.shape[-1]) for candidates in self.of.values()]
        biases = [candidates.biases.reshape(-1, len(THRESHOLDS)) for candidates in self.of.values()]
        return np.nan_to_num(np.concatenate(weights)).T, np.nan_to_num(np.concatenate(biases), nan=np.inf)

    def try_out(self, rows: Floats, codes: Integers, labels: Sequence[str]) -> PrequentialCounts | None:
        """The counts of every candidate on raw rows float64[n, d], or None if there are no planes or no rows.

        The true classes of the rows are ``labels[codes]``, with codes int[n].
        """
        if not self.of or not len(rows):
            return None
        weights, biases = self._planes
        decisions = rows @ weights
        truth = np.zeros((len(labels), len(rows)))
        truth[codes, np.arange(len(rows))] = 1.0
        totals = truth.sum(axis=1)
        by_threshold = [truth @ (decisions > bounds).astype(np.float64) for bounds in biases.T]
        by_class = np.stack(by_threshold, axis=-1).reshape(len(labels), len(self.of), -1)
        hits, scored, tallied = {}, {}, {}
        for at, (target, candidates) in enumerate(self.of.items()):
            own = np.array([label == target for label in labels])
            sides = np.array([totals[own].sum(), totals[~own].sum()])
            right, wrong = by_class[own, at].sum(axis=0), by_class[~own, at].sum(axis=0)
            both = np.stack([right, sides[1] - wrong], axis=-1).reshape(*candidates.biases.shape, 2)
            exist = candidates.exist[..., None]
            hits[target] = np.where(exist[..., None], both, 0.0).astype(np.int64)
            scored[target] = np.where(exist, sides, 0.0).astype(np.int64)
            if self.aim is not None:
                alone = decisions[:, at * exist.size : (at + 1) * exist.size]
                tallied[target] = self.aim.tally(target, alone, candidates.shares.sum(axis=-1), own[codes])
        return PrequentialCounts(self.choices, hits, scored, tallied)


class Fitted(NamedTuple):
    """The planes that the statistics alone give for each target, and the values that every blend of them shares.

    ``weights``, ``biases`` and ``sides`` map a target to arrays: the first two as in :class:`Candidates`, ``sides``
    float64[w, c, 2 sides, 2] with the mean and standard deviation of the decision values ``x·w - b`` of each side, b
    the first bias. ``sigmas``: class label to float64[w, c]. ``refusals``: why some planes are missing.
    """

    weights: dict[str, Floats]
    biases: dict[str, Floats]
    sides: dict[str, Floats]
    sigmas: dict[str, Floats]
    condition: float
    counts: dict[str, int]
    positive: str | None
    refusals: tuple[str, ...]

    @property
    def exist(self) -> bool:
        """Whether there is any candidate."""
        return any(np.isfinite(biases).any() for biases in self.biases.values())

    def nothing(self, windows: int, choices: int) -> str:
        """The reason why there is no candidate, among so many windows and choices."""
        few = f"no window has {CLASS_ROWS} rows of two classes, got {self.counts}"
        reason = self.refusals[0] if self.refusals else few
        return f"no candidate of {windows} windows and {choices} choices could be solved: {reason}"


def fit(
    grams_by_window: Sequence[Grams],
    longest: int,
    grid: Grid,
    options: Sequence[SolverOptions],
    positive: str | None = None,
    prior: Plane | None = None,
) -> Fitted:
    """Candidate planes from the class Gram matrices of each nested window, one for each of ``options``.

    ``longest`` is the index of the window that holds the rows of all others: its classes are those told apart. Raises
    what :func:`live_counts` raises, and :class:`SolveRefused` if no window gives any plane.
    """
    sides = contest(live_counts(grams_by_window[longest], grid, positive), positive)
    fitted = fit_windows(grams_by_window, sides, grid, options, positive, prior)
    if not fitted.exist:
        raise SolveRefused(fitted.nothing(len(grams_by_window), len(options)))
    return fitted


def fit_windows(
    grams_by_window: Sequence[Grams],
    sides: tuple[str | None, dict[str, int]],
    grid: Grid,
    options: Sequence[SolverOptions],
    positive: str | None = None,
    prior: Plane | None = None,
) -> Fitted:
    """Candidate planes as :func:`fit` gives, for the ``sides`` of a known contest; there may be none."""
    alone, counts = sides
    targets, shape = counts if alone is None else (alone,), (len(grams_by_window), len(options))
    fitted = Fitted(
        weights={target: np.full((*shape, grid.features), np.nan) for target in targets},
        biases={target: np.full((*shape, len(THRESHOLDS)), np.nan) for target in targets},
        sides={target: np.full((*shape, 2, 2), np.nan) for target in targets},
        sigmas={label: np.full(shape, np.nan) for label in counts},
        condition=1.0,
        counts=counts,
        positive=alone,
        refusals=(),
    )
    # If a stream is shorter than two of its windows, these are equal and are solved once.
    repeated = [
        window for window in range(1, len(grams_by_window)) if grams_by_window[window] == grams_by_window[window - 1]
    ]
    windows, refusals = solved_together(grams_by_window, repeated, grid, positive)
    condition, groups = 1.0, by_penalty(options)
    for places in windows:
        problem = Problem.of([grams_by_window[window] for window in places], grid, positive)
        worst, faults = _fit_windows(problem, places, groups, prior, fitted)
        condition, refusals = max(condition, worst), refusals + faults
    for window in repeated:
        for table in (fitted.weights, fitted.biases, fitted.sides, fitted.sigmas):
            for values in table.values():
                values[window] = values[window - 1]
    return fitted._replace(condition=condition, refusals=tuple(refusals))


def _fit_windows(
    problem: Problem,
    windows: list[int],
    groups: list[tuple[SolverOptions, list[int], list[float]]],
    prior: Plane | None,
    fitted: Fitted,
) -> tuple[float, list[str]]:
    """The worst condition estimate, and why some planes were refused; puts the planes of ``windows`` into ``fitted``.

    ``groups`` are those of :func:`deltaplane.solve.together.by_penalty`.
    """
    refusals: list[str] = []
    condition = 1.0
    counts = [problem.counts(at) for at in range(len(windows))]
    enough = {target: np.array([_rows_enough(count, target) for count in counts]) for target in fitted.weights}
    targets = [target for target, there in enough.items() if there.any()]
    needed = np.logical_or.reduce(list(enough.values()))
    for options, choices, choices_of_c in groups if needed.any() else ():
        try:
            planes = problem.solve_each(options, choices_of_c, prior)
        except SolveRefused as refused:
            refusals.append(str(refused))
            continue
        refusals += [refusal for (at, _), refusal in planes.refusals.items() if needed[at]]
        good = ~planes.refused & needed[:, None]
        condition = max(condition, float(planes.conditions.max(where=good, initial=1.0)))
        table = np.ix_(windows, choices)
        for target in targets:
            there = good & enough[target][:, None]
            weights, biases = problem.towards(target, planes)
            fitted.weights[target][table] = np.where(there[..., None], weights, np.nan)
            fitted.biases[target][table] = np.where(there, biases, np.nan)[..., None]
        for label in planes.sigmas.keys() & fitted.sigmas.keys():
            fitted.sigmas[label][table] = np.where(good, planes.sigmas[label][:, None], np.nan)
    for target in targets:
        biases = fitted.biases[target]
        means, deviations = problem.projections(target, fitted.weights[target][windows], biases[windows, :, 0])
        moves = gaussian_threshold(means.reshape(-1, 2), deviations.reshape(-1, 2))
        biases[windows, :, 1] += moves.reshape(len(windows), -1)
        fitted.sides[target][windows] = np.stack([means, deviations], axis=-1)
    return condition, refusals


def _rows_enough(counts: Mapping[str, int], target: str) -> bool:
    own = counts.get(target, 0)
    return min(own, sum(counts.values()) - own) >= CLASS_ROWS


def gaussian_threshold(means: Floats, deviations: Floats) -> Floats:
    """float64[m]: the thresholds with the best G-mean if decision values are normal; the own side lies above them.

    ``means`` and ``deviations`` float64[m, 2] are of (own side, rest). The square of the G-mean is a product of two
    normal probabilities. Its logarithm is computed at ``THRESHOLD_POINTS`` places from one mean to the other, beyond
    which it only falls.
    """
    # A merger alone needs it. At the top of the module, this import would make the others start half as long again.
    from scipy.special import log_ndtr  # noqa: PLC0415

    # Decision values in raw units may all be tiny. They are scaled, so that the smallest deviation is relative to them.
    exponents = np.frexp(np.maximum(np.abs(means).max(axis=1), deviations.max(axis=1)))[1]
    exponents = np.where(exponents < _ORDINARY_EXPONENT, exponents, 0)[:, None]
    means, deviations = np.ldexp(means, -exponents), np.ldexp(deviations, -exponents)
    deviations = np.maximum(deviations, 1e-6)
    low, high = means.min(axis=1), means.max(axis=1)
    places = low[:, None] + np.linspace(0.0, 1.0, THRESHOLD_POINTS) * (high - low)[:, None]
    own, rest = means.T[..., None], deviations.T[..., None]
    quality = log_ndtr((own[0] - places) / rest[0]) + log_ndtr((places - own[1]) / rest[1])
    best = places[np.arange(len(places)), quality.argmax(axis=1)]
    return np.asarray(np.ldexp(best, exponents[:, 0]), dtype=np.float64)


def weigh(
    fitted: Fitted,
    choices: tuple[Choice, ...],
    before: Blend | None,
    prequential_counts: PrequentialCounts | None,
    objective: Objective = GMEAN,
    watermark: int = NO_TIME,
) -> Blend:
    """The candidates with their shares: hits known ``before`` fade by the rows of ``prequential_counts``, which add.

    ``watermark`` is the largest event time so far, in milliseconds: some objectives count rows per day.
    """
    of = {}
    for target, weights in fitted.weights.items():
        biases = fitted.biases[target]
        hits, rows = np.zeros((*biases.shape, 2)), np.zeros((*biases.shape[:2], 2))
        known = before.of.get(target) if before is not None and before.choices == choices else None
        if known is not None and known.hits.shape == hits.shape:
            hits, rows = known.hits, known.rows
        if prequential_counts is not None and target in prequential_counts.rows:
            new = prequential_counts.rows[target].astype(np.float64)
            fade = np.exp(-new / FADE_ROWS)
            hits = hits * fade[:, :, None, :] + prequential_counts.hits[target]
            rows = rows * fade + new
        candidates = Candidates(weights, biases, hits, rows, np.zeros(biases.shape))
        of[target] = replace(candidates, shares=_shares(candidates))
    if objective == GMEAN:
        return Blend(choices, of)
    earlier = before.aim if before is not None and before.choices == choices else None
    planes = {target: Quantized(biases[..., 0], fitted.sides[target]) for target, biases in fitted.biases.items()}
    scores = {} if prequential_counts is None else prequential_counts.scores
    aim, shares = take_aim(objective, planes, fitted.counts, earlier, scores, watermark)
    for target, by_plane in shares.items():
        of[target] = replace(of[target], shares=np.stack([np.zeros(by_plane.shape), by_plane], axis=-1))
    return Blend(choices, of, aim)


def together(mine: Blend | None, theirs: Blend | None) -> Blend | None:
    """The blend of candidates tried in two places: faded counts add, planes and shares are those of the first.

    Histograms of scores do not add: those of the first stay. If one is None, the other is returned; if their choices
    differ, the first.
    """
    if mine is None or theirs is None or mine.choices != theirs.choices:
        return theirs if mine is None else mine
    of = {**theirs.of, **mine.of}
    for target in mine.of.keys() & theirs.of.keys():
        one, other = mine.of[target], theirs.of[target]
        if one.hits.shape == other.hits.shape:
            of[target] = replace(one, hits=one.hits + other.hits, rows=one.rows + other.rows)
    return replace(mine, of=of)


def _shares(candidates: Candidates) -> Floats:
    exist = np.broadcast_to(candidates.exist[..., None], candidates.biases.shape)
    return shares_by(candidates.gmeans, exist, SHARPNESS)


def blended(fitted: Fitted, blend: Blend) -> Plane:
    """The plane ``Σ α_i [w_i; b_i]`` in raw units, with the classes and counts of the longest window.

    Its C is the geometric mean of its candidates' C, weighted by their shares. Its σ is their weighted mean, and its
    condition the worst of all. A class too rare for a candidate has no plane yet and is left out. Raises
    :class:`SolveRefused` if fewer than two classes are left.
    """
    targets = [target for target, candidates in blend.of.items() if candidates.exist.any()]
    if fitted.positive is None and len(targets) < 2:
        raise SolveRefused(
            f"solve: expected {CLASS_ROWS} rows and a plane of at least two classes, got {fitted.counts}; wait for more"
        )
    counts = fitted.counts if fitted.positive is not None else {target: fitted.counts[target] for target in targets}
    weights, biases, logarithms, sigmas, units = [], [], [], {}, []
    logs = np.log([choice.C for choice in blend.choices])
    for target in targets:
        candidates = blend.of[target]
        by_plane = candidates.shares.sum(axis=-1)
        weights.append(_weighted(by_plane[..., None], candidates.weights))
        if blend.aim is None:
            biases.append(float(_weighted(candidates.shares, candidates.biases).sum()))
        else:
            biases.append(blend.aim.of[target].bias_of_blend(by_plane))
        of_candidates = score_units(candidates.biases[..., 0], fitted.sides[target])
        # The spread of a sum is at most the sum of the spreads. Candidates are so alike that the two are nearly equal.
        zero, one = _weighted(by_plane[..., None], of_candidates).tolist()
        units.append([zero - biases[-1], one])
        logarithms.append(float((by_plane.sum(axis=0) * logs).sum()))
        for label in counts if fitted.positive is not None else (target,):
            sigma = float(_weighted(by_plane, fitted.sigmas[label]).sum())
            sigmas[label] = sigma
    return Plane(
        classes=tuple(counts),
        positive=fitted.positive,
        weights=np.array(weights),
        biases=np.array(biases),
        sigmas=sigmas,
        C=math.exp(math.fsum(logarithms) / len(logarithms)),
        condition=fitted.condition,
        counts=counts,
        units=known_units(np.array(units)),
    )


def _weighted(shares: Floats, values: Floats) -> Floats:
    """The sum of shares times values [w, c, ...] over windows and choices; values without a share may be NaN."""
    return np.asarray(np.where(shares > 0.0, shares * values, 0.0).sum(axis=(0, 1)), dtype=np.float64)
