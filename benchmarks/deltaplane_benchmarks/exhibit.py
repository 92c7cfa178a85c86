"""What an experiment gives: a table with ours beside theirs, curves, and the targets it was to meet.

Everything shown, written as JSON or drawn is made from these values alone.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["SCHEMA", "Cell", "Chart", "Column", "Exhibit", "Report", "Series", "Target"]

Cell = str | int | float | None
"""What a table holds; None and NaN are undefined, and shown as a dash."""

SCHEMA = "deltaplane bench 1"


@dataclass(frozen=True)
class Column:
    """A column's head, and how its numbers are written: a format such as ``.2f``, or as they are."""

    name: str
    form: str = ""


@dataclass(frozen=True)
class Series:
    """One curve: points (x, y), where an undefined y breaks it. ``theirs``: read from a paper, not measured here."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    theirs: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over one x axis. ``ticks`` are words for x = 0, 1, 2, … where x is no number; ``marks`` are places on it
    at which something was done, drawn as thin lines; ``from_zero``: there the y axis begins.
    """

    name: str
    x: str
    y: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[str, ...] = ()
    marks: tuple[float, ...] = ()
    from_zero: bool = False


@dataclass(frozen=True)
class Target:
    """A sentence that was to come true, whether it did, and by which figures."""

    text: str
    met: bool
    measured: str


@dataclass(frozen=True)
class Exhibit:
    """One table or figure of a paper, done again; paper 0 is none of them.

    ``data`` says which rows were used and where they came from.
    """

    paper: int
    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    charts: tuple[Chart, ...] = ()
    targets: tuple[Target, ...] = ()
    data: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """With its paper."""
        return f"Paper {self.paper}, {self.name}" if self.paper else self.name[:1].upper() + self.name[1:]


@dataclass
class Report:
    """All that a run gave: exhibits, what data was missing and why, and under which settings."""

    settings: dict[str, Any]
    exhibits: list[Exhibit] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def targets_missed(self) -> list[tuple[Exhibit, Target]]:
        """Targets that were not met, with the exhibits they belong to."""
        return [(exhibit, target) for exhibit in self.exhibits for target in exhibit.targets if not target.met]

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON, in which undefined is null."""
        exhibits = [asdict(exhibit) for exhibit in self.exhibits]
        for exhibit in exhibits:
            names = [column["name"] for column in exhibit.pop("columns")]
            exhibit["rows"] = [dict(zip(names, row, strict=True)) for row in exhibit["rows"]]
        document = {
            "schema": SCHEMA,
            "settings": self.settings,
            "exhibits": exhibits,
            "missing": self.missing,
            "seconds": round(self.seconds, 3),
        }
        plain: dict[str, Any] = _without_nan(document)
        return plain


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
