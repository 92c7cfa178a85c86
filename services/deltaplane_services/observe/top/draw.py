"""A frame drawn as text: one column of blocks on a narrow terminal, two on a wide one, three on a wider one.

An unknown value is shown as a dash. State is shown by a word as well as by colour, so that nothing depends on colour.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from deltaplane_services.observe.top.history import History
from deltaplane_services.observe.top.snapshot import ClassState, Frame, Service, State

__all__ = [
    "BARS",
    "HELP",
    "LEANING",
    "LEAST_SPAN",
    "LINES_OF_THE_REST",
    "MOST_CHOICES",
    "MOST_FEATURES",
    "ROOMY_COLUMNS",
    "STYLES",
    "UNKNOWN",
    "WIDE_COLUMNS",
    "draw",
    "duration",
    "sparkline",
]

WIDE_COLUMNS = 110
ROOMY_COLUMNS = 130
"""Columns from which on features are shown beside everything else."""

MOST_FEATURES = 8
"""The most features that are shown: those with the largest weights and shifts."""

_LABEL = 14
_LEAST_SPARK = 4
"""A trend of fewer points is not drawn: numbers have priority."""

HELP = (
    ("G-mean", "root of the product of the recalls of all classes, of the last samples and of all"),
    ("imbalance", "live rows of the largest class over those of the smallest"),
    ("C, condition", "regularisation of the plane; the digits of its solution that are lost are the logarithm"),
    ("last move", "how far the weights moved from the plane before, of their length"),
    ("windows, C …", "what the blended plane of the automatic mode leans to, by its share"),
    ("to model", "from a row in the log to a model that has learned it: half of them, and 95 of 100"),
    ("lag", "records that are still to be read"),
    ("rebuilds", "windows read again from the log, after a start or a failure"),
    ("precision", "of the rows predicted to be of the class, the share that is"),
    ("σ", "what a row of the class weighs"),
    ("weights", "times the deviation of each feature; above zero it speaks for the class"),
    ("shifts", "of the mean of each feature over the last 1,000 rows, in deviations, told without labels"),
    ("*", "the merger that is elected"),
)
"""The explanations of the words on the screen."""
LINES_OF_THE_REST = 18
"""Lines of a screen without its notes, services and classes."""

BARS = "▁▂▃▄▅▆▇█"
UNKNOWN = "–"
STYLES: Mapping[State, str] = {
    "ready": "green",
    "not ready": "yellow",
    "standing still": "red",
    "silent": "bold red",
    "stranger": "bold red",
}
LEANING = {"C": "choices of C"}
"""Kinds of choices that are shown under another name than their own."""

MOST_CHOICES = 2
"""The most choices of each kind of the automatic mode that are shown."""

LEAST_SPAN = 0.05
"""A trend of shares that moves less is drawn as nearly level, so that noise does not look like an event."""


def sparkline(points: Sequence[float | None], width: int, *, share: bool = False) -> str:
    """The last ``width`` points as bars; a gap is a blank.

    Bars rise from 0, or for a ``share`` from the smallest point shown.
    """
    shown = list(points)[-width:]
    known = [point for point in shown if point is not None]
    if not known:
        return " " * width
    low, high = (min(known), max(known)) if share else (0.0, max(known))
    if share and high - low < LEAST_SPAN:
        low, high = max(0.0, (low + high - LEAST_SPAN) / 2), max(LEAST_SPAN, (low + high + LEAST_SPAN) / 2)
    top = len(BARS) - 1
    span = high - low or 1.0
    bars = [" " if p is None else BARS[min(top, max(0, round((p - low) / span * top)))] for p in shown]
    return "".join(bars).rjust(width)


def draw(frame: Frame, history: History, columns: int, lines: int | None = None) -> RenderableType:
    """The frame for a terminal with so many columns, and with ``lines`` lines; None if it can scroll.

    If there are too few lines, some classes and ready services are only counted. A service that is not ready, or does
    not answer, is always listed.
    """
    wide, roomy = columns >= WIDE_COLUMNS, columns >= ROOMY_COLUMNS and bool(frame.weights or frame.shifts)
    spark = 24 if wide else 14
    sides_of = 3 if roomy else 2
    labels = max(_LABEL, len(frame.asked.objective) if frame.asked is not None else 0)
    room = _Room(spark, (columns - 2 * sides_of) // sides_of - labels)
    most_services, most_classes = _room(frame, lines)
    blocks: list[RenderableType] = [_head(frame)]
    blocks += [Text(note, "yellow", overflow="fold") for note in frame.notes]
    sides = Table.grid(padding=(0, 2), expand=True)
    parts = [_quality(frame, history, room), _flow(frame, history, room)]
    parts += [_features(frame, (columns - 2 * sides_of) // sides_of)] if roomy else []
    for _ in parts:
        sides.add_column(ratio=1)
    sides.add_row(*parts)
    blocks.append(sides)
    if frame.classes:
        shown = _classes(frame.classes[:most_classes], history, spark, columns)
        blocks += [shown, *_more(len(frame.classes), most_classes)]
    blocks.append(_counts(frame))
    # Keep the given order, but list services that are not ready first if there are too few lines.
    services = sorted(frame.services, key=lambda service: lines is not None and service.state == "ready")
    blocks += [_services(services[:most_services], wide=wide), *_more(len(services), most_services, " are ready")]
    return Group(*blocks)


def _room(frame: Frame, lines: int | None) -> tuple[int, int]:
    """(number of services, number of classes) that can be listed."""
    services, classes = len(frame.services), len(frame.classes)
    if lines is None or lines >= LINES_OF_THE_REST + len(frame.notes) + services + classes:
        return services, classes
    room = max(2, lines - LINES_OF_THE_REST - len(frame.notes) - 2)
    troubled = sum(service.state != "ready" for service in frame.services)
    most_services = max(troubled, min(services, room - min(classes, room // 2)))
    return most_services, max(1, min(classes, room - most_services))


def _more(there_are: int, shown: int, what: str = "") -> list[Text]:
    return [Text(f"and {there_are - shown} more{what}", "dim")] if there_are > shown else []


def _head(frame: Frame) -> Rule:
    ready = sum(service.state == "ready" for service in frame.services)
    of = len(frame.services)
    title = Text.assemble(
        (frame.stream or "no stream", "bold"),
        f"  {time.strftime('%H:%M:%S', time.localtime(frame.at))}  ",
        (f"{frame.answering} of {of} up", "green" if frame.answering == of else "bold red"),
        ", ",
        (f"{ready} ready", "green" if ready == of else "yellow"),
    )
    return Rule(title, align="left", style="dim")


def _pairs() -> Table:
    pairs = Table.grid(padding=(0, 1))
    pairs.add_column(style="cyan", no_wrap=True)
    # Text that is too long wraps to the next line, so no number is cut off.
    pairs.add_column(overflow="fold")
    return pairs


def _features(frame: Frame, columns: int) -> Table:
    """The features with the largest weights, and those that have shifted most; names get what the numbers leave."""
    classes = [*frame.weights][:2]
    heads = [f"weight, {label}" if len(label) <= 8 else "weight" for label in classes]
    numbers = sum(max(len(head), len("+0.000")) + _BETWEEN for head in (*heads, "shift"))
    table = Table(box=None, pad_edge=False, padding=(0, _BETWEEN, 0, 0))
    room = max(_LABEL, columns - numbers - _BETWEEN)
    table.add_column("feature", style="cyan", overflow="ellipsis", no_wrap=True, max_width=room)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("shift", justify="right", no_wrap=True)
    sizes = dict.fromkeys(frame.shifts, 0.0)
    for label in classes:
        for name, weight in frame.weights[label].items():
            sizes[name] = max(sizes.get(name, 0.0), abs(weight))
    for name in sorted(sizes, key=lambda one: (-sizes[one], one))[:MOST_FEATURES]:
        weights = [frame.weights[label].get(name) for label in classes]
        shift = frame.shifts.get(name)
        style = "yellow" if shift is not None and abs(shift) >= 1.0 else ""
        table.add_row(Text(name), *map(_signed, weights), Text(_signed(shift), style))
    return table


def _signed(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:+.3f}"


def _quality(frame: Frame, history: History, room: _Room) -> Table:
    pairs, model, asked = _pairs(), frame.model, frame.asked
    if asked is not None and asked.objective != "gmean":
        figures = f"{_number(asked.value.get('recent'))} (all {_number(asked.value.get('all'))})"
        figures += ", NOT within its bound" if asked.unmet else ""
        pairs.add_row(asked.objective, _with_trend(figures, history.trend("asked"), room))
    recent, of_all = _share(frame.gmean.get("recent")), _share(frame.gmean.get("all"))
    pairs.add_row("G-mean", _with_trend(f"{recent} (all {of_all})", history.trend("gmean"), room, share=True))
    if frame.served:
        # A line for each site, if there are several.
        told = [
            _share(value) if len(frame.served) == 1 else f"{site} {_share(value)}"
            for site, value in frame.served.items()
        ]
        pairs.add_row("as served", ", ".join(told[:MOST_CHOICES]))
    pairs.add_row("imbalance", _with_trend(_number(frame.imbalance_ratio), history.trend("imbalance"), room))
    if model is None:
        for name in ("model", "C, condition", "last move"):
            pairs.add_row(name, UNKNOWN)
        return pairs
    version = f"version {model.version:,}, {duration(model.age_seconds)} old"
    pairs.add_row("model", version)
    if model.refused or model.plane_version != model.version:
        plane = f"of version {model.plane_version:,}" if model.plane_version else "none"
        pairs.add_row("plane", Text(f"{plane}{', newest refused' if model.refused else ''}", "bold red"))
    pairs.add_row("C, condition", f"{_number(model.C)}, {_number(model.condition_number)}")
    pairs.add_row("last move", _moved(model.weight_change_norm, model.weight_norm))
    if model.blend_shares is not None:
        for of, shares in model.blend_shares.items():
            pairs.add_row(LEANING.get(of, of), _leaning(shares))
    return pairs


def _leaning(shares: Mapping[str, float]) -> str:
    """The choices with the largest shares of the plane."""
    most = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{choice} {share:.0%}" for choice, share in most[:MOST_CHOICES])


def _moved(change: float | None, norm: float | None) -> str:
    return f"{change / norm:.2%} of its length" if change is not None and norm else UNKNOWN


def _flow(frame: Frame, history: History, room: _Room) -> Table:
    pairs, flow = _pairs(), frame.flow
    pairs.add_row("samples/s", _with_trend(_number(flow.samples_per_second), history.trend("samples"), room))
    latency = flow.sample_to_model_seconds
    middle, most = duration(latency["p50"]), duration(latency["p95"])
    said = UNKNOWN if latency["p50"] is None else f"{middle}, 95%: {most}"
    pairs.add_row("to model", _with_trend(said, history.trend("latency"), room))
    lag = f"{sum(flow.lag_records.values()):,}" if flow.lag_records else UNKNOWN
    pairs.add_row("lag", _with_trend(lag, history.trend("lag"), room))
    waiting = [f"{topic} {count:,}" for topic, count in flow.lag_records.items() if count]
    if waiting:
        pairs.add_row("", ", ".join(waiting))
    deltas, predictions = _number(flow.deltas_per_second), _number(flow.predictions_per_second)
    pairs.add_row("deltas/s", f"{deltas}, predictions/s {predictions}")
    rebuilds = frame.rebuilds
    done = UNKNOWN if rebuilds.done is None else f"{rebuilds.done:,} done"
    mean = f", {duration(rebuilds.mean_seconds)} each" if rebuilds.mean_seconds is not None else ""
    pairs.add_row("rebuilds", done + mean)
    if rebuilds.under_way_seconds:
        waits = ", ".join(f"{source} for {duration(age)}" for source, age in rebuilds.under_way_seconds.items())
        pairs.add_row("", Text(f"now {waits}", "yellow"))
    return pairs


def _classes(classes: Sequence[ClassState], history: History, spark: int, columns: int) -> Table:
    total = sum(one.live_samples or 0 for one in classes)
    body = [_numbers_of(one, total) for one in classes]
    widths = {name: max(len(name), _LEAST_WIDTH, *(len(row[name]) for row in body)) + _BETWEEN for name in body[0]}
    names = max(len("class"), min(_LONGEST_CLASS, max(len(one.name) for one in classes)))
    # No number is cut off: some columns give way before the others, and the trend gets what is left.
    for name in _GIVE_WAY:
        if names + _BETWEEN + sum(widths.values()) > columns:
            del widths[name]
    names = max(len("class"), min(names, columns - _BETWEEN - sum(widths.values())))
    spark = min(spark, columns - names - 2 * _BETWEEN - sum(widths.values()))
    table = Table(box=None, pad_edge=False, padding=(0, _BETWEEN, 0, 0))
    table.add_column("class", style="cyan", overflow="ellipsis", no_wrap=True, max_width=names)
    for name in widths:
        table.add_column(name, justify="right", no_wrap=True)
        if name == "recall" and spark >= _LEAST_SPARK:
            table.add_column("", no_wrap=True)
    for one, row in zip(classes, body, strict=True):
        cells = [Text(row[name], "bold" if name == "recall" else "") for name in widths]
        if spark >= _LEAST_SPARK:
            cells.insert(1, Text(sparkline(history.trend("recall", one.name), spark, share=True), "blue"))
        table.add_row(Text(one.name), *cells)
    return table


def _numbers_of(one: ClassState, total: int) -> dict[str, str]:
    live = one.live_samples
    return {
        "recall": _share(one.recall),
        "(all)": _share(one.recall_of_all),
        "precision": _share(one.precision),
        "specificity": _share(one.specificity),
        "F": _share(one.f_measure),
        "live": UNKNOWN if live is None else f"{live:,}",
        "share": f"{live / total:.1%}" if live is not None and total else UNKNOWN,
        "σ": _number(one.sigma),
    }


_GIVE_WAY = ("F", "specificity", "share", "(all)")
"""The columns of a class that are left out if there is no room, the first of them first."""

_BETWEEN = 2
_LONGEST_CLASS = 20
_LEAST_WIDTH = 5


def _counts(frame: Frame) -> Table:
    pairs = Table.grid(padding=(0, 1))
    pairs.add_column(style="cyan", no_wrap=True)
    pairs.add_column(overflow="fold")
    counts = frame.counts
    if counts is None:
        for name in ("samples", "rejected", "retirements"):
            pairs.add_row(name, UNKNOWN)
        return pairs
    pairs.add_row("samples", _listed(counts.samples))
    pairs.add_row("rejected", Text(_listed(counts.rejected), "yellow" if any(counts.rejected.values()) else ""))
    waiting = f"; {counts.retirements_waiting:,} wait now" if counts.retirements_waiting else ""
    pairs.add_row("retirements", _listed(counts.retirements) + waiting)
    return pairs


def _listed(counts: Mapping[str, int]) -> str:
    """The counts that are not 0, the largest first."""
    found = sorted(((count, name) for name, count in counts.items() if count), key=lambda pair: (-pair[0], pair[1]))
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for count, name in found) or "none"


def _services(services: Sequence[Service], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    table.add_column("service", style="cyan", no_wrap=True)
    table.add_column("address", no_wrap=True, overflow="ellipsis", max_width=40 if wide else 22)
    table.add_column("state", ratio=1, overflow="fold")
    for name in ("model", "lag", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    several = len({service.stream for service in services if service.stream is not None}) > 1
    for service in services:
        role = f"{service.role or '?'}{'*' if service.elected else ''}"
        memory = service.resident_memory_bytes
        table.add_row(
            Text(f"{role} {service.stream}" if several and service.stream else role),
            Text(service.address),
            _state(service),
            _count(service.seen_model_version),
            _count(service.lag_records),
            UNKNOWN if memory is None else f"{memory / 1e6:,.0f} MB",
        )
    return table


def _state(service: Service) -> Text:
    style = STYLES[service.state]
    if service.state == "silent":
        return Text(f"no answer for {duration(service.silent_seconds)}: {service.why}", style)
    if service.state == "stranger":
        return Text(f"no service: {service.why}", style)
    if service.state == "ready":
        # The text of a ready service may be cut off; that of any other is shown in full.
        return Text.assemble(("ready", style), (f": {service.why}", "dim"), no_wrap=True, overflow="ellipsis")
    return Text.assemble((service.state, style), f": {service.why}")


# Numbers -------------------------------------------------------------------------------------------------------------


class _Room(NamedTuple):
    """The most columns of a trend, and the columns for a trend and the numbers before it together."""

    spark: int
    columns: int


def _with_trend(text: str, trend: Sequence[float | None], room: _Room, *, share: bool = False) -> Text:
    """The numbers, followed by their trend if there is room for it."""
    width = min(room.spark, room.columns - len(text) - 1)
    if width < _LEAST_SPARK:
        return Text(text, "bold")
    return Text.assemble((text, "bold"), " ", (sparkline(trend, width, share=share).lstrip(), "blue"))


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _number(value: float | None) -> str:
    """A number with three or four significant digits."""
    if value is None:
        return UNKNOWN
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def duration(seconds: float | None) -> str:
    """A duration such as ``3 ms``, ``1.4 s``, ``5 min 3 s``, ``2 h 10 min`` or ``3 d 4 h``."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{whole} s"
