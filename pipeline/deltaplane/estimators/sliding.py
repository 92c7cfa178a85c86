"""The proximal support vector machine on the last rows alone: rows that leave the window are subtracted, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from deltaplane.arrays import Floats, Labels
from deltaplane.blas_threads import blas_threads
from deltaplane.columns.encoder import Encoder
from deltaplane.errors import DefinitionError, SolveRefused
from deltaplane.estimators.rows_given import Labelled, text_of
from deltaplane.estimators.sparse_rows import is_sparse
from deltaplane.estimators.statistics_classifier import Admitted, Live, StatisticsClassifier, answerable
from deltaplane.exact.grid import Grid
from deltaplane.exact.moments import Moments
from deltaplane.solve.last_rows import LastRows, Rows
from deltaplane.solve.sliding_planes import Passage, decide, fits
from deltaplane.solve.solver_options import Bias, Kind, Weighting

__all__ = ["SlidingProximalSVM"]


class SlidingProximalSVM(StatisticsClassifier):
    """A :class:`deltaplane.ProximalSVM` fitted on the last ``window`` rows of the ``partial_fit`` calls.

    On the same grid it is equal to that, bit for bit, however the stream is cut into calls: rows enter and leave as
    integers. Rows leave by their age alone, and estimators cannot be merged: for both, use
    :class:`deltaplane.AutomaticProximalSVM`. The grid rows of the window are held: 4 d bytes per row, or 8 d in blocks
    with a value beyond 2**30 steps. The other parameters are those of ``ProximalSVM``.
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter by its name.
        self,
        window: int = 1000,
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
        self.window = window
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
        """Forget everything, and learn the last ``window`` of rows [n, d] with labels [n]; returns self.

        The grid is fitted on all rows of the call. Raises ValueError if the last rows have fewer than two classes.
        """
        given = self._given(X, y, first=True)
        space = self._space_for(given.rows)
        live = Live(space, space.nothing(), {})
        admitted = self._admitted(live, given, self._length())
        if len(set(admitted.labelled.codes[-self._length() :].tolist())) < 2:
            raise ValueError(f"fit: expected rows of at least two classes in the last {self.window}, got one class")
        self._slide(live, LastRows(self._length()), _arriving(admitted), admitted.labelled.labels)
        self._solved()
        return self

    @blas_threads()
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn more rows [n, d] with labels [n], and forget the oldest; returns self.

        ``classes``: as in ``ProximalSVM``.
        """
        given = self._given(X, y, first=not hasattr(self, "live_"), to_grid=True)
        live = self._live_or_new(given.rows, classes)
        admitted = self._admitted(live, given, self._length())
        return self._slide(live, self._window(), _arriving(admitted), admitted.labelled.labels)

    @blas_threads()
    def predict_then_fit(self, X: Any, y: Any) -> Labels:
        """Test, then train, row by row: the class [n] of each row [n, d], predicted before the row is learned.

        Each row is predicted by the plane of the rows before it. If these determine no plane, the last plane is used,
        and ``refused_`` counts the row. With two classes, a number for C and a weighting by name, planes are solved
        many at a time (:mod:`deltaplane.solve.sliding_planes`), otherwise one by one, with the same bits. Rows that are
        left out are predicted, too. Sparse rows of the call are made dense.

        Raises :class:`deltaplane.errors.SolveRefused` if there is no plane before the first row, and
        :class:`deltaplane.RowsRefused` if a row of a table cannot be encoded, since it has no features.
        """
        self._solved()
        given = self._given(X, y, first=False, to_grid=True)
        answerable(given.unread, given.number)
        if is_sparse(given.rows):
            given = given._replace(rows=given.rows.toarray())
        rows, admitted = given.rows, self._admitted(self._fitted(), given)
        arriving = _arriving(admitted)
        passage = self._passage(arriving) if admitted.kept.all() else None
        if passage is None:
            return self._one_by_one(rows, admitted)
        classes, last = self.classes_, (self.coef_[0], -float(self.intercept_[0]))
        decisions, refused = decide(passage, rows, self.grid_, self._options(), last)
        self.refused_ = int(np.count_nonzero(refused))
        self._slide(self._fitted(), self._window(), arriving, admitted.labelled.labels)
        return np.asarray(classes[(decisions > 0.0).astype(np.intp)])

    def _passage(self, arriving: Rows) -> Passage | None:
        """The window and the rows that come, or None if planes cannot be solved many at a time."""
        live, present = self._fitted(), [text_of(label) for label in self.classes_]
        if live.declared is not None or self.C == "auto" or len(present) != 2:
            return None
        going, _ = self._window().moved_on(arriving)
        if len(going) > len(arriving) or not set(arriving.labels.tolist()) <= set(present):
            return None
        grams, nothing = live.space.total(live.statistics), Moments.zero(arriving.quantized.shape[1] + 1)
        own, rest = (grams.get(label, nothing) for label in reversed(present))
        passage = Passage(own, rest, arriving, going, present[1])
        return passage if fits(self._options(), passage) else None

    def _one_by_one(self, rows: Floats, admitted: Admitted) -> Labels:
        """The predictions of :meth:`predict_then_fit`, with one plane solved after the other."""
        self.refused_, arriving, learned = 0, _arriving(admitted), 0
        solution, classes, predicted = self._solved(), self.classes_, []
        for at in range(len(rows)):
            try:
                solution, classes = self._solved(), self.classes_
            except SolveRefused:
                self.refused_ += 1
            decisions = self._fitted().space.decisions(rows[at : at + 1], solution.coef, solution.intercept)[0]
            predicted.append(classes[int(decisions[0] > 0.0) if len(decisions) == 1 else int(decisions.argmax())])
            if admitted.kept[at]:
                coming = arriving[learned : learned + 1]
                self._slide(self._fitted(), self._window(), coming, admitted.labelled.labels)
                learned += 1
        return np.array(predicted)

    def _length(self) -> int:
        window: object = self.window
        if isinstance(window, (int, np.integer)) and not isinstance(window, bool) and window >= 1:
            return int(window)
        raise DefinitionError(f"window: expected a whole number of rows, at least 1, got {window!r}")

    def _window(self) -> LastRows:
        """The rows held, with the current ``window`` as the length."""
        return LastRows(self._length(), getattr(self, "_recent", ()))

    def _slide(self, live: Live, window: LastRows, arriving: Rows, labels: Mapping[str, Any]) -> Self:
        """Add the rows that arrive, and subtract the oldest ones beyond the window's length; returns self."""
        arriving = arriving[-self._length() :]
        going, window = window.moved_on(arriving)
        entered, left = (live.space.statistics(rows.quantized, Labelled.of(rows.labels)) for rows in (arriving, going))
        live = replace(live, statistics=live.statistics + (entered - left), labels={**live.labels, **labels})
        self._recent = window.blocks
        return self._hold(live)


def _arriving(admitted: Admitted) -> Rows:
    """The rows of a call that can be learned, for the window."""
    return Rows(admitted.quantized, np.array(admitted.labelled.texts, dtype=np.str_)[admitted.labelled.codes])
