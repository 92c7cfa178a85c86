"""The state of an :class:`deltaplane.AutomaticProximalSVM`: a stream in memory, original labels, and ids of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.columns.encoder import Encoder
from deltaplane.errors import DefinitionError, RowsRefused
from deltaplane.estimators.rows_given import RefusedRow, RowSpace, text_of
from deltaplane.estimators.sparse_rows import is_sparse
from deltaplane.estimators.statistics_classifier import Given, Live
from deltaplane.exact.grid import Grid
from deltaplane.exact.statistics import Statistics
from deltaplane.log.in_memory import InMemoryStream
from deltaplane.maps.feature_maps import NO_MAP, FeatureMap
from deltaplane.solve.solver_options import Kind, Weighting
from deltaplane.stream.column_tables import encoder_table
from deltaplane.stream.component_tables import feature_map_table, grid_table, nested_windows_of
from deltaplane.stream.declared import DeclaredWindow
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows
from deltaplane.stream.sample import Samples
from deltaplane.window.outcomes import SampleOutcome

__all__ = ["AutomaticState", "RowIds", "Settings", "definition_of", "facts_of", "state_of"]

_PLAIN = ("window", "C", "max_window", "chunk", "objective", "standardize", "kind", "on_refused", "feature_map")
"""The parameters that are saved unchanged."""


class Settings(NamedTuple):
    """The parameters of the estimator that define its stream."""

    window: str | int | Sequence[int]
    max_window: int
    C: Any
    chunk: int
    objective: str
    weighting: Weighting | Mapping[Any, float]
    standardize: bool
    kind: Kind

    @property
    def automatic(self) -> bool:
        """Whether neither window nor C is fixed."""
        return self.window == "auto" and self.C == "auto"

    @property
    def nested_windows(self) -> NestedWindows:
        """The windows. Raises :class:`DefinitionError` if they cannot be used."""
        return nested_windows_of(DeclaredWindow.of(self.window_table), 1, limits.WINDOWS)

    @property
    def window_table(self) -> dict[str, Any]:
        """The windows as the table of a definition. Raises :class:`DefinitionError` if they are no numbers of rows."""
        length: Any = self.window
        if length == "auto":
            return {"length": length, "max": self.max_window}
        lengths = [length] if isinstance(length, int | np.integer) else list(length)
        if not lengths or not all(isinstance(one, int | np.integer) and one >= 1 for one in lengths):
            raise DefinitionError(f"window: expected 'auto', a whole number of rows or several, got {length!r}")
        return {"length": [str(one) for one in lengths] if len(lengths) > 1 else str(lengths[0])}


def definition_of(
    settings: Settings,
    names: tuple[str, ...],
    grid: Grid,
    encoder: Encoder | None = None,
    declared: tuple[str, ...] = (),
    feature_map: FeatureMap = NO_MAP,
) -> StreamDefinition:
    """The definition of an estimator's stream, with one partition.

    Raises :class:`DefinitionError` if a parameter cannot be used.
    """
    chunk: object = settings.chunk
    if isinstance(chunk, bool) or not isinstance(chunk, int | np.integer) or chunk < 1:
        raise DefinitionError(f"chunk: expected a whole number of rows, at least 1, got {chunk!r}")
    solver: dict[str, Any] = {"kind": settings.kind, "standardize": settings.standardize}
    solver["objective"] = settings.objective
    solver["C"] = list(settings.C) if isinstance(settings.C, list | tuple) else settings.C
    weighting = settings.weighting
    if isinstance(weighting, Mapping):
        weighting = {text_of(label): weight for label, weight in weighting.items()}
    if weighting != "default":
        solver["weighting"] = weighting
    tables: dict[str, Any] = {
        "name": "estimator",
        "features": {"names": list(names)},
        "grid": grid_table(grid),
        "classes": {"names": list(declared)} if declared else {},
        "window": settings.window_table,
        "feature_map": feature_map_table(feature_map),
        "solver": solver,
    }
    if encoder is not None:
        tables["columns"] = encoder_table(encoder)
    return StreamDefinition.from_tables(tables)


@dataclass
class RowIds:
    """How rows are named: ``numbered`` from 1 on, or by given ids; None if not known yet. ``count`` rows have come."""

    numbered: bool | None = None
    count: int = 0

    def of_call(self, given: Any, rows: int) -> list[str]:
        """The ids of the next ``rows`` rows. Raises :class:`RowsRefused` if the ``given`` ids cannot be used."""
        numbered = given is None
        if self.numbered is not None and self.numbered != numbered:
            other = "numbers them itself" if self.numbered else "was given ids"
            raise RowsRefused(f"ids: this estimator {other} since its first row; do the same in every call")
        if numbered:
            return [str(number) for number in range(self.count + 1, self.count + rows + 1)]
        ids = self.texts(given)
        if len(ids) != rows:
            raise RowsRefused(f"ids: expected one for each of {rows} rows, got {len(ids)}")
        return ids

    def took(self, rows: int, *, numbered: bool) -> None:
        """Record that ``rows`` rows have come, and whether they are numbered."""
        self.count, self.numbered = self.count + rows, numbered

    @staticmethod
    def texts(ids: Any) -> list[str]:
        """Ids as texts. Raises :class:`RowsRefused` if one is neither a text nor an integer."""
        values = [ids] if isinstance(ids, str | int | np.integer) else list(ids)
        for value in values:
            if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
                raise RowsRefused(f"ids: expected texts or whole numbers, got {value!r}")
        return [str(value) for value in values]


@dataclass
class AutomaticState:
    """A stream in memory, the space of its rows, text to original label, declared classes, and ids.

    ``flat_because``: why the feature map ``auto`` became none; None if it became one, or was not asked for.
    """

    space: RowSpace
    stream: InMemoryStream
    labels: dict[str, Any]
    declared: tuple[str, ...] | None = None
    ids: RowIds = field(default_factory=RowIds)
    flat_because: str | None = None

    @property
    def live(self) -> Live:
        """The statistics of the longest window."""
        definition, merger = self.stream.definition, self.stream.merger
        grams = merger.statistics.grams(definition.nested_windows.longest)
        longest = Statistics(definition.dimension, {(0, label): moments for label, moments in grams.items()})
        return Live(self.space, longest, self.labels, self.declared)

    def samples(self, given: Given, part: slice, rows: Floats, ids: Sequence[str]) -> Samples:
        """Some rows of a call as one record."""
        codes = given.labelled.codes[part]
        unread = {row - part.start: why for row, why in given.unread.items() if part.start <= row < part.stop}
        # A record has only the labels of its own rows.
        used, recoded = np.unique(codes, return_inverse=True)
        table = tuple(given.labelled.texts[code] for code in used.tolist())
        samples = Samples.of_record(ids, 0, table, recoded.astype(np.int32).reshape(-1), rows)
        return replace(samples, unread=unread)

    def refused(self, given: Given, ids: Sequence[str], at_once: int) -> list[RefusedRow]:
        """The rows of a call that would not be learned, with reasons; nothing changes."""
        refused = []
        for begin in range(0, given.number, max(at_once, 1000)):
            part = slice(begin, begin + max(at_once, 1000))
            rows = given.rows[part]
            rows = rows.toarray() if is_sparse(rows) else rows
            names = ids[part]
            found = {one.row: one.reason for one in self.stream.refusals(self.samples(given, part, rows, names))}
            for row, name in enumerate(names):
                if row not in found and self.stream.partition.is_retired(name):
                    found[row] = f"its id {name!r} was retired; use a new id ({SampleOutcome.RETIRED_ID})"
            refused += [RefusedRow(begin + row, reason) for row, reason in sorted(found.items())]
        return refused

    def take_in(self, other: AutomaticState) -> None:
        """Learn the live rows of another state.

        Raises what :meth:`InMemoryStream.take_in` raises, and :class:`RowsRefused` if only one has given ids.
        """
        rows = other.stream.held(live=True)
        if self.ids.numbered != other.ids.numbered:
            raise RowsRefused("merge: one of the two was given ids and the other numbers its rows; give ids to both")
        if self.ids.numbered:
            rows = replace(rows, ids=self.ids.of_call(None, len(rows)))
        self.stream.take_in(other.stream, rows, with_retirements=not self.ids.numbered)
        self.ids.took(len(rows), numbered=bool(self.ids.numbered))
        self.labels.update(other.labels)


def facts_of(estimator: Any, state: AutomaticState) -> dict[str, Any]:
    """The saved values of an estimator besides its stream, for JSON."""
    parameters = {name: _plain(getattr(estimator, name)) for name in _PLAIN}
    if isinstance(estimator.feature_map, FeatureMap):
        del parameters["feature_map"]
    weighting = estimator.weighting
    pairs = [[_plain(k), float(v)] for k, v in weighting.items()] if isinstance(weighting, Mapping) else weighting
    names = getattr(estimator, "feature_names_in_", None)
    row_names = getattr(estimator, "_row_names", None)
    return {
        "parameters": {**parameters, "weighting": pairs},
        "grid_given": estimator.grid is not None,
        "map_given": isinstance(estimator.feature_map, FeatureMap),
        "flat_because": state.flat_because,
        "columns": "auto" if isinstance(estimator.columns, str) else estimator.columns is not None,
        "labels": [[text, _plain(label), np.asarray(label).dtype.str] for text, label in state.labels.items()],
        "declared": None if state.declared is None else list(state.declared),
        "numbered": state.ids.numbered,
        "count": state.ids.count,
        "features_in": estimator.n_features_in_,
        "names_in": None if names is None else [str(name) for name in names],
        "row_names": None if row_names is None else list(row_names),
    }


def state_of(facts: Mapping[str, Any], stream: InMemoryStream) -> tuple[dict[str, Any], dict[str, Any], AutomaticState]:
    """(parameters, attributes, state) of a saved estimator. Raises KeyError, TypeError or ValueError if it is none."""
    definition = stream.definition
    parameters = dict(facts["parameters"])
    if isinstance(parameters["weighting"], list):
        parameters["weighting"] = dict(parameters["weighting"])
    parameters["grid"] = definition.grid if facts["grid_given"] else None
    # Files of before the maps say nothing of one: those estimators are flat.
    parameters.setdefault("feature_map", definition.feature_map if facts.get("map_given") else "linear")
    columns = facts["columns"]
    parameters["columns"] = "auto" if columns == "auto" else definition.columns if columns else None
    labels = {text: _label(value, kind) for text, value, kind in facts["labels"]}
    space = RowSpace(definition.features, definition.grid, 1, definition.feature_map, definition.columns)
    declared = None if facts["declared"] is None else tuple(facts["declared"])
    ids, flat_because = RowIds(facts["numbered"], facts["count"]), facts.get("flat_because")
    state = AutomaticState(space, stream, labels, declared, ids, flat_because)
    fitted: dict[str, Any] = {"n_features_in_": facts["features_in"], "refused_rows_": ()}
    if facts["names_in"] is not None:
        fitted["feature_names_in_"] = np.array(facts["names_in"], dtype=object)
    fitted["_row_names"] = None if facts["row_names"] is None else tuple(facts["row_names"])
    return parameters, fitted, state


def _label(value: Any, kind: str) -> Any:
    return str(value) if kind == "|O" else np.array([value], dtype=kind)[0]


def _plain(value: Any) -> Any:
    """A number, a text or a boolean as a plain Python value, or a list of them."""
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value
