"""What a report is made of: the summary of one replay, read from its JSON and checked.

The file may come from anywhere: every value is checked for its type before it is used, and a message says which value
of which file is not what it should be. What is null in JSON is undefined: NaN here, a gap in a picture, a dash in a
table, and never a number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from deltaplane.log.prequential import MOST_POINTS
from deltaplane_services.observe.report.changes_told import DriftTold, FallTold, drift_told, fall_told
from deltaplane_services.observe.report.json_fields import NAN, Fields, ReportError, is_number

__all__ = ["LATER_MEASURES", "MEASURES", "RefusalReason", "Rejection", "Run", "Span", "read_run", "run_of"]

MEASURES = ("gmean", "sensitivity", "specificity", "f_measure", "relative_sensitivity", "accuracy")
LATER_MEASURES = (
    *("precision", "kappa", "matthews", "false_alarms_per_1000_rows", "false_alarms_per_day", "roc_auc", "pr_auc"),
)
"""Measures that summaries of versions before do not have."""


@dataclass(frozen=True)
class Span:
    """One point of the series: samples ``rows_from`` to ``rows_to``, and the model at their end.

    ``gmean`` and ``recalls`` are of these samples alone, ``lately_gmean`` and ``lately_recalls`` of those and some
    before them. ``time_milliseconds`` is None if the stream has no event times. ``weights``: a class to the weights
    of the plane that has it on its positive side; ``deviations``: those of the features over the live rows, None if
    they are not known. ``blend``: in the automatic mode the shares of the plane, by the kind
    of choice (windows, C, weightings, cuts) and by the choice.
    """

    rows_from: int
    rows_to: int
    time_milliseconds: int | None
    gmean: float
    recalls: Mapping[str, float]
    lately_gmean: float
    lately_recalls: Mapping[str, float]
    imbalance_ratio: float
    counts: Mapping[str, int]
    sigmas: Mapping[str, float]
    weights: Mapping[str, tuple[float, ...]]
    blend: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    deviations: tuple[float, ...] | None = None
    lately: Mapping[str, float] = field(default_factory=dict)
    """Precision, sensitivity, kappa false alarms per 1,000 rows, and the G-mean as served, lately; NaN if unknown."""
    shift: tuple[float, ...] = ()
    """Of the features lately from as many rows before, in deviations; NaN if unknown, none if nobody has it."""


@dataclass(frozen=True)
class Rejection:
    """One refused row; the line is None if it is not known."""

    line: int | None
    kind: str
    reason: str


@dataclass(frozen=True)
class RefusalReason:
    """Rows that were refused for one reason, and what cures it; empty if nothing is known to."""

    rows: int
    reason: str
    cure: str


@dataclass(frozen=True)
class Run:
    """One replay. ``measures`` are those of :data:`MEASURES` and :data:`LATER_MEASURES`; ``intervals`` are their ends.

    ``baselines``: measures of what the same rows score otherwise. ``top``: figures of the rows with the highest scores.
    ``headline``: the name and the value of the figure that is read first. ``objective``, ``model`` and ``settings`` are
    only shown. Summaries of versions before have less.
    """

    source: str
    stream: str
    rows: int
    scored: int
    seconds: float
    rows_per_second: float
    measures: Mapping[str, float]
    imbalance_ratio: float
    counts: Mapping[str, int]
    positive: str | None
    windows: tuple[str, ...]
    features: tuple[str, ...]
    digest: str
    verified: bool | None
    ended_early: str | None
    thinned: int
    rejected: int
    rejected_by_kind: Mapping[str, int]
    rejections: tuple[Rejection, ...]
    outcomes: Mapping[str, int]
    confusion: Mapping[tuple[str, str], int]
    spans: tuple[Span, ...]
    objective: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    first_time_milliseconds: int | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    positive_chosen: bool = False
    cautions: tuple[str, ...] = ()
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    top: tuple[Mapping[str, float], ...] = ()
    headline: tuple[str, float] | None = None
    served: Mapping[str, float] = field(default_factory=dict)
    refusal_reasons: tuple[RefusalReason, ...] = ()
    """Rows and measures of what was predicted when rows came whose labels came late; none if they came with them."""
    data: str | None = None
    falls: tuple[FallTold, ...] = ()
    drifts: tuple[DriftTold, ...] | None = None
    """None in summaries of versions that did not look for any."""

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Every class that was ever live or scored, in natural order."""
        labels = {*self.counts, *(label for cell in self.confusion for label in cell)}
        for span in self.spans:
            labels.update(span.counts, span.recalls)
        return tuple(sorted(labels, key=_natural))

    @cached_property
    def rows_by_class(self) -> dict[str, int]:
        """Scored rows of every class, by their true label."""
        totals = dict.fromkeys(self.classes, 0)
        for (truth, _), count in self.confusion.items():
            totals[truth] += count
        return totals

    @property
    def label_delay(self) -> str | None:
        """How late labels came, as ``--label-delay`` had it; None if they came with their rows."""
        delay = self.settings.get("label_delay")
        return None if delay is None else str(delay)

    @property
    def raw_features(self) -> tuple[str, ...]:
        """The features as rows have them; :attr:`features` are those of planes, which a map may have made."""
        definition = self.settings.get("definition")
        named = definition.get("features") if isinstance(definition, Mapping) else None
        names = named.get("names") if isinstance(named, Mapping) else None
        return tuple(map(str, names)) if isinstance(names, list) else self.features

    @cached_property
    def has_plane(self) -> bool:
        """Whether there was ever a plane."""
        return any(span.weights for span in self.spans) or self.model.get("weights") is not None

    @cached_property
    def has_times(self) -> bool:
        """Whether event times move."""
        return len({span.time_milliseconds for span in self.spans} - {None}) > 1

    def main_classes(self, most: int) -> tuple[str, ...]:
        """At most so many classes, those with the most rows, in natural order."""
        ranked = sorted(self.classes, key=lambda label: -self.rows_by_class[label])[:most]
        return tuple(label for label in self.classes if label in ranked)


