"""Whether the figures of a replay mean anything: how many rows were scored, and why the others were not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from deltaplane.columns.cells import MISSING_AMONG_NUMBERS
from deltaplane.log import confusion
from deltaplane.log.model import Model
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.replay.label_order import LabelOrder

__all__ = ["BEFORE_A_PLANE", "Verdict", "verdict_of"]

_NEVER_SCORED = ("duplicate", "replaced", "late", "annihilated", "retired id")
"""Outcomes of rows that taught nothing new; such rows are not scored either."""

BEFORE_A_PLANE = "before there was a plane"


@dataclass(frozen=True)
class Verdict:
    """The number of rows that were scored, and the numbers of the others by reason.

    ``warnings`` are in words for the reader of the figures, the worst first. ``says_nothing``: the figures are
    meaningless, and the command ends with exit code 1.
    """

    scored: int
    not_scored: Mapping[str, int]
    runs: int
    expected_runs: float
    is_sorted: bool
    warnings: tuple[str, ...]
    says_nothing: bool


def verdict_of(
    model: Model, rows: int, dead_letters: int, order: LabelOrder, options: ReplayOptions, positive: str | None
) -> Verdict:
    """The verdict on a replay of ``rows`` rows, of which the stream refused ``dead_letters``; ``model`` is its last."""
    scored = model.scores.rows
    others = {name: model.totals.get(name, 0) for name in _NEVER_SCORED} | {"refused": dead_letters}
    before = max(0, rows - scored - sum(others.values()))
    not_scored = {name: count for name, count in ({BEFORE_A_PLANE: before} | others).items() if count}
    undefined = math.isnan(confusion.summary(model.scores, positive).gmean)
    warnings = []
    if order.is_sorted:
        warnings.append(_sorted_words(order, options))
    if not scored:
        warnings.append(f"no row was scored, so there is no G-mean: {_why_no_plane(rows, order, options)}")
    elif undefined:
        warnings.append(
            f"there is no G-mean, since no row of {_unscored(model, positive)} was scored: "
            f"{_why_no_plane(rows, order, options)}"
        )
    elif missing := _never_scored(model):
        warnings.append(
            f"the figures say nothing of {_named(missing)}: live rows are there, and none of them was scored,"
            " since they came before there was a plane"
        )
    if scored and not undefined and (words := _never_recognised(model, positive)):
        warnings.append(words)
    if not order.is_sorted and order.has_spells:
        warnings.append(
            f"labels come in {order.runs:,} long runs, where rows in a mixed order have about "
            f"{order.expected_runs:,.0f}: if that is not how they came in time, {_cure(options)}"
        )
    in_time = bool(options.input.time)
    says_nothing = undefined or (order.is_sorted and not in_time)
    return Verdict(scored, not_scored, order.runs, order.expected_runs, order.is_sorted, tuple(warnings), says_nothing)


def _cure(options: ReplayOptions) -> str:
    if options.input.time:
        return "have them in the order of their times, or leave --time out and mix them with --shuffle 0"
    return "mix them with --shuffle 0, or any other seed"


def _sorted_words(order: LabelOrder, options: ReplayOptions) -> str:
    return (
        f"the rows are sorted by class: {order.runs} runs of equal labels, where rows in a mixed order have about "
        f"{order.expected_runs:,.0f}. Each row was predicted from the rows before it, of other classes, so the figures "
        f"say nothing; {_cure(options)}"
    )


def _why_no_plane(rows: int, order: LabelOrder, options: ReplayOptions) -> str:
    if order.first_run >= options.chunk:
        return f"the first {order.first_run:,} of {rows:,} rows are of one class, and a plane needs two"
    if rows <= options.chunk:
        smaller = max(1, rows // 10)
        first = f"the first model, which is made after {options.chunk:,}"
        return f"all {rows:,} rows came before {first}; use --chunk {smaller}"
    return f"planes come after {options.chunk:,} rows (--chunk), once there are two classes among the live rows"


def _never_scored(model: Model) -> list[str]:
    """Classes that occur among live rows or predictions, but of which no row was scored."""
    known = set(model.counts) | {label for pair in model.scores.counts for label in pair}
    return sorted(known - set(model.scores.truths()))


def _never_recognised(model: Model, positive: str | None) -> str:
    """Why the G-mean is 0: classes of which no scored row was predicted rightly; empty if it is not."""
    if confusion.summary(model.scores, positive).gmean > 0.0:
        return ""
    rows, right = Counter[str](), Counter[str]()
    for (truth, predicted), count in model.scores.counts.items():
        name = truth if positive is None or truth == positive else f"not {positive}"
        rows[name] += count
        if truth == predicted or (positive is not None and positive not in (truth, predicted)):
            right[name] += count
    none = sorted((name for name in rows if not right[name]), key=lambda name: (-rows[name], name))
    if not none:
        return ""
    first = none[0]
    others = f", nor of {len(none) - 1} more of {len(rows)} classes" if len(none) > 1 else ""
    mark = f"; if {first!r} stands for a missing label, --missing-values says so" if _may_be_missing(first) else ""
    return (
        f"the G-mean is 0, since no scored row of the class {first!r} ({rows[first]:,}) was predicted as"
        f" such{others}{mark}"
    )


def _may_be_missing(label: str) -> bool:
    return label.lower() in MISSING_AMONG_NUMBERS


def _unscored(model: Model, positive: str | None) -> str:
    missing = _never_scored(model)
    if not missing and positive is not None:
        return f"the class {positive!r}, or none but of it,"
    return _named(missing)


def _named(missing: list[str]) -> str:
    return f"the class {missing[0]!r}" if len(missing) == 1 else f"the classes {', '.join(map(repr, missing[:12]))}"
