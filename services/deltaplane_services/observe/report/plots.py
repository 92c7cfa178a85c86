"""Pictures as PNG and SVG files, drawn by matplotlib on white; letters are shapes, so the files need no font."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from deltaplane_services.observe.report.labels import date_of, short, short_names
from deltaplane_services.observe.report.pictures import Axis, Chart, Line, Matrix, Panel, isolated
from deltaplane_services.observe.report.style import Ink, light
from deltaplane_services.system.output_files import OutputFile

__all__ = ["write_plots"]

_DOTS = {"png": 160, "svg": 72}
_LONGEST_NAME = 60
_TITLE: dict[str, Any] = {"size": 15, "weight": "bold"}
_WIDTH_INCHES = 1000 / 72
# No metadata: a file must not depend on the time or the version that wrote it.
_METADATA: Mapping[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
}

_SETTINGS: dict[str, object] = {
    "font.size": 12,
    "font.family": "DejaVu Sans",
    "text.parse_math": False,  # A label with dollar signs is a label, not a formula.
    "text.color": light("ink"),
    "axes.edgecolor": light("edge"),
    "axes.labelcolor": light("soft"),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": light("grid"),
    "xtick.color": light("edge"),
    "xtick.labelcolor": light("soft"),
    "ytick.labelcolor": light("soft"),
    "ytick.left": False,
    "ytick.minor.left": False,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.frameon": False,
    "lines.scale_dashes": False,
    "lines.dash_capstyle": "butt",
    "svg.fonttype": "path",
}


def write_plots(charts: Sequence[Chart], of: str, directory: Path) -> list[Path]:
    """The files of all pictures of ``of``, each as PNG and as SVG: all are written, or none.

    Raises :class:`OutputRefused`.
    """
    (name,) = short_names([of], _LONGEST_NAME).values()
    pictures = {}
    for chart in charts:
        with _drawing(chart.name):
            title = f"{chart.title}: {name}"
            figure = _draw_stream(chart, title) if chart.matrix is None else _draw_matrix(chart.matrix, title)
            for ending, metadata in _METADATA.items():
                picture = io.BytesIO()
                figure.savefig(picture, format=ending, facecolor="white", dpi=_DOTS[ending], metadata=metadata)
                figure.set_layout_engine("none")  # The second format keeps the layout of the first.
                pictures[directory / f"{chart.name}.{ending}"] = picture.getvalue()
    with ExitStack() as stack:
        outputs = [stack.enter_context(OutputFile(path, "plots")) for path in pictures]
        for output, content in zip(outputs, pictures.values(), strict=True):
            output.write(content)
        for output in outputs:
            output.keep()
    return [*pictures]


@contextmanager
def _drawing(name: str) -> Iterator[None]:
    """Draw with our settings of matplotlib only; the same ``name`` gives the same file each time."""
    with mpl.rc_context(), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box; matplotlib need not warn about each.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from")
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", _SETTINGS | {"svg.hashsalt": name}))
        yield


def _draw_stream(chart: Chart, title: str) -> Figure:
    assert chart.axis is not None, "panels lie along the stream"
    heights = [panel.height for panel in chart.panels]
    inches = (sum(heights) + 24 * len(heights) + 110) / 72
    figure = Figure(figsize=(_WIDTH_INCHES, inches), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    every = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    titles = short_names((panel.name for panel in chart.panels), _LONGEST_NAME)
    for axes, panel in zip(every, chart.panels, strict=True):
        axes.set_title(titles[panel.name], loc="left", fontsize=12, pad=3)
        for line in panel.lines:
            _draw_line(axes, chart.axis, line)
        for first, last in chart.shaded:
            axes.axvspan(first, last, facecolor=light("soft"), alpha=0.13, edgecolor="none", zorder=0.5)
        _scale(axes, panel)
    _mark_rows(every[-1], chart.axis)
    if not chart.legend:
        _draw_title(figure, title)
    else:
        names = short_names((line.name for line in chart.legend), _LONGEST_NAME)
        # Matplotlib leaves labels that begin with an underscore out of the legend.
        labels = [f"\N{ZERO WIDTH SPACE}{names[line.name]}" for line in chart.legend]
        columns = max(1, min(len(labels), int(130 // (max(map(len, labels)) + 8))))
        look: dict[str, Any] = {"alignment": "left", "title_fontproperties": _TITLE, "ncols": columns}
        figure.legend(
            [line for line in every[0].lines if line.get_linestyle() != "None"][: len(labels)],
            labels,
            loc="outside upper left",
            title=title,
            **look,
        )
    return figure


def _draw_title(figure: Figure, title: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontproperties=FontProperties(**_TITLE))


def _draw_line(axes: Axes, axis: Axis, line: Line) -> None:
    rows, colour = axis.rows if line.rows is None else line.rows, light(line.ink.colour)
    look: dict[str, Any] = {"color": colour, "alpha": line.opacity}
    axes.plot(rows, line.values, linestyle=_pattern(line.ink), linewidth=line.width, **look)
    alone = isolated(line.values)
    if alone.any():
        axes.plot(rows[alone], line.values[alone], linestyle="none", marker="o", markersize=3, **look)
    if line.filled:
        axes.fill_between(rows, line.values, 0.0, color=colour, alpha=0.13, linewidth=0)


def _pattern(ink: Ink) -> Literal["-"] | tuple[float, tuple[float, ...]]:
    return (0.0, ink.dashes) if ink.dashes else "-"


def _scale(axes: Axes, panel: Panel) -> None:
    low = panel.height < 100
    axes.yaxis.set_major_locator(MaxNLocator(2 if low else 5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    if panel.y == "share":
        axes.set_ylim(-0.02, 1.04)
        axes.set_yticks([0, 1] if panel.height < 40 else [0, 0.5, 1] if low else np.linspace(0, 1, 6))
    elif panel.y == "signed":
        bottom, top = panel.limits or (-1.0, 1.0)
        axes.set_ylim(bottom - 0.08 * (top - bottom), top + 0.08 * (top - bottom))
        axes.axhline(0.0, color=light("edge"), linewidth=1.0)
    elif panel.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 3.0), numticks=12))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=panel.lowest, top=max(axes.get_ylim()[1], panel.lowest + 0.1))


def _mark_rows(axes: Axes, axis: Axis) -> None:
    """Set ticks at round rows, each with the event time below it."""
    axes.set_xlim(axis.first, axis.last)
    ticks = MaxNLocator(9, steps=[1, 2, 2.5, 5, 10], integer=True).tick_values(axis.first, axis.last)
    places = [float(place) for place in ticks if axis.first <= place <= axis.last]
    shown = [f"{place:,.0f}" for place in places]
    shown[:1] = [f"row {shown[0]}"] if shown else []
    if axis.times_milliseconds is not None:
        times = np.interp(places, axis.rows, axis.times_milliseconds)
        days = float(np.ptp(axis.times_milliseconds)) / 86_400_000
        shown = [f"{row}\n{_written(time, days)}" for row, time in zip(shown, times.tolist(), strict=True)]
    axes.set_xticks(places, shown)


def _written(milliseconds: float, days: float) -> str:
    """A time as text; its precision follows from the number of ``days`` that all times span."""
    date = date_of(milliseconds)
    if days > 300:
        return f"{date:%b %Y}"
    if days > 3:
        return f"{date.day} {date:%b}"
    return f"{date.day} {date:%b %H:%M}" if days > 0.25 else f"{date:%H:%M:%S}"


def _draw_matrix(matrix: Matrix, title: str) -> Figure:
    size = len(matrix.labels)
    names = [*short_names(matrix.labels, _LONGEST_NAME // 2).values()]
    side = (1.5 if size <= 4 else 0.7) * size
    figure = Figure(
        figsize=(side + 3.5, side + (1.2 if size <= 4 else 3.2)), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08)
    )
    _draw_title(figure, title)
    axes = figure.subplots()
    colours = LinearSegmentedColormap.from_list("shares", [light("card"), light("line1")])
    axes.imshow(matrix.shares, cmap=colours, vmin=0.0, vmax=2.0)
    for (row, at), count in np.ndenumerate(matrix.counts):
        text = f"{count:,}\n{matrix.shares[row, at]:.0%}"
        axes.text(at, row, text, ha="center", va="center", fontsize=13 if size <= 4 else 8)
    axes.set_xticks(range(size), names, rotation=0 if size <= 4 else 90)
    axes.set_yticks(range(size), names)
    axes.tick_params(top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.set(xlabel="predicted", ylabel="true")
    axes.xaxis.set_label_position("top")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return figure
