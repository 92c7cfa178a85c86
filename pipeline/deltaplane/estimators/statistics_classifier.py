"""The base class of estimators over exact statistics: a plane is solved from the sums when it is first needed.

    rows ──place──▶ integers ──products by (fold, class)──▶ sums ──choose C, solve──▶ coef_, intercept_

Two estimators with the same sums have the same bits in ``coef_``, whatever calls led there. A plane is solved only when
it is needed, so many small batches cost no more than their sums.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    check_X_y,
    validate_data,
)

from deltaplane.arrays import Flags, Floats, Labels, Steps
from deltaplane.blas_threads import blas_threads
from deltaplane.columns.encoder import Cells, Encoder
from deltaplane.columns.inference import infer
from deltaplane.columns.tables_given import columns_of
from deltaplane.errors import DefinitionError, RowsRefused, SolveRefused
from deltaplane.estimators.rows_given import Labelled, RefusedRow, RowsLeftOut, RowSpace, needs_no_checks, text_of
from deltaplane.estimators.solutions import Solution, solution_of, without_a_contest
from deltaplane.estimators.sparse_rows import Rows, dense_parts, grid_fitted_on, is_sparse
from deltaplane.exact.grid import Grid
from deltaplane.exact.statistics import Statistics
from deltaplane.solve.cross_validation import FOLDS, Choice, choose_c
from deltaplane.solve.solver import solve
from deltaplane.solve.solver_options import Bias, Kind, SolverOptions, Weighting

__all__ = ["Admitted", "Given", "Live", "StatisticsClassifier", "answerable"]

_CURES = {
    "contains NaN": "With columns='auto' what is missing is filled in, and has a feature.",
    "could not convert string": "With columns='auto' a table may hold texts and dates: each column gets a rule.",
}
"""Words of scikit-learn's errors to what can be done here."""


class Given(NamedTuple):
    """The rows float64[n, d] of a call, dense or sparse, with their labels.

    ``unread``: index of each row that could not be encoded to the reason; its features are NaN.
    """

    rows: Rows
    labelled: Labelled
    unread: Mapping[int, str]

    @property
    def number(self) -> int:
        """The number n of rows."""
        return int(self.rows.shape[0])


class Admitted(NamedTuple):
    """The rows of a call that can be learned, on the grid, with their labels; ``kept`` bool[n]: which these are."""

    quantized: Steps
    labelled: Labelled
    kept: Flags


@dataclass(frozen=True, eq=False)
class Live:
    """The state of an estimator over exact statistics, immutable: every call that succeeds replaces it.

    ``declared``: the texts of the declared classes, or None if classes come and go with their rows. ``labels``: text to
    original label, of every label so far.
    """

    space: RowSpace
    statistics: Statistics
    labels: Mapping[str, Any]
    declared: tuple[str, ...] | None = None

    @property
    def classes(self) -> Labels:
        """The classes, sorted: the declared ones, or those that have rows."""
        texts = self.declared or sorted({label for (_, label), _ in self.statistics.items()})
        return np.array(sorted(self.labels[text] for text in texts))


class StatisticsClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier over exact class statistics; see :class:`deltaplane.ProximalSVM`."""

    C: float | Literal["auto"]
    weighting: Weighting | Mapping[Any, float]
    standardize: bool
    kind: Kind
    bias: Bias
    grid: Grid | None
    columns: Literal["auto"] | Encoder | None
    on_refused: Literal["warn", "raise"]

    refused_rows_: tuple[RefusedRow, ...]
    """The rows of the last call that were left out, with reasons."""

    def _encoder_for(self, table: Mapping[str, Cells], y: Any) -> Encoder:
        """The given encoder, or one whose rules are decided from all rows of the first call."""
        columns: object = self.columns
        if isinstance(columns, Encoder):
            return columns
        if columns != "auto":
            raise DefinitionError(f"columns: expected 'auto', an Encoder or None, got {columns!r:.100}")
        labels = None if y is None or np.ndim(y) != 1 else [text_of(label) for label in np.asarray(y)]
        return infer(table, labels).encoder

    def _features_of(self, X: Any, y: Any = None, *, first: bool = False) -> tuple[Any, Mapping[int, str]]:
        """The rows as features, encoded if ``columns`` is set, and the reasons for rows that cannot be encoded.

        The reasons are by the index of the row, whose features are NaN.
        """
        if self.columns is None:
            return X, {}
        table = self._as_table(X, first=first)
        if y is not None:
            check_consistent_length(next(iter(table.values()), ()), y)
        encoder = self._encoder_for(table, y) if first else self.encoder_
        if encoder is None:
            raise DefinitionError("columns: this estimator was fitted on rows of numbers; set columns before it is fit")
        # The new encoder counts only if the whole call succeeds; until then encoder_ is the old one.
        self._next_encoder = encoder
        encoded = encoder.encode(table)
        return encoded.features, {one.row: one.reason for one in encoded.refused}

    def _grid_for(self, X: Rows) -> Grid:
        """The given grid, or one fitted on all rows of the first call."""
        grid: object = self.grid
        if grid is None:
            return grid_fitted_on(X)
        if isinstance(grid, Grid) and grid.features == X.shape[1]:
            return grid
        raise DefinitionError(
            f"grid: expected a Grid over {X.shape[1]} features, got {grid!r}; leave it out to have one fitted"
        )

    def _space_for(self, X: Rows) -> RowSpace:
        """The settings of the statistics, from the rows of the first call."""
        encoder = None if self.columns is None else self._next_encoder
        folds = FOLDS if self.C == "auto" else 1
        return RowSpace(self._names(X.shape[1]), self._grid_for(X), folds, encoder=encoder)

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: sparse rows are allowed, or with rules for columns, missing values are."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.columns is None
        tags.input_tags.allow_nan = self.columns is not None
        return tags

    # What was given.

    def _names(self, features: int) -> tuple[str, ...]:
        if self.columns is not None:
            return self._next_encoder.features
        names = getattr(self, "feature_names_in_", None)
        return tuple(f"x{j}" for j in range(features)) if names is None else tuple(names)

    def _options(self, C: float = 1.0) -> SolverOptions:
        """The solver's options, with every parameter checked. Raises :class:`DefinitionError`."""
        weighting = self.weighting
        if isinstance(weighting, Mapping):
            weighting = {text_of(label): weight for label, weight in weighting.items()}
        if isinstance(self.C, str) and self.C != "auto":
            raise DefinitionError(f"C: expected a number above zero or 'auto', got {self.C!r}")
        value = C if isinstance(self.C, str) else self.C
        return SolverOptions(self.kind, weighting, value, self.standardize, self.bias)

    def _given(self, X: Any, y: Any, *, first: bool, to_grid: bool = False) -> Given:
        """The rows and labels of a call, checked as scikit-learn does.

        ``to_grid``: the rows go to the grid next, which finds those that are not finite, and are not looked through
        for them here; :meth:`_tell_refused` raises what scikit-learn raises.
        """
        self._options()
        X, unread = self._features_of(X, y, first=first)
        finite: bool | Literal["allow-nan"] = "allow-nan" if unread else first or not to_grid
        rows, labels = self._checked(X, y, first=first, ensure_all_finite=finite)
        if labels.dtype.kind not in "biuSU":
            # Numbers with fractions may be a regression's targets; whole numbers and texts are classes.
            check_classification_targets(labels)
        return Given(rows, Labelled.of(labels), unread)

    def _checked(self, X: Any, y: Any = "no_validation", *, first: bool, ensure_all_finite: Any = True) -> Any:
        """The rows, and labels if there are any, checked as scikit-learn does; sparse rows in CSR."""
        if self.columns is not None:
            # The number and names of a table's columns were checked before encoding.
            if isinstance(y, str):
                return check_array(X, dtype=np.float64, ensure_all_finite=ensure_all_finite, estimator=self)
            return check_X_y(X, y, dtype=np.float64, ensure_all_finite=ensure_all_finite, estimator=self)
        unnamed = not hasattr(self, "feature_names_in_")
        if not first and ensure_all_finite is False and unnamed and needs_no_checks(X, y, self.n_features_in_):
            return X, y
        options = {"dtype": np.float64, "reset": first, "ensure_all_finite": ensure_all_finite, "accept_sparse": "csr"}
        try:
            return validate_data(self, X, y, **options)
        except ValueError as fault:
            for what, cure in _CURES.items():
                if what in str(fault):
                    raise ValueError(f"{fault}\n{cure}") from None
            raise

    def _as_table(self, X: Any, *, first: bool) -> dict[str, Cells]:
        """Column to cells of a table; rows without column names are checked as scikit-learn checks rows of numbers."""
        if is_sparse(X):
            raise TypeError("columns: sparse data is not supported where columns have rules; leave columns out")
        table = columns_of(X)
        are_records = isinstance(X, Sequence) and len(X) and isinstance(X[0], Mapping)
        if isinstance(X, Mapping) or hasattr(X, "columns") or are_records:
            if first:
                self.n_features_in_, self.feature_names_in_ = len(table), np.array(list(table), dtype=object)
            return table
        validate_data(self, X, dtype=None, reset=first, ensure_all_finite=False)
        return table

    def _live_or_new(self, X: Rows, classes: Any = None) -> Live:
        """The current state, against which ``classes`` are checked, or an empty state on a new grid."""
        live: Live | None = getattr(self, "live_", None)
        if live is None:
            return self._new_live(X, classes)
        if classes is not None and set(Labelled.of(np.asarray(classes)).texts) != set(live.declared or ()):
            raise ValueError(
                f"classes: expected those of the first call ({live.declared or 'none, they come and go'}), got"
                f" {list(classes)}; give them at the first call alone"
            )
        return live

    def _new_live(self, X: Rows, classes: Any = None) -> Live:
        """An empty state on a new grid. ``classes``: all classes, or None if they come and go with their rows."""
        space = self._space_for(X)
        declared = None if classes is None else Labelled.of(np.asarray(classes))
        if declared is not None and len(declared.texts) < 2:
            raise ValueError(f"classes: expected at least two classes, got {declared.texts}")
        if declared is None:
            return Live(space, space.nothing(), {})
        return Live(space, space.nothing(), declared.labels, tuple(declared.texts))

    def _change(self, live: Live, given: Given) -> tuple[Statistics, Labelled]:
        """The statistics of the rows of a call that can be learned, and their labels; reports the other rows."""
        total, refused, kept = live.space.nothing(), list[RefusedRow](), np.ones(given.number, dtype=np.bool_)
        for part, rows in dense_parts(given.rows):
            admitted, faults = _admit(live, rows, given, part)
            total = total + live.space.statistics(admitted.quantized, admitted.labelled)
            refused += faults
            kept[part] = admitted.kept
        self._tell_refused(refused, given)
        return total, given.labelled.at(kept) if refused else given.labelled

    def _admitted(self, live: Live, given: Given, most: int | None = None) -> Admitted:
        """The rows of a call that can be learned, or about the last ``most`` if sparse; reports the refused rows."""
        parts, refused = list[Admitted](), list[RefusedRow]()
        for part, rows in dense_parts(given.rows):
            admitted, faults = _admit(live, rows, given, part)
            parts.append(admitted)
            refused += faults
            while most is not None and sum(len(one.quantized) for one in parts[1:]) >= most:
                parts.pop(0)
        self._tell_refused(refused, given)
        if len(parts) == 1:
            return parts[0]
        kept = np.concatenate([one.kept for one in parts])
        labelled = given.labelled.at(np.append(np.zeros(given.number - len(kept), dtype=np.bool_), kept))
        return Admitted(np.concatenate([one.quantized for one in parts]), labelled, kept)

    def _tell_refused(self, refused: list[RefusedRow], given: Given) -> None:
        """Set ``refused_rows_``, and warn if any rows are left out.

        Raises :class:`RowsRefused` instead, before anything is learned, if ``on_refused`` is ``"raise"``. Raises
        ValueError if rows of numbers have one that is not finite.
        """
        if refused and not given.unread:
            self._checked(given.rows, first=False)
        if self.on_refused not in ("warn", "raise"):
            raise DefinitionError(f"on_refused: expected 'warn' or 'raise', got {self.on_refused!r}")
        self.refused_rows_ = tuple(sorted(refused, key=lambda one: one.row))
        if not refused:
            return
        first = self.refused_rows_[0]
        text = f"row {first.row} of {given.number}: {first.reason} ({len(refused)} such rows)"
        if self.on_refused == "raise":
            cure = "scale the values, or give a grid"
            if first.row in given.unread:
                cure = "give an encoder with other rules"
            raise RowsRefused(
                f"{text}; leave the rows out, {cure}", {one.row: one.reason for one in self.refused_rows_}
            )
        warnings.warn(f"{text}; left out, see refused_rows_", RowsLeftOut, stacklevel=5)

    def _hold(self, live: Live) -> Self:
        """Replace the state and forget the plane of the old one; returns self."""
        self.live_ = live
        self._solution: Solution | None = None
        return self

    # What is asked.

    @property
    def classes_(self) -> Labels:
        """The classes, sorted: the declared ones, or without declaration those that have rows."""
        return self._fitted().classes

    @property
    def coef_(self) -> Floats:
        """The weights float64[1, m] of the plane of ``classes_[1]`` for two classes; else float64[k, m], one per class.

        m is the number of features, or of the units of a feature map.
        """
        return self._solved().coef

    @property
    def intercept_(self) -> Floats:
        """The intercepts float64[1] or [k], minus the papers' bias: decisions are ``X @ coef_.T + intercept_``.

        With more than two classes, a declared class without rows has weights of zero and an intercept of minus
        infinity, so it is never predicted.
        """
        return self._solved().intercept

    @property
    def C_(self) -> float:  # noqa: N802 - as scikit-learn calls it.
        """The C of the plane: the given one, or the chosen one."""
        return self._solved().C

    @property
    def choice_(self) -> Choice | None:
        """The cross-validation of every candidate C, or None if C was given."""
        return self._solved().choice

    @property
    def grid_(self) -> Grid:
        """The grid that the rows were placed on."""
        return self._fitted().space.grid

    @property
    def encoder_(self) -> Encoder | None:
        """The encoder that makes features of the columns of tables, or None if rows are numbers."""
        return self._fitted().space.encoder

    @property
    def class_counts_(self) -> dict[Any, int]:
        """Class to the number of its rows."""
        live = self._fitted()
        return {live.labels[text]: moments.count for text, moments in live.space.total(live.statistics).items()}

    def digest(self) -> str:
        """The SHA-256 of the exact statistics, in hexadecimal: equal if features, grid and rows are equal.

        It is the digest of a stream with the same features, grid and rows, and depends on no parameter of the solver.
        """
        live = self._fitted()
        return live.space.digest(live.statistics)

    @blas_threads()
    def decision_function(self, X: Any) -> Floats:
        """Decision values float64[n] of rows [n, d] for two classes (above zero: ``classes_[1]``), else [n, k].

        Raises :class:`RowsRefused` if a row of a table cannot be encoded; its ``refusals`` have the reason for each.
        """
        solution = self._solved()
        features, unread = self._features_of(X)
        answerable(unread, features.shape[0] if unread else 0)
        rows = self._checked(features, first=False)
        decisions = np.empty((rows.shape[0], len(solution.intercept)))
        for part, dense in dense_parts(rows):
            decisions[part] = self._fitted().space.decisions(dense, solution.coef, solution.intercept)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict(self, X: Any) -> Labels:
        """The class [n] of each row [n, d]: that of the largest decision value, the first among equals."""
        decisions = self.decision_function(X)
        at = (decisions > 0.0).astype(np.intp) if decisions.ndim == 1 else decisions.argmax(axis=1)
        return np.asarray(self.classes_[at])

    def _fitted(self) -> Live:
        live: Live | None = getattr(self, "live_", None)
        if live is None:
            # NotFittedError is an AttributeError, so hasattr() of a property gives False.
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet; call fit or partial_fit")
        return live

    def _solved(self) -> Solution:
        check_is_fitted(self, "live_")
        if self._solution is None:
            self._solution = self._solve(self._fitted())
        return self._solution

    @blas_threads()
    def _solve(self, live: Live) -> Solution:
        grams, classes = live.space.total(live.statistics), live.classes
        texts = [text_of(label) for label in classes]
        choice, options = None, self._options()
        if live.declared is not None and len(grams) < 2:
            return without_a_contest(texts, grams.keys(), live.space.mapped_grid.features, options.C)
        if self.C == "auto":
            if live.space.folds == 1:
                raise SolveRefused("C = 'auto' needs statistics by fold, but C was a number when they began; fit anew")
            choice = choose_c(live.space.by_fold(live.statistics), live.space.mapped_grid, options)
            options = self._options(choice.C)
        present = [text for text in texts if text in grams]
        plane = solve(grams, live.space.mapped_grid, options, present[-1] if len(present) == 2 else None)
        return solution_of(plane, texts, options.C, choice)


