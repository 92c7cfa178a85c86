"""The feature map of an estimator's stream: given, asked for by name, or decided from the rows of the first call."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.estimators.automatic_state import Settings
from deltaplane.estimators.sparse_rows import is_sparse
from deltaplane.estimators.statistics_classifier import Given
from deltaplane.exact.grid import Grid
from deltaplane.maps.feature_maps import NO_MAP, FeatureMap
from deltaplane.stream.automatic_map import why_flat
from deltaplane.stream.component_tables import feature_map_of, fit_feature_map
from deltaplane.stream.declared import DeclaredMap

__all__ = ["AskedMap", "MapChosen", "check_map", "map_of_rows"]

AskedMap: TypeAlias = Literal["auto", "mixed", "linear"] | FeatureMap | None
"""The parameter ``feature_map`` of an estimator; None means ``"linear"``."""


class MapChosen(NamedTuple):
    """The map of a stream. ``flat_because``: why ``auto`` became none; None if it did not, or was not asked for."""

    feature_map: FeatureMap
    flat_because: str | None = None


def check_map(asked: object) -> None:
    """Raise :class:`DefinitionError` if ``asked`` is no value of the parameter ``feature_map``."""
    if not (asked is None or isinstance(asked, FeatureMap) or asked in ("auto", "mixed", "linear")):
        raise DefinitionError(
            f"feature_map: expected 'auto', 'mixed', 'linear' (or None), or a FeatureMap, got {asked!r:.100}"
        )


def map_of_rows(asked: AskedMap, given: Given, grid: Grid, settings: Settings, classes: int) -> MapChosen:
    """The map that is ``asked`` for, fitted on the first rows of the first call if it is not complete.

    ``classes``: the number of declared classes; 0 if they are open, then those of the first rows count. The rows are as
    many as a replay fits a map on, so on the same rows and grid it is the map of a replay. Raises
    :class:`DefinitionError` if a given map is one over a different number of features.
    """
    features = given.rows.shape[1]
    if isinstance(asked, FeatureMap):
        if asked.kind != "none" and len(asked.centers) != features:
            raise DefinitionError(
                f"feature_map: expected one over {features} features, got one over {len(asked.centers)}"
            )
        return MapChosen(asked)
    if asked not in ("auto", "mixed"):
        return MapChosen(NO_MAP)
    if asked == "auto" and not settings.automatic:
        return MapChosen(NO_MAP, "window or C is fixed; the map 'mixed' curves it all the same")
    readable = np.ones(given.number, dtype=np.bool_)
    readable[list(given.unread)] = False
    places = np.flatnonzero(readable)[: limits.GRID_FIT_ROWS]
    nested_windows, classes = settings.nested_windows, classes or len(np.unique(given.labelled.codes[places]))
    if asked == "auto" and (why := why_flat(features, len(places), classes, nested_windows)) is not None:
        return MapChosen(NO_MAP, why)
    rows: Any = given.rows[places]
    rows = rows.toarray() if is_sparse(rows) else rows
    fitted = fit_feature_map(DeclaredMap(kind=asked), grid, rows, nested_windows, classes)
    return MapChosen(feature_map_of(fitted, features))
