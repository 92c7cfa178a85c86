"""Drawing along a stream: figures that share one x axis, lines that break where nothing is known, strips.

Every figure of a stream has the same margins to the left and right, so that what stands above each other is the same
row. A value that is NaN is not drawn: the line ends before it and begins again behind it, and a value between two such
ends, which has no line, is a dot.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from deltaplane.arrays import Floats
from deltaplane_services.observe.report.style import Ink, light

__all__ = [
    "LABEL_CHARACTERS",
    "LEGEND_LINE",
    "MOST_ON_A_LINEAR_AXIS",
    "NARROW",
    "TOP",
    "WIDE",
    "Axis",
    "Frame",
    "Line",
    "class_column",
    "column",
    "draw_line",
    "label_of",
    "legend_lines",
    "mark_spans",
    "scale_counts",
    "short",
    "stream_axes",
    "strips",
    "time_text",
]

LABEL_CHARACTERS = 28


@dataclass(frozen=True)
class Frame:
    """How wide a figure is, and its margins, in CSS pixels. Heights are each figure's own."""

    name: Literal["wide", "narrow"]
    width: int
    left: int
    right: int

    @property
    def plot_width(self) -> int:
        """Pixels between the margins."""
        return self.width - self.left - self.right


WIDE = Frame("wide", width=1000, left=52, right=14)
NARROW = Frame("narrow", width=346, left=42, right=10)
LEGEND_LINE = 19
MOST_ON_A_LINEAR_AXIS = 10.0
"""Times the smallest value is as large as the largest before an axis of counts turns logarithmic."""

TOP = 10


@dataclass(frozen=True)
class Axis:
    """The rows of a stream, and the event time at each: None where there are no times."""

    rows: Floats
    times_milliseconds: Floats | None
    first: float
    last: float

    @property
    def height(self) -> int:
        """Pixels below a plot, for one line of labels or two."""
        return 26 if self.times_milliseconds is None else 40


@dataclass(frozen=True)
class Line:
    """Values, NaN where there is none, and the name in the legend ('' for not there).

    They are at the rows of the axis, unless the line has rows of its own.
    """

    name: str
    values: Floats
    ink: Ink
    width: float = 1.9
    opacity: float = 1.0
    rows: Floats | None = None


def label_of(text: str) -> str:
    """A name as it stands in a picture: on one line, not too long, no character that has no picture."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return plain if len(plain) <= LABEL_CHARACTERS else f"{plain[: LABEL_CHARACTERS - 1]}…"


def legend_lines(frame: Frame, names: Sequence[str]) -> tuple[int, int]:
    """(columns, lines) of a legend with these names."""
    if not names:
        return 1, 0
    widest = max(48 + 7.4 * len(label_of(name)) for name in names)
    columns = max(1, min(len(names), int(frame.plot_width // widest)))
    return columns, math.ceil(len(names) / columns)


def stream_axes(frame: Frame, axis: Axis, height: int, lines: Sequence[Line]) -> tuple[Figure, Axes]:
    """A figure of one plot along the stream, with room above it for the legend of the lines, which it draws."""
    named = [line for line in lines if line.name]
    columns, count = legend_lines(frame, [line.name for line in named])
    top = TOP + count * LEGEND_LINE + (6 if count else 0)
    figure = Figure(figsize=(frame.width / 72, (top + height + axis.height) / 72))
    axes = _place(figure, frame, top, height)
    for line in lines:
        draw_line(axes, axis, line)
    _draw_legend(figure, frame, named, columns)
    _mark_rows(axes, axis, frame)
    return figure, axes


def strips(
    frame: Frame, axis: Axis, height: int, rows: Sequence[tuple[str, Sequence[Line]]]
) -> tuple[Figure, list[Axes]]:
    """A figure of many low plots on one x axis, each with its name above it; the first one's lines make the legend."""
    title, named = 20, [line for line in rows[0][1] if line.name]
    columns, count = legend_lines(frame, [line.name for line in named])
    top = TOP + count * LEGEND_LINE
    total = top + len(rows) * (height + title) + axis.height
    figure = Figure(figsize=(frame.width / 72, total / 72))
    every = []
    for at, (name, lines) in enumerate(rows):
        axes = _place(figure, frame, top + at * (height + title) + title, height)
        axes.text(0.0, 1.0 + 4 / height, _legible(name), transform=axes.transAxes, fontsize=12, va="bottom", ha="left")
        for line in lines:
            draw_line(axes, axis, line)
        _mark_rows(axes, axis, frame)
        if at + 1 < len(rows):
            axes.tick_params(axis="x", length=0, labelbottom=False)
        every.append(axes)
    _draw_legend(figure, frame, named, columns)
    return figure, every


def _draw_legend(figure: Figure, frame: Frame, lines: Sequence[Line], columns: int) -> None:
    if not lines:
        return
    figure.legend(
        [_sample(line) for line in lines],
        [_legible(line.name) for line in lines],
        loc="upper left",
        bbox_to_anchor=(frame.left / frame.width, 1.0 - 4 / (figure.get_figheight() * 72)),
        ncols=columns,
        borderaxespad=0.0,
        labelspacing=0.45,
    )


def _sample(line: Line) -> Line2D:
    return Line2D([], [], linestyle=_pattern(line.ink), color=line.ink.colour, linewidth=line.width, alpha=line.opacity)


