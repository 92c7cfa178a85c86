"""From exact class Gram matrices in grid units to a plane in raw units; pure.

The problem: the plane is ``(I/C + Σ σ_c M_c)⁻¹ Σ ±σ_c v_c`` (paper 1, eq. 21), with M_c the Gram matrix of the rows
[x, -1] of class c. In float sums this fails quietly where a feature's mean is far from zero compared with its spread:
the spread is then the small difference of two large numbers, and its digits are gone.

How it is solved: the Gram matrices are integers, so they are moved to the integers nearest to the pooled means, *still
exactly*, and only then rounded, each entry once. After that nothing cancels: a column's sum of squares is at most twice
that about its mean, and it is zero exactly where the column is constant.

    integers ──move──▶ integers about the mean ──round once──▶ + penalty ──scale, Cholesky──▶ plane in raw units

The penalty is in standardized units (mean 0, deviation 1 over all live rows) or in raw ones. A raw bias is about a
point that may be far from the data: its penalty corrects the solution by rank one, and is no huge number in the matrix.
The result depends on the integers alone: equal statistics give equal bytes, on one machine and BLAS.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deltaplane import cholesky
from deltaplane.centring import Positions, centred, layout_of
from deltaplane.errors import DefinitionMismatch, SolveRefused
from deltaplane.grid import Grid
from deltaplane.moments import Moments
from deltaplane.options import SolverOptions

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Grams = Mapping[str, Moments]


@dataclass(frozen=True, eq=False)
class Plane:
    """Planes in raw units: a raw row x is on a plane's own side where its decision value ``x·w - b`` is above zero.

    ``classes`` is sorted. Either there are two classes and one plane (p = 1), that of ``positive``; or ``positive`` is
    None, and there are p = k planes, each that of one class against the rest. ``weights`` is float64[p, d], ``biases``
    float64[p]. ``sigmas``: the weight of each class as the positive side of its own plane. ``condition``: the largest
    estimated condition number (1-norm) of the scaled matrices factorised; its logarithm is about the digits lost.
    """

    classes: tuple[str, ...]
    positive: str | None
    weights: Floats
    biases: Floats
    sigmas: dict[str, float]
    C: float
    condition: float
    counts: dict[str, int]

    def decide(self, rows: Floats) -> Floats:
        """Decision values float64[n, p] of raw rows float64[n, d] (paper 1, eq. 14)."""
        return np.asarray(rows @ self.weights.T - self.biases, dtype=np.float64)

    def predict(self, rows: Floats) -> Integers:
        """Indices int64[n] into ``classes`` for raw rows float64[n, d]: :meth:`choose` from :meth:`decide`."""
        return self.choose(self.decide(rows))

    def choose(self, decisions: Floats) -> Integers:
        """Indices int64[n] into ``classes`` for decision values float64[n, p].

        One plane: its class where the value is above zero. Several: the largest value, the first among equals.
        """
        if self.positive is None:
            return np.asarray(decisions.argmax(axis=1), dtype=np.int64)
        at = np.int64(self.classes.index(self.positive))
        return np.where(decisions[:, 0] > 0.0, at, 1 - at)

    def row_of(self, label: str) -> tuple[Floats, float] | None:
        """(w float64[d], b) of the plane that has ``label`` on its positive side, or None where there is none."""
        if label not in self.classes:
            return None
        if self.positive is None:
            at = self.classes.index(label)
            return self.weights[at], float(self.biases[at])
        sign = 1.0 if label == self.positive else -1.0
        return sign * self.weights[0], sign * float(self.biases[0])


class Solved(NamedTuple):
    """The planes of the same rows under m choices of C.

    ``weights`` float64[m, p, d] and ``biases`` float64[m, p] are those of the problem's ``targets``, in raw units;
    ``conditions`` and ``sigmas`` are as in :class:`Plane`. ``refusals``: for each C None, or why there is no
    plane and the numbers mean nothing.
    """

    weights: Floats
    biases: Floats
    conditions: list[float]
    sigmas: dict[str, float]
    refusals: list[str | None]


def solve(
    grams: Grams, grid: Grid, options: SolverOptions, positive: str | None = None, prior: Plane | None = None
) -> Plane:
    """The plane of the live rows with class Gram matrices ``grams``; see :class:`Problem` and its ``solve``."""
    return Problem(grams, grid, positive).solve(options, prior)


class Problem:
    """Live statistics made ready to be solved under any number of options.

    Classes without rows are left out. With ``positive``, one plane is solved: that class against all others, together
    called ``not <positive>`` unless there is just one. Without it, two classes give the plane of the last in sorted
    order, more give one plane each. Raises :class:`SolveRefused` when fewer than two classes, or not the positive one,
    have rows, and :class:`DefinitionMismatch` when the statistics are not over the features of ``grid``.
    """

    def __init__(self, grams: Grams, grid: Grid, positive: str | None = None) -> None:
        self._live = {label: grams[label] for label in sorted(grams) if grams[label].count}
        self._counts = {label: moments.count for label, moments in self._live.items()}
        _check_live(self._live, self._counts, grid, positive)
        self._grid = grid
        self._positive = max(self._live) if positive is None and len(self._live) == 2 else positive
        others = [label for label in self._live if label != self._positive]
        self._rest_name = others[0] if len(others) == 1 else f"not {self._positive}"
        self._rows = rows = sum(self._counts.values())
        self._total = total = functools.reduce(Moments.__add__, self._live.values())
        self._layout = layout = layout_of(total.dimension)
        # By Cauchy-Schwarz, no entry of a Gram matrix over some of the rows is beyond the largest of all diagonals.
        self._narrow = total.narrow
        squares, last = self._entries(total, layout.diagonal), self._entries(total, layout.last)
        # Inside, a row is [q - centre, -1]: the centre is the integer nearest to the mean. The last column is -v.
        self._centre = ((rows - 2 * last) // (2 * rows)).astype(np.int64)
        self._centre[-1] = 0
        sums = -(last + self._centre * rows).astype(np.float64)
        self._fraction = sums / rows  # The mean less the centre; at most a half in magnitude.
        self._fraction[-1] = 0.0
        squares = (squares + self._centre * (2 * last + self._centre * rows)).astype(np.float64)
        # A sum of squares is an integer, so a constant column is known exactly. Its deviation is then one step.
        self._variances = np.where(squares == 0.0, 1.0, (squares - sums * self._fraction) / rows)[:-1]
        self._pairs: dict[str, tuple[Floats, Floats]] = {}
        self._ready: dict[tuple[object, ...], list[_System]] = {}
        self._known_units: dict[tuple[object, ...], _Units] = {}

    @property
    def counts(self) -> dict[str, int]:
        """Live rows of each class that a plane of this problem tells apart, sorted by label."""
        if self._positive is None:
            return dict(self._counts)
        own = self._counts[self._positive]
        return dict(sorted({self._positive: own, self._rest_name: self._rows - own}.items()))

    @property
    def positive(self) -> str | None:
        """The class of the one plane, or None where each class has a plane of its own."""
        return self._positive

    def projections(self, target: str, weights: Floats, biases: Floats) -> tuple[Floats, Floats]:
        """Means and deviations, each float64[m, 2], of the decision values that m planes give to rows live.

        The planes are ``x·w - b`` with raw ``weights`` float64[m, d] and ``biases`` float64[m]; the first column is of
        the rows of ``target``, the second of all others. It takes no pass over rows: both are in the Gram matrices.
        """
        inside = weights * self._grid.steps
        middle = self._centre[:-1] + self._grid.offsets_in_steps
        shift = inside @ middle - biases
        means, squares = np.empty((len(weights), 2)), np.empty((len(weights), 2))
        for side, gram in enumerate(self._pair(target)):
            rows = gram[-1, -1]
            means[:, side] = inside @ gram[:-1, -1] / -rows
            squares[:, side] = np.einsum("md,md->m", inside @ gram[:-1, :-1], inside) / rows
        return means + shift[:, None], np.sqrt(np.maximum(squares - means**2, 0.0))

    @property
    def targets(self) -> tuple[str, ...]:
        """The p classes that have a plane of their own."""
        return tuple(self._live) if self._positive is None else (self._positive,)

    def solve(self, options: SolverOptions, prior: Plane | None = None) -> Plane:
        """The plane under ``options``, drawn towards ``prior`` instead of towards zero where one is given (paper 5).

        A plane is drawn to the prior's plane that has the same class on its positive side, or to zero without one.
        Raises :class:`SolveRefused` where a matrix is not positive definite or too ill-conditioned, a result is not
        finite, explicit weights miss a live class, or the prior does not fit.
        """
        solved = self.solve_each(options, [options.C], prior)
        if solved.refusals[0] is not None:
            raise SolveRefused(solved.refusals[0])
        return Plane(
            classes=tuple(self.counts),
            positive=self._positive,
            weights=solved.weights[0],
            biases=solved.biases[0],
            sigmas=solved.sigmas,
            C=options.C,
            condition=solved.conditions[0],
            counts=self.counts,
        )

    def solve_each(self, options: SolverOptions, choices_of_c: Sequence[float], prior: Plane | None = None) -> Solved:
        """What :meth:`solve` gives under ``options`` with each of some C instead of its own, the same bit for bit.

        Raises :class:`SolveRefused` for what no C can mend: weights that miss a live class, a prior that does not fit.
        """
        begin, begin_biases = _rows_of_prior(prior, self.targets, self._grid.features)
        count, sigmas = len(choices_of_c), dict[str, float]()
        weights, biases = np.repeat(begin[None], count, axis=0), np.repeat(begin_biases[None], count, axis=0)
        conditions, refusals = [1.0] * count, list[str | None]([None] * count)
        with np.errstate(all="ignore"):  # What is not finite is refused by name.
            units = self._units_of(options, tuple(choices_of_c))
            for system in self._systems_of(self.targets, options):
                at, start = system.planes, None
                if prior is not None:
                    start = np.vstack([(begin[at] * self._grid.steps).T, begin_biases[at]])
                    start[-1] -= units.middle[:-1] @ start[:-1]
                changes, changes_of_biases, solutions = _solve_system(system, units, start)
                weights[:, at] += changes[:, :-1].swapaxes(1, 2) / self._grid.steps
                biases[:, at] += changes_of_biases
                sigmas.update(system.sigmas)
                for choice, refused in enumerate(solutions.refused):
                    if refused:
                        refusals[choice] = refusals[choice] or _refusal(system.name, solutions, choice, units.fitted)
                    else:
                        conditions[choice] = max(conditions[choice], 1.0 / solutions.inverse_conditions[choice])
            sums = (weights.sum(axis=(1, 2)) + biases.sum(axis=1)).tolist()
        for choice, (C, total) in enumerate(zip(choices_of_c, sums, strict=True)):
            if not math.isfinite(total):
                refusals[choice] = refusals[choice] or (
                    f"solve: expected finite weights and biases, got others ({self._rows} rows, C = {C:g}, condition"
                    f" {conditions[choice]:.3g}); rescale the features, or change C"
                )
        return Solved(weights, biases, conditions, sigmas, refusals)

    def towards(self, target: str, solved: Solved) -> tuple[Floats, Floats]:
        """Weights float64[m, d] and biases float64[m] of planes with ``target`` on the positive side, as ``row_of``."""
        if self._positive is None:
            at = self.targets.index(target)
            return solved.weights[:, at], solved.biases[:, at]
        sign = 1.0 if target == self._positive else -1.0
        return sign * solved.weights[:, 0], sign * solved.biases[:, 0]

    def _entries(self, moments: Moments, positions: Positions) -> Integers:
        """Some entries, exact: int64 where all fit; else an array of Python's integers, on which the same code runs."""
        if self._narrow:
            return moments.low[positions].view(np.int64)
        wide: Integers = moments.high[positions].astype(object) * 2**64 + moments.low[positions].astype(object)
        return wide

    def _gram(self, moments: Moments) -> Floats:
        """float64[D, D]: the Gram matrix of rows [q - centre, -1], formed on integers, each entry rounded once."""
        return centred(moments, self._centre, self._layout, narrow=self._narrow)

    def _pair(self, target: str) -> tuple[Floats, Floats]:
        """The Gram matrices inside, float64[D, D], of the rows of a class and of all others; kept for the next C."""
        if target not in self._pairs:
            others = [moments for label, moments in self._live.items() if label != target]
            rest = others[0] if len(others) == 1 else self._total - self._live[target]
            self._pairs[target] = self._gram(self._live[target]), self._gram(rest)
        return self._pairs[target]

    def _systems_of(self, targets: tuple[str, ...], options: SolverOptions) -> list[_System]:
        """The linear systems without their penalty: the same for every C, and kept for the next."""
        weighting = options.weighting
        key = (weighting if isinstance(weighting, str) else tuple(weighting.items()), options.standardize)
        if key not in self._ready:
            fraction = self._fraction if options.standardize else None
            self._ready[key] = [_at_mean(system, fraction) for system in self._systems(targets, options)]
        return self._ready[key]

    def _systems(self, targets: tuple[str, ...], options: SolverOptions) -> Iterator[_System]:
        """The linear systems to solve: just one where a class weighs the same in every plane."""
        if options.weighting in ("inverse", "balanced"):
            for index, target in enumerate(targets):
                yield self._system_of_plane(index, target, balanced=options.weighting == "balanced")
        elif not isinstance(options.weighting, Mapping):
            yield self._shared_system(targets, self._gram(self._total), dict.fromkeys(self._live, 1.0))
        else:
            for label in self._live:
                if label not in options.weighting:
                    raise SolveRefused(
                        f"solve: class {label!r} has live rows but no weight; there are weights for "
                        f"{list(options.weighting)}; give every class one, or use weighting 'balanced'"
                    )
            sigmas = {label: options.weighting[label] for label in self._live}
            grams = (sigma * self._gram(self._live[label]) for label, sigma in sigmas.items())
            yield self._shared_system(targets, functools.reduce(np.add, grams), sigmas)

    def _system_of_plane(self, index: int, target: str, *, balanced: bool) -> _System:
        """One class against the rest (paper 4, eq. 4.19 to 4.25), which for two classes is eq. 21 of paper 1 itself."""
        rows, rows_own = self._rows, self._counts[target]
        rows_rest = rows - rows_own
        # Paper 1 prints the shares the other way round in eq. 29; that collapses the G-mean, and eq. 17 is meant.
        sigma_own, sigma_rest = rows_rest / rows, rows_own / rows
        if balanced:
            sigma_own, sigma_rest = rows / (2 * rows_own), rows / (2 * rows_rest)
        own, rest = self._pair(target)
        gram, gram_rest = own * sigma_own, rest * sigma_rest
        right_side = gram_rest[:, -1:] - gram[:, -1:]
        gram += gram_rest
        sigmas = {target: sigma_own} if self._positive is None else {target: sigma_own, self._rest_name: sigma_rest}
        return _System(f"class {target!r}", slice(index, index + 1), gram, right_side, sigmas)

    def _shared_system(self, targets: tuple[str, ...], gram: Floats, sigmas: dict[str, float]) -> _System:
        """Each target against the rest under fixed weights: right sides ``2 σ_c v_c - Σ σ_j v_j``."""
        sums = np.empty((len(targets), len(gram)))
        for index, target in enumerate(targets):
            last = self._entries(self._live[target], self._layout.last)
            sums[index] = sigmas[target] * -(last + self._centre * self._counts[target]).astype(np.float64)
        right_sides = 2.0 * sums.T + gram[:, -1:]
        if self._positive is not None and len(sigmas) > 2:  # The rest, as one class, has the mean weight of its rows.
            own, rows_own = sigmas[self._positive], self._counts[self._positive]
            mean_of_rest = (float(gram[-1, -1]) - own * rows_own) / (self._rows - rows_own)
            sigmas = {self._positive: own, self._rest_name: mean_of_rest}
        return _System("all classes", slice(0, len(targets)), gram, right_sides, sigmas)

    def _units_of(self, options: SolverOptions, choices_of_c: tuple[float, ...]) -> _Units:
        """The same for every weighting, and kept for the next."""
        key = (options.standardize, options.bias, choices_of_c)
        if key not in self._known_units:
            self._known_units[key] = self._units(options, choices_of_c)
        return self._known_units[key]

    def _units(self, options: SolverOptions, choices_of_c: tuple[float, ...]) -> _Units:
        """What the penalty of each C means for a plane in the coordinates used inside."""
        steps, ridges = self._grid.steps, 1.0 / np.array(choices_of_c)
        middle, penalties = np.ones(len(self._centre)), np.zeros((len(ridges), len(self._centre)))
        middle[:-1] = self._centre[:-1] + self._grid.offsets_in_steps
        if options.standardize:
            penalties[:, :-1] = self._variances * ridges[:, None]
            penalties[:, -1] = ridges if options.bias == "regularised" else 0.0
            fitted = len(middle) - 1 if options.bias == "none" else len(middle)
            return _Units(middle + self._fraction, penalties, fitted, None)
        penalties[:, :-1] = ridges[:, None] / steps / steps
        slacks = {"regularised": np.array(choices_of_c), "none": np.zeros(len(ridges))}.get(options.bias)
        return _Units(middle, penalties, len(middle), slacks)


