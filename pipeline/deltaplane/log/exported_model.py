"""A model in plain values, for predictions without this package.

The values cover every step from a raw row to a class: missing values, the grid, the feature map, the sum, the choice.
They include every number and the order of operations, so the result is the same to the last bit in any language with
float64 and float32. The page ``docs/export.md`` has all of it in Python.

In this package a decision value is ``x·w - b``. Elsewhere it is usual to add, so the intercept ``-b`` is exported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError, DefinitionMismatch
from deltaplane.log.model import Model
from deltaplane.solve.calibration import probabilities_by
from deltaplane.solve.score_histograms import BINS, REACH
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane.table_values import list_of, numbers, strings, text, whole

__all__ = ["FORMAT", "FORMAT_VERSION", "ExportedModel", "exported_model", "model_tables"]

FORMAT = "deltaplane.log.model"
FORMAT_VERSION = 2
"""Increased when a field changes its meaning or is removed. Version 1 had no version field, and biases to subtract."""


def model_tables(model: Model, definition: StreamDefinition) -> dict[str, Any]:
    """Plain values with all that is needed to predict with a model of the definition's stream, and its origin."""
    plane, grid, fills = model.plane, definition.grid, definition.missing == "offset"
    positive = None if plane is None else plane.positive
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "stream": definition.name,
        "version": model.version,
        "created_milliseconds": model.created,
        "stream_fingerprint": model.stream_fingerprint.hex(),
        "data_fingerprint": model.data_fingerprint.hex(),
        "digest": model.digest,
        "watermark_milliseconds": model.watermark,
        "input": {
            "features": list(definition.features),
            "missing": "a value that is not a number is replaced by its fill"
            if fills
            else "a row with a value that is not a number has no answer",
            "fill": grid.offsets.tolist() if fills else None,
            "grid": {
                "formula": "q = rint((x - offset) / step)",
                "steps": grid.steps.tolist(),
                "offsets": grid.offsets.tolist(),
                "range": grid.range,
                "outside": "a row has no answer unless |q| < range for each of its features",
            },
        },
        "feature_map": definition.feature_map.constants(),
        "features": list(definition.plane_features),
        "classes": None if plane is None else list(plane.classes),
        "positive": positive,
        "negative": None if plane is None or positive is None else next(c for c in plane.classes if c != positive),
        "weights": None if plane is None else plane.weights.tolist(),
        "intercepts": None if plane is None else (-plane.biases).tolist(),
        "decision": {
            "formula": "decision = values · weights + intercept for each row of weights, added from the first feature"
            " to the last, and then the intercept; thresholds and cuts are in the intercepts already",
            "class": "the class of the largest decision, the first of equal ones; weights has a row for each of classes"
            if positive is None
            else "positive where the decision is above 0, else negative; weights has one row",
        },
        "probability": _probability_table(model),
        "means": None if plane is None or plane.means is None else plane.means.tolist(),
        "sources": [
            {
                "source": str(position.source),
                "tiles": position.sequence,
                "samples": position.samples,
                "retirements": position.retirements,
                "watermark_milliseconds": position.watermark,
                "removed": position.removed,
            }
            for position in model.positions
        ],
    }


def _probability_table(model: Model) -> dict[str, Any] | None:
    """The table that says how a decision becomes a probability, or None if the model has no probabilities."""
    plane = model.plane
    curves = None if plane is None or model.calibration is None else model.calibration.curves_of(plane)
    if plane is None or plane.units is None or curves is None:
        return None
    return {
        "formula": "score = (decision - middle) / scale; bin = floor(score * bins_per_unit + bins / 2), at least 0 and"
        " at most bins - 1; probability = curve[bin], for each row of weights",
        "classes": "the probabilities of the classes, divided by their sum; weights has a row for each of classes"
        if plane.positive is None
        else "that of positive; negative has 1 less it",
        "middles": plane.units[:, 0].tolist(),
        "scales": plane.units[:, 1].tolist(),
        "bins": BINS,
        "bins_per_unit": BINS / (2.0 * REACH),
        "curves": curves.tolist(),
    }


