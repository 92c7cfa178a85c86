"""What a report is made of: the summary of one replay, read from its JSON and checked.

The file may come from anywhere: every value is checked for its type before it is used, and a message says which value
of which file is not what it should be. What is null in JSON is undefined: NaN here, a gap in a picture, a dash in a
table, and never a number.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from deltaplane.errors import DeltaplaneError
from deltaplane.log.prequential import MOST_POINTS

__all__ = ["LATER_MEASURES", "MEASURES", "NAN", "Rejection", "ReportError", "Run", "Span", "read_run", "run_of"]

MEASURES = ("gmean", "sensitivity", "specificity", "f_measure", "relative_sensitivity", "accuracy")
LATER_MEASURES = (
    *("precision", "kappa", "matthews", "false_alarms_per_1000_rows", "false_alarms_per_day", "roc_auc", "pr_auc"),
)
"""Measures that summaries of versions before do not have."""
NAN = math.nan
V = TypeVar("V")


class ReportError(DeltaplaneError):
    """A report cannot be made, and why."""


@dataclass(frozen=True)
class Span:
    """One point of the series: samples ``rows_from`` to ``rows_to``, and the model at their end.

    ``gmean`` and ``recalls`` are of these samples alone, ``lately_gmean`` and ``lately_recalls`` of those and some
    before them. ``time_milliseconds`` is None where the stream has no event times. ``weights``: a class to the weights
    of the plane that has it on its positive side; ``deviations``: those of the features over the live rows, None where
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
    """Precision, sensitivity, kappa and false alarms per 1,000 rows, lately; none in summaries of versions before."""


@dataclass(frozen=True)
class Rejection:
    """One refused row; the line is None where it is not known."""

    line: int | None
    kind: str
    reason: str


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
    data: str | None = None

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
    """The run that ``replay --json`` wrote to a file. Raises :class:`ReportError` where it is no such file."""
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
    top = _Fields(name, "", value)
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
        counts=top.table("classes", _Fields.whole),
        positive=top.text_or_none("positive"),
        windows=tuple(map(str, top.items("window"))),
        features=features,
        digest=top.text("digest"),
        verified=top.flag_or_none("verified"),
        ended_early=top.text_or_none("ended_early"),
        thinned=top.whole("thinned"),
        rejected=top.whole("rejected"),
        rejected_by_kind=rejections.table("counts", _Fields.whole),
        rejections=tuple(_rejection(item) for item in rejections.parts("first")),
        outcomes=top.table("outcomes", _Fields.whole),
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
        data=top.text_or_none("data"),
    )


_AT_THE_TOP = ("rows", "share", "precision", "lift", "recall")


def _intervals(top: _Fields) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name in top.part("intervals").value if "intervals" in top.value else ():
        ends = [NAN if end is None else end for end in top.part("intervals").items(name)]
        if len(ends) != 2 or not all(isinstance(end, int | float) for end in ends):
            raise top.wrong(f"intervals.{name}", "two numbers", ends)
        found[name] = float(ends[0]), float(ends[1])
    return found


def _headline(top: _Fields) -> tuple[str, float] | None:
    if top.value.get("headline") is None:
        return None
    part = top.part("headline")
    return part.text("name"), part.number("value")


def _rejection(item: _Fields) -> Rejection:
    line = None if item.value.get("line") is None else item.whole("line")
    return Rejection(line, item.text("kind"), item.text("reason"))


def _spans(top: _Fields, number_of_features: int) -> tuple[Span, ...]:
    parts = top.parts("series")
    if len(parts) > 2 * MOST_POINTS:
        raise ReportError(f"{top.name}: series: expected at most {2 * MOST_POINTS} points, got {len(parts)}")
    spans = tuple(_span(part, number_of_features) for part in parts)
    for before, after in pairwise(spans):
        if after.rows_to <= before.rows_to:
            raise ReportError(f"{top.name}: series: expected rows_to to grow, got {before.rows_to}, {after.rows_to}")
    return spans


def _span(part: _Fields, number_of_features: int) -> Span:
    lately = part.part("lately")
    return Span(
        rows_from=part.whole("rows_from"),
        rows_to=part.whole("rows_to"),
        time_milliseconds=_time(part.whole("watermark")),
        gmean=part.number("gmean"),
        recalls=part.table("recalls", _Fields.number),
        lately_gmean=lately.number("gmean"),
        lately_recalls=lately.table("recalls", _Fields.number),
        imbalance_ratio=part.number("imbalance_ratio"),
        counts=part.table("classes", _Fields.whole),
        sigmas=part.table("sigmas", _Fields.number),
        weights=_weights(part, number_of_features),
        blend={kind: part.part("blend").table(kind, _Fields.number) for kind in part.part("blend").value},
        deviations=_deviations(part, number_of_features),
        lately={name: lately.later(name) for name in _LATELY},
    )


_LATELY = ("precision", "sensitivity", "kappa", "false_alarms_per_1000_rows")


