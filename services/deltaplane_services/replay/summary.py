"""A replay's result as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltaplane.arrays import Floats
from deltaplane.log import confusion
from deltaplane.log.confusion import Confusion
from deltaplane.log.prequential import Gathered, Point
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.observe.blend_tables import blend_shares, candidates_table, objective_table
from deltaplane_services.produce.refused_rows import Refusals
from deltaplane_services.replay.changes import changes, shift_of, spans_lately
from deltaplane_services.replay.figures import cells_of, figures, measures
from deltaplane_services.replay.result import ReplayResult
from deltaplane_services.system.output_files import write_text
from deltaplane_services.system.printable import json_text, json_value

__all__ = [
    "LABELS_TOLD",
    "as_json",
    "definition_text",
    "plain_summary",
    "write_json",
]

LABELS_TOLD = 1000
"""Labels that are counted in JSON, the most frequent; a flood of them is no message."""


def as_json(result: ReplayResult) -> dict[str, Any]:
    """Everything about a replay in plain values; what is undefined is null."""
    model, definition = result.model, result.definition
    verification = result.verification
    positive = result.positive
    return {
        "source": result.source,
        "data": result.data,
        "stream": definition.name,
        "rows": result.rows,
        "first_event_time": result.first_event_time_milliseconds,
        "seconds": result.seconds,
        "rows_per_second": result.rows / result.seconds if result.seconds else None,
        **figures(result),
        **changes(result, spans_lately(result.points)),
        "objective": objective_table(definition.objective, model, positive),
        "imbalance_ratio": confusion.imbalance_ratio(model.counts),
        "classes": dict(model.counts),
        "positive": positive,
        "positive_chosen": result.positive_chosen,
        "labels": dict(list(result.labels.items())[:LABELS_TOLD]),
        "window": [str(window) for window in definition.nested_windows.windows],
        "window_rows": sum(model.counts.values()),
        "scored": result.verdict.scored,
        "not_scored": dict(result.verdict.not_scored),
        "order": {
            "runs": result.verdict.runs,
            "expected_runs": result.verdict.expected_runs,
            "sorted": result.verdict.is_sorted,
        },
        "warnings": list(result.verdict.warnings),
        "retired": model.totals.get("retirements retired", 0),
        "rejected": result.refusals.total,
        "thinned": result.thinned,
        "rejections": _rejections(result.refusals),
        "outcomes": dict(model.totals),
        "model": _model(result),
        "digest": model.digest,
        "verified": None if verification is None else verification.passed,
        "max_difference": None if verification is None else verification.max_difference,
        "rounding_error": None
        if result.rounding_error is None
        else dict(zip(definition.features, result.rounding_error.tolist(), strict=True)),
        "likely_marks_of_missing": [
            {"feature": mark.feature, "value": mark.value, "rows": mark.rows} for mark in result.marks
        ],
        "confusion": cells_of(model.scores),
        "series": [
            {**_point(point, positive, definition), "lately": _lately(result.points, at, positive)}
            for at, point in enumerate(result.points)
        ],
        "ended_early": result.ended_early,
        "notes": list(result.notes),
        "columns": [
            {
                "column": one.column,
                "kind": None if one.rule is None else one.rule.KIND,
                "reason": one.reason,
                "warning": one.warning,
            }
            for one in result.decisions
        ],
        "settings": {
            "chunk": result.options.chunk,
            "seed": result.options.seed,
            "shuffle": result.options.shuffle,
            "label_delay": None if result.options.label_delay is None else str(result.options.label_delay),
            "retire_fraction": result.options.retire_fraction,
            "definition": definition.to_tables(),
            "data_fingerprint": definition.data_fingerprint.hex(),
            "stream_fingerprint": definition.stream_fingerprint.hex(),
        },
    }


def _rejections(refusals: Refusals) -> dict[str, Any]:
    """Refused rows by kind, by reason, and the first of them."""
    return {
        "counts": dict(refusals.counts),
        "reasons": [
            {
                "reason": group.reason,
                "rows": group.count,
                "examples": [{"line": one.line_number or None, "reason": one.reason} for one in group.examples],
                "cure": group.cure or None,
            }
            for group in refusals.reasons.values()
        ],
        "first": [
            {"line": item.line_number or None, "kind": item.kind, "reason": item.reason} for item in refusals.listed
        ],
    }


def _model(result: ReplayResult) -> dict[str, Any]:
    model = result.model
    fields: dict[str, Any] = {
        "version": model.version,
        "kind": model.options.kind,
        "weighting": model.options.weighting
        if isinstance(model.options.weighting, str)
        else dict(model.options.weighting),
        "C": model.options.C if model.plane is None or model.blend is None else model.plane.C,
        "standardize": model.options.standardize,
        "features": list(result.definition.plane_features),
        "refusal": model.refusal,
        "blend": blend_shares(model.leaning, result.definition),
        "candidates": candidates_table(model, result.definition),
        "deviations": _plain(result.deviations),
    }
    if model.plane is not None:
        fields |= _plane(model.plane)
    return fields


def _plane(plane: Plane) -> dict[str, Any]:
    """One plane as a list and a number; several, one for each class, as lists of them."""
    single = plane.positive is not None
    return {
        "classes": list(plane.classes),
        "weights": plane.weights[0].tolist() if single else plane.weights.tolist(),
        "bias": float(plane.biases[0]) if single else plane.biases.tolist(),
        "intercept": -float(plane.biases[0]) if single else (-plane.biases).tolist(),
        "sigmas": dict(plane.sigmas),
        "condition": plane.condition,
    }


def _plain(values: Floats | None) -> list[float] | None:
    return None if values is None else values.tolist()


def _point(point: Point, positive: str | None, definition: StreamDefinition) -> dict[str, Any]:
    plane = point.plane
    return {
        "rows_from": point.rows_from,
        "rows_to": point.rows_to,
        "watermark": point.watermark,
        **measures(point.scores, positive),
        "recalls": dict(confusion.summary(point.scores, positive).recalls),
        "imbalance_ratio": confusion.imbalance_ratio(point.counts),
        "classes": dict(point.counts),
        "weights": None if plane is None else plane.weights.tolist(),
        "weights_of": None
        if plane is None
        else [plane.positive]
        if plane.positive is not None
        else list(plane.classes),
        "deviations": _plain(point.deviations),
        "sigmas": None if plane is None else dict(plane.sigmas),
        "version": point.version,
        "blend": blend_shares(point.leaning, definition),
    }


def _lately(points: Sequence[Point], at: int, positive: str | None) -> dict[str, Any]:
    """Quality over the spans that end at a point and hold a fortieth of the stream: one span alone is noisy."""
    spans = spans_lately(points)
    first = max(0, at + 1 - spans)
    scores = confusion.summary(sum((point.scores for point in points[first : at + 1]), Confusion()), positive)
    names = ("gmean", "precision", "sensitivity", "kappa", "false_alarms_per_1000_rows")
    return {
        "rows_from": points[first].rows_from,
        **{name: getattr(scores, name) for name in names},
        "served_gmean": _served_lately(points[first : at + 1]),
        "recalls": dict(scores.recalls),
        "shift": shift_of(points, at, spans),
    }


def _served_lately(points: Sequence[Point]) -> float | None:
    served = sum((point.gathered for point in points), Gathered(served=Confusion())).served
    # With one class in the truth there is no balance between classes to measure.
    return None if served is None or len(served.truths()) < 2 else confusion.gmean(served)


def plain_summary(result: ReplayResult) -> dict[str, Any]:
    """The summary as it stands in JSON: numbers that JSON cannot say are null."""
    return {key: json_value(value) for key, value in as_json(result).items()}


def write_json(result: ReplayResult, to: str) -> None:
    """Write the summary to a file, or to standard output if ``to`` is ``-``."""
    text = json_text(plain_summary(result)) + "\n"
    if to == "-":
        sys.stdout.write(text)
    else:
        write_text(Path(to), text, "json")


def definition_text(result: ReplayResult) -> str:
    """The definition that was used, with the fitted grid and the columns of the file, as ``deltaplane.toml``."""
    return as_toml(result.definition.to_tables() | {"input": result.options.input.table})