def read_run(path: Path) -> Run:
    """The run that ``replay --json`` wrote to a file. Raises :class:`ReportError` if it is no such file."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ReportError(f"there is no file {str(path)!r}; check the path") from None
    except OSError as fault:
        raise ReportError(f"{str(path)!r} cannot be read: {fault}") from fault
    except (ValueError, RecursionError) as fault:
        raise ReportError(f"{str(path)!r} is not JSON ({fault}); give a file that replay --json has written") from fault
    return run_of(value, str(path))


def run_of(value: Any, name: str) -> Run:
    """The run of a summary in plain values; ``name`` stands for it in messages. Raises :class:`ReportError`."""
    top = Fields(name, "", value)
    rejections = top.part("rejections")
    model = top.part("model")
    features = tuple(map(str, model.items("features")))
    return Run(
        source=top.text("source"),
        stream=top.text("stream"),
        rows=top.whole("rows"),
        scored=top.whole("scored"),
        seconds=top.number("seconds"),
        rows_per_second=top.number("rows_per_second"),
        measures={name: top.number(name) for name in MEASURES} | {name: top.later(name) for name in LATER_MEASURES},
        imbalance_ratio=top.number("imbalance_ratio"),
        counts=top.table("classes", Fields.whole),
        positive=top.text_or_none("positive"),
        windows=tuple(map(str, top.items("window"))),
        features=features,
        digest=top.text("digest"),
        verified=top.flag_or_none("verified"),
        ended_early=top.text_or_none("ended_early"),
        thinned=top.whole("thinned"),
        rejected=top.whole("rejected"),
        rejected_by_kind=rejections.table("counts", Fields.whole),
        rejections=tuple(_rejection(item) for item in rejections.parts("first")),
        refusal_reasons=_reasons(rejections),
        outcomes=top.table("outcomes", Fields.whole),
        confusion={
            (cell.text("truth"), cell.text("predicted")): cell.whole("count") for cell in top.parts("confusion")
        },
        spans=_spans(top, len(features)),
        objective=dict(top.part("objective").value) if "objective" in top.value else {},
        model=dict(model.value),
        settings=dict(top.part("settings").value),
        first_time_milliseconds=_time(top.whole("first_event_time"))
        if top.value.get("first_event_time") is not None
        else None,
        warnings=top.texts("warnings"),
        notes=top.texts("notes"),
        positive_chosen=bool(top.flag_or_none("positive_chosen")),
        cautions=top.texts("cautions"),
        intervals=_intervals(top),
        baselines={
            name: {measure: part.later(measure) for measure in (*MEASURES, *LATER_MEASURES, "frozen_at")}
            for name, part in top.later_parts("baselines").items()
        },
        top=tuple({name: part.number(name) for name in _AT_THE_TOP} for part in top.parts("top"))
        if "top" in top.value
        else (),
        headline=_headline(top),
        served=_served(top),
        data=top.text_or_none("data"),
        falls=tuple(fall_told(part) for part in top.parts("falls")) if "falls" in top.value else (),
        drifts=tuple(drift_told(part) for part in top.parts("drifts")) if "drifts" in top.value else None,
    )


_AT_THE_TOP = ("rows", "share", "precision", "lift", "recall")


def _intervals(top: Fields) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name in top.part("intervals").value if "intervals" in top.value else ():
        ends = [NAN if end is None else end for end in top.part("intervals").items(name)]
        if len(ends) != 2 or not all(isinstance(end, int | float) for end in ends):
            raise top.wrong(f"intervals.{name}", "two numbers", ends)
        found[name] = float(ends[0]), float(ends[1])
    return found


def _headline(top: Fields) -> tuple[str, float] | None:
    if top.value.get("headline") is None:
        return None
    part = top.part("headline")
    return part.text("name"), part.number("value")


def _served(top: Fields) -> dict[str, float]:
    if top.value.get("served") is None:
        return {}
    part = top.part("served")
    later = {name: part.later(name) for name in ("precision", "kappa", "matthews", "false_alarms_per_1000_rows")}
    return {name: part.number(name) for name in ("rows", *MEASURES)} | later


def _reasons(rejections: Fields) -> tuple[RefusalReason, ...]:
    """The reasons, most rows first; summaries of versions before have none."""
    parts = rejections.parts("reasons") if "reasons" in rejections.value else []
    found = [RefusalReason(one.whole("rows"), one.text("reason"), one.text_or_none("cure") or "") for one in parts]
    return tuple(sorted(found, key=lambda one: -one.rows))


def _rejection(item: Fields) -> Rejection:
    line = None if item.value.get("line") is None else item.whole("line")
    return Rejection(line, item.text("kind"), item.text("reason"))


def _spans(top: Fields, number_of_features: int) -> tuple[Span, ...]:
    parts = top.parts("series")
    if len(parts) > 2 * MOST_POINTS:
        raise ReportError(f"{top.name}: series: expected at most {2 * MOST_POINTS} points, got {len(parts)}")
    spans = tuple(_span(part, number_of_features) for part in parts)
    for before, after in pairwise(spans):
        if after.rows_to <= before.rows_to:
            raise ReportError(f"{top.name}: series: expected rows_to to grow, got {before.rows_to}, {after.rows_to}")
    return spans


def _span(part: Fields, number_of_features: int) -> Span:
    lately = part.part("lately")
    return Span(
        rows_from=part.whole("rows_from"),
        rows_to=part.whole("rows_to"),
        time_milliseconds=_time(part.whole("watermark")),
        gmean=part.number("gmean"),
        recalls=part.table("recalls", Fields.number),
        lately_gmean=lately.number("gmean"),
        lately_recalls=lately.table("recalls", Fields.number),
        imbalance_ratio=part.number("imbalance_ratio"),
        counts=part.table("classes", Fields.whole),
        sigmas=part.table("sigmas", Fields.number),
        weights=_weights(part, number_of_features),
        blend={kind: part.part("blend").table(kind, Fields.number) for kind in part.part("blend").value},
        deviations=_deviations(part, number_of_features),
        lately={name: lately.later(name) for name in _LATELY},
        shift=_shift(lately),
    )


def _shift(lately: Fields) -> tuple[float, ...]:
    if lately.value.get("shift") is None:
        return ()
    values = [NAN if value is None else value for value in lately.items("shift")]
    if not all(isinstance(value, float) or is_number(value) for value in values):
        raise lately.wrong("shift", "numbers, one for each feature", values)
    return tuple(map(float, values))


_LATELY = ("precision", "sensitivity", "kappa", "false_alarms_per_1000_rows", "served_gmean")


def _time(milliseconds: int) -> int | None:
    """A stream without event times has them at zero, and one without rows at the least that fits: no date is there."""
    return milliseconds if 0 < abs(milliseconds) < _LATEST_TIME_MILLISECONDS else None


def _deviations(part: Fields, number_of_features: int) -> tuple[float, ...] | None:
    if part.value.get("deviations") is None:
        return None
    values = part.items("deviations")
    if len(values) != number_of_features or not all(is_number(value) and value >= 0 for value in values):
        raise part.wrong("deviations", f"{number_of_features} numbers from zero up, one for each feature", values)
    return tuple(map(float, values))


def _weights(part: Fields, number_of_features: int) -> dict[str, tuple[float, ...]]:
    if part.value.get("weights") is None:
        return {}
    rows, labels = part.items("weights"), part.items("weights_of")
    if len(rows) != len(labels):
        raise part.wrong("weights", f"{len(labels)} rows, one for each of weights_of", rows)
    weights = {}
    for label, row in zip(labels, rows, strict=True):
        if not isinstance(row, list) or not all(is_number(weight) for weight in row):
            raise part.wrong("weights", "lists of numbers", row)
        if len(row) != number_of_features:
            raise part.wrong("weights", f"{number_of_features} numbers in each row, one for each feature", row)
        weights[str(label)] = tuple(map(float, row))
    return weights


_LATEST_TIME_MILLISECONDS = 253_402_300_799_999
"""The end of the year 9999, behind which a calendar has no dates."""


def _natural(label: str) -> tuple[int, float, str]:
    """Numbers in the order of numbers, before all that is none."""
    try:
        number = float(label)
    except ValueError:
        return (1, 0.0, label)
    return (0, number, label) if math.isfinite(number) else (1, 0.0, label)
