"""A proximal support vector machine on the last rows alone: what leaves the window is subtracted, exactly."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from deltaplane.errors import DefinitionError, SolveRefused
from deltaplane.estimators.rows import Floats, Labelled, text_of
from deltaplane.estimators.statistics_classifier import Labels, Live, StatisticsClassifier
from deltaplane.grid import Grid
from deltaplane.moments import Moments
from deltaplane.options import Bias, Kind, Weighting
from deltaplane.rowwise import Passage, decide, fits


class SlidingProximalSVM(StatisticsClassifier):
    """A :class:`deltaplane.estimators.ProximalSVM` fitted on the last ``window`` rows of the ``partial_fit`` calls.

    It is that, bit for bit, on the same grid: rows enter and leave as integers, however the stream is cut into calls.
    The grid rows of the window are held: 4 d bytes a row. The other parameters are those of ``ProximalSVM``.
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
    ) -> None:
        self.window = window
        self.C = C
        self.weighting = weighting
        self.standardize = standardize
        self.kind = kind
        self.bias = bias
        self.grid = grid

    def fit(self, X: Any, y: Any) -> Self:
        """Forget what is held, and learn the last ``window`` of rows [n, d] with labels [n].

        The grid is fitted on all of them, and all must fit it.
        """
        rows, labelled = self._given(X, y, first=True)
        space = self._space_for(rows)
        if len(set(labelled.codes[-self._length() :].tolist())) < 2:
            raise ValueError(f"fit: expected rows of at least two classes in the last {self.window}, got one class")
        live = Live(space, space.nothing(), {})
        self._slide(live, deque(), self._arriving(live, rows, labelled), labelled.labels)
        self._solved()
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn more rows [n, d] with labels [n], and forget the oldest. ``classes``: as in ``ProximalSVM``."""
        rows, labelled = self._given(X, y, first=not hasattr(self, "live_"))
        live = self._live_or_new(rows, classes)
        arriving = self._arriving(live, rows, labelled)
        return self._slide(live, getattr(self, "_recent", deque()), arriving, labelled.labels)

    def predict_then_fit(self, X: Any, y: Any) -> Labels:
        """Test, then train, row by row: predict each row [n, d] before it and its label [n] are learned.

        The class [n] of each row, from the plane of the rows before it. Where those determine no plane, the last one
        answers, and ``refused_`` counts it. With two classes, a number for C and weights by class the planes are made
        many at a time (:mod:`deltaplane.rowwise`), otherwise one after the other; they are the same bits.

        Raises :class:`deltaplane.errors.SolveRefused` where there is no plane to begin with.
        """
        self._solved()
        rows, labelled = self._given(X, y, first=False)
        arriving = self._arriving(self._fitted(), rows, labelled)
        passage = self._passage(arriving)
        if passage is None:
            return self._one_by_one(rows, arriving, labelled.labels)
        classes, last = self.classes_, (self.coef_[0], -float(self.intercept_[0]))
        decisions, refused = decide(passage, rows, self.grid_, self._options(), last)
        self.refused_ = int(np.count_nonzero(refused))
        self._slide(self._fitted(), self._recent, arriving, labelled.labels)
        return np.asarray(classes[(decisions > 0.0).astype(np.intp)])

    def _passage(self, arriving: _Rows) -> Passage | None:
        """The window and the rows that come, where planes can be made many at a time."""
        live, options, length = self._fitted(), self._options(), self._length()
        held = sum(map(len, self._recent))
        present = [text_of(label) for label in live.classes]
        if live.declared is not None or self.C == "auto" or held > length or len(present) != 2:
            return None
        if not len(arriving) or not set(arriving.texts.tolist()) <= set(present):
            return None
        grams, nothing = live.space.total(live.statistics), Moments.zero(arriving.placed.shape[1] + 1)
        placed, texts, going = arriving.placed, arriving.texts, max(0, held + len(arriving) - length)
        if going:
            placed = np.concatenate([*(part.placed for part in self._recent), placed])[:going]
            texts = np.concatenate([*(part.texts for part in self._recent), texts])[:going]
        passage = Passage(
            own=grams.get(present[1], nothing),
            rest=grams.get(present[0], nothing),
            coming=arriving.placed,
            coming_own=arriving.texts == present[1],
            going=placed[:going],
            going_own=texts[:going] == present[1],
        )
        return passage if fits(options, passage) else None

    def _one_by_one(self, rows: Floats, arriving: _Rows, labels: Mapping[str, Any]) -> Labels:
        """What the definition says, a row at a time."""
        self.refused_ = 0
        solution, classes, predicted = self._solved(), self.classes_, []
        for at in range(len(rows)):
            try:
                solution, classes = self._solved(), self.classes_
            except SolveRefused:
                self.refused_ += 1
            decisions = self._fitted().space.decisions(rows[at : at + 1], solution.coef, solution.intercept)[0]
            predicted.append(classes[int(decisions[0] > 0.0) if len(decisions) == 1 else int(decisions.argmax())])
            one, arriving = arriving.cut(1)
            self._slide(self._fitted(), self._recent, one, labels)
        return np.array(predicted, dtype=self.classes_.dtype if not predicted else None)

    def _length(self) -> int:
        window: object = self.window
        if isinstance(window, (int, np.integer)) and not isinstance(window, bool) and window >= 1:
            return int(window)
        raise DefinitionError(f"window: expected a whole number of rows, at least 1, got {window!r}")

    def _arriving(self, live: Live, rows: Floats, labelled: Labelled) -> _Rows:
        """The rows of a call on the grid, or a refusal before anything has changed."""
        self._check_declared(live, labelled)
        return _Rows(live.space.place(rows), np.array(labelled.texts)[labelled.codes])

    def _slide(self, live: Live, recent: deque[_Rows], arriving: _Rows, labels: Mapping[str, Any]) -> Self:
        """Add the rows, and subtract as many of the oldest as the window has too many."""
        length = self._length()
        arriving = arriving.last(length)
        recent = deque([*recent, arriving])
        excess = sum(len(rows) for rows in recent) - length
        change = live.space.statistics(arriving.placed, arriving.labelled())
        while excess > 0:
            oldest = recent.popleft()
            leaving, staying = oldest.cut(excess)
            change = change - live.space.statistics(leaving.placed, leaving.labelled())
            excess -= len(leaving)
            if len(staying):
                recent.appendleft(staying)
        self._recent = recent
        return self._hold(replace(live, statistics=live.statistics + change, labels={**live.labels, **labels}))


class _Rows:
    """Consecutive rows of the window: grid rows int32[n, d], and the texts [n] of their labels."""

    def __init__(self, placed: npt.NDArray[np.int32], texts: npt.NDArray[np.str_]) -> None:
        self.placed = placed
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def cut(self, at: int) -> tuple[_Rows, _Rows]:
        """The first ``at`` rows, and the rest."""
        return _Rows(self.placed[:at], self.texts[:at]), _Rows(self.placed[at:], self.texts[at:])

    def last(self, number: int) -> _Rows:
        """The last ``number`` rows, or all where there are fewer."""
        return _Rows(self.placed[-number:], self.texts[-number:])

    def labelled(self) -> Labelled:
        """Their labels, as the statistics want them."""
        return Labelled.of(self.texts)
