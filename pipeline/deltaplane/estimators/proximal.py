"""The proximal support vector machine in batch form, which adds, retires and merges exactly."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deltaplane.arrays import Floats
from deltaplane.blas_threads import blas_threads
from deltaplane.columns.encoder import Encoder
from deltaplane.errors import DefinitionError, DefinitionMismatch, RowsRefused, StateMismatch
from deltaplane.estimators.rows_given import RowSpace, impossible, several
from deltaplane.estimators.statistics_classifier import Live, StatisticsClassifier
from deltaplane.exact.grid import Grid
from deltaplane.exact.statistics import Statistics
from deltaplane.log.partial import Partial
from deltaplane.solve.cross_validation import FOLDS
from deltaplane.solve.solver_options import Bias, Kind, Weighting
from deltaplane.stream.definition import StreamDefinition

__all__ = ["ProximalSVM"]


class ProximalSVM(StatisticsClassifier):
    """The weighted linear proximal SVM (papers 1 and 4) and its variants, on exact statistics.

    On the same grid, estimators with the same rows have statistics with the same digest, and ``coef_`` with the same
    bits: however these rows came, by ``fit``, ``partial_fit``, ``merge`` or ``retire``, in any order and any batches.

    - ``C``: the papers' C, or ``"auto"``: chosen by five-fold cross-validation from the statistics alone (see
      :mod:`deltaplane.solve.cross_validation`), which keeps one Gram matrix for each fold and class.
    - ``weighting``: ``"inverse"`` (σ of a class is the other's share; paper 1, eq. 17), ``"none"`` (σ = 1: LPSVM),
      ``"balanced"``, or a weight for each class. ``"default"``: inverse for ``wlpsvm``, none for the other kinds.
    - ``kind`` and ``bias``: as in :class:`deltaplane.solve.solver_options.SolverOptions`. ``standardize``: whether to
      penalise in standardized units. ``coef_`` is always in raw units.
    - ``grid``: a :class:`deltaplane.exact.grid.Grid`; by default one is fitted on the rows of ``fit``, or of the first
      ``partial_fit``. Estimators can only be merged if they were given the same grid.
    - ``columns``: ``"auto"`` if rows come as tables of mixed columns (a pandas data frame, an Arrow table, a dictionary
      of columns, a list of dictionaries): a rule for each column is decided from the rows of the first call. Or an
      :class:`deltaplane.columns.encoder.Encoder`, such as the ``encoder_`` of another estimator. By default rows are
      numbers: an array without NaN, or a SciPy sparse matrix, which is made dense block by block. With ``"auto"``, NaN
      in an array is filled in, and indicated by a feature.

    More than two classes are told apart one against the rest (paper 4, eq. 4.23 to 4.26). Without ``classes`` in the
    first ``partial_fit``, they come and go with their rows.

    - ``on_refused``: a row with a value outside the grid's range (2**45 steps, 33 million times the range that a grid
      was fitted on), with a cell that cannot be encoded, or with a label that was not declared, is left out. With
      ``"warn"``, there is a warning (:class:`deltaplane.RowsLeftOut`), and ``refused_rows_`` has its index and the
      reason. With ``"raise"``, the whole call is refused (:class:`deltaplane.RowsRefused`, a ValueError), and nothing
      changes.

    Raises :class:`deltaplane.errors.DefinitionError` if parameters cannot be used, and
    :class:`deltaplane.errors.SolveRefused` if the statistics do not determine a plane.
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter by its name.
        self,
        C: float | Literal["auto"] = "auto",
        *,
        weighting: Weighting | Mapping[Any, float] = "default",
        standardize: bool = True,
        kind: Kind = "wlpsvm",
        bias: Bias = "default",
        grid: Grid | None = None,
        columns: Literal["auto"] | Encoder | None = None,
        on_refused: Literal["warn", "raise"] = "warn",
    ) -> None:
        self.C = C
        self.weighting = weighting
        self.standardize = standardize
        self.kind = kind
        self.bias = bias
        self.grid = grid
        self.columns = columns
        self.on_refused = on_refused

    @blas_threads()
    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, and learn rows [n, d] with labels [n]; returns self."""
        given = self._given(X, y, first=True)
        space = self._space_for(given.rows)
        change, labelled = self._change(Live(space, space.nothing(), {}), given)
        several(np.array(labelled.texts))
        self._hold(Live(space, change, labelled.labels))
        self._solved()
        return self

    @blas_threads()
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn more rows [n, d] with labels [n]; returns self.

        ``classes`` [k]: at the first call, declares all classes.
        """
        given = self._given(X, y, first=not hasattr(self, "live_"), to_grid=True)
        live = self._live_or_new(given.rows, classes)
        change, labelled = self._change(live, given)
        return self._hold(replace(live, statistics=live.statistics + change, labels={**live.labels, **labelled.labels}))

    @blas_threads()
    def retire(self, X: Any, y: Any) -> Self:
        """Unlearn rows [n, d] with labels [n]; returns self. The statistics are then those without these rows.

        Raises :class:`deltaplane.RowsRefused` if their class was never learned. Raises
        :class:`deltaplane.errors.StateMismatch`, and changes nothing, if the sums show that the rows never came: more
        rows than there are of a class, or sums of squares that no rows can have. Sums do not remember their terms, so
        other rows that never came may go unnoticed.
        """
        check_is_fitted(self, "live_")
        given = self._given(X, y, first=False, to_grid=True)
        live = self._fitted()
        if strangers := set(given.labelled.texts) - live.labels.keys():
            raise RowsRefused(f"retire: rows of classes {sorted(strangers)} were never added")
        change, labelled = self._change(live, given)
        left = live.statistics - change
        if reason := impossible(left, change):
            raise StateMismatch(
                f"retire: {reason}; some of the {len(labelled.codes)} rows were never added; nothing was retired"
            )
        return self._hold(replace(live, statistics=left))

    def adopt(self, definition: StreamDefinition, *partials: Partial) -> Self:
        """Forget what is held, and hold the rows of a table that were added up elsewhere; no row is read again.

        ``partials`` were computed with ``definition``; its solver, windows and partitions play no part. Weighting, kind
        and C are this estimator's. With ``C="auto"`` the partials are the folds, of which there must be five or more:
        of random parts of the table, or of its files if these are alike.

        Raises :class:`deltaplane.errors.DefinitionMismatch` for partials of another definition or one that fills in
        missing values, and :class:`deltaplane.errors.DefinitionError` if folds or ``columns`` are missing.
        """
        self._options()
        if self.C == "auto" and len(partials) < FOLDS:
            raise DefinitionError(
                f"adopt: C = 'auto' compares at least {FOLDS} parts of the rows, got {len(partials)}; give a number for"
                " C, or what each of so many parts of the table adds up to"
            )
        if (definition.columns is None) != (self.columns is None):
            raise DefinitionError("adopt: set columns='auto' where the definition has [columns], and nowhere else")
        folds = FOLDS if self.C == "auto" else 1
        space = RowSpace(definition.features, definition.grid, folds, definition.feature_map, definition.columns)
        statistics = space.nothing()
        for number, partial in enumerate(partials):
            if not partial.data_fingerprint == definition.data_fingerprint == space.fingerprint:
                raise DefinitionMismatch(
                    "adopt: expected partials of the definition given, which refuses missing values, got others;"
                    " compute them with it, and features.missing = 'refuse'"
                )
            moments = {(number % folds, label): part for label, part in partial.statistics.grams().items()}
            statistics = statistics + Statistics(statistics.dimension, moments)
        labels = {label: label for (_, label), _ in statistics.items()}
        several(np.array(sorted(labels)))
        width = definition.features if definition.columns is None else definition.columns.columns
        self.n_features_in_ = len(width)
        return self._hold(Live(space, statistics, labels))

    def influence(self, X: Any, y: Any, queries: Any) -> Floats:
        """The change of the decision values of ``queries`` [m, d] if rows [n, d] with labels [n] were retired.

        It is float64[m] for two classes, else [m, k]: :meth:`decision_function` after :meth:`retire`, less that now.
        Nothing is retired. Raises what :meth:`retire` raises, and :class:`deltaplane.errors.StateMismatch` if fewer
        classes would be left.
        """
        without = copy.copy(self).retire(X, y)
        if len(without.classes_) != len(self.classes_):
            raise StateMismatch(f"influence: without these rows the classes are {list(without.classes_)}")
        return np.asarray(without.decision_function(queries) - self.decision_function(queries))

    def merge(self, other: ProximalSVM) -> Self:
        """Add the statistics of ``other``, which stays as it is; returns self.

        Raises :class:`deltaplane.errors.DefinitionMismatch` if features, grid, feature map, columns or folds differ.
        """
        if type(other) is not type(self):
            raise DefinitionMismatch(f"merge: expected another {type(self).__name__}, got {type(other).__name__}")
        mine, theirs = self._fitted(), other._fitted()
        if mine.space.names != theirs.space.names:
            raise DefinitionMismatch("merge: expected the same features by name and order, got others")
        if not mine.space.grid.quantizes_as(theirs.space.grid):
            raise DefinitionMismatch("merge: expected the same grid, got another; give both estimators one grid")
        if mine.space.fingerprint != theirs.space.fingerprint:
            raise DefinitionMismatch(
                "merge: expected the same feature map and columns, got others; give both one of each"
            )
        if mine.space.folds != theirs.space.folds:
            raise DefinitionMismatch("merge: expected C 'auto' in both or in neither; one has no statistics by fold")
        declared = None
        if mine.declared is not None and theirs.declared is not None:
            declared = tuple(sorted({*mine.declared, *theirs.declared}))
        labels = {**mine.labels, **theirs.labels}
        return self._hold(Live(mine.space, mine.statistics + theirs.statistics, labels, declared))
