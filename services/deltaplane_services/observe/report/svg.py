"""Figures as SVG: elements for a page, in the page's own colours and fonts, and files that stand alone."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

import matplotlib as mpl
from matplotlib.figure import Figure

from deltaplane_services.observe.report.canvas import Frame
from deltaplane_services.observe.report.style import COLOURS, SETTINGS
from deltaplane_services.system.output_files import OutputFile

__all__ = ["NO_METADATA", "PNG_DOTS_PER_INCH", "Draw", "drawing", "inline_svg", "write_figure"]

Draw = Callable[[Frame], Figure]
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
PNG_DOTS_PER_INCH = 160

_XLINK = "{http://www.w3.org/1999/xlink}href"
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_COLOUR = re.compile("|".join(light for light, _ in COLOURS.values()), re.IGNORECASE)
_VARIABLE = {light: f"var(--{name})" for name, (light, _) in COLOURS.items()}
_LEFT_TO_THE_PAGE = {"font", "font-family", "font-style", "font-variant", "font-weight", "font-stretch"}


def inline_svg(draw: Draw, frame: Frame, name: str) -> ET.Element:
    """A figure as an element to be put into a page; ``name`` must be unique there, ids within begin with it.

    Nothing in it says where anything else is, and no style is in it, so that a page can forbid both.
    """
    file = io.StringIO()
    with drawing({"svg.hashsalt": name}):
        draw(frame).savefig(file, format="svg", metadata=NO_METADATA)
    # It was written here, a line above: no stranger's XML is read.
    figure = ET.fromstring(file.getvalue())  # noqa: S314
    for parent in list(figure.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in {"metadata", "style"}:
                parent.remove(child)
    for element in figure.iter():
        element.tag = element.tag.rpartition("}")[2]
        _clean(element, name)
    for key in ("version", "height"):
        figure.attrib.pop(key, None)
    figure.set("width", str(round(float(figure.get("viewBox", "0 0 0 0").split()[2]))))
    return figure


def _clean(element: ET.Element, name: str) -> None:
    attributes = dict(element.attrib)
    element.attrib.clear()
    for declaration in attributes.pop("style", "").split(";"):
        key, _, value = declaration.partition(":")
        if key.strip() == "font":
            attributes["font-size"] = _font_size(value)
        elif key.strip() and key.strip() not in _LEFT_TO_THE_PAGE:
            attributes[key.strip()] = value.strip()
    for key, given in attributes.items():
        value = (
            given
            if "opacity" in key
            else _NUMBER.sub(lambda found: f"{float(found.group()):.1f}".rstrip("0").rstrip("."), given)
        )
        value = _COLOUR.sub(lambda found: _VARIABLE[found.group().lower()], value)
        if key == "id":
            value = f"{name}-{value}"
        elif key == _XLINK:
            key, value = "href", f"#{name}-{value.removeprefix('#')}"  # noqa: PLW2901
        element.set(key, value.replace("url(#", f"url(#{name}-"))
    if element.text is not None and not element.text.strip():
        element.text = None
    element.tail = None


def _font_size(shorthand: str) -> str:
    found = re.search(r"([\d.]+)px", shorthand)
    return found.group(1) if found else "12"


def write_figure(draw: Draw, frame: Frame, title: str, to: Path) -> None:
    """A figure as a file, PNG or SVG by its ending: on white, and letters are shapes, so that no font is needed.

    Raises :class:`OutputRefused`.
    """
    with drawing({"svg.hashsalt": to.stem, "svg.fonttype": "path"}):
        figure = draw(frame)
        figure.text(6 / 1000, 1.0 + 5 / (72 * figure.get_figheight()), title, fontsize=15, weight="bold", va="bottom")
        picture = io.BytesIO()
        figure.savefig(
            picture,
            format=to.suffix[1:],
            facecolor="white",
            dpi=PNG_DOTS_PER_INCH if to.suffix == ".png" else 72,
            metadata=NO_METADATA if to.suffix == ".svg" else {"Software": None},
            # What is drawn around the figure is the title above it.
            bbox_inches="tight",
            pad_inches=0.15,
        )
    with OutputFile(to, "plots") as output:
        output.file.write(picture.getvalue())
        output.keep()


@contextmanager
def drawing(settings: dict[str, object]) -> Iterator[None]:
    """Our settings of matplotlib, and nobody else's."""
    with mpl.rc_context(), warnings.catch_warnings():
        # A letter that the font has no picture of is drawn as a box: known, and no reason for a page of warnings.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from")
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", SETTINGS | settings))
        yield
