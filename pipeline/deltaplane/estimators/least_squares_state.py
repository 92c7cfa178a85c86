"""The state of the least-squares machine that keeps no rows, and its updates (paper 2, Theorem 1).

With Φ float64[J, N] the columns of all rows, ``A = ρI + ΦΦᵀ``:

    w = A⁻¹ Φy        C = A⁻¹ ΦΦᵀ        D = C - I = -ρ A⁻¹

The paper's C has eigenvalues close to one in directions with many rows, and the distance to one matters: C - I would be
a small difference of two large numbers. So ``P = I - C`` is held here, with all its digits, and C is ``I - P``.
Theorem 1 for rows that come (upper sign) or leave (lower sign), with F float64[L, J] their features as rows, is then

    S = ρI ± F P Fᵀ        w ∓ P Fᵀ S⁻¹ (F w - y)        P ∓ P Fᵀ S⁻¹ F P

S is positive definite if the rows that leave were in, so it is factorised by Cholesky, and the factorisation fails if
they cannot have been in. Additions come first, then removals: the two corollaries one after the other are the theorem.

The problem: unlike sums of integers, this has rounding errors with every step, the largest when a row leaves that was
the only one in its direction. They cannot be seen in w and C: any symmetric C with eigenvalues in [0, 1), and any w,
are those of *some* rows. So two sums are kept that need no inverse: the right side ``Φy``, and ``A U`` for a few fixed
directions U. Both follow from w and C (``Φy = A w``), so they hold nothing new about the rows. But they agree with P
and w only if all are right, and the difference is the drift.
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
"""The largest number of rows of one update. Its cost is cubic in the rows, but each update also has a fixed cost; paper
2 finds about 1000 best."""


@dataclass(frozen=True, eq=False)
class LeastSquaresState:
    """The state of ``rows`` rows, immutable: ``w`` float64[J, p] and ``P = I - C`` float64[J, J].

    ``right_side`` Φy float64[J, p] and ``probed`` A U float64[J, m] serve to check them.
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
        """The state of rows float64[n, J] with targets ±1 float64[n, p] (paper 2, eq. 2 to 4)."""
        dimension = features.shape[1]
        gram = features.T @ features
        gram.ravel()[:: dimension + 1] += rho
        right_side = features.T @ targets
        factor = linalg.cho_factor(gram)
        P = linalg.cho_solve(factor, rho * np.eye(dimension))
        w = linalg.cho_solve(factor, right_side)
        return cls(rho, len(features), w, (P + P.T) / 2.0, right_side, gram @ probes(dimension))

    def changed(self, features: Floats, targets: Floats, *, leave: bool = False) -> LeastSquaresState:
        """The state after rows float64[n, J] with targets float64[n, p] have come, or if ``leave``, have left.

        Raises :class:`StateMismatch` if more rows leave than are in, or if rows that leave cannot have been in.
        """
        state = self
        for start in range(0, len(features), BATCH_ROWS):
            stop = start + BATCH_ROWS
            state = state._changed(features[start:stop], targets[start:stop], -1 if leave else 1)
        if state.rows == 0:  # Only rounding errors are left.
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
        """An estimate of the relative error of w.

        It is the sum of two parts: ``|w - PΦy/ρ| / |w|``, by which w differs from the solution by P, and
        ``|(PA/ρ - I)U| / √m``, which estimates the error of P.
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
    """The fixed directions U float64[J, m], with entries ±1 from a hash of their positions."""
    at = np.arange(dimension * PROBES).reshape(-1, 1)
    directions = np.where(row_hashes(at) >> np.uint64(63), 1.0, -1.0).reshape(dimension, PROBES)
    directions.flags.writeable = False
    return directions
