"""Tables of what a run is held against, and of what is found where its scores are highest."""

from __future__ import annotations

import math
from collections.abc import Mapping

from deltaplane_services.observe.report.record import Run
from deltaplane_services.observe.report.value_tables import Table, cell

__all__ = ["baseline_name", "baselines_table", "ends", "top_table"]

_COLUMNS = {
    "gmean": "G-mean",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "precision": "precision",
    "f_measure": "F-measure",
    "kappa": "kappa",
    "accuracy": "accuracy",
}
_NAMES = {
    "majority": "the majority class",
    "last_label": "the label of the row before",
    "frozen": "the first plane, frozen",
}


def baseline_name(run: Run, name: str) -> str:
    """What a baseline is called: a label of the row before is not known if labels come late."""
    if name == "last_label" and run.label_delay is not None:
        return "the last label that had come"
    return _NAMES.get(name, name)


def ends(run: Run, measure: str) -> str:
    """The interval of a measure in words; nothing if it has none."""
    low, high = run.intervals.get(measure, (math.nan, math.nan))
    return f"{cell(low)} to {cell(high)}" if math.isfinite(low) and math.isfinite(high) else ""


def baselines_table(run: Run) -> Table:
    """The model and each baseline, a row each; what is undefined everywhere has no column."""
    shown: dict[str, Mapping[str, float]] = {"the model": run.measures}
    if run.served:
        shown["the model, as served"] = run.served
    shown |= {baseline_name(run, name): one for name, one in run.baselines.items()}
    columns = {
        key: name
        for key, name in _COLUMNS.items()
        if any(math.isfinite(one.get(key, math.nan)) for one in shown.values())
    }
    body = [(name, *(cell(one.get(key, math.nan)) for key in columns)) for name, one in shown.items()]
    body.insert(1, ("with 95 % between", *(ends(run, key) or "–" for key in columns)))
    return Table(("", *columns.values()), tuple(body))


def top_table(run: Run) -> Table:
    """What is found among the rows with the highest scores."""
    body = [
        (f"{at['rows']:,.0f}", f"{at['share']:.2%}", cell(at["precision"]), cell(at["lift"], 2), cell(at["recall"]))
        for at in run.top
    ]
    return Table(("rows", "of all", "precision", "lift", "recall"), tuple(body))
