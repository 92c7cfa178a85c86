"""From exact class Gram matrices in grid units to a plane in raw units; pure.

The problem: the plane is ``(I/C + Σ σ_c M_c)⁻¹ Σ ±σ_c v_c`` (paper 1, eq. 21), with M_c the Gram matrix of the rows
[x, -1] of class c. With float sums this fails without an error if a feature's mean is far from zero compared with its
spread: the spread is then a small difference of two large numbers, and its digits are lost.

How it is solved: the Gram matrices are integers. They are moved to the integers nearest to the pooled means, *still
exactly*, and only then each entry is rounded once. After that nothing cancels: a column's sum of squares is at most
twice that about its mean, and it is zero only if the column is constant.

    integers ──move──▶ integers about the mean ──round once──▶ + penalty ──scale, Cholesky──▶ plane in raw units

The penalty is in standardized units (mean 0, deviation 1 over all live rows) or in raw units (raw_units.py). The result
depends on the integers alone: with one machine and one BLAS, equal statistics give equal bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.errors import DefinitionMismatch, SolveRefused
from deltaplane.exact.centring import Stack
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.triangle import layout_of
from deltaplane.solve import raw_units
from deltaplane.solve.decision_values import decision_values
from deltaplane.solve.score_histograms import known_units, score_units
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.solve.systems import Method, System, Units, at_mean, solve_system

__all__ = ["Grams", "Plane", "Problem", "Solved", "contest", "live_counts", "solve"]

Grams = Mapping[str, Moments]


@dataclass(frozen=True, eq=False)
class Plane:
    """Planes in raw units: a raw row x is on a plane's own side if its decision value ``x·w - b`` is above zero.

    ``classes`` is sorted. Either there are two classes and one plane (p = 1), that of ``positive``; or ``positive`` is
    None, and there are p = k planes, each of one class against the rest. ``weights`` is float64[p, d], ``biases``
    float64[p]. ``sigmas``: the weight of each class as the positive side of its own plane. ``condition``: the largest
    estimated condition number (1-norm) of the scaled matrices; its logarithm is about the number of digits lost. If the
    penalty is in raw units, it is at least that of the decision values (``raw_units.conditions``). ``units``
    float64[p, 2]: for each plane the decision value with the score 0, and its increase from there to the score 1 (see
    ``score_histograms``); None if not known, as for planes that were stored without. ``means`` float64[d]: the means of
    the features over the live rows that the plane was solved from, or None if not known.
    """

    classes: tuple[str, ...]
    positive: str | None
    weights: Floats
    biases: Floats
    sigmas: dict[str, float]
    C: float
    condition: float
    counts: dict[str, int]
    units: Floats | None = None
    means: Floats | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The classes on the positive side of the p planes."""
        return self.classes if self.positive is None else (self.positive,)

    def decide(self, rows: Floats) -> Floats:
        """Decision values float64[n, p] of raw rows float64[n, d] (paper 1, eq. 14), added in a fixed order."""
        return decision_values(rows, self.weights, self.biases)

    def predict(self, rows: Floats) -> Int64s:
        """Indices int64[n] into ``classes`` for raw rows float64[n, d]: :meth:`choose` from :meth:`decide`."""
        return self.choose(self.decide(rows))

    def choose(self, decisions: Floats) -> Int64s:
        """Indices int64[n] into ``classes`` for decision values float64[n, p].

        With one plane, a value above zero means ``positive``. With several, the largest decides, the first if equal.
        """
        if self.positive is None:
            return np.asarray(decisions.argmax(axis=1), dtype=np.int64)
        at = np.int64(self.classes.index(self.positive))
        return np.where(decisions[:, 0] > 0.0, at, 1 - at)

    def row_of(self, label: str) -> tuple[Floats, float] | None:
        """(w float64[d], b) of the plane with ``label`` on its positive side, or None if there is none."""
        if label not in self.classes:
            return None
        if self.positive is None:
            at = self.classes.index(label)
            return self.weights[at], float(self.biases[at])
        sign = 1.0 if label == self.positive else -1.0
        return sign * self.weights[0], sign * float(self.biases[0])