@dataclass(frozen=True)
class ExportedModel:
    """An exported model: its plane, version and digest.

    ``curves`` float64[p, bins]: the probability of each target of the plane by the bin of a score, or None if the model
    has no probabilities. The plane's ``C``, ``condition``, ``sigmas`` and ``counts`` are not exported.
    """

    plane: Plane
    version: int
    digest: str
    curves: Floats | None = None

    def probabilities(self, decisions: Floats) -> Floats | None:
        """float64[n, k]: the probability of each class of the plane, from decision values float64[n, p]; or None."""
        return None if self.curves is None else probabilities_by(self.curves, self.plane, decisions)


def exported_model(tables: Any, definition: StreamDefinition) -> ExportedModel:
    """The model that :func:`model_tables` has written as plain values, for rows of the definition's stream.

    Raises :class:`DefinitionError` if the values are not such a model or have no plane, and :class:`DefinitionMismatch`
    if the model is of another definition.
    """
    given = tables if isinstance(tables, Mapping) else {}
    if given.get("format") != FORMAT or given.get("format_version") != FORMAT_VERSION:
        raise DefinitionError(
            f"model: expected format {FORMAT!r}, version {FORMAT_VERSION}, got {given.get('format')!r}, version"
            f" {given.get('format_version')!r}; give what deltaplane model export has written"
        )
    if given.get("data_fingerprint") != definition.data_fingerprint.hex():
        raise DefinitionMismatch(
            f"model: it is of data {given.get('data_fingerprint')!r}, and the definition of stream"
            f" {definition.name!r} of {definition.data_fingerprint.hex()}; give the definition of its export"
        )
    if given.get("weights") is None:
        raise DefinitionError("model: it was exported before there was a plane; export a newer one")
    rows = [numbers(row, "model.weights") for row in list_of(given["weights"], "model.weights")]
    classes = tuple(strings(given.get("classes"), "model.classes"))
    intercepts = numbers(given.get("intercepts"), "model.intercepts")
    positive = None if given.get("positive") is None else text(given["positive"], "model.positive")
    planes = len(classes) if positive is None else 1
    fits = {len(row) for row in rows} == {definition.dimension - 1} and len(rows) == len(intercepts) == planes
    if not fits or len(classes) < 2 or (positive is not None and (positive not in classes or len(classes) != 2)):
        raise DefinitionError(
            f"model: expected planes over {definition.dimension - 1} features of two classes and more, got"
            f" {len(rows)} rows of weights, {len(intercepts)} intercepts and {len(classes)} classes; export it anew"
        )
    units, curves = _calibration(given.get("probability"), planes)
    means = None if given.get("means") is None else np.array(numbers(given["means"], "model.means"))
    if means is not None and len(means) != definition.dimension - 1:
        raise DefinitionError(f"model.means: expected {definition.dimension - 1} numbers, got {len(means)}")
    plane = Plane(
        classes=classes,
        positive=positive,
        weights=np.array(rows),
        biases=-np.array(intercepts),
        sigmas={},
        C=1.0,
        condition=1.0,
        counts={},
        units=units,
        means=means,
    )
    version, digest = whole(given.get("version"), "model.version"), text(given.get("digest"), "model.digest")
    return ExportedModel(plane, version, digest, curves)


def _calibration(given: Any, planes: int) -> tuple[Floats | None, Floats | None]:
    """(units float64[p, 2], curves float64[p, bins]) of an exported model, or (None, None) if it has none."""
    if given is None:
        return None, None
    table = given if isinstance(given, Mapping) else {}
    middles, scales = (numbers(table.get(name), f"model.probability.{name}") for name in ("middles", "scales"))
    rows = list_of(table.get("curves"), "model.probability.curves")
    curves = [numbers(row, "model.probability.curves") for row in rows]
    if {len(row) for row in curves} != {BINS} or not len(curves) == len(middles) == len(scales) == planes:
        raise DefinitionError(
            f"model.probability: expected a middle, a scale and a curve of {BINS} numbers for each of {planes} planes,"
            f" got {len(middles)}, {len(scales)} and {[len(row) for row in curves]}; export it anew"
        )
    return np.column_stack([middles, scales]), np.array(curves)
