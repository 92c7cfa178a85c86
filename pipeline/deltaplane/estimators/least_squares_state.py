"""The least-squares machine that keeps no rows: ``w`` and ``C``, and how rows come and go (paper 2, Theorem 1).

With Φ float64[J, N] the columns of all rows, ``A = ρI + ΦΦᵀ``:

    w = A⁻¹ Φy        C = A⁻¹ ΦΦᵀ        D = C - I = -ρ A⁻¹

The papers' C has eigenvalues close to one wherever there are many rows, and what matters is how close: C - I would be
the small difference of two large numbers. So ``P = I - C`` is what is held here, with every digit; C is ``I - P``.
Theorem 1 for rows that come (sign +) or leave (sign -), with F float64[L, J] their features as rows, then reads

    S = ρI ± F P Fᵀ        w ∓ P Fᵀ S⁻¹ (F w - y)        P ∓ P Fᵀ S⁻¹ F P

S is positive definite if the rows that leave were in, so it is factorised by Cholesky, and the factorisation fails if
they cannot have been. Additions go first, then removals: the two corollaries in a row are the theorem.

The problem: unlike sums of integers this errs, a little with every step, and most when a row leaves that held up a
direction alone. From w and C one cannot tell: any C that is symmetric with eigenvalues in [0, 1), and any w, are those
of *some* rows. So two sums are kept beside them that pass through no inverse: the right side ``Φy`` and ``A U`` for a
few fixed directions U. Both follow from w and C (``Φy = A w``), so they hold nothing new about the rows; but P, w
and they agree only as far as all are right, and what they differ by is the drift.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from deltaplane.arrays import Floats
from deltaplane.errors import StateMismatch
from deltaplane.solve.cross_validation import row_hashes

__all__ = ["BATCH_ROWS", "PROBES", "LeastSquaresState", "probes"]

PROBES = 4
BATCH_ROWS = 1000
"""Rows of one update. Its cost is cubic in them, but they share that of a call: paper 2 finds about 1000 best."""


@dataclass(frozen=True, eq=False)
class LeastSquaresState:
    """``w`` float64[J, p] and ``P = I - C`` float64[J, J] of ``rows`` rows, with ``right_side`` Φy float64[J, p] and
    ``probed`` A U float64[J, m] to check them by; a value.
    """

    rho: float
    rows: int
    w: Floats
    P: Floats
    right_side: Floats
    probed: Floats

    @classmethod
    def empty(cls, rho: float, dimension: int, planes: int) -> LeastSquaresState:
        """The state of no rows: w = 0 and C = 0."""
        zero = np.zeros((dimension, planes))
        return cls(rho, 0, zero, np.eye(dimension), zero, rho * probes(dimension))

    @classmethod
    def of(cls, rho: float, features: Floats, targets: Floats) -> LeastSquaresState:
        """From scratch (paper 2, eq. 2 to 4): rows float64[n, J] with targets ±1 float64[n, p]."""
        dimension = features.shape[1]
        gram = features.T @ features
        gram.ravel()[:: dimension + 1] += rho
        right_side = features.T @ targets
        factor = linalg.cho_factor(gram)
        P = linalg.cho_solve(factor, rho * np.eye(dimension))
        w = linalg.cho_solve(factor, right_side)
        return cls(rho, len(features), w, (P + P.T) / 2.0, right_side, gram @ probes(dimension))

    def changed(self, features: Floats, targets: Floats, *, leave: bool = False) -> LeastSquaresState:
        """The state after rows float64[n, J] with targets float64[n, p] have come, or have left.

        Raises :class:`StateMismatch` where more rows leave than are in, or rows that cannot have been.
        """
        state = self
        for start in range(0, len(features), BATCH_ROWS):
            stop = start + BATCH_ROWS
            state = state._changed(features[start:stop], targets[start:stop], -1 if leave else 1)
        if state.rows == 0:  # What is left is rounding alone.
            return LeastSquaresState.empty(self.rho, *self.w.shape)
        return state

    def _changed(self, features: Floats, targets: Floats, sign: int) -> LeastSquaresState:
        rows = self.rows + sign * len(features)
        if rows < 0:
            raise StateMismatch(f"remove: expected at most the {self.rows} rows that are in, got {len(features)}")
        projected = features @ self.P
        inner = sign * (projected @ features.T)
        inner.ravel()[:: len(inner) + 1] += self.rho
        try:
            factor = linalg.cholesky(inner, lower=True)
        except linalg.LinAlgError:
            raise StateMismatch(
                f"remove: {len(features)} rows cannot have been among the {self.rows} that are in, or ρ is too small to"
                " tell; nothing was removed"
            ) from None
        half = linalg.solve_triangular(factor, projected, lower=True)
        residual = linalg.solve_triangular(factor, features @ self.w - targets, lower=True)
        return replace(
            self,
            rows=rows,
            w=self.w - sign * (half.T @ residual),
            P=self.P - sign * (half.T @ half),
            right_side=self.right_side + sign * (features.T @ targets),
            probed=self.probed + sign * (features.T @ (features @ probes(len(self.P)))),
        )

    def drift(self) -> float:
        """About the largest relative error that w may have by now.

        ``w - PΦy/ρ`` is how far w is from what P says; ``(PA/ρ - I)U``, by the root of the dimension, is about how far
        what P says is from the truth.
        """
        if self.rows == 0:
            return 0.0
        directions = probes(len(self.P))
        apart = self.P @ np.hstack([self.right_side, self.probed]) / self.rho
        planes = self.w.shape[1]
        of_w = linalg.norm(self.w - apart[:, :planes]) / max(linalg.norm(self.w), np.finfo(np.float64).tiny)
        of_P = linalg.norm(apart[:, planes:] - directions) / np.sqrt(PROBES)
        return float(of_w + of_P)


@functools.lru_cache(maxsize=16)
def probes(dimension: int) -> Floats:
    """The fixed directions U float64[J, m]: signs from a hash of their positions."""
    at = np.arange(dimension * PROBES).reshape(-1, 1)
    directions = np.where(row_hashes(at) >> np.uint64(63), 1.0, -1.0).reshape(dimension, PROBES)
    directions.flags.writeable = False
    return directions