class _System(NamedTuple):
    """``gram`` float64[D, D] = Σ σ_c M_c and ``right_sides`` float64[D, p] of the planes it is solved for, inside."""

    name: str
    planes: slice
    gram: Floats
    right_sides: Floats
    sigmas: dict[str, float]


class _Units(NamedTuple):
    """The units of the penalties of m choices of C, seen from inside.

    The raw bias of a plane inside is ``middle · plane``, float64[D]. ``penalties`` float64[m, D] go on the diagonal.
    Unknowns from ``fitted`` on stay zero. ``slacks`` float64[m]: C where the *raw* bias is penalised, 0 where it is
    forbidden.
    """

    middle: Floats
    penalties: Floats
    fitted: int
    slacks: Floats | None


def _at_mean(system: _System, fraction: Floats | None) -> _System:
    """The system for rows moved by ``fraction`` float64[D], from the centre to the mean itself; None moves nothing."""
    if fraction is None:
        return system
    # A move by f adds a fᵀ + f aᵀ with a = G_d + f G_dd / 2; G_d is the column of -1.
    gram = system.gram
    pair = np.array([gram[-1] + (gram[-1, -1] / 2.0) * fraction, fraction])
    gram += pair.T @ pair[::-1]
    return system._replace(right_sides=system.right_sides + fraction[:, None] * system.right_sides[-1])