def _admit(live: Live, rows: Floats, given: Given, part: slice) -> tuple[Admitted, list[RefusedRow]]:
    """The rows among some rows float64[k, d] of a call that can be learned, and the others with reasons."""
    quantized, kept = live.space.quantize(rows)
    labelled = given.labelled.between(part)
    faults = live.space.faults(rows, kept)
    if live.declared is not None and (strangers := set(labelled.texts) - set(live.declared)):
        known = np.array([text not in strangers for text in labelled.texts])[labelled.codes]
        reason = f"expected the declared classes {list(live.declared)}, got "
        faults += [
            RefusedRow(row, reason + repr(labelled.texts[labelled.codes[row]]))
            for row in np.flatnonzero(kept & ~known).tolist()
        ]
        kept = kept & known
    refused = []
    for one in faults:
        row = part.start + one.row
        refused.append(RefusedRow(row, given.unread.get(row, one.reason)))
    if not faults:
        return Admitted(quantized, labelled, kept), []
    return Admitted(quantized[kept], labelled.at(kept), kept), refused


def answerable(unread: Mapping[int, str], rows: int) -> None:
    """Raise :class:`RowsRefused` if some of ``rows`` rows cannot be answered, for the reasons in ``unread``."""
    if unread:
        first = min(unread)
        text = f"row {first} of {rows}: {unread[first]} ({len(unread)} such rows)"
        raise RowsRefused(f"{text}; leave the rows out, or give an encoder with other rules", unread)