class Solved(NamedTuple):
    """The planes of n sets of rows under m choices of C.

    ``weights`` float64[n, m, p, d] and ``biases`` float64[n, m, p] are those of the problem's ``targets``, in raw
    units; ``conditions`` float64[n, m] and ``sigmas``, label to float64[n], are as in :class:`Plane`. ``refused``
    bool[n, m]: whether there is no plane; then its numbers mean nothing. ``refusals``: why, by (set of rows, C).
    """

    weights: Floats
    biases: Floats
    conditions: Floats
    sigmas: dict[str, Floats]
    refused: Flags
    refusals: dict[tuple[int, int], str]


def solve(
    grams: Grams, grid: Grid, options: SolverOptions, positive: str | None = None, prior: Plane | None = None
) -> Plane:
    """The plane of the live rows with class Gram matrices ``grams``, under ``options``.

    With ``positive``, one plane is solved: that class against all others, together called ``not <positive>`` unless
    there is just one. Without it, two classes give the plane of the last in sorted order, more give one plane each. A
    plane is drawn to the plane of ``prior`` that has the same class on its positive side, or to zero if there is none
    (paper 5).

    Raises what :func:`live_counts` raises, and :class:`SolveRefused` if a matrix is not positive definite or too
    ill-conditioned, a result is not finite, explicit weights miss a live class, or the prior does not fit.
    """
    problem = Problem.of([grams], grid, positive)
    solved = problem.solve_each(options, [options.C], prior)
    if solved.refusals:
        raise SolveRefused(solved.refusals[0, 0])
    counts = problem.counts(0)
    weights, biases = solved.weights[0, 0], solved.biases[0, 0]
    sides = []
    for at, target in enumerate(problem.targets):
        means, deviations = problem.projections(target, weights[None, at : at + 1], biases[None, at : at + 1])
        sides.append(np.stack([means, deviations], axis=-1)[0, 0])
    return Plane(
        classes=tuple(counts),
        positive=problem.positive,
        weights=weights,
        biases=biases,
        sigmas={label: float(sigmas[0]) for label, sigmas in solved.sigmas.items()},
        C=options.C,
        condition=float(solved.conditions[0, 0]),
        counts=counts,
        units=known_units(score_units(np.zeros(len(biases)), np.array(sides))),
    )


def live_counts(grams: Grams, grid: Grid, positive: str | None = None) -> dict[str, int]:
    """The numbers of rows of the classes that have any, sorted by label.

    Raises :class:`SolveRefused` if fewer than two classes have rows, or if the positive class has none, and
    :class:`DefinitionMismatch` if the statistics are not over the features of ``grid``.
    """
    counts = {label: grams[label].count for label in sorted(grams) if grams[label].count}
    if len(counts) < 2 or min(counts.values()) < 0:
        raise SolveRefused(f"solve: expected live rows of at least two classes, got {counts}; wait for more rows")
    if positive is not None and positive not in counts:
        raise SolveRefused(
            f"solve: expected live rows of the positive class {positive!r}, got {counts}; wait, or check its name"
        )
    dimensions = {grams[label].dimension for label in counts}
    if dimensions != {grid.features + 1}:
        raise DefinitionMismatch(
            f"solve: expected Gram matrices of dimension {grid.features + 1}, as the grid, got {sorted(dimensions)}; "
            "use the grid that the rows were placed on"
        )
    return counts


def contest(counts: Mapping[str, int], positive: str | None = None) -> tuple[str | None, dict[str, int]]:
    """The class of the only plane, or None if each class has a plane of its own; and the rows of each side, sorted.

    ``counts`` are those of :func:`live_counts`, ``positive`` is as in :func:`solve`.
    """
    if positive is None and len(counts) == 2:
        positive = max(counts)
    if positive is None:
        return None, dict(counts)
    others = [label for label in counts if label != positive]
    rest = others[0] if len(others) == 1 else f"not {positive}"
    own = counts[positive]
    return positive, dict(sorted({positive: own, rest: sum(counts.values()) - own}.items()))