def _solve_system(system: _System, units: _Units, start: Floats | None) -> tuple[Floats, Floats, cholesky.Solutions]:
    """The changes from ``start`` float64[D, p] that minimise ``½ |change|² + C/2 Σ σ e²`` (paper 5 for linear planes).

    Returns the changes float64[m, D, p] inside, those of the raw biases float64[m, p], and what became of the systems.
    """
    right_sides = system.right_sides
    if start is not None:
        right_sides = right_sides - system.gram @ start
    diagonals = system.gram.diagonal() + units.penalties
    if units.slacks is None:
        solutions = cholesky.solve_all(system.gram[None], diagonals, right_sides[None], units.fitted)
        return solutions.values, units.middle @ solutions.values, solutions
    # The raw bias is m·change. Its penalty would add m mᵀ / C to the matrix; by Sherman and Morrison's formula it
    # enters the solution instead, so that a middle far from zero (a year, say) does not drown all other digits.
    right_sides = np.column_stack([right_sides, units.middle])
    solutions = cholesky.solve_all(system.gram[None], diagonals, right_sides[None], units.fitted)
    changes, responses = solutions.values[:, :, :-1], solutions.values[:, :, -1:]
    shares = (units.middle @ changes) / (units.slacks[:, None] + units.middle @ responses)
    return changes - responses * shares[:, None, :], units.slacks[:, None] * shares, solutions