def _time(milliseconds: int) -> int | None:
    """A stream without event times has them at zero, and one without rows at the least that fits: no date is there."""
    return milliseconds if 0 < abs(milliseconds) < _LATEST_TIME_MILLISECONDS else None


def _deviations(part: _Fields, number_of_features: int) -> tuple[float, ...] | None:
    if part.value.get("deviations") is None:
        return None
    values = part.items("deviations")
    if len(values) != number_of_features or not all(_is_number(value) and value >= 0 for value in values):
        raise part.wrong("deviations", f"{number_of_features} numbers from zero up, one for each feature", values)
    return tuple(map(float, values))


def _weights(part: _Fields, number_of_features: int) -> dict[str, tuple[float, ...]]:
    if part.value.get("weights") is None:
        return {}
    rows, labels = part.items("weights"), part.items("weights_of")
    if len(rows) != len(labels):
        raise part.wrong("weights", f"{len(labels)} rows, one for each of weights_of", rows)
    weights = {}
    for label, row in zip(labels, rows, strict=True):
        if not isinstance(row, list) or not all(_is_number(weight) for weight in row):
            raise part.wrong("weights", "lists of numbers", row)
        if len(row) != number_of_features:
            raise part.wrong("weights", f"{number_of_features} numbers in each row, one for each feature", row)
        weights[str(label)] = tuple(map(float, row))
    return weights


_LATEST_TIME_MILLISECONDS = 253_402_300_799_999
"""The end of the year 9999, behind which a calendar has no dates."""


class _Fields:
    """An object of the JSON, and where it stands; takes values out of it by their type."""

    def __init__(self, name: str, place: str, value: Any) -> None:
        self.name = name
        self.quantize = place
        if not isinstance(value, dict):
            raise ReportError(
                f"{name}: {place or 'top'}: expected an object, got {_shown(value)};"
                " give a file that replay --json has written"
            )
        self.value: dict[str, Any] = value

    def wrong(self, key: str, expected: str, got: Any) -> ReportError:
        """What to raise where a value is not what was expected."""
        return ReportError(
            f"{self.name}: {self.quantize}{key}: expected {expected}, got {_shown(got)};"
            " give a file that replay --json of this version has written"
        )

    def text(self, key: str) -> str:
        """A string."""
        return str(self._get(key, "text", lambda value: isinstance(value, str)))

    def text_or_none(self, key: str) -> str | None:
        """A string, or None for null."""
        return None if self.value.get(key) is None else self.text(key)

    def texts(self, key: str) -> tuple[str, ...]:
        """Texts; none where versions of before have not said any."""
        return tuple(map(str, self.items(key))) if key in self.value else ()

    def flag_or_none(self, key: str) -> bool | None:
        """True or false, or None for null."""
        return None if self.value.get(key) is None else bool(self._get(key, "true or false", _is_flag))

    def whole(self, key: str) -> int:
        """A whole number."""
        return int(self._get(key, "a whole number", _is_whole))

    def number(self, key: str) -> float:
        """A number, or NaN for null. What is not there is wrong."""
        value = self._get(key, "a number or null", lambda value: value is None or _is_number(value))
        return NAN if value is None else float(value)

    def later(self, key: str) -> float:
        """A number, or NaN for null and where versions of before have none."""
        return self.number(key) if key in self.value else NAN

    def later_parts(self, key: str) -> dict[str, _Fields]:
        """An object of objects; an empty one where versions of before have none."""
        return {name: self.part(key).part(name) for name in self.part(key).value} if key in self.value else {}

    def items(self, key: str) -> list[Any]:
        """A list."""
        return list(self._get(key, "a list", lambda value: isinstance(value, list)))

    def part(self, key: str) -> _Fields:
        """An object; null is an empty one."""
        value = self._get(key, "an object", lambda value: value is None or isinstance(value, dict))
        return _Fields(self.name, f"{self.quantize}{key}.", value or {})

    def parts(self, key: str) -> list[_Fields]:
        """A list of objects."""
        return [_Fields(self.name, f"{self.quantize}{key}[{at}].", item) for at, item in enumerate(self.items(key))]

    def table(self, key: str, take: Callable[[_Fields, str], V]) -> dict[str, V]:
        """An object whose values are all of one type; null is an empty one."""
        part = self.part(key)
        return {name: take(part, name) for name in part.value}

    def _get(self, key: str, expected: str, fits: Callable[[Any], bool]) -> Any:
        if key not in self.value:
            raise self.wrong(key, expected, "nothing")
        value = self.value[key]
        if not fits(value):
            raise self.wrong(key, expected, value)
        return value


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _natural(label: str) -> tuple[int, float, str]:
    """Numbers in the order of numbers, before all that is none."""
    try:
        number = float(label)
    except ValueError:
        return (1, 0.0, label)
    return (0, number, label) if math.isfinite(number) else (1, 0.0, label)
