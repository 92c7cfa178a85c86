"""The answers of a plane for raw rows: one rule for every caller, so that all of them get the same answers.

The scorer, a client's own model and a reader of an exported model all treat a row as it would be learned. A missing
value is filled if the definition says so. A row that no sample could have (a value is not a number, is infinite, or
lies outside the grid) is refused with a reason: nothing like it was learned, so the plane's answer would mean nothing.
A refused row does not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from deltaplane.arrays import Floats, Int64s
from deltaplane.errors import DefinitionError
from deltaplane.log.exported_model import ExportedModel
from deltaplane.log.model import Model
from deltaplane.solve.decision_values import ENTRIES
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition

__all__ = ["Answers", "answer"]


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a plane for n rows.

    ``chosen`` int64[n]: indices into the plane's classes, -1 if a row is refused. ``values`` float64[n, p]: decision
    values, NaN if a row is refused. ``refusals``: index of each refused row to the reason. ``version``: that of the
    model, or None if there is only a plane. ``probabilities`` float64[n, k]: those of the plane's classes, NaN if a row
    is refused; None if the model has none yet or is not calibrated.
    """

    plane: Plane
    chosen: Int64s
    values: Floats
    refusals: Mapping[int, str]
    version: int | None = None
    probabilities: Floats | None = None

    def of_model(self, model: Model | ExportedModel) -> Answers:
        """The same answers, with the version and the probabilities of a model that has the plane."""
        return replace(self, version=model.version, probabilities=model.probabilities(self.values))

    def probabilities_of(self, row: int) -> dict[str, float]:
        """Class label to probability of one row; they add to 1. Empty if the row is refused, or if there are none."""
        if row in self.refusals or self.probabilities is None:
            return {}
        return dict(zip(self.plane.classes, self.probabilities[row].tolist(), strict=True))

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def classes(self) -> list[str | None]:
        """The class of each row, or None if it is refused."""
        return [None if at < 0 else self.plane.classes[at] for at in self.chosen.tolist()]

    def decisions(self, row: int) -> dict[str, float]:
        """Class label to decision value of one row, empty if the row is refused.

        For a binary problem, the other class has the negative of the value of the positive class.
        """
        if row in self.refusals:
            return {}
        values = self.values[row].tolist()
        if self.plane.positive is None:
            return dict(zip(self.plane.classes, values, strict=True))
        return {label: values[0] if label == self.plane.positive else -values[0] for label in self.plane.classes}


def answer(
    plane: Plane,
    definition: StreamDefinition,
    rows: npt.ArrayLike,
    unread: Mapping[int, str] = MappingProxyType({}),
) -> Answers:
    """The answers of a plane of the definition's stream for raw rows float64[n, d], in the order of its features.

    ``unread``: index of each row that the definition's encoder refused to the reason; the features of these rows must
    be NaN. Raises :class:`DefinitionError` if the rows are not numbers or have another number of features.
    """
    asked = _rows(rows, definition)
    values, chosen = np.full((len(asked), len(plane.biases)), np.nan), np.full(len(asked), -1, dtype=np.int64)
    refusals: dict[int, str] = {}
    for piece in _pieces(definition, len(asked)):
        inputs, fits = definition.plane_inputs(asked[piece])
        if not fits.all():
            inputs, refused = inputs[fits], np.flatnonzero(~fits) + piece.start
            filled, _ = definition.filled(asked[refused])
            refusals.update(zip(refused.tolist(), definition.grid.faults(filled, definition.features), strict=True))
        decided = plane.decide(inputs)
        values[piece][fits], chosen[piece][fits] = decided, plane.choose(decided)
        if not np.isfinite(decided).all():
            # Learned weights cannot overflow on values of this grid, so such a model is wrong.
            for row in (np.flatnonzero(fits)[~np.isfinite(decided).all(axis=1)] + piece.start).tolist():
                values[row], chosen[row] = np.nan, -1
                refusals[row] = "the decision value is beyond float64; look at the weights of the model"
    return Answers(plane, chosen, values, dict(sorted({**refusals, **unread}.items())))


def _rows(rows: npt.ArrayLike, definition: StreamDefinition) -> Floats:
    features = len(definition.features)
    cure = "give the features in the definition's order"
    if definition.columns is not None:
        cure += ", encoded; or dictionaries, or a table, of the cells of columns.rules"
    try:
        numbers = np.asarray(rows, dtype=np.float64)
    except (ValueError, TypeError) as fault:
        raise DefinitionError(f"rows: expected numbers [n, {features}]: {fault}; {cure}") from None
    if numbers.ndim != 2 or numbers.shape[1] != features:
        raise DefinitionError(f"rows: expected numbers [n, {features}], got {list(numbers.shape)}; {cure}")
    return numbers


def _pieces(definition: StreamDefinition, rows: int) -> Iterator[slice]:
    """Spans of rows that are answered at once: few enough for the cache, or for the memory limit of a map."""
    if definition.feature_map.kind != "none":
        return definition.feature_map.pieces(rows)
    at_once = max(1, ENTRIES // len(definition.features))
    return (slice(start, min(start + at_once, rows)) for start in range(0, rows, at_once))