def _refusal(name: str, solutions: cholesky.Solutions, at: int, fitted: int) -> str:
    """Why one of the systems called ``name`` has no solution."""
    failed_at = solutions.failed_at[at]
    what = f"not positive definite at unknown {failed_at} of {fitted}" if failed_at else "all but singular"
    return (
        f"solve: the matrix of {name} is {what} (1-norm {solutions.norms[at]:.3g}, inverse condition "
        f"{solutions.inverse_conditions[at]:.3g}, expected above {cholesky.SMALLEST_INVERSE_CONDITION:.3g}); lower C, "
        "or leave out features that repeat others"
    )


def _rows_of_prior(prior: Plane | None, targets: tuple[str, ...], features: int) -> tuple[Floats, Floats]:
    """The prior's planes of ``targets`` in raw units, float64[p, d] and float64[p]; zero where it has none."""
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


def _check_live(live: Grams, counts: Mapping[str, int], grid: Grid, positive: str | None) -> None:
    if len(live) < 2 or min(counts.values()) < 0:
        raise SolveRefused(f"solve: expected live rows of at least two classes, got {dict(counts)}; wait for more rows")
    if positive is not None and positive not in live:
        raise SolveRefused(
            f"solve: expected live rows of the positive class {positive!r}, got {dict(counts)}; wait, or check its name"
        )
    dimensions = {moments.dimension for moments in live.values()}
    if dimensions != {grid.features + 1}:
        raise DefinitionMismatch(
            f"solve: expected Gram matrices of dimension {grid.features + 1}, as the grid, got {sorted(dimensions)}; "
            "use the grid that the rows were placed on"
        )