class Problem:
    """The statistics of n sets of rows of the same classes, prepared to be solved under any number of options.

    They are solved together, since most of a small system's cost is that of calling array operations. Every number goes
    through the same operations however many sets there are, so each set has the same plane, bit for bit, as alone.

    ``live``: for each class, in sorted order, its n Gram matrices, which add up to ``total``; ``positive`` as in
    :func:`solve`.
    """

    def __init__(self, live: Mapping[str, Stack], total: Stack, grid: Grid, positive: str | None = None) -> None:
        self._live = dict(live)
        self._grid = grid
        self.positive, sides = contest(dict.fromkeys(live, 0), positive)
        self._rest_name = next(label for label in sides if label != self.positive)
        self._total = total
        self._layout = layout = layout_of(grid.features + 1)
        self._counts = {label: stack.at(layout.last[-1:])[:, 0].astype(np.int64) for label, stack in live.items()}
        self._rows = functools.reduce(np.add, self._counts.values())
        rows, squares, last = self._rows[:, None], total.at(layout.diagonal), total.at(layout.last)
        # "Inside" means rows [q - centre, -1]: the centre is the integer nearest to the mean. The last column is -v.
        self._centre = ((rows - 2 * last) // np.maximum(2 * rows, 1)).astype(np.int64)
        self._centre[:, -1] = 0
        sums = -(last + self._centre * rows).astype(np.float64)
        with np.errstate(all="ignore"):  # A set without rows has no plane.
            self._fraction = sums / rows  # The mean less the centre; at most a half in magnitude.
            self._fraction[:, -1] = 0.0
            squares = (squares + self._centre * (2 * last + self._centre * rows)).astype(np.float64)
            # A sum of squares is an integer, so a constant column is found exactly. Its deviation is set to one step.
            self._variances = np.where(squares == 0.0, 1.0, (squares - sums * self._fraction) / rows)[:, :-1]
        self._sides: dict[str, Floats] = {}

    @classmethod
    def of(cls, grams_by_window: Sequence[Grams], grid: Grid, positive: str | None = None) -> Problem:
        """The problem of several sets of rows, all with the same live classes. Raises as :func:`live_counts`."""
        live = live_counts(grams_by_window[0], grid, positive)
        # By the Cauchy-Schwarz inequality, no entry of a class exceeds the largest diagonal entry of the total.
        totals = [functools.reduce(Moments.__add__, (grams[label] for label in live)) for grams in grams_by_window]
        int64 = all(total.fits_int64 for total in totals)
        stacks = {label: Stack.of([grams[label] for grams in grams_by_window], int64=int64) for label in live}
        return cls(stacks, Stack.of(totals, int64=int64), grid, positive)

    def counts(self, at: int) -> dict[str, int]:
        """The number of rows of each class that the planes of the set ``at`` tell apart, sorted by label."""
        return contest({label: int(rows[at]) for label, rows in self._counts.items()}, self.positive)[1]

    def projections(self, target: str, weights: Floats, biases: Floats) -> tuple[Floats, Floats]:
        """Means and deviations, each float64[n, m, 2], of the decision values that m planes give to each set of rows.

        The planes are ``x·w - b`` with raw ``weights`` float64[n, m, d] and ``biases`` float64[n, m]. The first column
        is of the rows of ``target``, the second of all others. Both follow from the Gram matrices.
        """
        inside = weights * self._grid.steps
        shift = (inside @ self._middle()[:, :-1, None])[..., 0] - biases
        means, squares = np.empty((2, *biases.shape, 2))
        for side, gram in enumerate(self._sides_of(target)):
            rows = gram[:, -1, -1:]
            means[..., side] = (inside @ gram[:, :-1, -1:])[..., 0] / -rows
            squares[..., side] = np.einsum("nmd,nmd->nm", inside @ gram[:, :-1, :-1], inside) / rows
        return means + shift[..., None], np.sqrt(np.maximum(squares - means**2, 0.0))

    def grams_inside(self, at: int, others: Sequence[Moments]) -> Floats:
        """float64[k, D, D]: the Gram matrices of k other sets of rows [q, -1] as those of rows [q - centre, -1].

        The centre is that of the set ``at``. The matrices are computed on integers, and each entry is rounded once.
        """
        centre, diagonal = self._centre[at], self._layout.diagonal
        # The square of a sum is at most twice the sum of squares, and no entry exceeds the largest diagonal entry.
        farthest = float(np.abs(centre).max()) ** 2
        reach = [2.0 * (moments.in_floats(diagonal).max() + moments.count * farthest) for moments in others]
        int64 = max(reach) < 2.0**62 and all(moments.fits_int64 for moments in others)
        return Stack.of(others, int64=int64).centred(np.repeat(centre[None], len(others), axis=0))

    def planes_inside(self, solved: Solved) -> Floats:
        """Planes float64[n, m, k, D] on rows [q - centre, -1], one per class; NaN if there is none.

        If there is one plane for two classes, it is that of the positive class, and the other class has zeros.
        """
        planes = np.zeros((*solved.refused.shape, len(self._live), self._grid.features + 1))
        targets = [at for at, label in enumerate(self._live) if label in self.targets]
        planes[..., targets, :-1] = weights = solved.weights * self._grid.steps
        planes[..., targets, -1] = solved.biases - (weights @ self._middle()[:, None, :-1, None])[..., 0]
        planes[solved.refused] = np.nan
        return planes

    @property
    def targets(self) -> tuple[str, ...]:
        """The p classes that have a plane of their own."""
        return tuple(self._live) if self.positive is None else (self.positive,)

    def solve_each(
        self,
        options: SolverOptions,
        choices_of_c: Sequence[float],
        prior: Plane | None = None,
        method: Method = "cholesky",
    ) -> Solved:
        """The planes that :func:`solve` gives under ``options`` with each of m choices of C instead of its own.

        With ``method`` ``cholesky`` they are the same, bit for bit. With ``tridiagonal``, which is faster from three
        choices of C on, they differ by rounding. A penalty in raw units has one method only.

        Raises :class:`SolveRefused` if explicit weights miss a live class, or if the prior does not fit.
        """
        begin, begin_biases = _rows_of_prior(prior, self.targets, self._grid.features)
        shape = len(self._rows), len(choices_of_c)
        sigmas: dict[str, Floats] = {}
        refusals: dict[tuple[int, int], str] = {}
        weights, biases = np.empty((*shape, *begin.shape)), np.empty((*shape, len(begin)))
        weights[...], biases[...] = begin, begin_biases
        conditions, refused = np.ones(shape), np.zeros(shape, dtype=np.bool_)
        with np.errstate(all="ignore"):  # Results that are not finite are refused below.
            raw = None
            if not options.standardize:
                raw = raw_units.RawUnits.of(self._grid, self._centre, options, np.array(choices_of_c))
            units = self._units(options, choices_of_c)
            middle, fitted = (units.middle, units.fitted) if raw is None else (self._middle(), begin.shape[1] + 1)
            for centred in self._systems(self.targets, options):
                system = at_mean(centred, self._fraction) if raw is None else self._balanced(centred, options.weighting)
                at, right_sides = system.planes, system.right_sides
                if prior is not None:
                    begun = np.vstack([(begin[at] * self._grid.steps).T, begin_biases[at]])
                    start = np.repeat(begun[None], len(self._rows), axis=0)
                    start[:, -1] -= (middle[:, None, :-1] @ start[:, :-1])[:, 0]
                    right_sides = right_sides - system.gram @ start
                if raw is None:
                    solutions = solve_system(system.gram, right_sides, units, method)
                    weights[:, :, at] += solutions.values[:, :, :-1].swapaxes(2, 3) / self._grid.steps
                else:
                    solutions, vanished = raw_units.solve_all(system.gram, right_sides, raw)
                    weights[:, :, at] += solutions.values[:, :, :-1].swapaxes(2, 3)
                biases[:, :, at] += solutions.values[:, :, -1]
                worst, faint = 1.0 / solutions.inverse_conditions, np.zeros(shape, dtype=np.bool_)
                if raw is not None:
                    decided = raw_units.conditions(weights[:, :, at], biases[:, :, at], system.gram, raw)
                    decided[vanished] = np.inf
                    faint = ~(solutions.refused | (decided <= raw_units.LARGEST_CONDITION))
                    worst = np.maximum(worst, decided)
                sigmas.update(system.sigmas)
                for rows, choice in _places(solutions.refused | faint):
                    if not refused[rows, choice]:
                        refusals[rows, choice] = (
                            raw_units.refusal(system.name, worst[rows, choice], choices_of_c[choice])
                            if faint[rows, choice]
                            else solutions.refusal(system.name, (rows, choice), fitted)
                        )
                refused |= solutions.refused | faint
                conditions = np.maximum(conditions, np.where(refused, 1.0, worst))
            finite = np.isfinite(weights.sum(axis=(2, 3)) + biases.sum(axis=2))
        for rows, choice in _places(~(finite | refused)):
            refusals[rows, choice] = (
                f"solve: expected finite weights and biases, got others ({self._rows[rows]} rows, C ="
                f" {choices_of_c[choice]:g}, condition {conditions[rows, choice]:.3g}); rescale the features, or change"
                " C"
            )
        return Solved(weights, biases, conditions, sigmas, refused | ~finite, refusals)

    def towards(self, target: str, solved: Solved) -> tuple[Floats, Floats]:
        """Weights float64[n, m, d] and biases float64[n, m] of the planes with ``target`` on the positive side."""
        if self.positive is None:
            at = self.targets.index(target)
            return solved.weights[:, :, at], solved.biases[:, :, at]
        sign = 1.0 if target == self.positive else -1.0
        return sign * solved.weights[:, :, 0], sign * solved.biases[:, :, 0]

    def _sides_of(self, target: str) -> Floats:
        """The Gram matrices inside, float64[2, n, D, D], of ``target`` and of all others; kept for other weightings."""
        if target not in self._sides:
            others = [stack for label, stack in self._live.items() if label != target]
            rest = others[0] if len(others) == 1 else self._total - self._live[target]
            both = (self._live[target] | rest).centred(np.concatenate([self._centre, self._centre]))
            self._sides[target] = both.reshape(2, -1, *both.shape[1:])
        return self._sides[target]

    def _systems(self, targets: tuple[str, ...], options: SolverOptions) -> Iterator[System]:
        """The linear systems to solve: one for all planes if each class has the same weight in every plane."""
        if options.weighting in ("inverse", "balanced"):
            for index, target in enumerate(targets):
                yield self._system_of_plane(index, target, balanced=options.weighting == "balanced")
        elif not isinstance(options.weighting, Mapping):
            yield self._shared_system(targets, self._total.centred(self._centre), dict.fromkeys(self._live, 1.0))
        else:
            for label in self._live:
                if label not in options.weighting:
                    raise SolveRefused(
                        f"solve: class {label!r} has live rows but no weight; there are weights for "
                        f"{list(options.weighting)}; give every class one, or use weighting 'balanced'"
                    )
            sigmas = {label: options.weighting[label] for label in self._live}
            grams = (sigma * self._live[label].centred(self._centre) for label, sigma in sigmas.items())
            yield self._shared_system(targets, functools.reduce(np.add, grams), sigmas)

    def _system_of_plane(self, index: int, target: str, *, balanced: bool) -> System:
        """The system of one class against the rest (paper 4, eq. 4.19 to 4.25); for two classes, eq. 21 of paper 1."""
        rows, rows_own = self._rows, self._counts[target]
        rows_rest = rows - rows_own
        # Eq. 29 of paper 1 swaps the shares, which makes the G-mean collapse; its eq. 17 is right.
        weights = np.array([rows_rest, rows_own]) / rows
        if balanced:
            weights = rows / (2 * np.array([rows_own, rows_rest]))
        own, rest = self._sides_of(target) * weights[:, :, None, None]
        right_side = rest[:, :, -1:] - own[:, :, -1:]
        sigmas = {target: weights[0]} if self.positive is None else {target: weights[0], self._rest_name: weights[1]}
        return System(f"class {target!r}", slice(index, index + 1), own + rest, right_side, sigmas)

    def _shared_system(self, targets: tuple[str, ...], gram: Floats, fixed: Mapping[str, float]) -> System:
        """The system of each target against the rest under fixed weights: right sides ``2 σ_c v_c - Σ σ_j v_j``."""
        sums = np.empty((len(gram), len(targets), gram.shape[2]))
        for index, target in enumerate(targets):
            last, rows = self._live[target].at(self._layout.last), self._counts[target][:, None]
            sums[:, index] = fixed[target] * -(last + self._centre * rows).astype(np.float64)
        right_sides = 2.0 * sums.swapaxes(1, 2) + gram[:, :, -1:]
        sigmas = {label: np.full(len(gram), sigma) for label, sigma in fixed.items()}
        if self.positive is not None and len(sigmas) > 2:  # The rest, as one class, has the mean weight of its rows.
            own, rows_own = fixed[self.positive], self._counts[self.positive]
            mean_of_rest = (gram[:, -1, -1] - own * rows_own) / (self._rows - rows_own)
            sigmas = {self.positive: sigmas[self.positive], self._rest_name: mean_of_rest}
        return System("all classes", slice(0, len(targets)), gram, right_sides, sigmas)

    def _balanced(self, system: System, weighting: object) -> System:
        """The system with exact sums of the targets in the last row of its right sides; unweighted ones are exact."""
        if weighting == "none":
            return system
        targets = self.targets[system.planes]
        for at, side in enumerate(system.right_sides[:, -1]):
            counts = {label: int(rows[at]) for label, rows in self._counts.items()}
            side[...] = raw_units.balance(weighting, counts, targets)
        return system

    def _middle(self) -> Floats:
        """The centres float64[n, D] in grid steps from the raw origin, and a 1 for the bias."""
        middle = self._centre[:, :-1] + self._grid.offsets_in_steps
        return np.column_stack([middle, np.ones(len(middle))])

    def _units(self, options: SolverOptions, choices_of_c: Sequence[float]) -> Units:
        """The penalties in standardized units, for each C, as penalties of planes inside."""
        bias = np.full((len(self._variances), 1), 1.0 if options.bias == "regularised" else 0.0)
        penalties = np.hstack([self._variances, bias])
        fitted = penalties.shape[1] - (options.bias == "none")
        return Units(self._middle() + self._fraction, penalties, 1.0 / np.array(choices_of_c), fitted)


def _places(flags: Flags) -> list[list[int]]:
    """The indices [n, m] of the flags that are true; few are."""
    return np.argwhere(flags).tolist() if flags.any() else []


def _rows_of_prior(prior: Plane | None, targets: tuple[str, ...], features: int) -> tuple[Floats, Floats]:
    """The prior's planes of ``targets`` in raw units, float64[p, d] and float64[p]; zero if it has none."""
    weights, biases = np.zeros((len(targets), features)), np.zeros(len(targets))
    if prior is not None and (prior.weights.shape[1] != features or set(targets).isdisjoint(prior.classes)):
        raise SolveRefused(
            f"solve: expected a prior plane over {features} features that knows one of {list(targets)}, got one over "
            f"{prior.weights.shape[1]} features for {list(prior.classes)}; use another prior, or none"
        )
    for index, target in enumerate(targets):
        if prior is not None and (row := prior.row_of(target)):
            weights[index], biases[index] = row
    return weights, biases
