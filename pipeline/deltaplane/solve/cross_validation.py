"""C by five-fold cross-validation from the statistics alone: no row is read again.

The problem: a batch fit should choose C by cross-validation. But its rows are on several machines and are to be
forgotten exactly, so they cannot be shuffled into folds and read again and again.

How it is solved: a row's fold is a hash of its grid integers. So it depends on neither order nor batching, a retired
row leaves the fold that it entered, and copies of a row share a fold. Gram matrices are kept by (fold, class); they add
up to those of all rows. A fold is held out by subtraction. The means and deviations of its decision values follow from
its Gram matrices: if projections are normal, the recall of class c is ``Φ(s_c μ_c / σ_c)``, and C is chosen by the
geometric mean of those recalls.

Means and deviations are pooled over the folds before they become recalls, so that a class of twenty rows is judged by
twenty held-out decision values at once, and not five times by four.

The planes are those of :class:`deltaplane.solve.solver.Problem`, which solves for all C from one tridiagonal form of a
fold's matrix (tridiagonal.py). So all choices of C cost about as much as a few Cholesky solutions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deltaplane.arrays import Floats, Int32s, Int64s, Quantized, UInt64s
from deltaplane.errors import SolveRefused
from deltaplane.exact.blocks import tiles
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.solve.solver import Problem
from deltaplane.solve.solver_options import SolverOptions

__all__ = ["CANDIDATES", "FOLDS", "INDIFFERENCE", "Choice", "choose_c", "folds_of", "row_hashes"]

FOLDS = 5
CANDIDATES = tuple(10.0 ** (quarters / 2) for quarters in range(-8, 9))
"""C from 1e-4 to 1e4, two per decade."""

INDIFFERENCE = 1e-3
"""The smallest C is taken whose implied G-mean is at most this fraction below the best: the curve is flat over many C,
and a stronger penalty is better conditioned."""

_ENTRIES_AT_ONCE = 2**17
"""Entries of the Gram matrices of folds that are solved together: a megabyte, or one fold if it has more."""

_SMALL_EXPONENT = -100
"""Decision values below 2**-100 are scaled to a size near one before they are squared."""

_HASHED_VALUES = 2**15
"""Grid integers that are hashed in one run: as 64-bit words they stay in the cache."""

_WEYL = 0x9E3779B97F4A7C15
_SALT = 0xD1B54A32D192ED03


def _mixed(words: UInt64s) -> UInt64s:
    """The hash of each word by the finaliser of SplitMix64: every bit of a word changes about half the bits."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@functools.lru_cache(maxsize=64)
def _multipliers(features: int) -> UInt64s:
    """One odd word uint64 for each feature: the SplitMix64 sequence, which depends on the position alone."""
    words = _mixed(np.arange(1, features + 1, dtype=np.uint64) * np.uint64(_WEYL)) | np.uint64(1)
    words.flags.writeable = False
    return words


