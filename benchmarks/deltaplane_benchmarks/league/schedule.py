"""Which class the rows of a stream are of, and which of two concepts they follow.

Both are drawn from a text by SHAKE-256 and compared as numbers, so they are the same on every machine. Ratio and drift
are those of the stream itself, however often the generator behind it gives each class.
"""

from __future__ import annotations

import numpy as np

from deltaplane.arrays import Flags, Floats
from deltaplane.maps.portable import words

__all__ = ["AGAIN", "DRIFTS", "RATIOS", "drift_share", "rare_rows", "rare_share", "second_concept", "uniform"]

RATIOS = ("1:10", "1:100", "1:10 to 1:100 and back")
"""Rows of the rare class to those of the other. The last: odds fall evenly in the first half and rise in the second."""

DRIFTS = ("sudden", "gradual", "none")
"""Sudden: in the middle. Gradual: in the middle fifth rows of the second concept become ever more frequent."""

AGAIN = ", rows again"
"""What a drift ends in if the second concept judges rows that the first has judged before, with the same noise."""

_RARE, _COMMON = 1.0 / 101.0, 1.0 / 11.0
_GRADUAL = (0.4, 0.6)


def uniform(text: str, number: int) -> Floats:
    """float64[number]: at least 0, below 1, in steps of 2**-53, from a text."""
    return (words(f"league {text}", number) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def rare_share(rows: int, ratio: str) -> Floats:
    """float64[rows]: how likely each row is of the rare class. Raises KeyError for a ratio that is not known."""
    at = np.arange(rows) / max(rows, 1)
    shares = {
        "1:10": np.full(rows, _COMMON),
        "1:100": np.full(rows, _RARE),
        RATIOS[2]: _RARE + (_COMMON - _RARE) * np.abs(1.0 - 2.0 * at),
    }
    return shares[ratio]


def drift_share(rows: int, drift: str) -> Floats:
    """float64[rows]: how likely each row is of the second concept. Raises KeyError for a drift that is not known."""
    at = np.arange(rows) / max(rows, 1)
    begin, end = _GRADUAL
    shares = {
        "sudden": (at >= 0.5).astype(np.float64),
        "gradual": np.clip((at - begin) / (end - begin), 0.0, 1.0),
        "none": np.zeros(rows),
    }
    return shares[drift.removesuffix(AGAIN)]


def rare_rows(rows: int, ratio: str, text: str) -> Flags:
    """bool[rows]: which rows are of the rare class."""
    return np.asarray(uniform(f"{text} classes", rows) < rare_share(rows, ratio))


def second_concept(rows: int, drift: str, text: str) -> Flags:
    """bool[rows]: which rows follow the second concept."""
    return np.asarray(uniform(f"{text} concepts", rows) < drift_share(rows, drift))
