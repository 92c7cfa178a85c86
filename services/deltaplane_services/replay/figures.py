"""The figures of a replay in plain values: measures, their intervals, curves, and what they are to be held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltaplane.log import confusion
from deltaplane.log.confusion import NAN, Binary, Confusion
from deltaplane.log.headline import METRICS, cautions, headline, headline_name
from deltaplane.log.intervals import measure_intervals
from deltaplane.log.score_curve import ScoreCurve
from deltaplane_services.replay.result import ReplayResult

__all__ = ["BASELINES", "SHARES_AT_THE_TOP", "cells_of", "figures", "measures", "said_of"]

SHARES_AT_THE_TOP = (0.001, 0.01, 0.05, 0.1)
"""Of the scored rows, those with the highest scores: what is found among them."""

_DAY_MILLISECONDS = 86_400_000

BASELINES = {
    "majority": "the majority class",
    "last_label": "the label of the row before",
    "frozen": "the first plane, frozen,",
}
"""What a replay is held against, by name, and what each is called."""


def measures(scores: Confusion, positive: str | None) -> dict[str, float]:
    """Measures by name; undefined is NaN."""
    found = confusion.summary(scores, positive)
    return {
        "gmean": found.gmean,
        "sensitivity": found.sensitivity,
        "specificity": found.specificity,
        "f_measure": found.f_measure,
        "relative_sensitivity": found.relative_sensitivity,
        "precision": found.precision,
        "kappa": found.kappa,
        "matthews": found.matthews,
        "accuracy": found.accuracy,
        "false_alarms_per_1000_rows": found.false_alarms_per_1000_rows,
    }


def figures(result: ReplayResult) -> dict[str, Any]:
    """All figures of the whole run."""
    scores, positive = result.model.scores, result.positive
    found: dict[str, Any] = {
        **measures(scores, positive),
        "false_alarms_per_day": _alarms_per_day(result),
        "intervals": {name: list(ends) for name, ends in measure_intervals(scores, positive).items()},
        "cautions": said_of(result),
        **_curves(result),
        "baselines": _baselines(result),
        "served": _served(result),
    }
    return found | {"headline": _headline(result, found)}


def _headline(result: ReplayResult, found: Mapping[str, Any]) -> dict[str, Any]:
    metric = result.options.metric
    if metric is None:
        objective = result.definition.objective
        value = headline(objective, result.model.scores, result.positive)
        return {"metric": str(objective), "name": headline_name(objective), "value": value}
    measure, name = METRICS[metric]
    return {"metric": metric, "name": name, "value": found[measure]}


def _alarms_per_day(result: ReplayResult) -> float:
    """False alarms by event time; NaN if rows have none, or those of before came in another run."""
    first, last = result.first_event_time_milliseconds, result.model.watermark
    if result.positive is None or first is None or last <= first or result.options.continues:
        return NAN
    alarms = Binary.of(result.model.scores, result.positive).false_positives
    return alarms * _DAY_MILLISECONDS / (last - first)


def _curves(result: ReplayResult) -> dict[str, Any]:
    names = ("roc_auc", "pr_auc")
    nothing: dict[str, Any] = {**dict.fromkeys(names, NAN), **{f"{name}_ends": None for name in names}, "top": []}
    if not result.yardsticks.knows_rows or result.positive is None:
        return nothing
    curve = result.yardsticks.scores.curve(result.positive)
    areas = dict(zip(names, (curve.roc_auc(), curve.average_precision()), strict=True))
    values = {name: area.value for name, area in areas.items()}
    ends = {f"{name}_ends": [area.low, area.high] for name, area in areas.items()}
    return {**values, **ends, "top": _top(curve)}


def _top(curve: ScoreCurve) -> list[dict[str, Any]]:
    """Precision, lift and recall among the rows with the highest scores."""
    if not curve.positives:
        return []
    counts = {max(1, round(share * curve.rows)) for share in SHARES_AT_THE_TOP} | {curve.positives}
    base, table = curve.positives / curve.rows, []
    for rows in sorted(counts):
        precision = curve.precision_at(rows)
        table.append(
            {
                "rows": rows,
                "share": rows / curve.rows,
                "precision": precision.value,
                "precision_ends": [precision.low, precision.high],
                "lift": precision.value / base,
                "recall": precision.value * rows / curve.positives,
            }
        )
    return table


def said_of(result: ReplayResult) -> list[str]:
    """Cautions about the first figure: what somebody would miss who read it alone."""
    served = result.yardsticks.served
    names = BASELINES | ({} if served is None else {"last_label": "the last label that had come"})
    named = {names[name]: one for name, one in _scores_of_baselines(result).items()}
    if served is None:
        return cautions(result.model.scores, result.positive, named)
    # Baselines know the labels that had come when a row was served, and not those that had come when it was learned.
    return [f"as served, {text}" for text in cautions(served, result.positive, named)]


def cells_of(scores: Confusion) -> list[dict[str, Any]]:
    """The counts of a confusion, one by one."""
    return [
        {"truth": truth, "predicted": guess, "count": count} for (truth, guess), count in sorted(scores.counts.items())
    ]


def _served(result: ReplayResult) -> dict[str, Any] | None:
    """What was predicted of rows when they came, if their labels came late; None if they came with them."""
    served = result.yardsticks.served
    if served is None:
        return None
    recalls = dict(confusion.recalls(served))
    return {"rows": served.rows, **measures(served, result.positive), "recalls": recalls, "confusion": cells_of(served)}


def _scores_of_baselines(result: ReplayResult) -> dict[str, Confusion]:
    if not result.yardsticks.knows_rows:
        return {}
    against = result.yardsticks.baselines
    return {"majority": against.majority, "last_label": against.last_label, "frozen": against.frozen}


def _baselines(result: ReplayResult) -> dict[str, Any] | None:
    """What the same rows score without a model that goes on learning; None if that is not known."""
    if not result.yardsticks.knows_rows:
        return None
    tables: dict[str, Any] = {
        name: {"rows": one.rows, **measures(one, result.positive)} for name, one in _scores_of_baselines(result).items()
    }
    tables["frozen"]["frozen_at"] = result.yardsticks.baselines.frozen_at
    return tables
