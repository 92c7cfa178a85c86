"""An exported model of a stream as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from deltaplane.arrays import Floats, Labels
from deltaplane.blas_threads import blas_threads
from deltaplane.errors import SolveRefused
from deltaplane.estimators.statistics_classifier import answerable
from deltaplane.log.answers import Answers, answer
from deltaplane.log.exported_model import exported_model
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.rows_by_name import features_of

__all__ = ["ExportedClassifier"]


class ExportedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The classifier of a model that ``deltaplane model export`` has written: it predicts, and learns nothing.

    - ``tables``: the exported model, as ``json.load`` gives it.
    - ``definition``: that of the stream, ``StreamDefinition.from_tables(tomllib.load(file))``.

    Rows are features float64[n, d] in the definition's order, or by name: dictionaries, a data frame, an Arrow table.
    Answers are those of a scorer, bit for bit. Raises :class:`deltaplane.errors.DefinitionError` if ``tables`` are not
    a model with a plane, and :class:`deltaplane.errors.DefinitionMismatch` if the definition is another.
    """

    def __init__(self, tables: Mapping[str, Any], definition: StreamDefinition) -> None:
        self.tables = tables
        self.definition = definition
        self._exported = exported_model(tables, definition)
        self.version_, self.digest_, self._plane = self._exported.version, self._exported.digest, self._exported.plane
        self.classes_: Labels = np.array(self._in_order())
        self.n_features_in_ = len(definition.features)

    def _in_order(self) -> list[str]:
        """The classes; with one plane the positive one is last, so that a decision above zero means ``classes_[1]``."""
        plane = self._plane
        if plane.positive is None:
            return list(plane.classes)
        return [*(label for label in plane.classes if label != plane.positive), plane.positive]

    def __sklearn_is_fitted__(self) -> bool:
        """True: it is fitted from the start."""
        return True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Change nothing, as scikit-learn's ``FrozenEstimator``; returns self."""
        del X, y
        return self

    def decision_function(self, X: Any) -> Floats:
        """Decision values float64[n] for two classes (above zero: ``classes_[1]``), else [n, k].

        Raises :class:`deltaplane.RowsRefused` if rows cannot be answered; its ``refusals`` have the reason for each.
        """
        values = self._answered(X).values
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Labels:
        """The class [n] of each row, as a text. Raises what :meth:`decision_function` raises."""
        answers = self._answered(X)
        return np.array(answers.plane.classes)[answers.chosen]

    def predict_proba(self, X: Any) -> Floats:
        """The probability float64[n, k] of each of ``classes_``, by the calibration of the exported model.

        Those of a row add to 1. The predicted class need not be the most probable one, since the threshold is that for
        the objective of the stream. Raises what :meth:`decision_function` raises, and
        :class:`deltaplane.errors.SolveRefused` if the model has no probabilities.
        """
        found = self._exported.probabilities(self._answered(X).values)
        if found is None:
            raise SolveRefused(
                "probabilities: the exported model has none, since its stream counts no scores or had none yet"
            )
        return found[:, [self._plane.classes.index(label) for label in self.classes_.tolist()]]

    @blas_threads()
    def _answered(self, X: Any) -> Answers:
        features, unread = features_of(self.definition, X)
        answers = answer(self._plane, self.definition, features, unread)
        answerable(answers.refusals, len(answers))
        return answers