def _pattern(pen: Ink) -> Literal["-"] | tuple[float, Sequence[float]]:
    return (0.0, pen.dashes) if pen.dashes else "-"


def _place(figure: Figure, frame: Frame, top: int, height: int) -> Axes:
    total = figure.get_figheight() * 72
    box = (
        frame.left / frame.width,
        1.0 - (top + height) / total,
        frame.plot_width / frame.width,
        height / total,
    )
    return figure.add_axes(box)


def draw_line(axes: Axes, axis: Axis, line: Line) -> None:
    """Draw a line with a gap at every NaN."""
    known = np.isfinite(line.values)
    rows = axis.rows if line.rows is None else line.rows
    axes.plot(
        rows,
        line.values,
        color=line.ink.colour,
        alpha=line.opacity,
        linewidth=line.width,
        linestyle=_pattern(line.ink),
    )
    padded = np.concatenate(([False], known, [False]))
    alone = known & ~padded[:-2] & ~padded[2:]
    if alone.any():
        axes.plot(
            rows[alone],
            line.values[alone],
            linestyle="none",
            marker="o",
            markersize=max(1.6, 1.7 * line.width),
            markeredgewidth=0,
            color=line.ink.colour,
            alpha=line.opacity,
        )


def mark_spans(axes: Axes, spans: Iterable[tuple[float, float]]) -> None:
    """Shade parts of the stream."""
    for first, last in spans:
        axes.axvspan(first, last, facecolor=light("soft"), alpha=0.13, edgecolor="none", zorder=0.5)


def scale_counts(axes: Axes, frame: Frame, values: Iterable[Floats], *, lowest: float) -> None:
    """A y axis for what is above zero: logarithmic where the largest is many times the smallest."""
    every = np.concatenate([np.asarray(part, dtype=np.float64) for part in values])
    every = every[np.isfinite(every) & (every > 0)]
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    if len(every) and every.max() >= MOST_ON_A_LINEAR_AXIS * every.min():
        axes.set_yscale("log")
        axes.set_ylim(every.min() / 1.25, every.max() * 1.25)
        steps = (
            (1.0,)
            if every.max() > 1e3 * every.min()
            else (1.0, 3.0)
            if every.max() > 50 * every.min()
            else (1.0, 2.0, 5.0)
        )
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        return
    most = float(every.max()) if len(every) else lowest + 1.0
    axes.set_ylim(lowest, max(most + 0.08 * (most - lowest), lowest + 0.1))
    axes.yaxis.set_major_locator(MaxNLocator(4 if frame.name == "narrow" else 5, steps=[1, 2, 2.5, 5, 10]))


def short(value: float, digits: int = 3) -> str:
    """A number in few characters: 1200 is 1.2k."""
    value = float(f"{value:.{digits}g}")
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        if size <= abs(value) < 1e3 * size:
            return f"{value / size:g}{letter}".replace("-", "\N{MINUS SIGN}")
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


def _mark_rows(axes: Axes, axis: Axis, frame: Frame) -> None:
    """Ticks at round rows, each with the event time there below it."""
    axes.set_xlim(axis.first, axis.last)
    most = 4 if frame.name == "narrow" else 9
    ticks = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], integer=True).tick_values(axis.first, axis.last)
    places = [float(place) for place in ticks if axis.first <= place <= axis.last]
    shown = [f"{place:,.0f}" if frame.name == "wide" else short(place) for place in places]
    shown[:1] = [f"row {shown[0]}"] if shown else []
    if axis.times_milliseconds is not None:
        times = np.interp(places, axis.rows, axis.times_milliseconds)
        ends = float(axis.times_milliseconds.min()), float(axis.times_milliseconds.max())
        shown = [f"{row}\n{_written(time, *ends)}" for row, time in zip(shown, times, strict=True)]
    axes.set_xticks(places, shown)
    for label in axes.get_xticklabels():
        # A label centred at the very edge would leave the figure.
        at = label.get_position()[0]
        share = (at - axis.first) / max(axis.last - axis.first, 1e-9)
        if share > 0.96:
            label.set_horizontalalignment("right")
        elif share < 0.02:
            label.set_horizontalalignment("left")


def _written(milliseconds: float, first: float, last: float) -> str:
    """A time, as exact as the span of times asks for in which it lies."""
    days, date = (last - first) / 86_400_000, _date(milliseconds)
    if days > 300:
        return f"{date:%b %Y}"
    if days > 3:
        return f"{date.day} {date:%b}"
    return f"{date.day} {date:%b %H:%M}" if days > 0.25 else f"{date:%H:%M:%S}"


def _date(milliseconds: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=float(milliseconds))


def time_text(milliseconds: int | None) -> str:
    """An event time for a table; a dash for None."""
    return "–" if milliseconds is None else _date(milliseconds).strftime("%Y-%m-%d %H:%M:%S")


def _legible(name: str) -> str:
    """A name for a legend, which leaves out what begins with an underscore."""
    shown = label_of(name)
    return f" {shown}" if shown.startswith("_") else shown


def column(values: Sequence[float]) -> Floats:
    """Values as float64[n]."""
    return np.asarray(values, dtype=np.float64)


def class_column(tables: Sequence[Mapping[str, float]], name: str, *, zero_is_gap: bool = False) -> Floats:
    """What each of the tables has under a name; NaN where it has nothing."""
    values = column([table.get(name, math.nan) for table in tables])
    return np.where(values == 0.0, math.nan, values) if zero_is_gap else values
