"""A rare class in one or more balls of a cube, all else around it: the difficulties of imbalanced streams, one by one.

Made after the description of the generator of Brzezinski, Minku, Pewinski, Stefanowski and Szumaczuk (2021), with no
code of theirs: five features; the rare class lies in balls and the other in the rest of the cube; and something
changes evenly from 35 to 50 % of the stream. The ball *splits* into five, five *join*, five *move*, or ever more of the
rare rows are *borderline* (in a shell around the ball that rows of the other class are in as often) or *rare*
(anywhere, alone). How wide balls and shells are is ours.
"""

from __future__ import annotations

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.maps.portable import normal_deviates
from deltaplane_benchmarks.league.schedule import rare_rows, rare_share, uniform

__all__ = ["BEGIN", "END", "FEATURES", "KINDS", "regions_rows"]

FEATURES = 5
KINDS = ("split", "join", "move", "borderline", "rare")
BEGIN, END = 0.35, 0.5

_WIDE, _NARROW = 0.4, 0.29
"""The radii of one ball and of each of five, which together are as large."""

_SHELL = (0.9, 1.4)
_DIFFICULT = 0.4
"""The share of rare rows that are borderline, or rare, once all has changed."""

_TRIES = 12


def regions_rows(rows: int, ratio: str, kind: str, text: str) -> tuple[Floats, Flags]:
    """Features float64[rows, 5], and which rows are of the rare class bool[rows]."""
    assert kind in KINDS, kind
    rare, share = rare_rows(rows, ratio, text), rare_share(rows, ratio)
    ramp = np.clip((np.arange(rows) / max(rows, 1) - BEGIN) / (END - BEGIN), 0.0, 1.0)
    centres, radii = _balls(kind, ramp, text)
    ball = (uniform(f"{text} balls", rows) * centres.shape[1]).astype(np.int64)
    difficult = uniform(f"{text} difficulties", rows) < _DIFFICULT * ramp
    inside = _in_ball(uniform(f"{text} depths", rows * FEATURES).reshape(rows, FEATURES).max(axis=1), text)
    depth = _SHELL[0] + (_SHELL[1] - _SHELL[0]) * uniform(f"{text} shells", rows)
    own = centres[np.arange(rows), ball]
    outside = _outside(centres, radii, text)
    features = np.where(rare[:, None], own + inside * radii[:, None], outside)
    if kind == "borderline":
        # As many of the other class are in the shell as rare rows are, or it would be a larger ball and no border.
        others = uniform(f"{text} others", rows) < _DIFFICULT * ramp * share / (1.0 - share)
        in_shell = np.where(rare, difficult, others)
        features[in_shell] = (own + _direction(text, rows) * (radii * depth)[:, None])[in_shell]
    if kind == "rare":
        features[rare & difficult] = outside[rare & difficult]
    return features, rare


def _balls(kind: str, ramp: Floats, text: str) -> tuple[Floats, Floats]:
    """The centres of all balls at each row float64[n, b, d], and their radius float64[n]."""
    room = 1.0 - 2.0 * _NARROW
    spread, other = (
        _NARROW + room * uniform(f"{text} {name}", 5 * FEATURES).reshape(5, FEATURES) for name in ("centres", "moved")
    )
    middle = np.full((5, FEATURES), 0.5)
    ends = {"split": (middle, spread), "join": (spread, middle), "move": (spread, other)}
    widths = {"split": (_WIDE, _NARROW), "join": (_NARROW, _WIDE), "move": (_NARROW, _NARROW)}
    begin, end = ends.get(kind, (middle[:1], middle[:1]))
    wide, narrow = widths.get(kind, (_WIDE, _WIDE))
    return begin + ramp[:, None, None] * (end - begin), wide + ramp * (narrow - wide)


def _direction(text: str, rows: int) -> Floats:
    """float64[rows, d]: of length 1."""
    drawn = normal_deviates(f"league {text} directions", rows * FEATURES).reshape(rows, FEATURES).astype(np.float64)
    return np.asarray(drawn / np.sqrt(np.maximum((drawn * drawn).sum(axis=1), 1.0))[:, None])


def _in_ball(depths: Floats, text: str) -> Floats:
    """float64[n, d]: anywhere in a ball of radius 1; the largest of d uniform numbers is as far out as a row is."""
    return _direction(text, len(depths)) * depths[:, None]


def _outside(centres: Floats, radii: Floats, text: str) -> Floats:
    """float64[n, d]: for each row, the first of several places of the cube that is in no ball."""
    rows = len(radii)
    tried = uniform(f"{text} places", rows * _TRIES * FEATURES).reshape(rows, _TRIES, FEATURES)
    apart = ((tried[:, :, None, :] - centres[:, None, :, :]) ** 2).sum(axis=3)
    free = (apart > (radii**2)[:, None, None]).all(axis=2)
    first: Int64s = free.argmax(axis=1)
    return np.asarray(tried[np.arange(rows), first], dtype=np.float64)
