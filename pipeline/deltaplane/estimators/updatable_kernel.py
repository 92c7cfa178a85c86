"""The least-squares support vector machine with a kernel, updated from new rows alone (paper 5)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy import linalg
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from deltaplane.arrays import Floats, Labels
from deltaplane.blas_threads import blas_threads
from deltaplane.errors import DefinitionError, LimitExceeded
from deltaplane.estimators.rows_given import positive_number, several, signs

__all__ = ["SYSTEM_ROWS", "UpdatableKernelSVM"]

SYSTEM_ROWS = 20_000
"""The largest number of rows of one fit or update: a dense matrix, 3.2 GB at this number, and its cost is cubic."""

_KERNEL_ENTRIES = 2**22
"""Entries of a kernel matrix that are computed at once for decisions: 32 MB."""


class _Part(NamedTuple):
    """The part of the function that one fit or update adds: ``Σ_j β_j K(x, x_j) + b``.

    ``rows`` float64[n, d], ``weights`` β = αy float64[n, p], ``bias`` b float64[p].
    """

    rows: Floats
    weights: Floats
    bias: Floats


class UpdatableKernelSVM(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """uLS-SVM: train on some rows (paper 5, eq. 6), then improve on new rows without the old ones (eq. 17).

    An update looks for the smallest change of the function that fits the new rows:

        f = f₀ + Σ_j β_j K(x, x_j) + Δb        [0 1ᵀ; 1 K + I/γ] [Δb; β] = [0; y - f₀(X)]

    which is eq. 17 with β_j = α_j y_j (the paper prints its first row with the other sign; it is zero either way).
    Updates may be repeated. The old rows are needed only to evaluate f₀. The result is near that of a fit on all rows,
    but not equal to it.

    - ``gamma``: γ, the weight of errors in a fit; in an update it is γ divided by ``softness``. In eq. 17 it is γ
      itself (``softness=1``). But then a few new rows are fitted as closely as if nothing were known, and an update
      with fewer rows than the model has can do harm.
    - ``kernel``: ``"rbf"``, ``exp(-|x-z|²/σ²)`` (no 2 in it), or ``"linear"``.
    - ``sigma``: σ of the RBF kernel, in the units of the features.

    More than two classes are told apart one against the rest; all share one factorisation.
    """

    parts_: tuple[_Part, ...]

    def __init__(
        self,
        gamma: float = 10.0,
        sigma: float = 1.0,
        *,
        kernel: Literal["rbf", "linear"] = "rbf",
        softness: float = 10.0,
    ) -> None:
        self.gamma = gamma
        self.sigma = sigma
        self.softness = softness
        self.kernel = kernel

    @blas_threads()
    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, and learn rows [n, d] with labels [n]; returns self.

        Raises :class:`deltaplane.errors.LimitExceeded` for more than ``SYSTEM_ROWS`` rows.
        """
        rows, labels = self._given(X, y, first=True)
        classes = several(np.unique(labels))
        part = self._solved(rows, signs(labels, classes), self.gamma)
        self.classes_, self.parts_ = classes, (part,)
        return self

    @blas_threads()
    def update(self, X: Any, y: Any) -> Self:
        """Improve the function on new rows [n, d] with labels [n] of known classes, maybe of one class; returns self.

        Raises :class:`deltaplane.errors.LimitExceeded` for more than ``SYSTEM_ROWS`` rows.
        """
        check_is_fitted(self, "parts_")
        rows, labels = self._given(X, y, first=False)
        right_sides = signs(labels, self.classes_) - self._decisions(rows)
        part = self._solved(rows, right_sides, self.gamma / self.softness)
        self.parts_ = (*self.parts_, part)
        return self

    @property
    def n_support_rows_(self) -> int:
        """The number of rows that decisions use: all rows since the last fit."""
        return sum(len(part.rows) for part in self.parts_)

    @blas_threads()
    def decision_function(self, X: Any) -> Floats:
        """Decision values float64[n] of rows [n, d] for two classes (above zero: ``classes_[1]``), else [n, k]."""
        check_is_fitted(self, "parts_")
        decisions = self._decisions(validate_data(self, X, dtype=np.float64, reset=False))
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict(self, X: Any) -> Labels:
        """The class [n] of each row [n, d]: that of the largest decision value, the first among equals."""
        decisions = self.decision_function(X)
        at = (decisions > 0.0).astype(np.intp) if decisions.ndim == 1 else decisions.argmax(axis=1)
        return np.asarray(self.classes_[at])

    def _given(self, X: Any, y: Any, *, first: bool) -> tuple[Floats, Labels]:
        if self.kernel not in ("rbf", "linear"):
            raise DefinitionError(f"kernel: expected 'rbf' or 'linear', got {self.kernel!r}")
        for name in ("gamma", "sigma", "softness"):
            positive_number(name, getattr(self, name))
        rows, labels = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(labels)
        if len(rows) > SYSTEM_ROWS:
            raise LimitExceeded(
                f"expected at most {SYSTEM_ROWS} rows at once, got {len(rows)}; fit on some and update with others"
            )
        return rows, labels

    def _kernel(self, rows: Floats, others: Floats) -> Floats:
        """K float64[n, m] between rows float64[n, d] and others float64[m, d]."""
        if self.kernel == "linear":
            return np.asarray(rows @ others.T, dtype=np.float64)
        squares: Floats = cdist(rows, others, "sqeuclidean")
        squares /= -(self.sigma**2)
        return np.exp(squares, out=squares)

    def _solved(self, rows: Floats, right_sides: Floats, gamma: float) -> _Part:
        """The solution of the system above for right sides float64[n, p], by one Cholesky factorisation."""
        matrix = self._kernel(rows, rows)
        matrix.ravel()[:: len(rows) + 1] += 1.0 / gamma
        factor = linalg.cho_factor(matrix, lower=True, overwrite_a=True)
        solved = linalg.cho_solve(factor, np.column_stack([right_sides, np.ones(len(rows))]))
        of_sides, of_ones = solved[:, :-1], solved[:, -1:]
        bias = of_sides.sum(axis=0) / of_ones.sum()
        return _Part(rows, of_sides - of_ones * bias, bias)

    def _decisions(self, rows: Floats) -> Floats:
        """The values f(X) float64[n, p], computed in blocks of rows."""
        decisions = np.zeros((len(rows), len(self.parts_[0].bias)))
        for part in self.parts_:
            block = max(1, _KERNEL_ENTRIES // len(part.rows))
            for start in range(0, len(rows), block):
                kernel = self._kernel(rows[start : start + block], part.rows)
                decisions[start : start + block] += kernel @ part.weights + part.bias
        return decisions
