"""The extreme support vector machine: a random hidden layer, and an exact proximal machine on its outputs (paper 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from deltaplane.columns.encoder import Encoder
from deltaplane.errors import DefinitionError
from deltaplane.estimators.proximal import ProximalSVM
from deltaplane.estimators.rows_given import RowSpace
from deltaplane.estimators.sparse_rows import Rows, standards_of
from deltaplane.exact.grid import Grid
from deltaplane.maps.feature_maps import FeatureMap
from deltaplane.solve.cross_validation import FOLDS
from deltaplane.solve.solver_options import Kind, Weighting
from deltaplane.stream.component_tables import feature_map_of, fit_feature_map
from deltaplane.stream.declared import DeclaredMap

__all__ = ["ExtremeSVM"]


class ExtremeSVM(ProximalSVM):
    """A :class:`ProximalSVM` on ``Φ(x) = g(xW + β)``, with W and β drawn once from ``seed`` (paper 3).

    The mapped rows are on a grid, too, so ``fit``, ``partial_fit``, ``retire`` and ``merge`` are as exact. The parallel
    machine of the paper is ``merge``, and its incremental one is ``partial_fit``.

    - ``units``: outputs of the layer. ``seed``: 0 to 2**63 - 1; equal seeds give equal layers on every machine.
    - ``layer``: ``"hidden"`` (sigmoid, paper 3) or ``"fourier"`` (cosines and sines: the RBF kernel).
    - ``sigma``: the width of the layer, in deviations of the features; by default the root of their number.
    - ``feature_map``: a :class:`deltaplane.maps.feature_maps.FeatureMap` to use instead, such as the ``feature_map_``
      of another estimator. By default one is fitted, with the grid, on the rows of the first call. Estimators can only
      be merged if they were given the same grid and feature map.

    ``weighting="none"`` is that of the paper; by default classes are weighted. Other parameters are those of
    ``ProximalSVM``. ``coef_`` is over the units. The outputs of the layer depend on the grid integers of a row alone;
    values beyond 1024 deviations count as 1024.
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter by its name.
        self,
        units: int = 200,
        seed: int = 0,
        C: float | Literal["auto"] = "auto",
        *,
        layer: Literal["hidden", "fourier"] = "hidden",
        sigma: float | None = None,
        weighting: Weighting | Mapping[Any, float] = "default",
        standardize: bool = True,
        kind: Kind = "wlpsvm",
        grid: Grid | None = None,
        feature_map: FeatureMap | None = None,
        columns: Literal["auto"] | Encoder | None = None,
        on_refused: Literal["warn", "raise"] = "warn",
    ) -> None:
        super().__init__(
            C,
            weighting=weighting,
            standardize=standardize,
            kind=kind,
            grid=grid,
            columns=columns,
            on_refused=on_refused,
        )
        self.units = units
        self.seed = seed
        self.layer = layer
        self.sigma = sigma
        self.feature_map = feature_map

    @property
    def feature_map_(self) -> FeatureMap:
        """The layer, with its fitted centers and scales."""
        return self._fitted().space.feature_map

    def _space_for(self, X: Rows) -> RowSpace:
        features, grid = X.shape[1], self._grid_for(X)
        feature_map = self.feature_map
        if feature_map is None:
            for name in ("units", "seed"):
                if getattr(self, name) is None:
                    raise DefinitionError(f"feature_map.{name}: expected a whole number, got None")
            layer = DeclaredMap(kind=self.layer, units=self.units, seed=self.seed, sigma=self.sigma)
            given = layer.with_said(**standards_of(X, grid))
            feature_map = feature_map_of(fit_feature_map(given, grid, X), features)
        elif len(feature_map.centers) != features:
            raise DefinitionError(
                f"feature_map: expected one over {features} features, got one over {len(feature_map.centers)}"
            )
        encoder = None if self.columns is None else self._next_encoder
        return RowSpace(self._names(features), grid, FOLDS if self.C == "auto" else 1, feature_map, encoder)
