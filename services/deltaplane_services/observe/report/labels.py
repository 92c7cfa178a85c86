"""Names, numbers and times as text for pictures and tables."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable

__all__ = ["date_of", "how_late", "short", "short_names", "time_text"]


def short_names(names: Iterable[str], most_characters: int) -> dict[str, str]:
    """Name to a text of one line with at most so many characters; different names get different texts.

    A long name keeps its beginning and its end. Names that would still be equal get a number.
    """
    shortened: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
        shown, number = plain if len(plain) <= most_characters else _around(plain, most_characters, "…"), 1
        while shown in taken:
            number += 1
            shown = _around(plain, most_characters, f"…{number}…")
        taken.add(shown)
        shortened[name] = shown
    return shortened


def _around(text: str, most_characters: int, middle: str) -> str:
    """The beginning and the end of a text, with ``middle`` in place of what is between them."""
    left = most_characters - len(middle)
    return f"{text[: left - left // 2]}{middle}{text[max(left - left // 2, len(text) - left // 2) :]}"


def short(value: float, digits: int = 3) -> str:
    """A number in few characters, such as 1.2k for 1200."""
    value = float(f"{value:.{digits}g}")
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        if size <= abs(value) < 1e3 * size:
            return f"{value / size:g}{letter}".replace("-", "\N{MINUS SIGN}")
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


def how_late(delay: str) -> str:
    """How late labels come, in words: ``500 rows late`` or ``7d late``."""
    return f"{int(delay):,} rows late" if delay.isdigit() else f"{delay} late"


def date_of(milliseconds: float) -> dt.datetime:
    """An event time as a date in UTC."""
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=float(milliseconds))


def time_text(milliseconds: float | None) -> str:
    """An event time for a table; a dash if there is none."""
    if milliseconds is None or math.isnan(milliseconds):
        return "–"
    return date_of(milliseconds).strftime("%Y-%m-%d %H:%M:%S")
