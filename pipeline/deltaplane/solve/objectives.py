"""What a plane is to be good at: the measures that can be asked for, and the best threshold of scores for each; pure.

A threshold claims every row whose score is above it. What that comes to follows from two histograms of scores, of the
rows of a class and of all others, and from how often each of the two comes. There are as many thresholds as edges of
bins, so all of them are tried, and the best one is found exactly.

Some measures are bounded: ``precision>=0.5`` has the largest recall of the thresholds whose precision is so high,
``recall@alerts=100/day`` that of those that claim so few rows. Where no threshold is within the bound, the nearest one
is taken, and it is said that it is not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.errors import DefinitionError

__all__ = [
    "DAY_MILLISECONDS",
    "GMEAN",
    "KINDS_OF_OBJECTIVE",
    "BestCut",
    "Objective",
    "Pace",
    "best_threshold",
    "shortfall",
]

_Kind = Literal["gmean", "kappa", "mcc", "f1", "accuracy", "cost", "recall", "precision"]

DAY_MILLISECONDS = 86_400_000

KINDS_OF_OBJECTIVE: Mapping[_Kind, str] = {
    "gmean": "gmean",
    "kappa": "kappa",
    "mcc": "mcc",
    "f1": "f1",
    "accuracy": "accuracy",
    "cost": "cost:FN=50,FP=1",
    "recall": "recall@alerts=100/day",
    "precision": "precision>=0.5",
}
"""Every kind of objective, and how one is written."""

_OF_BOTH_CLASSES = ("gmean", "kappa", "mcc", "accuracy")
"""What is the same figure whichever of two classes is the positive one."""

_BARE: Mapping[str, _Kind] = {kind: kind for kind, written in KINDS_OF_OBJECTIVE.items() if kind == written}

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_COST = re.compile(rf"cost:(?:FN=(?P<FN>{_NUMBER}),FP=(?P<FP>{_NUMBER})|FP=(?P<FP2>{_NUMBER}),FN=(?P<FN2>{_NUMBER}))")
_ALERTS = re.compile(rf"recall@alerts=(?P<alerts>{_NUMBER})/(?P<per>day|1000rows)")
_PRECISION = re.compile(rf"precision>=(?P<precision>{_NUMBER})")


@dataclass(frozen=True)
class Objective:
    """What is asked for. ``kind`` is one of :data:`KINDS_OF_OBJECTIVE`; the other fields are of some kinds alone.

    ``false_negative`` and ``false_positive``: what a missed and a false alarm cost. ``alerts``: how many rows may be
    claimed, ``per`` day of event time or 1,000 rows. ``least_precision``: a share. Raises :class:`DefinitionError` for
    numbers that mean nothing.
    """

    kind: _Kind = "gmean"
    false_negative: float = 0.0
    false_positive: float = 0.0
    alerts: float = 0.0
    per: Literal["day", "1000rows"] = "day"
    least_precision: float = 0.0

    def __post_init__(self) -> None:
        numbers = {
            "cost": (self.false_negative, self.false_positive),
            "recall": (self.alerts,),
            "precision": (self.least_precision,),
        }
        most, expected = math.inf, "finite numbers above zero"
        if self.kind == "precision":
            most, expected = math.nextafter(1.0, 2.0), "a share above 0 and up to 1"
        if not all(0.0 < number < most for number in numbers.get(self.kind, ())):
            raise DefinitionError(f"solver.objective: expected {expected}, got {self}")

    @classmethod
    def parse(cls, text: str) -> Objective:
        """The objective that is written so. Raises :class:`DefinitionError`."""
        if text in _BARE:
            return cls(_BARE[text])
        if found := _COST.fullmatch(text):
            costs = {name: found[name] or found[f"{name}2"] for name in ("FN", "FP")}
            return cls("cost", false_negative=float(costs["FN"]), false_positive=float(costs["FP"]))
        if found := _ALERTS.fullmatch(text):
            return cls("recall", alerts=float(found["alerts"]), per="day" if found["per"] == "day" else "1000rows")
        if found := _PRECISION.fullmatch(text):
            return cls("precision", least_precision=float(found["precision"]))
        known = ", ".join(KINDS_OF_OBJECTIVE.values())
        raise DefinitionError(
            f"solver.objective: expected one of {known} (with numbers of your own, and /1000rows instead of /day), got"
            f" {text[:100]!r}"
        )

    def __str__(self) -> str:
        """As it is written in a definition."""
        if self.kind == "cost":
            return f"cost:FN={self.false_negative!r},FP={self.false_positive!r}".replace(".0,", ",").removesuffix(".0")
        if self.kind == "recall":
            return f"recall@alerts={_plain(self.alerts)}/{self.per}"
        return f"precision>={_plain(self.least_precision)}" if self.kind == "precision" else self.kind

    def check_classes(self, positive: str | None, most: int | None) -> None:
        """Raise :class:`DefinitionError` if it cannot be asked for of a stream with this positive class.

        ``most``: how many classes there may be; None where nobody has said so.
        """
        if self.kind == "gmean" or positive is not None:
            return
        if self.needs_positive or most != 2:
            why = "is about one class" if self.needs_positive else f"is asked for of two classes, got {most or 'any'}"
            raise DefinitionError(
                f"solver.objective: {self} {why}; set classes.positive (--positive) to the class that matters, against"
                " all others, or ask for gmean"
            )

    @property
    def needs_positive(self) -> bool:
        """Whether it has no meaning without a positive class."""
        return self.kind not in _OF_BOTH_CLASSES

    def values(self, true_positives: Floats, false_positives: Floats, own: Floats, rest: Floats) -> Floats:
        """How good it is to claim so many rows of the ``own`` and of the ``rest``: float64 of their common shape.

        The larger, the better, and 1 is the best that there is. Of a bounded objective it is the recall, whatever the
        bound. Of costs it is the share spared of what the cheaper of two answers costs: to claim all rows, or none.
        What is not defined, such as the F-measure of no row, is zero.
        """
        return _VALUES[self.kind](self, _Counts(true_positives, false_positives, own, rest))


def _plain(number: float) -> str:
    return repr(number).removesuffix(".0")


GMEAN = Objective()
"""What is asked for where nothing is said."""


class _Counts(NamedTuple):
    hits: Floats
    alarms: Floats
    own: Floats
    rest: Floats

    @property
    def misses(self) -> Floats:
        return self.own - self.hits

    @property
    def spared(self) -> Floats:
        return self.rest - self.alarms


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    there = denominator > 0.0
    return np.asarray(np.where(there, numerator / np.where(there, denominator, 1.0), 0.0), dtype=np.float64)


def _gmean(_: Objective, of: _Counts) -> Floats:
    return np.asarray(np.sqrt(_ratio(of.hits, of.own) * _ratio(of.spared, of.rest)))


def _kappa(_: Objective, of: _Counts) -> Floats:
    claimed, left = of.hits + of.alarms, of.misses + of.spared
    return _ratio(2.0 * (of.hits * of.spared - of.alarms * of.misses), claimed * of.rest + of.own * left)


def _mcc(_: Objective, of: _Counts) -> Floats:
    claimed, left = of.hits + of.alarms, of.misses + of.spared
    sides = np.sqrt(claimed) * np.sqrt(left) * np.sqrt(of.own) * np.sqrt(of.rest)
    return _ratio(of.hits * of.spared - of.alarms * of.misses, sides)


def _f1(_: Objective, of: _Counts) -> Floats:
    return _ratio(2.0 * of.hits, of.hits + of.alarms + of.own)


def _accuracy(_: Objective, of: _Counts) -> Floats:
    return _ratio(of.hits + of.spared, of.own + of.rest)


def _savings(objective: Objective, of: _Counts) -> Floats:
    cost = objective.false_negative * of.misses + objective.false_positive * of.alarms
    cheapest = np.minimum(objective.false_negative * of.own, objective.false_positive * of.rest)
    return np.where(cheapest > 0.0, 1.0 - _ratio(cost, cheapest), 0.0)


def _recall(_: Objective, of: _Counts) -> Floats:
    return _ratio(of.hits, of.own)


_VALUES: Mapping[_Kind, Callable[[Objective, _Counts], Floats]] = {
    "gmean": _gmean,
    "kappa": _kappa,
    "mcc": _mcc,
    "f1": _f1,
    "accuracy": _accuracy,
    "cost": _savings,
    "recall": _recall,
    "precision": _recall,
}


class Pace(NamedTuple):
    """How often rows come: so many of the class itself, and of the rest, in so many milliseconds of event time.

    Zero milliseconds: nobody knows how long it took.
    """

    own: float
    rest: float
    milliseconds: float = 0.0


class BestCut(NamedTuple):
    """The best thresholds of m histograms: ``edges`` int64[m], of the bins; what they come to, ``values`` float64[m].

    ``within`` bool[m]: whether a threshold is within the bound of the objective. Of one that is not, the value is below
    zero, and the nearer to it the better.
    """

    edges: Int64s
    values: Floats
    within: Flags


def best_threshold(objective: Objective, own: Floats, rest: Floats, pace: Pace) -> BestCut:
    """The threshold with the best value of each of m pairs of histograms ``own`` and ``rest``, float64[m, bins].

    Threshold e claims the bins from e on: all for 0, none for the number of bins. Of thresholds that are equally good
    it is the middle one. Each histogram says how the rows of its side are spread; how many there are, ``pace`` does.
    """
    hits, alarms = (_shares_above(side) * rows for side, rows in ((own, pace.own), (rest, pace.rest)))
    sides = np.full(hits.shape, pace.own), np.full(hits.shape, pace.rest)
    values = objective.values(hits, alarms, *sides)
    within: Flags = np.ones(values.shape, dtype=np.bool_)
    misfit = values
    if objective.kind == "precision":
        precision = np.where(hits > 0.0, _ratio(hits, hits + alarms), 0.0)
        # Beyond all rows there is no precision but that of what is expected: it must rest on more than one row.
        seen = hits > 1.0
        within = np.asarray((precision >= objective.least_precision) & seen)
        misfit = np.where(seen, precision, _f1(objective, _Counts(hits, alarms, *sides)) - 1.0) - 1.0
    elif objective.kind == "recall":
        room = _rows_allowed(objective, pace)
        within = np.asarray(hits + alarms <= (-1.0 if room is None else room))
        # Nobody knows how many rows a day has: what is rare among the claimed is told by the F-measure until then.
        misfit = _f1(objective, _Counts(hits, alarms, *sides)) - 1.0
    met: Flags = np.asarray(within.any(axis=1))
    judged = np.where(met[:, None], np.where(within, values, -np.inf), misfit)
    best = judged.max(axis=1)
    edges = np.array([_middle(row == top) for row, top in zip(judged, best, strict=True)], dtype=np.int64)
    return BestCut(edges, best, met)


def shortfall(objective: Objective, value: float, rows: float) -> str:
    """Why no threshold is within the bound of an objective, and what is done instead, in words.

    ``value`` is that of the nearest one, as in :class:`BestCut`, and ``rows`` how many the histogram is of.
    """
    if objective.kind == "precision":
        if value < -1.0:
            rare = "hardly a row of the class has been scored lately"
            return f"{objective}: {rare}; the threshold with the best F-measure is used"
        return (
            f"{objective}: no threshold has so much precision on the last {rows:,.0f} rows scored (older ones count"
            f" less); the one with the most is used, {1.0 + value:.4f}"
        )
    return (
        f"{objective}: rows without event time, or too few, so far: how many a day has is not known; the threshold with"
        " the best F-measure is used. Without a column of times, ask for alerts per 1000rows"
    )


def _rows_allowed(objective: Objective, pace: Pace) -> float | None:
    """How many of the rows of ``pace`` may be claimed; None where nobody knows how long they took."""
    rows = pace.own + pace.rest
    if objective.per == "1000rows":
        return objective.alerts * rows / 1000.0
    return objective.alerts * pace.milliseconds / DAY_MILLISECONDS if pace.milliseconds > 0.0 else None


def _shares_above(histograms: Floats) -> Floats:
    """float64[m, bins + 1]: which share of each histogram lies from each edge on."""
    above = np.zeros((len(histograms), histograms.shape[1] + 1))
    above[:, :-1] = histograms[:, ::-1].cumsum(axis=1)[:, ::-1]
    return _ratio(above, np.repeat(above[:, :1], above.shape[1], axis=1))


def _middle(best: Flags) -> int:
    places = np.flatnonzero(best)
    return int(places[len(places) // 2])
