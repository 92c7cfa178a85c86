"""The tables of a definition file, and the part of a stream definition that each of them describes.

Some functions that read a table have their inverse after them. All raise :class:`~deltaplane.errors.DefinitionError`
with the key, what was expected and what came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import Grid
from deltaplane.maps.feature_maps import UNITS, UNITS_OF_AUTO, FeatureMap
from deltaplane.maps.standards import default_sigma, fit_standards
from deltaplane.solve.candidates import AUTOMATIC_C, AUTOMATIC_WEIGHTINGS
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import Bias, Kind, SolverOptions
from deltaplane.stream.automatic_map import units_of_windows, why_flat
from deltaplane.stream.declared import DeclaredGrid, DeclaredMap, DeclaredPrior, DeclaredSolver, DeclaredWindow
from deltaplane.stream.nested_windows import AUTOMATIC_LONGEST, NestedWindows, Window
from deltaplane.table_values import whole

__all__ = [
    "choices_of",
    "feature_map_of",
    "feature_map_table",
    "fit_feature_map",
    "grid_of",
    "grid_table",
    "nested_windows_of",
    "prior_of",
    "prior_table",
    "solver_of",
    "weightings_of",
]


def grid_of(given: DeclaredGrid, features: int) -> Grid:
    """The grid that is declared; without ``range_bits``, it has the range of early versions."""
    if given.steps is None:
        raise DefinitionError(
            "grid: expected steps = [...] (one a feature), got none; let replay fit one and write it down"
        )
    if len(given.steps) != features:
        raise DefinitionError(f"grid: expected {features} steps, one a feature, got {len(given.steps)}")
    offsets = np.zeros(features) if given.offsets is None else np.array(given.offsets)
    return Grid(
        np.array(given.steps), offsets, limits.GRID_RANGE_BITS if given.range_bits is None else given.range_bits
    )


def grid_table(grid: Grid) -> dict[str, Any]:
    """The table ``[grid]`` of a grid: the inverse of :func:`grid_of`. The range of early versions is left out."""
    table: dict[str, Any] = {"steps": grid.steps.tolist(), "offsets": grid.offsets.tolist()}
    return table if grid.range_bits == limits.GRID_RANGE_BITS else table | {"range_bits": grid.range_bits}


def feature_map_of(given: DeclaredMap, features: int) -> FeatureMap:
    """The map that is declared, for rows of so many features; it must be complete: see :func:`fit_feature_map`.

    By default there are ``UNITS`` units, and sigma is the root of the number of features, or 1 in the mixed map.
    """
    kind: Any = "none" if given.is_none else "mixed" if given.kind == "auto" else given.kind
    said: dict[str, Any] = {key: getattr(given, key) for key in given.table if key != "kind"}
    if kind != "none":
        said = {"units": UNITS, "sigma": default_sigma(features, kind), **said}
        for key in ("centers", "scales"):
            if key not in said:
                raise DefinitionError(
                    f"feature_map: expected {key} = [...] (one a feature), got none; let replay fit them and write"
                    " them down"
                )
            if len(said[key]) != features:
                raise DefinitionError(f"feature_map.{key}: expected {features}, one a feature, got {len(said[key])}")
    return FeatureMap(kind, **said)


def feature_map_table(feature_map: FeatureMap) -> dict[str, Any]:
    """The table ``[feature_map]`` of a map: the inverse of :func:`feature_map_of`."""
    if feature_map.kind == "none":
        return {"kind": "none"}
    return {
        "kind": feature_map.kind,
        "units": feature_map.units,
        "seed": feature_map.seed,
        "sigma": feature_map.sigma,
        "centers": list(feature_map.centers),
        "scales": list(feature_map.scales),
        **({"curved": list(feature_map.curved)} if feature_map.curved else {}),
    }


def fit_feature_map(
    given: DeclaredMap, grid: Grid, rows: Floats, nested_windows: NestedWindows | None = None, classes: int = 2
) -> DeclaredMap:
    """The map made complete: centers and scales that it lacks are fitted on the first rows float64[n, d].

    Kind ``auto`` becomes the mixed map, or none for the reasons of
    :func:`deltaplane.stream.automatic_map.why_flat`. A mixed map whose units are not named has as many as the longest
    of the nested windows can have, at most ``UNITS_OF_AUTO``; named units are an upper bound for kind ``auto``.
    """
    automatic = given.kind == "auto"
    if automatic or (given.kind == "mixed" and given.units is None):
        wanted = UNITS_OF_AUTO if given.units is None else whole(given.units, "feature_map.units")
        most = min(wanted, limits.FEATURES - grid.features)
        if automatic and (most < 2 or why_flat(grid.features, len(rows), classes, nested_windows, most) is not None):
            return DeclaredMap(kind="none")
        # A window that has no unit is refused by name when the definition is made.
        units = units_of_windows(most, nested_windows) // 2 * 2 or UNITS_OF_AUTO
        given = replace(given, kind="mixed", units=units)
    if given.is_complete:
        return given
    standards = fit_standards(grid, rows)
    fitted: dict[str, Any] = {
        "centers": tuple(center for center, _ in standards),
        "scales": tuple(scale for _, scale in standards),
        "sigma": default_sigma(len(standards), str(given.kind)),
    }
    if given.kind == "mixed":
        # On two values, as those of a flag, every function is linear.
        several = (len(np.unique(column[np.isfinite(column)])) > 2 for column in rows.T)
        fitted["curved"] = tuple(at for at, is_curved in enumerate(several) if is_curved)
    return replace(given, **{key: value for key, value in fitted.items() if getattr(given, key) is None})


def nested_windows_of(given: DeclaredWindow, partitions: int, most: int) -> NestedWindows:
    """The windows that are declared. ``most``: the largest number of windows if their lengths are automatic."""
    length = "auto" if given.length is None else given.length
    pane, keep_rows = 1 if given.pane is None else given.pane, given.keep_rows is not False
    if length == "auto":
        longest = AUTOMATIC_LONGEST if given.max is None else given.max
        return replace(NestedWindows.automatic(longest, partitions, most), pane_rows=pane, keep_rows=keep_rows)
    if given.max is not None:
        raise DefinitionError(f"window.max: it bounds length = 'auto', and length is {length!r}; leave one of them out")
    lengths = (length,) if isinstance(length, str) else length
    return NestedWindows(tuple(map(Window.parse, lengths)), pane, keep_rows)


def choices_of(given: DeclaredSolver) -> tuple[float, ...]:
    """The values of C that the candidates of a solver have; empty if C is one fixed number."""
    if given.C in (None, "auto"):
        return AUTOMATIC_C
    return given.C if isinstance(given.C, tuple) else ()


def weightings_of(given: DeclaredSolver, *, several: bool) -> tuple[str, ...]:
    """The class weightings that the candidates of a solver have; empty if one is fixed.

    ``several``: whether there are several windows or values of C. Then the weightings of ``AUTOMATIC_WEIGHTINGS`` are
    tried by default, if the kind is ``wlpsvm``.
    """
    by_default = several and given.weighting is None and given.kind in (None, "wlpsvm")
    if given.weighting == "auto" or by_default:
        return AUTOMATIC_WEIGHTINGS
    return given.weighting if isinstance(given.weighting, tuple) else ()


def solver_of(given: DeclaredSolver, choices: tuple[float, ...]) -> SolverOptions:
    """The solver's options that are declared, with the middle one of several values of C."""
    weighting: Any = "default" if given.weighting is None else given.weighting
    return SolverOptions(
        kind=cast("Kind", "wlpsvm" if given.kind is None else given.kind),
        weighting="default" if weighting == "auto" or isinstance(weighting, tuple) else weighting,
        C=choices[len(choices) // 2] if choices else cast("float", given.C),
        standardize=given.standardize is not False,
        bias=cast("Bias", "default" if given.bias is None else given.bias),
    )


def prior_of(given: DeclaredPrior, features: Sequence[str]) -> Plane | None:
    """The plane of a prior that is declared, its weights in the order of ``features``; None if nothing is said of one.

    New planes are drawn towards the prior (paper 5). A new stream has few rows, and a plane learned elsewhere has seen
    more. To solve towards it instead of towards zero needs no other statistics:
    ``O = O₀ + (I/C + Σ σ_c M_c)⁻¹ (Σ ±σ_c v_c − Σ σ_c M_c O₀)``.
    Features that it lacks get the weight 0. Raises :class:`DefinitionError` if it has a feature that the stream does
    not have, if its parts do not fit together, or if a number is not finite.
    """
    if given == DeclaredPrior():
        return None
    classes, positive, named = given.classes or (), given.positive, given.features or tuple(features)
    if len(classes) < 2 or list(classes) != sorted(set(classes)) or (positive is not None and len(classes) != 2):
        raise DefinitionError(f"prior.classes: expected two or more in sorted order (two with positive), got {classes}")
    if positive is not None and positive not in classes:
        raise DefinitionError(f"prior.positive: expected one of {', '.join(classes)}, got {positive!r}")
    if unknown := [name for name in named if name not in features]:
        raise DefinitionError(
            f"prior.features: the stream has no feature {unknown[0]!r}; take a plane of the same features and map"
        )
    if len(set(named)) < len(named):
        raise DefinitionError(f"prior.features: expected names that differ, got {len(named)} of {len(set(named))}")
    planes, rows, biases = len(classes) if positive is None else 1, given.weights or (), given.biases or ()
    if len(rows) != planes or len(biases) != planes or {len(row) for row in rows} != {len(named)}:
        raise DefinitionError(
            f"prior: expected {planes} rows of {len(named)} weights and {planes} biases, got {len(rows)} of"
            f" {sorted({len(row) for row in rows})} and {len(biases)}"
        )
    weights = np.zeros((planes, len(features)))
    weights[:, [features.index(name) for name in named]] = rows
    plane = Plane(classes, positive, weights, np.array(biases), {}, 1.0, 1.0, dict.fromkeys(classes, 0))
    if not (np.isfinite(weights).all() and np.isfinite(plane.biases).all()):
        raise DefinitionError("prior: expected finite weights and biases, got others; take a plane that was solved")
    return plane


def prior_table(plane: Plane, features: Sequence[str]) -> dict[str, Any]:
    """The table ``[prior]`` of a plane over some features: the inverse of :func:`prior_of`."""
    table: dict[str, Any] = {"classes": list(plane.classes), "features": list(features)}
    if plane.positive is not None:
        table["positive"] = plane.positive
    return table | {"weights": plane.weights.tolist(), "biases": plane.biases.tolist()}
