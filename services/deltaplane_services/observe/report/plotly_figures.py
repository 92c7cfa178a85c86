"""Pictures as figures of Plotly, and Plotly's script for the page; the browser draws them.

Labels are shown as text: Plotly interprets a few tags in them, so they are escaped. Names are wrapped, and Plotly makes
room for the labels of an axis, so none is cut off.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import math
import re
import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from deltaplane.arrays import Floats
from deltaplane_services.observe.report.labels import short_names
from deltaplane_services.observe.report.pictures import Axis, Chart, Line, Matrix, Panel, isolated
from deltaplane_services.observe.report.style import Ink, light

__all__ = ["LONGEST_NAME", "Library", "figure_of", "library", "narrow_layouts"]

LONGEST_NAME = 84
"""The most characters of a name in a picture."""

_LEFT, _GAP, _TITLE = 64, 10, 22
_CELL_LINE = 18
_TENTHS = [0, 0.2, 0.4, 0.6, 0.8, 1]
_CLEAR = "rgba(0,0,0,0)"


class Library(NamedTuple):
    """Plotly's script as the page holds it: compressed, in base64. ``text`` is the unpacked script.

    ``guards``: ids of elements that keep the script from adding style sheets for maps, which no report has, and which
    the page's policy forbids.
    """

    packed: str
    text: str
    guards: tuple[str, ...]


@functools.cache
def library() -> Library:
    """The script of the installed package; the same bytes on each call."""
    text = get_plotlyjs()
    guards = tuple(dict.fromkeys(re.findall(r'getElementById\("([0-9a-f]{64})"\)', text)))
    return Library(base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode(), text, guards)


_CHARACTERS_BELOW = ((760, 66), (600, 50), (480, 34), (340, 26))
"""The most characters of a panel's name in pictures that are narrower than so many pixels."""

_NARROW = 600


