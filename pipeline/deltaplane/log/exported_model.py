"""A model in plain values, for whoever predicts with it without this package.

From a raw row to a class: missing values, the grid, the feature map, the sum, the choice. Every number that it takes is
there, and what is done with them in what order, so that the outcome is the same to the last bit in any language with
float64 and float32. The page ``docs/export.md`` has it all in Python.

Planes are inside ``x·w - b``. Everybody else adds: what is exported is the intercept, ``-b``.
"""

from __future__ import annotations

from typing import Any

from deltaplane.log.model import Model
from deltaplane.stream.definition import StreamDefinition

__all__ = ["FORMAT", "FORMAT_VERSION", "model_tables"]

FORMAT = "deltaplane.log.model"
FORMAT_VERSION = 2
"""Raised when a field changes its meaning or goes. Version 1 had no number, and biases that were to be subtracted."""


def model_tables(model: Model, definition: StreamDefinition) -> dict[str, Any]:
    """All that it takes to answer by a model of the definition's stream, and what the model was made from."""
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
