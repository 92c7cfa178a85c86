"""The look of the pictures: colours by purpose, in light and dark, and the dashes of lines.

The colours (blue, vermilion, green, purple, ochre and grey of different lightness) can be told apart with any colour
vision. No colour carries information alone: each line also has its own dashes. Figures use the light colours; the
page's script replaces them with the dark ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["COLOURS", "DASHES", "Ink", "css_variables", "ink", "inks", "light"]

# Name to (light, dark). No two names may share a light colour: it is what the script recognises.
COLOURS = {
    "ink": ("#1b2330", "#e7ebf1"),
    "soft": ("#5a6576", "#9ba7b7"),
    "grid": ("#e3e7ed", "#2e3846"),
    "edge": ("#b9c2cf", "#4a5667"),
    "card": ("#ffffff", "#171d26"),
    "page": ("#f4f6f9", "#0e131a"),
    "good": ("#13703a", "#5fd08a"),
    "bad": ("#b3261e", "#ff8f85"),
    "line1": ("#0068a8", "#5ab4f0"),
    "line2": ("#cc4f00", "#ff9454"),
    "line3": ("#007f5f", "#3fcf9f"),
    "line4": ("#99357d", "#e897d2"),
    "line5": ("#876800", "#e2c246"),
    "line6": ("#4c5768", "#b4bfce"),
}

DASHES: tuple[tuple[float, ...], ...] = ((), (5.0, 2.2), (1.6, 1.6), (7.0, 2.0, 1.6, 2.0), (3.2, 1.4), (9.0, 3.0))
"""Lengths in pixels of stroke, gap, stroke and so on; an empty tuple is a solid line."""


@dataclass(frozen=True)
class Ink:
    """The name of a line's colour, and its dashes; no dashes is a solid line."""

    colour: str
    dashes: tuple[float, ...] = ()


def ink(place: int) -> Ink:
    """The ink of the line at a place. The first six differ in both colour and dashes; later ones repeat the colours."""
    lines = [name for name in COLOURS if name.startswith("line")]
    turn, at = divmod(place, len(lines))
    return Ink(lines[at], DASHES[(at + turn) % len(DASHES)])


def inks(names: Sequence[str]) -> dict[str, Ink]:
    """Name to ink, in order."""
    return {name: ink(place) for place, name in enumerate(names)}


def light(name: str) -> str:
    """The colour with this name on a light page."""
    return COLOURS[name][0]


def css_variables(*, dark: bool) -> str:
    """All colours as definitions of CSS variables."""
    return "".join(f"--{name}:{pair[dark]};" for name, pair in COLOURS.items())
