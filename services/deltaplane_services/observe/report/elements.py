"""A page as a tree of elements. Text is always added as text, and escaped when the tree is written.

Only scripts and styles are written without escaping: files of this package, and the script of Plotly, which the page's
own script unpacks. The head of the page has a policy that forbids it to load anything, and to run anything but these,
identified by their SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any
from xml.etree import ElementTree as ET

from deltaplane import __version__
from deltaplane_services.observe.report.plotly_figures import library
from deltaplane_services.observe.report.style import COLOURS, css_variables
from deltaplane_services.observe.report.value_tables import Table

__all__ = ["Element", "clean", "document", "element", "table"]

Element = ET.Element
_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def element(tag: str, *children: str | Element | Iterable[Element] | None, **attributes: str | bool | None) -> Element:
    """An element with attributes, and with texts and elements inside, in order; None and empty lists are left out.

    An underscore in the name of an attribute becomes a hyphen, and one at its end is dropped.
    """
    made = ET.Element(tag)
    for name, value in attributes.items():
        if value is not None and value is not False:
            made.set(name.rstrip("_").replace("_", "-"), "" if value is True else clean(value))
    for child in children:
        if isinstance(child, str):
            _add_text(made, clean(child))
        elif isinstance(child, Element):
            made.append(child)
        elif child is not None:
            made.extend(list(child))
    return made


def clean(text: str) -> str:
    """The text with � for each character that no page may hold: control characters and halves of surrogate pairs."""
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def _add_text(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def table(content: Table, *, name: str, text: bool = False, low: bool = False) -> Element:
    """A table in a box that scrolls by itself; the first cell of each row is its header."""
    head = element("thead", element("tr", (element("th", title, scope="col") for title in content.head)))
    body = element("tbody")
    for at, row in enumerate(content.body):
        cells = [element("th", row[0], scope="row")]
        # On a small screen the cells of a table of text may stand one below the other, each after its column's name.
        names = content.head[1:] if text else (None,) * len(row[1:])
        cells += [element("td", value, data_name=name) for name, value in zip(names, row[1:], strict=True)]
        body.append(element("tr", cells, data_row=str(content.keys[at]) if content.keys else None))
    kind = "scroll low" if low else "scroll"
    inner = element("table", head, body, class_="text" if text else None)
    return element("div", inner, class_=kind, role="region", tabindex="0", aria_label=name)


_RULES = "X{}"
"""A style sheet that Plotly finds by its id and adds its rules to, because the page forbids it to make one."""


def document(title: str, figures: dict[str, Any], *body: Element) -> str:
    """A whole page as text. ``figures``: id of an element to what the script draws in it."""
    style = f":root{{color-scheme:light;{css_variables(dark=False)}}}"
    dark = f"color-scheme:dark;{css_variables(dark=True)}"
    style += f'@media (prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{dark}}}}}'
    style += f':root[data-theme="dark"]{{{dark}}}\n' + _own("page.css")
    script, drawer = _own("page.js"), library()
    policy = (
        f"default-src 'none'; style-src '{_fingerprint(style)}' '{_fingerprint(_RULES)}';"
        f" script-src '{_fingerprint(script)}' '{_fingerprint(drawer.text)}'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"Deltaplane {__version__}"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        _raw("style", style),
        _raw("style", _RULES, id="plotly.js-style-global"),
    )
    footer = element("footer", f"Made by Deltaplane {__version__}. This page is complete in itself and loads nothing.")
    colours = {pair[0]: name for name, pair in COLOURS.items()}
    # The sign < could end a script, so it is written as a JSON escape.
    drawn = json.dumps({"colours": colours, "figures": figures}, separators=(",", ":")).replace("<", "\\u003c")
    scripts = [
        _raw("script", drawer.packed, id="library", type="application/gzip"),
        _raw("script", drawn, id="figures", type="application/json"),
        _raw("script", script),
    ]
    guards = (element("template", id=guard) for guard in drawer.guards)
    page = element("html", head, element("body", *body, footer, guards, scripts), lang="en")
    return f"<!DOCTYPE html>\n{ET.tostring(page, encoding='unicode', method='html')}\n"


def _raw(tag: str, text: str, **attributes: str) -> Element:
    """An element for a style or script, which HTML does not parse as markup, so its text is not escaped."""
    assert "</" not in text and "<!--" not in text, "what ends the element early must not stand in it"  # noqa: PT018
    made = element(tag, **attributes)
    made.text = text
    return made


def _own(name: str) -> str:
    return (files("deltaplane_services.observe.report") / name).read_text("utf-8")


def _fingerprint(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