def narrow_layouts(chart: Chart, layout: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The parts of a figure's ``layout`` to replace if it is narrower than so many pixels, the widest first.

    Names of panels become shorter if they would not fit, and names above a matrix of more than two classes stand
    upright.
    """
    if chart.matrix is None:
        panels = [panel.name for panel in chart.panels if panel.name]
        found = []
        for below, characters in _CHARACTERS_BELOW:
            titles = short_names(panels, characters)
            if any(title != name for name, title in titles.items()):
                texts = (html.escape(title, quote=False) for title in titles.values())
                notes = zip(layout.get("annotations", ()), texts, strict=True)
                found.append((below, {"annotations": [{**note, "text": text} for note, text in notes]}))
        return found
    if len(chart.matrix.labels) <= 2:
        return []
    names = short_names(chart.matrix.labels, LONGEST_NAME // 3)
    upright = [html.escape(names[label], quote=False) for label in chart.matrix.labels]
    height = layout["height"] + 6 * max(map(len, names.values()))
    return [(_NARROW, {"xaxis": {"ticktext": upright, "tickangle": -90}, "height": height})]


def figure_of(chart: Chart) -> go.Figure:
    """The Plotly figure of a picture. Plotly checks names and values against its schema."""
    if chart.matrix is not None:
        return _matrix_figure(chart.matrix)
    assert chart.axis is not None, "panels lie along the stream"
    return _stream_figure(chart, chart.axis)


# Along the stream ----------------------------------------------------------------------------------------------------


def _stream_figure(chart: Chart, axis: Axis) -> go.Figure:
    heights = [panel.height + (_TITLE if panel.name else _GAP) for panel in chart.panels]
    total, top, data = sum(heights), 0, []
    layout: dict[str, Any] = _layout(total + 62) | {"annotations": []}
    names = short_names((line.name for panel in chart.panels for line in panel.lines), LONGEST_NAME)
    titles = short_names((panel.name for panel in chart.panels), LONGEST_NAME)
    for at, (panel, height) in enumerate(zip(chart.panels, heights, strict=True), start=1):
        number = "" if at == 1 else str(at)
        below, above = 1.0 - (top + height) / total, 1.0 - (top + height - panel.height) / total
        layout[f"yaxis{number}"] = _y_axis(panel) | {"domain": [max(below, 0.0), above]}
        if panel.name:
            layout["annotations"].append(_title(titles[panel.name], above))
        for line in panel.lines:
            name = names[line.name] if line.name else titles[panel.name] or chart.title
            data.append(_trace(line, axis, panel) | {"name": html.escape(name, quote=False), "yaxis": f"y{number}"})
        top += height
    layout["xaxis"] = {
        "range": [axis.first, axis.last],
        "anchor": f"y{number}",
        "tickformat": ",d",
        "hoverformat": ",d",
        "unifiedhovertitle": {"text": "row %{x:,d}"},
        "automargin": True,
        "showspikes": True,
        "spikemode": "across",
        "spikesnap": "hovered data",
        "spikethickness": 1,
        "spikedash": "solid",
        "spikecolor": light("soft"),
        **_LOOK,
    }
    layout["shapes"] = [_shade(first, last) for first, last in chart.shaded]
    return go.Figure({"data": data, "layout": layout})


def _trace(line: Line, axis: Axis, panel: Panel) -> dict[str, Any]:
    rows = axis.rows if line.rows is None else line.rows
    alone = isolated(line.values)
    # Plotly would fill gaps as well.
    fills = line.filled and not _has_gaps(line.values)
    return {
        "type": "scatter",
        "x": rows,
        "y": line.values,
        "mode": "lines+markers" if alone.any() else "lines",
        # A value between two gaps has no line, so it is drawn as a dot.
        "marker": {"size": np.where(alone, 5.0, 0.0), "color": light(line.ink.colour)} if alone.any() else None,
        "opacity": line.opacity,
        "line": {"color": light(line.ink.colour), "width": line.width, "dash": _dash(line.ink)},
        "fill": "tozeroy" if fills else None,
        "fillcolor": _faint(line.ink.colour) if fills else None,
        "connectgaps": False,
        "hovertemplate": "%{y:,.4~f}" if panel.y == "share" else "%{y:,.5~g}",
    }


def _has_gaps(values: Floats) -> bool:
    """Whether a value is missing between two others."""
    there = np.flatnonzero(np.isfinite(values))
    return len(there) > 0 and bool(there[-1] - there[0] >= len(there))


def _y_axis(panel: Panel) -> dict[str, Any]:
    low = panel.height < 100
    common: dict[str, Any] = {
        "automargin": True,
        "fixedrange": True,
        "nticks": 3 if low else 6,
        "zeroline": False,
        **_LOOK,
    }
    if panel.y == "share":
        return common | {
            "range": [-0.02, 1.04],
            "tickvals": [0, 1] if panel.height < 40 else [0, 0.5, 1] if low else _TENTHS,
        }
    if panel.y == "signed":
        bottom, top = panel.limits or (-1.0, 1.0)
        room, zero = 0.08 * (top - bottom), {"zeroline": True, "zerolinecolor": light("edge")}
        ticks = {"tickvals": _round_ends(bottom, top), "tickformat": "~g"}
        return common | zero | ticks | {"range": [bottom - room, top + room]}
    every = np.concatenate([line.values for line in panel.lines])
    every = every[np.isfinite(every) & (every > 0)]
    if panel.logarithmic:
        ends = np.log10([every.min() / 1.25, every.max() * 1.25]).tolist()
        return common | {
            "type": "log",
            "range": ends,
            "dtick": "D2" if ends[1] - ends[0] < 1.7 else 1,
            # Below one the letters of units would be read wrongly: 100m for a tenth.
            "tickformat": "~s" if every.min() >= 1.0 else "~g",
        }
    most = float(every.max()) if len(every) else panel.lowest + 1.0
    top = max(most + 0.08 * (most - panel.lowest), panel.lowest + 0.1)
    return common | {"range": [panel.lowest, top], "tickformat": "~s" if most >= 1000 else "~g"}


def _round_ends(low: float, high: float) -> list[float]:
    """Zero, and on each side that reaches so far the largest of 1, 2 and 5 times a power of ten."""
    reach = max(high, -low)
    power = 10.0 ** math.floor(math.log10(reach))
    size = max(factor * power for factor in (1.0, 2.0, 5.0) if factor * power <= reach)
    return [tick for tick in (-size, 0.0, size) if low <= tick <= high]


def _title(text: str, y: float) -> dict[str, Any]:
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": y, "yanchor": "bottom"}
    return place | {"text": html.escape(text, quote=False), "showarrow": False, "font": {"color": light("ink")}}


def _shade(first: float, last: float) -> dict[str, Any]:
    place = {"type": "rect", "xref": "x", "x0": first, "x1": last, "yref": "paper", "y0": 0, "y1": 1}
    return place | {"fillcolor": light("soft"), "opacity": 0.13, "line": {"width": 0}, "layer": "below"}


def _dash(ink: Ink) -> str:
    return ",".join(f"{length:g}px" for length in ink.dashes) or "solid"


def _faint(name: str) -> str:
    red, green, blue = bytes.fromhex(light(name)[1:])
    return f"rgba({red},{green},{blue},0.13)"


# A matrix ------------------------------------------------------------------------------------------------------------


def _matrix_figure(matrix: Matrix) -> go.Figure:
    size = len(matrix.labels)
    shown = short_names(matrix.labels, LONGEST_NAME)
    names = [_wrapped(shown[label], 16) for label in matrix.labels]
    cell = 84 if size <= 4 else 48 if size <= 8 else 34
    lines = max(name.count("<br>") + 1 for name in names)
    side = {
        "range": [-0.5, size - 0.5],
        "automargin": True,
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
    }
    places = {"tickvals": list(range(size)), "ticktext": names, "tickfont": {"color": light("ink"), "size": 12}}
    text = [
        [f"{count:,}<br>{share:.0%}" for count, share in zip(*row, strict=True)]
        for row in zip(matrix.counts.tolist(), matrix.shares.tolist(), strict=True)
    ]
    cells = {
        "type": "heatmap",
        "x": list(range(size)),
        "y": list(range(size)),
        "z": matrix.shares.tolist(),
        "zmin": 0.0,
        "zmax": 2.0,  # The darkest cell gets half of the scale, so that its text stays readable.
        "colorscale": [[0.0, light("card")], [1.0, light("line1")]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "text": text,
        "texttemplate": "%{text}",
        "textfont": {"size": 13 if size <= 4 else 10, "color": light("ink")},
        "customdata": [[[names[row], names[at]] for at in range(size)] for row in range(size)],
        "hovertemplate": "true %{customdata[0]}<br>predicted %{customdata[1]}<br>%{text}<extra></extra>",
    }
    layout = _layout(max(cell, lines * _CELL_LINE) * size + 96) | {
        "hovermode": "closest",
        "xaxis": {**side, **places, "side": "top", "title": _axis_title("predicted")},
        "yaxis": {
            **side,
            **places,
            "range": [size - 0.5, -0.5],
            "title": _axis_title("true"),
        },
    }
    layout["margin"]["l"] = 8
    return go.Figure({"data": [cells], "layout": layout})


def _axis_title(text: str) -> dict[str, Any]:
    """A title that keeps its distance from the names beside the axis, however long these are."""
    return {"text": text, "font": {"color": light("soft")}, "standoff": 10}


def _wrapped(name: str, width: int) -> str:
    """The name, escaped, in lines of at most so many characters."""
    lines = textwrap.wrap(name, width, break_on_hyphens=False, drop_whitespace=False) or [name]
    return "<br>".join(html.escape(line, quote=False) for line in lines)


# Both ----------------------------------------------------------------------------------------------------------------

_LOOK = {
    "gridcolor": light("grid"),
    "linecolor": light("edge"),
    "tickfont": {"color": light("soft"), "size": 11},
    "exponentformat": "power",
}


def _layout(height: int) -> dict[str, Any]:
    return {
        "template": {},
        "height": height,
        "margin": {"l": _LEFT, "r": 16, "t": 24, "b": 30},
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "font": {"family": 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif', "size": 12},
        "showlegend": False,
        "modebar": {"bgcolor": _CLEAR, "color": light("soft"), "activecolor": light("ink")},
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "hoverlabel": {
            "bgcolor": light("card"),
            "bordercolor": light("edge"),
            "font": {"color": light("ink"), "size": 12},
            "namelength": -1,
        },
    }
