"""The automatic mode as an estimator: nothing to tune; rows leave its windows and can be retired by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Literal, Self, cast

import numpy as np

from deltaplane.arrays import Floats, Labels
from deltaplane.blas_threads import blas_threads
from deltaplane.columns.encoder import Encoder
from deltaplane.errors import DefinitionError, DefinitionMismatch, RowsRefused, SolveRefused, StateMismatch
from deltaplane.estimators.automatic_state import (
    AutomaticState,
    RowIds,
    Settings,
    definition_of,
    facts_of,
    state_of,
)
from deltaplane.estimators.map_of_rows import AskedMap, check_map, map_of_rows
from deltaplane.estimators.rows_given import RowSpace, several, text_of
from deltaplane.estimators.solutions import Solution, calibrated, solution_of, without_a_contest
from deltaplane.estimators.sparse_rows import Rows, is_sparse
from deltaplane.estimators.statistics_classifier import Given, Live, StatisticsClassifier, answerable
from deltaplane.exact.grid import Grid
from deltaplane.log.answers import answer
from deltaplane.log.in_memory import InMemoryStream
from deltaplane.log.model import Model
from deltaplane.log.reasons import LARGEST, reasons
from deltaplane.maps.feature_maps import FeatureMap
from deltaplane.solve.solver_options import Kind, SolverOptions, Weighting
from deltaplane.stream.sample import Retirement
from deltaplane.wire.saved_streams import read_saved_stream, write_saved_stream

__all__ = ["AutomaticProximalSVM"]


class AutomaticProximalSVM(StatisticsClassifier):
    """The automatic mode of ``deltaplane replay`` as an estimator: windows, C and thresholds need not be chosen.

    Nested windows, several C and two thresholds each give a candidate plane. Every row is scored by all of them before
    it is learned, and the published plane is their mean, weighted by their recent hits. Rows leave the windows when
    others come, and can be retired by id. On the same rows, cut into the same chunks, models and digests have the same
    bits as those of ``deltaplane replay`` with one partition.

    - ``window``: ``"auto"`` means nested windows of 100, 400, 1600, … rows up to ``max_window``; or a number of rows,
      or several. ``C``: ``"auto"``, a number, or several numbers.
    - ``chunk``: the number of rows that are learned together. Calls with more rows are cut; :meth:`learn_one` gathers
      this number.
    - ``objective``: the measure that is optimised, such as ``"kappa"``; others than the G-mean need declared classes.
    - ``weighting``: ``"default"`` tries several weightings if there are several windows or C.
    - ``feature_map``: ``"auto"`` puts curved candidates beside the flat ones if window and C are both ``"auto"``, and
      if the rows of the first call have up to 8 classes and 64 features; ``flat_because_`` says why it does not.
      ``"mixed"`` always does, ``"linear"`` or None never. A :class:`deltaplane.maps.feature_maps.FeatureMap`, such as
      the ``feature_map_`` of another estimator, is used as it is; others are fitted on the rows of the first call.

    ``kind``, ``standardize``, ``grid``, ``columns`` and ``on_refused`` are those of :class:`deltaplane.ProximalSVM`.
    The rows of the longest window are held: 4 d bytes per row and about 60 more.

    Raises :class:`deltaplane.errors.DefinitionError` if parameters cannot be used, and
    :class:`deltaplane.errors.SolveRefused` if no plane has been determined yet.
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter by its name.
        self,
        window: Literal["auto"] | int | Sequence[int] = "auto",
        C: float | Literal["auto"] | Sequence[float] = "auto",
        *,
        max_window: int = 102_400,
        chunk: int = 100,
        objective: str = "gmean",
        feature_map: AskedMap = "auto",
        weighting: Weighting | Mapping[Any, float] = "default",
        standardize: bool = True,
        kind: Kind = "wlpsvm",
        grid: Grid | None = None,
        columns: Literal["auto"] | Encoder | None = None,
        on_refused: Literal["warn", "raise"] = "warn",
    ) -> None:
        self.window = window
        self.C = cast("Any", C)  # Several may be given here, unlike elsewhere.
        self.max_window = max_window
        self.chunk = chunk
        self.objective = objective
        self.feature_map = feature_map
        self.weighting = weighting
        self.standardize = standardize
        self.kind = kind
        self.grid = grid
        self.columns = columns
        self.on_refused = on_refused

    _row_names: tuple[str, ...] | None = None
    """The names of the features if the first rows came by name, or None if they came as arrays or tables."""

    retirements_: Mapping[str, str]
    """Id to outcome of the last :meth:`retire`: ``retired``, ``waiting``, ``duplicate`` or ``expired``."""

    # Learning --------------------------------------------------------------------------------------------------------

    @blas_threads()
    def fit(self, X: Any, y: Any, ids: Any = None) -> Self:
        """Forget everything, and learn rows [n, d] with labels [n] in their order, chunk by chunk; returns self."""
        self.__dict__.pop("_gathered", None)
        self._row_names = None
        given = self._given(X, y, first=True)
        several(np.array(given.labelled.texts))
        state = self._begun(given, np.asarray(y) if self.objective != "gmean" else None)
        self._learn(state, given, ids)
        self._solved()
        return self

    @blas_threads()
    def partial_fit(self, X: Any, y: Any, classes: Any = None, ids: Any = None) -> Self:
        """Learn more rows [n, d] with labels [n], chunk by chunk; returns self.

        ``ids`` [n]: texts or integers to retire rows by; without them rows are numbered from 1 on. A row with an id
        that came before replaces the earlier one. ``classes`` [k]: at the first call, declares all classes.
        """
        self._learn_gathered()
        given = self._given(X, y, first=not hasattr(self, "live_"))
        self._learn(self._state_for(given, classes), given, ids)
        return self

    @blas_threads()
    def predict_then_fit(self, X: Any, y: Any, classes: Any = None, ids: Any = None) -> Labels:
        """Test, then train: the predicted class [n] of each row; then the rows are learned with their labels.

        Each chunk is predicted by the plane of the rows before it. Rows that come before there is a plane get None, in
        an array of objects. Raises :class:`deltaplane.RowsRefused` if a row of a table cannot be encoded.
        """
        self._learn_gathered()
        given = self._given(X, y, first=not hasattr(self, "live_"))
        answerable(given.unread, given.number)
        predicted: list[Labels] = []
        self._learn(self._state_for(given, classes), given, ids, predicted)
        return np.concatenate(predicted)

    def learn_one(self, x: Mapping[str, Any], y: Any, id: str | int | None = None) -> None:  # noqa: A002 - as samples have it.
        """Learn one row by name, as River does: rows are gathered until there is a chunk of them.

        Any other call that learns, retires, merges, saves or asks for the digest first learns the gathered rows, except
        :meth:`fit`, which drops them. Raises :class:`deltaplane.RowsRefused` for a label or an id that cannot be used,
        and :class:`deltaplane.errors.DefinitionError` for other features or values that are not numbers; then the row
        is not gathered.
        """
        if y is None or y != y:  # noqa: PLR0124 - what is not equal to itself is not a number.
            raise RowsRefused(f"learn_one: expected a label, got {y!r}")
        RowIds.texts([] if id is None else [id])
        gathered: list[Any] = self.__dict__.setdefault("_gathered", [])
        if self.columns is None:
            first = gathered[0][0] if gathered else x
            known = self._row_names or tuple(map(str, first))
            self._numbers([x], known if not hasattr(self, "live_") else self._names(self.n_features_in_))
        gathered.append((dict(x), y, id))
        if len(gathered) >= self.chunk:
            self._learn_gathered()

    def predict_one(self, x: Mapping[str, Any]) -> Any:
        """The class of one row by name, by the newest plane, or None before there is one."""
        if getattr(self, "live_", None) is None or self._state.stream.model is None:
            return None
        if self._state.stream.model.plane is None:
            return None
        return self.predict(self._rows_by_name([x]))[0]

    def for_river(self) -> Any:
        """This estimator as a River classifier: ``progressive_val_score(rows, model.for_river(), metric)``.

        Raises :class:`deltaplane.ExtraMissing` if River is not installed.
        """
        # River takes a second to import, and is another extra.
        from deltaplane.estimators.river_classifier import RiverClassifier  # noqa: PLC0415

        return RiverClassifier(self)

    @blas_threads()
    def _learn_gathered(self) -> None:
        gathered = self.__dict__.pop("_gathered", [])
        if not gathered:
            return
        if not hasattr(self, "live_"):
            self._row_names = None if self.columns is not None else tuple(map(str, gathered[0][0]))
        labels, ids = [label for _, label, _ in gathered], [one for _, _, one in gathered]
        X = self._rows_by_name([row for row, _, _ in gathered])
        try:
            self.partial_fit(X, np.array(labels), ids=None if ids == [None] * len(ids) else ids)
        except RowsRefused as fault:
            # The other rows are learned by the next call.
            self._gathered = [row for at, row in enumerate(gathered) if at not in fault.refusals]
            raise

    def _rows_by_name(self, records: Sequence[Mapping[str, Any]]) -> Any:
        """Rows of numbers in the order of the features, or a table if columns have rules."""
        if self.columns is not None:
            names = getattr(self, "feature_names_in_", None)
            if names is None:
                return list(records)
            return [{str(name): record.get(name) for name in names} for record in records]
        return self._numbers(records, self._row_names or self._names(self.n_features_in_))

    @staticmethod
    def _numbers(records: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> Floats:
        """Rows float64[n, d] of numbers in the order of their names."""
        for record in records:
            if len(record) != len(names) or any(name not in record for name in names):
                raise DefinitionError(
                    f"row: expected the features {', '.join(names[:8])}, got {', '.join(map(str, record))[:200]};"
                    " with columns='auto' a row may lack some"
                )
        try:
            return np.array([[record[name] for name in names] for record in records], dtype=np.float64)
        except (TypeError, ValueError) as fault:
            raise DefinitionError(f"row: expected numbers ({fault}); with columns='auto' texts are taken") from None

    # Unlearning and merging ------------------------------------------------------------------------------------------

    @blas_threads()
    def retire(self, ids: Any) -> Self:
        """Unlearn the rows with these ids; returns self. The statistics are then those without these rows.

        ``retirements_`` has the outcome of each id. ``waiting``: no row with the id has come; if one comes, it is not
        learned. ``expired``: the row has left every window already.
        """
        self._learn_gathered()
        self._fitted()
        stream = self._state.stream
        learned = stream.learn(stream.nothing(), [Retirement(one, "", 0) for one in RowIds.texts(ids)])
        self.retirements_ = {note.id: str(note.outcome) for note in learned.retirements}
        return self._take(self._state)

    @blas_threads()
    def merge(self, other: AutomaticProximalSVM) -> Self:
        """Learn all live rows that ``other`` holds, as if they came now; returns self. ``other`` stays as it is.

        The statistics are those of one estimator that was given its rows and then those of ``other``. A row that both
        have under one id counts once, and ids that ``other`` has retired are retired here. If rows are numbered, those
        of ``other`` get the next numbers. The hits of the candidates add if both have the same feature map; otherwise
        those of ``other`` are left out.

        Raises :class:`deltaplane.errors.DefinitionMismatch` if features, grid, columns, classes or windows differ,
        :class:`deltaplane.errors.StateMismatch` if rows of ``other`` are refused here, and
        :class:`deltaplane.RowsRefused` if only one of the two was given ids.
        """
        if type(other) is not type(self):
            raise DefinitionMismatch(f"merge: expected another {type(self).__name__}, got {type(other).__name__}")
        self._learn_gathered()
        other._learn_gathered()
        self._fitted()
        other._fitted()
        mine, theirs = self._state, other._state
        try:
            mine.take_in(theirs)
        except (DefinitionMismatch, StateMismatch) as fault:
            raise type(fault)(
                f"merge: {fault}; give both one grid, and the same columns, classes and windows"
            ) from None
        return self._take(mine)

    # Saving ----------------------------------------------------------------------------------------------------------

    def save(self, file: BinaryIO) -> None:
        """Write the whole state to a file that is open for writing bytes; the file contains no code."""
        self._learn_gathered()
        self._fitted()
        file.write(write_saved_stream(self._state.stream, facts_of(self, self._state)))

    @classmethod
    def load(cls, file: BinaryIO) -> Self:
        """The estimator that :meth:`save` wrote; it continues bit for bit.

        Raises :class:`deltaplane.errors.WireError` if the file is something else, or is damaged.
        """
        facts, stream = read_saved_stream(file.read())
        parameters, fitted, state = state_of(facts, stream)
        model = cls(**parameters)
        for name, value in fitted.items():
            setattr(model, name, value)
        return model._take(state)

    # What is asked ---------------------------------------------------------------------------------------------------

    @property
    def model_(self) -> Model:
        """The newest model of the stream: version, plane, candidates with their shares, prequential scores."""
        self._fitted()
        model = self._state.stream.model
        assert model is not None, "what is fitted has a model"
        return model

    def predict_proba(self, X: Any) -> Floats:
        """The probability float64[n, k] of each of ``classes_``, calibrated on rows scored before they were learned.

        Those of a row add to 1. The predicted class need not be the most probable one, since the threshold is that for
        the ``objective``. Before rows of two classes have been scored, which takes more than one chunk, the
        probabilities of every row are the shares of the classes in the live rows. Raises what
        :meth:`decision_function` raises.
        """
        decisions = self.decision_function(X)
        decisions = decisions.reshape(len(decisions), -1)
        model, classes = self.model_, self.classes_
        texts = [text_of(label) for label in classes]
        if model.plane is None or (found := calibrated(model, model.plane, texts, decisions)) is None:
            counts = np.array([self.class_counts_.get(label, 0) for label in classes], dtype=np.float64)
            return np.tile(counts / counts.sum(), (len(decisions), 1))
        return found

    @blas_threads()
    def reasons(self, X: Any, most: int = LARGEST) -> list[list[tuple[str, float]]]:
        """For each row [n, d] the ``most`` columns that contribute most to the decision value of its class.

        Each is a pair of the column and its contribution; see :mod:`deltaplane.log.reasons`. Raises
        :class:`deltaplane.RowsRefused` if a row cannot be encoded or lies outside the grid, and what
        :meth:`decision_function` raises.
        """
        plane, definition = self._solved().plane, self._state.stream.definition
        if plane is None:
            raise SolveRefused("reasons: only one of the declared classes has rows")
        features, unread = self._features_of(X)
        rows = self._checked(features, first=False, ensure_all_finite="allow-nan" if unread else True)
        rows = rows.toarray() if is_sparse(rows) else rows
        answers = answer(plane, definition, rows, unread)
        answerable(answers.refusals, len(answers))
        found = reasons(plane, definition, rows, answers.chosen)
        assert found is not None, "planes of a stream in memory have means"
        return [found.largest(row, most) for row in range(len(answers))]

    @property
    def feature_map_(self) -> FeatureMap:
        """The feature map; its ``kind`` is ``"none"`` if all candidates are flat."""
        return self._fitted().space.feature_map

    @property
    def flat_because_(self) -> str | None:
        """Why ``feature_map="auto"`` has no curved candidates; None if it has, or another map was asked for."""
        self._fitted()
        return self._state.flat_because

    @property
    def classes_(self) -> Labels:
        """The classes, sorted: the declared ones, or without declaration those with rows or a plane."""
        live = self._fitted()
        plane = self.model_.plane
        if live.declared is not None or plane is None:
            return live.classes
        texts = {label for (_, label), _ in live.statistics.items()} | {*plane.classes}
        return np.array(sorted(live.labels[text] for text in texts))

    def digest(self) -> str:
        """The SHA-256 of the exact statistics of all windows, in hexadecimal, as of a stream with these live rows."""
        self._learn_gathered()
        return self.model_.digest

    def _solve(self, live: Live) -> Solution:
        """The newest plane of the stream: the last good one, if the newest rows determine none."""
        model, texts = self.model_, [text_of(label) for label in self.classes_]
        if model.plane is None:
            counts = live.space.total(live.statistics)
            if live.declared is not None and len(counts) < 2:
                return without_a_contest(texts, counts.keys(), live.space.mapped_grid.features, model.options.C)
            raise SolveRefused(model.refusal or "there is no plane yet")
        return solution_of(model.plane, texts, model.plane.C)

    # Within ----------------------------------------------------------------------------------------------------------

    @property
    def _settings(self) -> Settings:
        return Settings(
            window=self.window,
            max_window=self.max_window,
            C=self.C,
            chunk=self.chunk,
            objective=self.objective,
            weighting=self.weighting,
            standardize=self.standardize,
            kind=self.kind,
        )

    def _options(self, C: float = 1.0) -> SolverOptions:  # noqa: ARG002 - the C is the stream's own.
        """The solver's options, with every parameter checked. Raises :class:`DefinitionError`."""
        check_map(self.feature_map)
        return definition_of(self._settings, ("x0",), Grid(np.ones(1), np.zeros(1)), None, ("0", "1")).solver

    def _names(self, features: int) -> tuple[str, ...]:
        return getattr(self, "_row_names", None) or super()._names(features)

    def _space_for(self, X: Rows) -> RowSpace:
        encoder = None if self.columns is None else self._next_encoder
        return RowSpace(self._names(X.shape[1]), self._grid_for(X), 1, encoder=encoder)

    def _state_for(self, given: Given, classes: Any) -> AutomaticState:
        """The current state, against which ``classes`` are checked, or an empty state on a new grid."""
        if hasattr(self, "live_"):
            self._live_or_new(given.rows, classes)
            return self._state
        return self._begun(given, classes)

    def _begun(self, given: Given, classes: Any) -> AutomaticState:
        live = self._new_live(given.rows, classes)
        settings, flat, declared = self._settings, live.space, live.declared or ()
        feature_map, flat_because = map_of_rows(self.feature_map, given, flat.grid, settings, len(declared))
        space = RowSpace(flat.names, flat.grid, 1, feature_map, flat.encoder)
        definition = definition_of(settings, space.names, space.grid, space.encoder, declared, feature_map)
        stream = InMemoryStream(definition)
        return AutomaticState(space, stream, dict(live.labels), live.declared, flat_because=flat_because)

    def _learn(self, state: AutomaticState, given: Given, ids: Any, predicted: list[Labels] | None = None) -> None:
        """Learn the rows of a call in chunks; the predictions before that are appended to ``predicted``."""
        names = state.ids.of_call(ids, given.number)
        self._tell_refused(state.refused(given, names, self.chunk), given)
        state.labels.update(given.labelled.labels)
        state.ids.took(given.number, numbered=ids is None)
        for begin in range(0, given.number, self.chunk):
            part = slice(begin, begin + self.chunk)
            rows = given.rows[part]
            rows = rows.toarray() if is_sparse(rows) else rows
            if predicted is not None:
                predicted.append(self._predicted(state, rows))
            state.stream.learn(state.samples(given, part, rows, names[part]))
            self._take(state)

    def _predicted(self, state: AutomaticState, rows: Any) -> Labels:
        model = state.stream.model
        if model is None or model.plane is None:
            return np.full(len(rows), None, dtype=object)
        chosen = model.plane.choose(state.space.decisions(rows, model.plane.weights, -model.plane.biases))
        return np.array([state.labels[label] for label in model.plane.classes])[chosen]

    def _take(self, state: AutomaticState) -> Self:
        """Replace the state and forget the plane of the old one; returns self."""
        self._state = state
        return self._hold(state.live)
