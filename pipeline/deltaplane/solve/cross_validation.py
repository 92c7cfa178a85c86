"""C by five-fold cross-validation from the statistics alone: no pass over rows, and no rows.

The problem: a batch fit should choose C by cross-validation, but rows that are to be forgotten exactly, and that other
machines hold, cannot be shuffled into folds and read again and again.

How it is solved: a row's fold is a hash of its grid integers, so it depends on neither order nor batching, a retired
row leaves the fold it went to, and copies of a row share one. Gram matrices are kept by (fold, class); they add up to
those of all rows. A fold is held out by subtraction, and its decision values have the means and deviations that its
Gram matrices give: if projections are normal, the recall of class c is ``Φ(s_c μ_c / σ_c)``, and C is chosen by the
geometric mean of those recalls.

Means and deviations are pooled over the folds before they are turned into recalls, so that a class of twenty rows is
judged by twenty held-out decision values, and not five times by four.

The cost is that of one tridiagonal form a fold, not one factorisation a C: with ``K = Q T Qᵀ`` and T tridiagonal,
``(K + I/C)⁻¹ r = Q (T + I/C)⁻¹ Qᵀ r`` is linear in the number of features for every further C. Where a class weighs the
same in every plane, all planes of a fold share that form, and only what they share is kept, not a matrix a class.
All matrices are symmetric, and only their upper triangles are worked out, in blocks that stay in the cache.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from deltaplane import limits
from deltaplane.arrays import Floats, Int32s, Int64s, Placed, Positions, UInt64s
from deltaplane.errors import SolveRefused
from deltaplane.exact.centring import moved
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.exact.triangle import layout_of
from deltaplane.solve import raw_units
from deltaplane.solve.raw_units import RawUnits
from deltaplane.solve.solver_options import SolverOptions

__all__ = ["CANDIDATES", "FOLDS", "INDIFFERENCE", "Choice", "choose_c", "folds_of", "row_hashes"]

FOLDS = 5
CANDIDATES = tuple(10.0 ** (quarters / 2) for quarters in range(-8, 9))
"""C from 1e-4 to 1e4, two a decade."""

INDIFFERENCE = 1e-3
"""Of the C whose implied G-mean is within this share of the best one's, the smallest is taken: the flat part of the
curve is long, and the stronger penalty is the better conditioned."""

_ROWS_AT_ONCE = 64
"""Rows of a matrix that are worked out in one go: a block of them stays in the cache, and is wide enough for BLAS."""

_SMALL_EXPONENT = -100
"""Decision values below two to this are brought to a size near one before they are squared."""

_WEYL = 0x9E3779B97F4A7C15
_SALT = 0xD1B54A32D192ED03


def _mixed(words: UInt64s) -> UInt64s:
    """The finaliser of SplitMix64 on each word: every bit of a word changes about half the bits of its hash."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@functools.lru_cache(maxsize=64)
def _multipliers(features: int) -> UInt64s:
    """One odd word for each feature: the SplitMix64 sequence, which depends on nothing but the position."""
    words = _mixed(np.arange(1, features + 1, dtype=np.uint64) * np.uint64(_WEYL)) | np.uint64(1)
    words.flags.writeable = False
    return words


def row_hashes(placed: Placed) -> UInt64s:
    """A hash uint64[n] of each of the grid rows [n, d]: ``mix(salt + Σ_j a_j q_j)`` modulo 2**64, with fixed odd a_j.

    It is arithmetic on integers alone, hence the same on every machine, byte order and version of every library.
    """
    multipliers = _multipliers(placed.shape[1])
    sums = np.empty(len(placed), dtype=np.uint64)
    for start in range(0, len(placed), limits.BLOCK_ROWS):
        stop = start + limits.BLOCK_ROWS
        np.matmul(placed[start:stop].astype(np.int64).view(np.uint64), multipliers, out=sums[start:stop])
    return _mixed(sums + np.uint64(_SALT))


