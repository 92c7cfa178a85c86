"""The least-squares support vector machine that adds and removes rows and keeps none (paper 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from deltaplane.arrays import Floats, Labels, Positions
from deltaplane.blas_threads import blas_threads
from deltaplane.estimators.least_squares_state import LeastSquaresState
from deltaplane.estimators.rows_given import positive_number, several, signs

__all__ = ["LeastSquaresSVM"]


class LeastSquaresSVM(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """``min ρ|w|² + Σ (w·φ(x) - y)²`` (paper 2, eq. 1), updated when rows come and go, exactly up to rounding.

    It holds ``w`` and the J x J matrix C of the paper and no rows: its size does not grow with the data. It uses
    floats, so it drifts a little with every update. ``drift_`` estimates the drift, ``exact_`` says whether that is
    still within ``tolerance``, and ``refresh`` starts again from rows that the caller has kept. For results that are
    exact to the bit, use :class:`deltaplane.ProximalSVM` with ``kind="lssvm"``.

    - ``rho``: the ridge ρ, above zero. The smaller it is, the more a removal can magnify earlier errors.
    - ``fit_intercept``: whether to add a feature that is always 1; its weight is penalised like the others. The paper
      has none.
    - ``feature_map``: a fixed function from rows float64[n, d] to features float64[n, J]; by default the rows are the
      features.
    - ``tolerance``: the drift up to which ``exact_`` is true.

    Rows that are removed may be known only approximately: if one row of many is known to within 10 %, the error of the
    weights stays below 1 % (paper 2, fig. 1f). Such errors stay, add up, and are not part of ``drift_``.

    More than two classes are told apart one against the rest: they share C, and each has a column of w. Raises
    :class:`deltaplane.errors.StateMismatch` if removed rows cannot have been added.
    """

    state_: LeastSquaresState
    classes_: Labels

    def __init__(
        self,
        rho: float = 1.0,
        *,
        fit_intercept: bool = False,
        feature_map: Callable[[Floats], Floats] | None = None,
        tolerance: float = 1e-8,
    ) -> None:
        self.rho = rho
        self.fit_intercept = fit_intercept
        self.feature_map = feature_map
        self.tolerance = tolerance

    @blas_threads()
    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, and learn rows [n, d] with labels [n]; returns self."""
        rows, labels = self._given(X, y, first=True)
        classes = several(np.unique(labels))
        self.state_ = LeastSquaresState.of(self._rho(), self._features(rows), signs(labels, classes))
        self.classes_ = classes
        return self

    @blas_threads()
    def partial_fit(
        self, X: Any = None, y: Any = None, classes: Any = None, *, remove: tuple[Any, Any] | None = None
    ) -> Self:
        """Add rows [n, d] with labels [n], and remove others: ``remove=(X, y)``; either may be left out. Returns self.

        ``classes`` [k]: at the first call, all classes; by default those of its rows. Batches of more than 1000 rows
        are split. If an error is raised, nothing has changed.
        """
        first = not hasattr(self, "state_")
        if X is None and (first or remove is None):
            raise ValueError("partial_fit: expected rows to add, rows to remove from those that are in, or both")
        if X is not None:
            rows, labels = self._given(X, y, first=first)
            features = self._features(rows)
        if first:
            known = several(np.unique(labels if classes is None else classes))
            state = LeastSquaresState.empty(self._rho(), features.shape[1], 1 if len(known) == 2 else len(known))
        else:
            known, state = self.classes_, self.state_
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(f"classes: expected those of the first call, {list(known)}, got {list(classes)}")
        if X is not None:
            state = state.changed(features, signs(labels, known))
        if remove is not None:
            rows, labels = self._given(*remove, first=False)
            state = state.changed(self._features(rows), signs(labels, known), leave=True)
        self.state_, self.classes_ = state, known
        return self

    @blas_threads()
    def retire(self, X: Any, y: Any) -> Self:
        """Remove rows [n, d] with labels [n], as ``partial_fit(remove=(X, y))`` does; returns self."""
        check_is_fitted(self, "state_")
        return self.partial_fit(remove=(X, y))

    @blas_threads()
    def refresh(self, X: Any, y: Any) -> Self:
        """Start again from all rows that should be in, without drift; returns self. The classes stay as they are."""
        check_is_fitted(self, "state_")
        rows, labels = self._given(X, y, first=False)
        self.state_ = LeastSquaresState.of(self._rho(), self._features(rows), signs(labels, self.classes_))
        return self

    @blas_threads()
    def cross_validate(self, X: Any, y: Any, folds: int | Any = 5) -> Floats:
        """Accuracies float64[k] of k-fold cross-validation, each fold's model made by *removing* it (paper 2, §1.1).

        Up to rounding they are those of k fits, for the cost of one fit and k removals. ``folds``: a number (stratified
        folds in the order of the rows, as in scikit-learn), a splitter, or an iterable of splits in which the training
        rows are all rows not held out; other splits raise ValueError. The state of the estimator does not change.
        """
        rows, labels = check_X_y(X, y, dtype=np.float64)
        check_classification_targets(labels)
        classes = several(np.unique(labels))
        features, targets = self._features(rows), signs(labels, classes)
        whole = LeastSquaresState.of(self._rho(), features, targets)
        splits: Iterable[tuple[Any, Any]] = check_cv(folds, labels, classifier=True).split(rows, labels)
        accuracies = []
        for training, held_out in splits:
            if len(np.union1d(training, held_out)) != len(rows) or len(training) + len(held_out) != len(rows):
                raise ValueError("folds: expected that the training rows of a split are all that are not held out")
            state = whole.changed(features[held_out], targets[held_out], leave=True)
            chosen = classes[_chosen(features[held_out] @ state.w)]
            accuracies.append(float(np.mean(chosen == labels[held_out])))
        return np.array(accuracies)

    @property
    def coef_(self) -> Floats:
        """The weights float64[1, J] of the plane of ``classes_[1]`` for two classes; else float64[k, J]."""
        w: Floats = self.state_.w.T
        return w[:, :-1] if self.fit_intercept else w

    @property
    def intercept_(self) -> Floats:
        """The intercepts float64[1] or [k]; zero without ``fit_intercept``."""
        w: Floats = self.state_.w
        return w[-1] if self.fit_intercept else np.zeros(w.shape[1])

    @property
    def auxiliary_(self) -> Floats:
        """The matrix C float64[J, J] of the paper (eq. 4)."""
        return np.asarray(np.eye(len(self.state_.P)) - self.state_.P)

    @property
    def n_rows_(self) -> int:
        """The number of rows added and not removed."""
        return int(self.state_.rows)

    @property
    @blas_threads()
    def drift_(self) -> float:
        """An estimate of the relative error of ``coef_`` by rounding so far."""
        return float(self.state_.drift())

    @property
    def exact_(self) -> bool:
        """Whether ``drift_`` is within ``tolerance``. If it is not, call ``refresh``."""
        return self.drift_ <= self.tolerance

    @blas_threads()
    def decision_function(self, X: Any) -> Floats:
        """Decision values float64[n] of rows [n, d] for two classes (above zero: ``classes_[1]``), else [n, k]."""
        check_is_fitted(self, "state_")
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        decisions: Floats = self._features(rows) @ self.state_.w
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict(self, X: Any) -> Labels:
        """The class [n] of each row [n, d]: that of the largest decision value, the first among equals."""
        decisions = self.decision_function(X)
        return np.asarray(self.classes_[_chosen(decisions.reshape(len(decisions), -1))])

    def _rho(self) -> float:
        return positive_number("rho", self.rho)

    def _given(self, X: Any, y: Any, *, first: bool) -> tuple[Floats, Labels]:
        rows, labels = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(labels)
        return rows, labels

    def _features(self, rows: Floats) -> Floats:
        features = rows if self.feature_map is None else np.asarray(self.feature_map(rows), dtype=np.float64)
        return np.column_stack([features, np.ones(len(features))]) if self.fit_intercept else features


def _chosen(decisions: Floats) -> Positions:
    """Indices [n] into the classes for decisions float64[n, p]."""
    if decisions.shape[1] == 1:
        return np.asarray(decisions[:, 0] > 0.0, dtype=np.intp)
    return np.asarray(decisions.argmax(axis=1), dtype=np.intp)
