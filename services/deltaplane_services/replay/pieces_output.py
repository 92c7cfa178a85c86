"""What is shown of a replay in pieces: a few lines, or JSON with the keys that any replay has for the same things."""

from __future__ import annotations

import math
from typing import Any

import typer

from deltaplane.log.confusion import imbalance_ratio
from deltaplane.log.headline import METRICS
from deltaplane_services.replay.console import number
from deltaplane_services.replay.figures import cells_of, measures
from deltaplane_services.replay.in_pieces import ReplayedInPieces
from deltaplane_services.system.printable import echo, json_value

__all__ = ["plain_summary_of_pieces", "show_pieces"]


def plain_summary_of_pieces(result: ReplayedInPieces, engine: str) -> dict[str, Any]:
    """The summary as it stands in JSON: numbers that JSON cannot say are null."""
    definition, plane = result.definition, result.plane
    counts = result.statistics.counts()
    solver = definition.solver
    told: dict[str, Any] = {
        "source": result.source,
        "engine": engine,
        "pieces": result.pieces,
        "pieces_replayed_again": result.again,
        "stream": definition.name,
        "rows": result.rows,
        "seconds": result.seconds,
        "rows_per_second": result.rows / result.seconds if result.seconds else math.nan,
        **measures(result.scores, result.positive),
        "imbalance_ratio": imbalance_ratio(counts),
        "classes": counts,
        "positive": result.positive,
        "window": [str(window) for window in definition.nested_windows.windows],
        "window_rows": sum(counts.values()),
        "scored": result.scores.rows,
        "rejected": sum(result.refusals.values()),
        "rejections": {"counts": dict(result.refusals), "examples": dict(result.examples)},
        "confusion": cells_of(result.scores),
        "model": {
            "kind": solver.kind,
            "weighting": solver.weighting if isinstance(solver.weighting, str) else dict(solver.weighting),
            "C": solver.C,
            "standardize": solver.standardize,
            "features": list(definition.plane_features),
            "refusal": result.refusal,
            "classes": None if plane is None else list(plane.targets),
            "weights": None if plane is None else plane.weights.tolist(),
            "bias": None if plane is None else plane.biases.tolist(),
        },
        "digest": result.digest,
    }
    return {key: json_value(value) for key, value in told.items()}


def show_pieces(result: ReplayedInPieces, engine: str, metric: str | None) -> None:
    """Print what a person looks for first."""
    again = f", {result.again} of them twice" if result.again else ""
    rate = result.rows / result.seconds if result.seconds else math.nan
    echo(f"{result.source}: {result.rows:,} rows in {result.pieces} pieces{again} by the engine {engine}")
    echo(f"{result.seconds:.2f} s, {rate:,.0f} rows/s; {result.scores.rows:,} rows scored before they were learned")
    found = measures(result.scores, result.positive)
    first = () if metric is None else (METRICS[metric][0],)
    for name in dict.fromkeys((*first, "gmean", "sensitivity", "specificity", "f_measure", "accuracy")):
        echo(f"{name.replace('_', '-')} {number(found.get(name, math.nan))}")
    for kind, count in result.refusals.items():
        example = f" ({result.examples[kind]})" if kind in result.examples else ""
        echo(f"{count:,} rows refused, {kind}{example}", typer.colors.YELLOW)
    if result.refusal is not None:
        echo(f"the live rows have no plane: {result.refusal}", typer.colors.YELLOW)
    echo(f"digest {result.digest}")
