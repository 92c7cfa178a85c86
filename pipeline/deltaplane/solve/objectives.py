"""Objectives: the measures that a plane can be optimised for, and the best threshold of scores for each; pure.

A threshold claims every row whose score is above it. Its value follows from two histograms of scores, of the rows of a
class and of all others, and from how often rows of each of the two come. There are as many thresholds as edges of bins,
so all of them are tried, and the best one of these is found exactly.

Some objectives have a bound: ``precision>=0.5`` is the largest recall of the thresholds with at least this precision,
``recall@alerts=100/day`` that of the thresholds that claim at most so many rows. If no threshold is within the bound,
the nearest one is taken, and the result says so.
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
"""Every kind of objective, with an example of how one is written in a definition."""

_OF_BOTH_CLASSES = ("gmean", "kappa", "mcc", "accuracy")
"""The kinds whose value is the same whichever of two classes is the positive one."""

_BARE: Mapping[str, _Kind] = {kind: kind for kind, written in KINDS_OF_OBJECTIVE.items() if kind == written}

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_COST = re.compile(rf"cost:(?:FN=(?P<FN>{_NUMBER}),FP=(?P<FP>{_NUMBER})|FP=(?P<FP2>{_NUMBER}),FN=(?P<FN2>{_NUMBER}))")
_ALERTS = re.compile(rf"recall@alerts=(?P<alerts>{_NUMBER})/(?P<per>day|1000rows)")
_PRECISION = re.compile(rf"precision>=(?P<precision>{_NUMBER})")


@dataclass(frozen=True)
class Objective:
    """The measure that a plane is optimised for. ``kind`` is one of :data:`KINDS_OF_OBJECTIVE`.

    Each other field belongs to one kind. ``cost``: ``false_negative`` and ``false_positive`` are the costs of a missed
    row and of a false alarm. ``recall``: at most ``alerts`` rows are claimed ``per`` day of event time or 1,000 rows.
    ``precision``: ``least_precision`` is the bound, a share. Raises :class:`DefinitionError` if costs or alerts are not
    finite and above 0, or if the share is not above 0 and at most 1.
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
        """The objective that ``text`` is the written form of. Raises :class:`DefinitionError` if there is none."""
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
        """The objective as it is written in a definition."""
        if self.kind == "cost":
            return f"cost:FN={self.false_negative!r},FP={self.false_positive!r}".replace(".0,", ",").removesuffix(".0")
        if self.kind == "recall":
            return f"recall@alerts={_plain(self.alerts)}/{self.per}"
        return f"precision>={_plain(self.least_precision)}" if self.kind == "precision" else self.kind

    def check_classes(self, positive: str | None, most: int | None) -> None:
        """Raise :class:`DefinitionError` if a stream with this positive class cannot have the objective.

        ``positive``: None if the stream has no positive class. ``most``: the largest number of classes that the stream
        may have, or None if it has no bound.
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
        """Whether the objective has no meaning without a positive class."""
        return self.kind not in _OF_BOTH_CLASSES

    def values(self, true_positives: Floats, false_positives: Floats, own: Floats, rest: Floats) -> Floats:
        """The values of claiming so many of the ``own`` rows and of the ``rest``: float64 of their common shape.

        A larger value is better, and 1 is the best. For an objective with a bound, the value is the recall, whatever
        the bound. For costs, it is the share saved of the cheaper of two costs: to claim all rows, or to claim none. A
        value that is not defined, such as the F-measure of no rows, is 0.
        """
        return _VALUES[self.kind](self, _Counts(true_positives, false_positives, own, rest))


def _plain(number: float) -> str:
    return repr(number).removesuffix(".0")


GMEAN = Objective()
"""The default objective."""


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
    """How often rows come: ``own`` rows of the class itself and ``rest`` others in ``milliseconds`` of event time.

    ``milliseconds`` is 0 if the time is not known.
    """

    own: float
    rest: float
    milliseconds: float = 0.0


class BestCut(NamedTuple):
    """The best thresholds of m pairs of histograms: the indices ``edges`` int64[m] of bin edges, their ``values``.

    ``values`` is float64[m]. ``within`` bool[m]: whether the threshold is within the bound of the objective. If it is
    not, its value is at most 0, and larger values are nearer to the bound.
    """

    edges: Int64s
    values: Floats
    within: Flags


def best_threshold(objective: Objective, own: Floats, rest: Floats, pace: Pace) -> BestCut:
    """The threshold with the best value for each of m pairs of histograms ``own`` and ``rest``, float64[m, bins].

    Threshold e claims the bins from e on: all bins for 0, none for the number of bins. Among equally good thresholds,
    the middle one is taken. A histogram gives only the distribution of its side; ``pace`` gives the numbers of rows.
    """
    hits, alarms = (_shares_above(side) * rows for side, rows in ((own, pace.own), (rest, pace.rest)))
    sides = np.full(hits.shape, pace.own), np.full(hits.shape, pace.rest)
    values = objective.values(hits, alarms, *sides)
    within: Flags = np.ones(values.shape, dtype=np.bool_)
    misfit = values
    if objective.kind == "precision":
        precision = np.where(hits > 0.0, _ratio(hits, hits + alarms), 0.0)
        # Beyond the scored rows, only the prior gives a precision. So it counts only if more than one row is hit.
        seen = hits > 1.0
        within = np.asarray((precision >= objective.least_precision) & seen)
        misfit = np.where(seen, precision, _f1(objective, _Counts(hits, alarms, *sides)) - 1.0) - 1.0
    elif objective.kind == "recall":
        room = _rows_allowed(objective, pace)
        within = np.asarray(hits + alarms <= (-1.0 if room is None else room))
        # No threshold is within the bound only if the rows per day are not known. Until then, the F-measure decides.
        misfit = _f1(objective, _Counts(hits, alarms, *sides)) - 1.0
    met: Flags = np.asarray(within.any(axis=1))
    judged = np.where(met[:, None], np.where(within, values, -np.inf), misfit)
    best = judged.max(axis=1)
    edges = np.array([_middle(row == top) for row, top in zip(judged, best, strict=True)], dtype=np.int64)
    return BestCut(edges, best, met)


def shortfall(objective: Objective, value: float, rows: float) -> str:
    """The reason why no threshold is within the bound of an objective, and what is done instead, in words.

    ``value``: that of the nearest threshold, as in :class:`BestCut`. ``rows``: the faded number of scored rows.
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
    """The number of rows of ``pace`` that may be claimed, or None if it depends on a time that is not known."""
    rows = pace.own + pace.rest
    if objective.per == "1000rows":
        return objective.alerts * rows / 1000.0
    return objective.alerts * pace.milliseconds / DAY_MILLISECONDS if pace.milliseconds > 0.0 else None


def _shares_above(histograms: Floats) -> Floats:
    """float64[m, bins + 1]: the share of each histogram that lies in the bins from each edge on."""
    above = np.zeros((len(histograms), histograms.shape[1] + 1))
    above[:, :-1] = histograms[:, ::-1].cumsum(axis=1)[:, ::-1]
    return _ratio(above, np.repeat(above[:, :1], above.shape[1], axis=1))


def _middle(best: Flags) -> int:
    places = np.flatnonzero(best)
    return int(places[len(places) // 2])