def row_hashes(quantized: Quantized) -> UInt64s:
    """A hash uint64[n] of each of the grid rows [n, d]: ``mix(salt + Σ_j a_j q_j)`` modulo 2**64, with fixed odd a_j.

    It uses integer arithmetic alone, so it is the same on every machine, byte order and version of every library.
    """
    multipliers = _multipliers(quantized.shape[1])
    sums = np.empty(len(quantized), dtype=np.uint64)
    run = max(1, _HASHED_VALUES // max(1, len(multipliers)))
    words = np.empty((min(run, len(quantized)), len(multipliers)), dtype=np.int64)
    for start in range(0, len(quantized), run):
        rows = quantized[start : start + run]
        words[: len(rows)] = rows
        np.matmul(words[: len(rows)].view(np.uint64), multipliers, out=sums[start : start + run])
    return _mixed(sums + np.uint64(_SALT))


def folds_of(quantized: Quantized, folds: int = FOLDS) -> Int64s:
    """The fold int64[n], from 0 to ``folds`` - 1, of each of the grid rows [n, d]."""
    return ((row_hashes(quantized) >> np.uint64(32)) * np.uint64(folds) >> np.uint64(32)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen C, and the G-mean that held-out rows would have under each of the m candidates of C.

    ``candidates`` and ``implied_gmeans`` are float64[m]. A G-mean is NaN if rounding left no plane. All are NaN if a
    class has no held-out row, since a fold is held out only if the other folds have rows of every class.
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
    """The C of ``candidates``, in ascending order, whose planes do best on the folds that they have not seen.

    ``folds``: for each fold, class label to exact Gram matrix. ``options`` say which planes to solve for, apart from
    their C. With ``standardize``, means and deviations are those of the training folds. A fold is held out only if the
    other folds have rows of every class. If a class has no held-out row, or no C gives a plane, the C of ``options`` is
    returned.

    Raises :class:`SolveRefused` if fewer than two classes have rows, or if explicit weights miss one of them.
    """
    labels = sorted({label for fold in folds for label, moments in fold.items() if moments.count > 0})
    if len(labels) < 2:
        raise SolveRefused(f"folds: expected live rows of at least two classes, got {labels}; wait for more rows")
    if isinstance(options.weighting, Mapping) and (missing := set(labels) - options.weighting.keys()):
        raise SolveRefused(f"folds: classes {sorted(missing)} have live rows but no weight; give every class one")
    nothing = Moments.zero(grid.features + 1)
    by_class = [[fold.get(label, nothing) for label in labels] for fold in folds]
    whole = [functools.reduce(Moments.__add__, moments) for moments in zip(*by_class, strict=True)]
    sets = []
    for held_out in by_class:
        training = [every - part for every, part in zip(whole, held_out, strict=True)]
        if any(part.count for part in held_out) and all(left.count for left in training):
            sets.append((held_out, dict(zip(labels, training, strict=True))))
    decisions = _HeldOut(len(labels), len(candidates))
    for together, _ in tiles(len(sets), 1, 2 * len(labels) * nothing.dimension**2, _ENTRIES_AT_ONCE):
        problem = Problem.of([training for _, training in sets[together]], grid)
        planes = problem.planes_inside(problem.solve_each(options, candidates, method="tridiagonal"))
        for at, (held_out, _) in enumerate(sets[together]):
            with np.errstate(all="ignore"):  # What is not finite is never chosen.
                decisions.add(problem.grams_inside(at, held_out), planes[at])
    tried = np.array(candidates, dtype=np.float64)
    gmeans = decisions.implied_gmeans() if decisions.counts.all() else np.full(len(tried), np.nan)
    if np.isnan(gmeans).all():
        return Choice(options.C, tried, gmeans)
    chosen = int(np.argmax(gmeans >= np.nanmax(gmeans) * (1.0 - INDIFFERENCE)))
    return Choice(float(candidates[chosen]), tried, gmeans)


class _HeldOut:
    """Sums and sums of squares over the held-out rows of class c, for each other class j and candidate C.

    They are of the decision value of c less that of j.
    """

    def __init__(self, classes: int, candidates: int) -> None:
        self.counts = np.zeros(classes)
        # Powers of two that scale decision values whose squares would underflow; margins have no unit, so they stay.
        self._exponents: Int32s | None = None
        self._sums = np.zeros((classes, classes, candidates))
        self._squares = np.zeros((classes, classes, candidates))
        own, other = np.nonzero(~np.eye(classes, dtype=bool))
        self._pairs = own.reshape(classes, -1), other.reshape(classes, -1)

    def add(self, held_out: Floats, planes: Floats) -> None:
        """Add the held-out rows of k classes with Gram matrices float64[k, D, D], scored by planes float64[m, k, D]."""
        own, other = self._pairs
        if self._exponents is None:
            size = np.abs(planes).max(axis=1) * np.sqrt(held_out.sum(axis=0).diagonal())
            exponents = np.frexp(size.max(axis=1))[1]
            self._exponents = np.where(exponents < _SMALL_EXPONENT, exponents, 0).astype(np.int32)
        planes = np.ldexp(planes, -self._exponents[:, None, None]).transpose(1, 0, 2)
        differences = planes[own] - planes[other]
        shape = differences.shape[:-1]
        flat = differences.reshape(len(own), -1, planes.shape[-1])
        self.counts += held_out[:, -1, -1]
        self._sums[own, other] -= (flat @ held_out[:, :, -1:]).reshape(shape)
        self._squares[own, other] += np.einsum("cad,cad->ca", flat @ held_out, flat).reshape(shape)

    def implied_gmeans(self) -> Floats:
        """float64[m]: the geometric mean over classes c of ``Π_j Φ(μ_cj / σ_cj)``; NaN if a plane is missing.

        Every variance counts one extra row, whose squared deviation is the mean over the rows of both classes. Without
        it a class of one row would have no variance.
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
