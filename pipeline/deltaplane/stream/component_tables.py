"""The tables of a definition file, and the part of a stream definition that each of them describes.

Some functions that read a table have their inverse after them. All raise :class:`~deltaplane.errors.DefinitionError`
with the key, what was expected and what came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import Grid
from deltaplane.maps.feature_maps import UNITS, UNITS_OF_AUTO, FeatureMap
from deltaplane.maps.standards import default_sigma, fit_standards
from deltaplane.solve.candidates import AUTOMATIC_C, AUTOMATIC_WEIGHTINGS
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.nested_windows import AUTOMATIC_LONGEST, NestedWindows, Window
from deltaplane.table_values import Tables, flag, label, list_of, number, numbers, strings, whole

__all__ = [
    "KEYS",
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

KEYS: dict[str, frozenset[str]] = {
    "": frozenset(
        {"name", "partitions", "partitioner", "max_skew", "columns", "features", "grid", "feature_map", "prior"}
        | {"classes", "window", "solver", "input", "intake", "service", "kafka"}
    ),
    "columns": frozenset({"missing", "rules"}),
    "features": frozenset({"names", "missing"}),
    "grid": frozenset({"steps", "offsets", "range_bits"}),
    "feature_map": frozenset({"kind", "units", "seed", "sigma", "centers", "scales", "curved"}),
    "prior": frozenset({"classes", "positive", "features", "weights", "biases"}),
    "classes": frozenset({"names", "positive", "most"}),
    "window": frozenset({"length", "max", "pane", "keep_rows"}),
    "solver": frozenset({"kind", "weighting", "C", "standardize", "bias", "objective", "calibrate"}),
}
"""The keys that each table may have. ``input`` and ``intake`` say how foreign files and topics are read; the services
read them."""


def grid_of(table: Mapping[str, Any], features: int) -> Grid:
    """The grid of a table ``[grid]``; without ``range_bits``, it has the range of early versions."""
    if "steps" not in table:
        raise DefinitionError(
            "grid: expected steps = [...] (one a feature), got none; let replay fit one and write it down"
        )
    steps = numbers(table["steps"], "grid.steps")
    if len(steps) != features:
        raise DefinitionError(f"grid: expected {features} steps, one a feature, got {len(steps)}")
    offsets = numbers(table.get("offsets", [0.0] * features), "grid.offsets")
    bits = whole(table.get("range_bits", limits.GRID_RANGE_BITS), "grid.range_bits")
    return Grid(np.array(steps), np.array(offsets), bits)


def grid_table(grid: Grid) -> dict[str, Any]:
    """The table ``[grid]`` of a grid: the inverse of :func:`grid_of`. The range of early versions is left out."""
    table: dict[str, Any] = {"steps": grid.steps.tolist(), "offsets": grid.offsets.tolist()}
    return table if grid.range_bits == limits.GRID_RANGE_BITS else table | {"range_bits": grid.range_bits}


def feature_map_of(table: Mapping[str, Any], features: int) -> FeatureMap:
    """The map of a complete table ``[feature_map]`` for rows of so many features; see :func:`fit_feature_map`.

    By default there are ``UNITS`` units, and sigma is the root of the number of features, or 1 in the mixed map.
    """
    if unknown := sorted(set(table) - KEYS["feature_map"]):
        known = ", ".join(sorted(KEYS["feature_map"]))
        raise DefinitionError(f"feature_map: unknown key {unknown[0]!r}; known are {known}")
    given = dict(table)
    kind = given.pop("kind", "none")
    if kind == "auto":
        kind = "mixed"
    if kind != "none":
        given.setdefault("units", UNITS)
        given.setdefault("sigma", default_sigma(features, kind))
    for key in ("centers", "scales"):
        values = given.get(key, () if kind == "none" else None)
        if values is None:
            raise DefinitionError(
                f"feature_map: expected {key} = [...] (one a feature), got none; let replay fit them and write"
                " them down"
            )
        values = list_of(values, f"feature_map.{key}")
        if kind != "none" and len(values) != features:
            raise DefinitionError(f"feature_map.{key}: expected {features}, one a feature, got {len(values)}")
        given[key] = tuple(values)
    given["curved"] = tuple(list_of(given.get("curved", ()), "feature_map.curved"))
    return FeatureMap(kind, **given)


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
    table: Mapping[str, Any], grid: Grid, rows: Floats, nested_windows: NestedWindows | None = None
) -> dict[str, Any]:
    """A complete table ``[feature_map]``: missing centers and scales are fitted on the first rows float64[n, d].

    Kind ``auto`` becomes the mixed map with as many units as the longest of the nested windows can have, at most those
    of the table, or ``UNITS_OF_AUTO``. If that is no unit, it becomes no map.
    """
    fitted = dict(table)
    if fitted.get("kind") == "auto":
        fitted["kind"] = "mixed"
        most = min(whole(fitted.get("units", UNITS_OF_AUTO), "feature_map.units"), limits.FEATURES - grid.features)
        if nested_windows is not None:
            most = max(window.units(most) for window in nested_windows.windows)
        if most < 2:
            return {"kind": "none"}
        fitted["units"] = most // 2 * 2
    if fitted.get("kind", "none") == "none" or {"centers", "scales"} <= fitted.keys():
        return fitted
    standards = fit_standards(grid, rows)
    fitted.setdefault("centers", [center for center, _ in standards])
    fitted.setdefault("scales", [scale for _, scale in standards])
    if fitted["kind"] == "mixed" and "curved" not in fitted:
        # On two values, as those of a flag, every function is linear.
        fitted["curved"] = [at for at, column in enumerate(rows.T) if len(np.unique(column[np.isfinite(column)])) > 2]
    fitted.setdefault("sigma", default_sigma(len(standards), fitted["kind"]))
    return fitted


def nested_windows_of(table: Tables, partitions: int, most: int) -> NestedWindows:
    """The windows of a table ``[window]``. ``most``: the largest number of windows if their lengths are automatic."""
    length = table.get("length", "auto")
    pane = whole(table.get("pane", 1), "window.pane")
    keep_rows = flag(table.get("keep_rows", True), "window.keep_rows")
    if length == "auto":
        longest = whole(table.get("max", AUTOMATIC_LONGEST), "window.max")
        return replace(NestedWindows.automatic(longest, partitions, most), pane_rows=pane, keep_rows=keep_rows)
    if "max" in table:
        raise DefinitionError(f"window.max: it bounds length = 'auto', and length is {length!r}; leave one of them out")
    lengths = [length] if isinstance(length, str | int) else list_of(length, "window.length")
    return NestedWindows(tuple(Window.parse(str(one)) for one in lengths), pane, keep_rows)


def choices_of(table: Tables) -> tuple[float, ...]:
    """The values of C that the candidates of a table ``[solver]`` have; empty if C is one fixed number."""
    value = table.get("C", "auto")
    if value == "auto":
        return AUTOMATIC_C
    return () if not isinstance(value, Sequence) or isinstance(value, str) else tuple(numbers(value, "solver.C"))


def weightings_of(table: Tables, *, several: bool) -> tuple[str, ...]:
    """The class weightings that the candidates of a table ``[solver]`` have; empty if one is fixed.

    ``several``: whether there are several windows or values of C. Then the weightings of ``AUTOMATIC_WEIGHTINGS`` are
    tried by default, if the kind is ``wlpsvm``.
    """
    weighting = table.get("weighting", "auto" if several and table.get("kind", "wlpsvm") == "wlpsvm" else None)
    if weighting == "auto":
        return AUTOMATIC_WEIGHTINGS
    return tuple(strings(weighting, "solver.weighting")) if isinstance(weighting, list) else ()


def solver_of(table: Tables, choices: tuple[float, ...]) -> SolverOptions:
    """The solver's options of a table ``[solver]``, with the middle one of several values of C."""
    C = choices[len(choices) // 2] if choices else number(table.get("C"), "solver.C")
    weighting = table.get("weighting", "default")
    if isinstance(weighting, Mapping):
        weighting = {name: number(weight, f"solver.weighting.{name}") for name, weight in weighting.items()}
    return SolverOptions(
        kind=table.get("kind", "wlpsvm"),
        weighting="default" if weighting == "auto" or isinstance(weighting, list) else weighting,
        C=C,
        standardize=flag(table.get("standardize", True), "solver.standardize"),
        bias=table.get("bias", "default"),
    )


def prior_of(table: Mapping[str, Any], features: Sequence[str]) -> Plane | None:
    """The plane of a table ``[prior]``, its weights in the order of ``features``; None if there is no such table.

    New planes are drawn towards the prior (paper 5). A new stream has few rows, and a plane learned elsewhere has seen
    more. To solve towards it instead of towards zero needs no other statistics:
    ``O = O₀ + (I/C + Σ σ_c M_c)⁻¹ (Σ ±σ_c v_c − Σ σ_c M_c O₀)``.
    Features that it lacks get the weight 0. Raises :class:`DefinitionError` if it has a feature that the stream does
    not have, if its parts do not fit together, or if a number is not finite.
    """
    if not table:
        return None
    classes = tuple(strings(table.get("classes", ()), "prior.classes"))
    positive = None if table.get("positive") is None else label(table["positive"], "prior.positive")
    named = strings(table.get("features", list(features)), "prior.features")
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
    planes = len(classes) if positive is None else 1
    rows = [numbers(row, "prior.weights") for row in list_of(table.get("weights", ()), "prior.weights")]
    biases = numbers(table.get("biases", ()), "prior.biases")
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
