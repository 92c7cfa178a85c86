"""How the pictures look: colours by what they stand for, in light and dark, and matplotlib's settings.

Colours are told apart by people with any colour vision (blue, vermilion, green, purple, ochre, grey, of different
lightness), and none says anything alone: a line has its own dashes besides. Figures are drawn in the light ones; in a
page each becomes a CSS variable of the same name, which has another value in the dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["COLOURS", "DASHES", "SETTINGS", "Ink", "css_variables", "ink", "inks", "light"]

# Name to (light, dark). No two names may share a light colour: it is what a figure is recognised by.
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


@dataclass(frozen=True)
class Ink:
    """Colour and dashes of one line; no dashes is a solid line."""

    colour: str
    dashes: tuple[float, ...]


def ink(place: int) -> Ink:
    """That of the line at a place: the first six differ in both colour and dashes, the next repeat the colours."""
    lines = [light for name, (light, _) in COLOURS.items() if name.startswith("line")]
    turn, at = divmod(place, len(lines))
    return Ink(lines[at], DASHES[(at + turn) % len(DASHES)])


def inks(names: Sequence[str]) -> dict[str, Ink]:
    """One for each name, in order."""
    return {name: ink(place) for place, name in enumerate(names)}


def light(name: str) -> str:
    """The colour of that name in which figures are drawn."""
    return COLOURS[name][0]


def css_variables(*, dark: bool) -> str:
    """All colours as CSS variables."""
    return "".join(f"--{name}:{pair[dark]};" for name, pair in COLOURS.items())


SETTINGS: dict[str, object] = {
    "figure.dpi": 72,  # One unit of an SVG is then one CSS pixel,
    "font.size": 12,  # and this is in CSS pixels, too.
    "font.family": "DejaVu Sans",
    "text.parse_math": False,  # A label with dollar signs is a label, not a formula.
    "text.color": light("ink"),
    "axes.edgecolor": light("edge"),
    "axes.labelcolor": light("soft"),
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": light("grid"),
    "grid.linewidth": 1.0,
    "xtick.color": light("edge"),
    "xtick.labelcolor": light("soft"),
    "ytick.labelcolor": light("soft"),
    "ytick.color": light("edge"),
    "ytick.left": False,
    "ytick.minor.left": False,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "legend.borderpad": 0.0,
    "legend.handlelength": 2.4,
    "legend.handletextpad": 0.6,
    "legend.columnspacing": 1.6,
    "lines.scale_dashes": False,
    "lines.dash_capstyle": "butt",
    "lines.solid_joinstyle": "round",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
}