def folds_of(placed: Placed, folds: int = FOLDS) -> Int64s:
    """The fold int64[n], from 0 to ``folds`` - 1, of each of the grid rows [n, d]."""
    return ((row_hashes(placed) >> np.uint64(32)) * np.uint64(folds) >> np.uint64(32)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Choice:
    """The C chosen, and the G-mean that held-out rows would have under each candidate, both float64[m].

    ``implied_gmeans`` is NaN where rounding left no plane, and throughout where no fold could be held out, because the
    others lacked a class.
    """

    C: float
    candidates: Floats
    implied_gmeans: Floats


def choose_c(
    folds: Sequence[Mapping[str, Moments]],
    grid: Grid,
    options: SolverOptions,
    candidates: Sequence[float] = CANDIDATES,
) -> Choice:
    """The C, of ``candidates`` in rising order, under which planes do best on the folds that they have not seen.

    ``folds``: for each fold, class label to exact Gram matrix. ``options`` say which planes; their C is not looked at.
    With ``standardize``, means and deviations are those of the training folds. A fold is held out only where the others
    have rows of every class; where none can be, the C of ``options`` stays.

    Raises :class:`SolveRefused` when fewer than two classes have rows, or explicit weights miss one of them.
    """
    labels = sorted({label for fold in folds for label, moments in fold.items() if moments.count > 0})
    if len(labels) < 2:
        raise SolveRefused(f"folds: expected live rows of at least two classes, got {labels}; wait for more rows")
    if isinstance(options.weighting, Mapping) and (missing := set(labels) - options.weighting.keys()):
        raise SolveRefused(f"folds: classes {sorted(missing)} have live rows but no weight; give every class one")
    ridges = 1.0 / np.asarray(candidates, dtype=np.float64)
    floats = _InFloat(folds, labels, grid, options)
    decisions = _HeldOut(len(labels), len(ridges))
    for fold in range(len(folds)):
        held_out = floats.grams(fold)
        training = floats.without(held_out)
        if (training.counts >= 1.0).all() and held_out[:, -1, -1].any():
            with np.errstate(all="ignore"):  # What is not finite is never chosen.
                decisions.add(held_out, floats.planes(training, ridges))
    candidates_tried = 1.0 / ridges
    if not decisions.counts.all():
        return Choice(options.C, candidates_tried, np.full(len(ridges), np.nan))
    gmeans = decisions.implied_gmeans()
    if np.isnan(gmeans).all():
        return Choice(options.C, candidates_tried, gmeans)
    chosen = int(np.argmax(gmeans >= np.nanmax(gmeans) * (1.0 - INDIFFERENCE)))
    return Choice(float(candidates[chosen]), candidates_tried, gmeans)


class _Units(NamedTuple):
    """Rows inside are ``[(q - centre - mean) / scale, -1]``; ``mean``, ``scale`` float64[d]; ``bias`` as in options."""

    mean: Floats
    scale: Floats
    bias: str


class _Training(NamedTuple):
    """The rows that are left where a fold is held out, as Gram matrices of rows [q - centre, -1].

    ``grams`` float64[k, D, D] by class, or float64[1, D, D]: ``Σ σ_c M_c`` with the ``sigmas`` float64[k] that all
    planes share. ``lasts`` float64[k, D]: last columns by class; ``squares`` float64[D]: the diagonal for all rows.
    """

    grams: Floats
    sigmas: Floats | None
    lasts: Floats
    squares: Floats

    @property
    def counts(self) -> Floats:
        """Rows of each class, float64[k]."""
        return self.lasts[:, -1]


class _InFloat:
    """Gram matrices of rows [q - centre, -1] in float64, moved exactly to one integer centre near the mean of all.

    Only the blocks that hold the upper triangle of a matrix mean anything.
    """

    def __init__(
        self, folds: Sequence[Mapping[str, Moments]], labels: list[str], grid: Grid, options: SolverOptions
    ) -> None:
        self._grid, self._folds, self._labels, self._options = grid, folds, labels, options
        parts = [[fold[label] for fold in folds if label in fold] for label in labels]
        every = [moments for moments_of_class in parts for moments in moments_of_class]
        self._layout = layout_of(every[0].dimension)
        ends = np.array([self._layout.last, self._layout.diagonal])
        exact = np.array([_exact_sum(moments, ends) for moments in parts])
        last, squares = exact.sum(axis=0)
        self._narrow = squares.max() < 2**63
        rows = last[-1]
        self._centre = ((rows - 2 * last) // (2 * rows)).astype(np.int64)
        self._centre[-1] = 0
        # By Cauchy and Schwarz, no sum over some of the rows is beyond this, nor a number on the way to a centred one.
        largest, furthest = int(squares.max()), int(np.abs(self._centre).max())
        self._exact_in_floats = largest + 2 * furthest * math.isqrt(rows * largest) + furthest**2 * rows < 2**53
        squares += self._centre * (2 * last + self._centre * rows)
        lasts = exact[:, 0] + exact[:, 0, -1:] * self._centre
        sigmas, grams = None, []
        if options.weighting in ("inverse", "balanced"):
            grams = [self._gram(moments) for moments in parts]
        elif isinstance(options.weighting, Mapping):
            sigmas = np.array([options.weighting[label] for label in labels])
            weighted = (sigma * self._gram(moments) for sigma, moments in zip(sigmas, parts, strict=True))
            grams = [functools.reduce(np.add, weighted)]
        else:
            sigmas, grams = np.ones(len(labels)), [self._gram(every)]
        self._whole = _Training(np.array(grams), sigmas, lasts.astype(np.float64), squares.astype(np.float64))
        self._of_fold = np.zeros((len(labels), len(squares), len(squares)))

    def grams(self, fold: int) -> Floats:
        """float64[k, D, D] of one fold, in the order of the labels; good until those of the next are asked for."""
        for label, gram in zip(self._labels, self._of_fold, strict=True):
            moments = self._folds[fold].get(label)
            if moments is not None and moments.count:
                self._gram([moments], gram)
            else:
                gram[:] = 0.0
        return self._of_fold

    def without(self, held_out: Floats) -> _Training:
        """What is left without a fold of these Gram matrices, float64[k, D, D]."""
        grams, sigmas, lasts, squares = self._whole
        grams = grams.copy()
        for rows, columns in _blocks(len(squares)):
            block = held_out[:, rows, columns]
            grams[:, rows, columns] -= block if sigmas is None else np.einsum("c,cde->de", sigmas, block)
        return _Training(grams, sigmas, lasts - held_out[:, :, -1], squares - np.einsum("cdd->d", held_out))

    def _gram(self, parts: Sequence[Moments], out: Floats | None = None) -> Floats:
        """float64[D, D] of all rows of some Gram matrices, formed on integers, each entry rounded once.

        Where floats hold all integers on the way exactly, the arithmetic is done in floats, which takes half as long.
        """
        layout, centre = self._layout, self._centre.astype(np.float64 if self._exact_in_floats else np.int64)
        gram = np.zeros((len(centre), len(centre))) if out is None else out
        if not self._narrow:
            gram[:] = moved(functools.reduce(Moments.__add__, parts), self._centre, layout).to_float()
            return gram

        def sums(positions: Positions | slice) -> npt.NDArray[np.int64 | np.float64]:
            entries = functools.reduce(np.add, [moments.low[positions] for moments in parts]).view(np.int64)
            return entries.astype(centre.dtype, copy=False)

        last = sums(layout.last)
        moved_last = last + centre * last[-1]
        for rows, columns in _blocks(len(centre)):
            begin = layout.diagonal[rows.start]
            block = sums(slice(begin, layout.last[rows.stop - 1] + 1))[layout.unpack[rows, columns] - begin]
            block += last[rows, None] * centre[columns]
            block += centre[rows, None] * moved_last[columns]
            gram[rows, columns] = block
        return gram

    def units(self, training: _Training) -> _Units:
        """What the penalty means in deviations of the training rows."""
        options, last = self._options, training.lasts.sum(axis=0)
        rows = last[-1]
        mean, squares = last[:-1] / -rows, training.squares[:-1] / rows
        variances = squares - mean**2
        # A column that is constant in the training folds says nothing; a deviation of one step keeps it quiet.
        variances[variances <= 1e-13 * squares] = 1.0
        return _Units(mean, np.sqrt(variances), options.bias)

    def planes(self, training: _Training, ridges: Floats) -> Floats:
        """Planes float64[m, k, D] on rows [q - centre, -1] a ridge and class; of two classes, the first's is zero."""
        if not self._options.standardize:
            units = RawUnits.of(self._grid, self._centre[None], self._options, 1.0 / ridges)
            return _raw_planes(training, self._labels, units, self._options)
        return _planes(training, self.units(training), self._options, ridges)


def _blocks(dimension: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the blocks, from the diagonal to the right, that together hold an upper triangle."""
    for start in range(0, dimension, _ROWS_AT_ONCE):
        yield slice(start, min(start + _ROWS_AT_ONCE, dimension)), slice(start, dimension)


def _exact_sum(parts: Sequence[Moments], positions: Positions) -> npt.NDArray[np.object_]:
    """The sum of some entries of several Gram matrices as Python's integers, exact."""
    high, low = map(np.array, zip(*(moments.words(positions) for moments in parts), strict=True))
    digits = (high, low >> np.uint64(32), low & np.uint64(2**32 - 1))
    highest, middle, lowest = (digit.sum(axis=0).astype(object) for digit in digits)
    wide: npt.NDArray[np.object_] = highest * 2**64 + middle * 2**32 + lowest
    return wide


def _planes(training: _Training, units: _Units, options: SolverOptions, ridges: Floats) -> Floats:
    """Planes float64[m, k, D] on rows [q - centre, -1] a ridge and class; of two classes, the first's is zero."""
    planes = np.zeros((len(ridges), *training.lasts.shape))
    for targets, gram, right_sides in _systems(training, options):
        inside = _ridge_path(gram, right_sides, units, ridges)
        planes[:, targets] = inside
    planes[:, :, :-1] /= units.scale
    planes[:, :, -1] += planes[:, :, :-1] @ units.mean
    return planes


def _raw_planes(training: _Training, labels: Sequence[str], units: RawUnits, options: SolverOptions) -> Floats:
    """As :func:`_planes`, with a penalty in raw units; NaN where floats hold no plane that tells rows apart."""
    planes = np.zeros((len(units.choices_of_c), *training.lasts.shape))
    counts = {label: int(rows) for label, rows in zip(labels, training.counts, strict=True)}
    for targets, gram, right_sides in _systems(training, options):
        right_sides[-1] = raw_units.balance(options.weighting, counts, [labels[target] for target in targets])
        whole = (np.triu(gram) + np.triu(gram, 1).T)[None]
        solutions, vanished = raw_units.solve_all(whole, right_sides[None], units)
        weights, biases = solutions.values[:, :, :-1].swapaxes(2, 3), solutions.values[:, :, -1]
        faint = ~(raw_units.conditions(weights, biases, whole, units) <= raw_units.LARGEST_CONDITION)
        inside = planes[:, targets]
        inside[..., :-1] = weights[0] * units.steps
        inside[..., -1] = biases[0] - weights[0] @ units.centres[0, :-1]
        inside[(solutions.refused | vanished | faint)[0]] = np.nan
        planes[:, targets] = inside
    return planes


def _systems(training: _Training, options: SolverOptions) -> Iterator[tuple[list[int], Floats, Floats]]:
    """(targets, ``Σ σ_c M_c`` float64[D, D], right sides float64[D, p]): as in ``solver.Problem``."""
    counts, classes = training.counts, len(training.lasts)
    targets = [1] if classes == 2 else list(range(classes))
    if training.sigmas is not None:
        gram = training.grams[0]
        yield targets, gram, gram[:, -1:] - 2.0 * (training.sigmas[targets] * training.lasts[targets].T)
        return
    rows = counts.sum()
    total = training.grams.sum(axis=0)
    for target in targets:
        own, rest = counts[target], rows - counts[target]
        sigma_own, sigma_rest = rest / rows, own / rows
        if options.weighting == "balanced":
            sigma_own, sigma_rest = rows / (2 * own), rows / (2 * rest)
        gram_own, gram_rest = sigma_own * training.grams[target], sigma_rest * (total - training.grams[target])
        yield [target], gram_own + gram_rest, gram_rest[:, -1:] - gram_own[:, -1:]


def _ridge_path(gram: Floats, right_sides: Floats, units: _Units, ridges: Floats) -> Floats:
    """Planes inside float64[m, p, D]: for each ridge 1/C, what minimises ``½ |plane|² + C/2 Σ σ e²``.

    The bias is eliminated first, ``K = G - g gᵀ / G_dd``; its penalty, where there is one, corrects the solution
    by rank one (Sherman and Morrison), as in the solver.
    """
    weight = gram[-1, -1]
    last = (gram[:-1, -1] + units.mean * weight) / units.scale
    # The columns of the right sides, and after them that of the penalised bias.
    functional = np.append(np.zeros(len(last)), 1.0)
    sides = np.column_stack([right_sides, functional])
    sides[:-1, :-1] = (right_sides[:-1] + units.mean[:, None] * right_sides[-1]) / units.scale[:, None]
    kernel = np.zeros((len(last), len(last)))
    for rows, columns in _blocks(len(last)):
        block = np.outer(gram[rows, -1], gram[columns, -1] / -weight)
        block += gram[rows, columns]
        block /= units.scale[columns]
        block /= units.scale[rows, None]
        kernel[rows, columns] = block
    planes = np.zeros((len(ridges), right_sides.shape[1], len(gram)))
    if units.bias == "none":
        kernel += np.outer(last, last / weight)
        planes[:, :, :-1] = _tridiagonal_path(kernel, sides[:-1, :-1], ridges).transpose(0, 2, 1)
        return planes
    reduced = sides[:-1] - np.outer(last, sides[-1] / weight)
    solved = np.empty((len(ridges), len(gram), sides.shape[1]))
    solved[:, :-1] = _tridiagonal_path(kernel, reduced, ridges)
    solved[:, -1] = (sides[-1] - np.einsum("d,mdp->mp", last, solved[:, :-1])) / weight
    change, response = solved[:, :, :-1], solved[:, :, -1:]
    if units.bias == "regularised":
        bias = np.einsum("d,mdp->mp", functional, change)
        share = bias / (1.0 / ridges[:, None] + np.einsum("d,mdp->mp", functional, response))
        change = change - response * share[:, None, :]
    return change.transpose(0, 2, 1)


def _tridiagonal_path(kernel: Floats, right_sides: Floats, ridges: Floats) -> Floats:
    """``(kernel + ridge I)⁻¹ right_sides`` float64[m, d, p] for a semidefinite kernel float64[d, d] and each ridge."""
    features, columns = right_sides.shape
    if features == 1:
        return np.asarray(right_sides / (kernel + ridges[:, None, None]), dtype=np.float64)
    block = 64
    reflectors, diagonal, beside, scales, _ = lapack.dsytrd(kernel.T, lower=1, lwork=block * features, overwrite_a=1)
    # The reflectors stand below the subdiagonal and leave the first coordinate alone.
    reflectors = np.asfortranarray(reflectors[1:, :-1])
    turned = np.array(right_sides, order="F")
    turned[1:] = lapack.dormqr("L", "T", reflectors, scales, turned[1:], block * columns)[0]
    solved = np.empty((features, len(ridges) * columns), order="F")
    for at, ridge in enumerate(ridges):
        # Rounding can leave a semidefinite matrix a little below zero; what then fails is not a plane.
        *_, solution, failed = lapack.dptsv(diagonal + ridge, beside, turned, overwrite_d=1)
        solved[:, at * columns : (at + 1) * columns] = np.nan if failed else solution
    solved[1:] = lapack.dormqr("L", "N", reflectors, scales, solved[1:], block * solved.shape[1])[0]
    return solved.reshape(features, len(ridges), columns).transpose(1, 0, 2)


class _HeldOut:
    """Sums over held-out rows, for each two classes (c, j) and candidate C: of c's decision value less j's."""

    def __init__(self, classes: int, candidates: int) -> None:
        self.counts = np.zeros(classes)
        # Powers of two that bring decision values whose squares would vanish to a size near one: margins have no unit.
        self._exponents: Int32s | None = None
        self._sums = np.zeros((classes, classes, candidates))
        self._squares = np.zeros((classes, classes, candidates))
        own, other = np.nonzero(~np.eye(classes, dtype=bool))
        self._pairs = own.reshape(classes, -1), other.reshape(classes, -1)

    def add(self, held_out: Floats, planes: Floats) -> None:
        """Add the rows with Gram matrices float64[k, D, D], of which the blocks of the upper triangle are read.

        They are decided by planes float64[m, k, D].
        """
        dimension = planes.shape[-1]
        own, other = self._pairs
        if self._exponents is None:
            size = np.abs(planes).max(axis=1) * np.sqrt(held_out.sum(axis=0).diagonal())
            exponents = np.frexp(size.max(axis=1))[1]
            self._exponents = np.where(exponents < _SMALL_EXPONENT, exponents, 0).astype(np.int32)
        planes = np.ldexp(planes, -self._exponents[:, None, None]).transpose(1, 0, 2)
        differences = planes[own]
        differences -= planes[other]
        shape = differences.shape[:-1]
        flat = differences.reshape(len(own), -1, dimension)
        squares = np.zeros(flat.shape[:-1])
        for rows, _ in _blocks(dimension):
            product = flat[:, :, rows] @ held_out[:, rows, rows]
            if rows.stop < dimension:  # What is right of the diagonal stands for what is left of it, too.
                product += 2.0 * (flat[:, :, rows.stop :] @ held_out[:, rows, rows.stop :].swapaxes(1, 2))
            squares += np.einsum("cad,cad->ca", product, flat[:, :, rows])
        self.counts += held_out[:, -1, -1]
        self._sums[own, other] -= (flat @ held_out[:, :, -1:]).reshape(shape)
        self._squares[own, other] += squares.reshape(shape)

    def implied_gmeans(self) -> Floats:
        """float64[m]: the geometric mean over classes c of ``Π_j Φ(μ_cj / σ_cj)``; NaN where a plane is not.

        Every variance has one row more than there were: its squared deviation is the mean of both classes'. Without it
        a class of one row would have none.
        """
        from scipy.special import log_ndtr  # noqa: PLC0415 - as in candidates.py.

        counts = self.counts[:, None, None]
        spread = np.maximum(self._squares - self._sums**2 / counts, 0.0)
        shared = (spread + spread.swapaxes(0, 1)) / (counts + counts.swapaxes(0, 1))
        variances = (spread + shared) / (counts + 1.0)
        deviations = np.sqrt(np.maximum(variances, np.finfo(np.float64).tiny))
        margins = self._sums / counts / deviations
        gmeans: Floats = np.exp(log_ndtr(margins[self._pairs]).sum(axis=(0, 1)) / len(counts))
        return gmeans
