"""The figures at the head of a page, each with what its name means."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from deltaplane_services.observe.report.baselines import ends
from deltaplane_services.observe.report.elements import Element, element
from deltaplane_services.observe.report.labels import how_late, short
from deltaplane_services.observe.report.record import Run
from deltaplane_services.observe.report.value_tables import cell

__all__ = ["tiles_of"]


class _Tile(NamedTuple):
    name: str
    value: str
    what: str = ""
    interval: str = ""


def tiles_of(run: Run) -> Element:
    """The figures of a run; the first is the one to go by."""
    boxes = [
        element(
            "div",
            element("dt", tile.name),
            element("dd", tile.value),
            element("dd", f"{tile.interval} (95\N{NO-BREAK SPACE}%)", class_="what") if tile.interval else None,
            element("dd", tile.what, class_="what") if tile.what else None,
            class_=None if at else "main",
        )
        for at, tile in enumerate((*_quality(run), *_rest(run)))
    ]
    return element("dl", boxes, class_="tiles")


def _quality(run: Run) -> Iterator[_Tile]:
    name, value = run.headline or _asked(run)
    if name != "G-mean":
        yield _Tile(name, cell(value), "what is read first")
    yield _of(run, "G-mean", "gmean", "root of the product of the recalls of all classes: both sides count alike")
    if run.served:
        what = f"of {run.served['rows']:,.0f} rows, predicted when they came{_late(run)}"
        yield _Tile("G-mean as served", cell(run.served["gmean"]), what)
    if run.positive is None:
        yield _of(run, "accuracy", "accuracy", "share of rows predicted right")
        yield from _agreement(run)
        return
    own = run.positive
    yield _of(run, f"precision ({own})", "precision", f"of the rows predicted {own!r}, the share that is")
    yield _of(run, f"sensitivity ({own})", "sensitivity", f"of the rows that are {own!r}, the share predicted so")
    yield _of(run, "F-measure", "f_measure", "harmonic mean of precision and sensitivity")
    yield _alarms(run, own)
    yield _of(run, "specificity", "specificity", "of all other rows, the share predicted so")
    yield from _agreement(run)
    yield _of(run, "ROC-AUC", "roc_auc", f"how often a row of {own!r} scores higher than another; 0.5 is chance")
    yield _of(run, "PR-AUC", "pr_auc", f"mean precision over all thresholds; chance is {_chance(run)}")
    what = "sensitivity over specificity: 1 leans to neither side"
    yield _of(run, "relative sensitivity", "relative_sensitivity", what)
    yield _of(run, "accuracy", "accuracy", "share of rows predicted right")


def _late(run: Run) -> str:
    return "" if run.label_delay is None else f"; labels came {how_late(run.label_delay)}"


def _agreement(run: Run) -> Iterator[_Tile]:
    """Tiles of measures that are defined for any number of classes, and near 0 for a guess whatever their ratio."""
    yield _of(run, "Cohen's kappa", "kappa", "agreement beyond that of chance; 0 is chance")
    yield _of(run, "Matthews correlation", "matthews", "of truth and prediction; 0 is chance")


def _of(run: Run, name: str, measure: str, what: str) -> _Tile:
    return _Tile(name, cell(run.measures.get(measure, math.nan)), what, ends(run, measure))


def _asked(run: Run) -> tuple[str, float]:
    """The headline of summaries of versions before."""
    if run.objective.get("asked", "gmean") == "gmean":
        return "G-mean", run.measures["gmean"]
    value = run.objective.get("value")
    return str(run.objective.get("measure")), math.nan if value is None else float(value)


def _alarms(run: Run, own: str) -> _Tile:
    by_rows, by_day = (run.measures.get(f"false_alarms_per_{of}", math.nan) for of in ("1000_rows", "day"))
    what = f"rows predicted {own!r} that are not"
    a_day = f"{cell(by_day, 2)} per day; " if math.isfinite(by_day) else ""
    return _Tile("false alarms per 1,000 rows", cell(by_rows, 2), f"{a_day}{what}")


def _chance(run: Run) -> str:
    rows = sum(run.rows_by_class.values())
    return cell(run.rows_by_class.get(run.positive or "", 0) / rows) if rows else "–"


def _rest(run: Run) -> Iterator[_Tile]:
    condition = run.model.get("condition")
    if isinstance(condition, int | float):
        yield _Tile("condition", short(float(condition)), "of the plane's equations: its digits are lost in solving")
    what = "live rows of the largest class over those of the smallest"
    yield _Tile("imbalance ratio", cell(run.imbalance_ratio, 2), what)
    yield _Tile("rows scored", f"{run.scored:,}", "predicted before they were learned")
    rate = f"{short(run.rows_per_second)} rows/s" if math.isfinite(run.rows_per_second) else "–"
    yield _Tile("throughput", rate, f"{cell(run.seconds, 2)} s in all")
    yield _Tile("retired", f"{run.outcomes.get('retirements retired', 0):,}", "rows taken out again by their id")
    yield _Tile("refused", f"{run.rejected:,}", "rows that could not be used")
    if run.thinned:
        yield _Tile("thinned out", f"{run.thinned:,}", "rows left out for --imbalance")
