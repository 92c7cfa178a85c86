"""The values of the pictures as tables of text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltaplane_services.observe.report.record import Run

__all__ = [
    "LONGEST_VALUE",
    "Table",
    "cell",
    "outcomes_table",
    "refusal_reasons_table",
    "rejections_table",
    "settings_table",
]

LONGEST_VALUE = 160
"""The most characters of a setting that are shown."""


@dataclass(frozen=True)
class Table:
    """Column names and rows of text. ``keys``: for a table along the stream, the stream's row at each table row."""

    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    keys: tuple[int, ...] = ()


def cell(value: float, digits: int = 4) -> str:
    """A number as text; a dash if it is undefined."""
    if not math.isfinite(value):
        return "–"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.{digits}g}"
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) > 1 else f"{value:,.{digits}f}"


def outcomes_table(run: Run) -> Table:
    """Outcomes of samples and retirements."""
    return Table(("outcome", "count"), tuple((name, f"{count:,}") for name, count in run.outcomes.items()))


def refusal_reasons_table(run: Run) -> Table:
    """Refused rows by reason, with what cures it."""
    rows = ((f"{one.rows:,}", one.reason, one.cure or "–") for one in run.refusal_reasons)
    return Table(("rows", "reason", "what to do"), tuple(rows))


def rejections_table(run: Run) -> Table:
    """The first refused rows."""
    rows = ((f"{r.line:,}" if r.line is not None else "–", r.kind, r.reason) for r in run.rejections)
    return Table(("line", "kind", "reason"), tuple(rows))


def settings_table(run: Run) -> Table:
    """A row for each setting of a run and of its plane, named as in a definition file."""
    rows = [("stream", run.stream), ("window", ", ".join(run.windows)), ("features", f"{len(run.features):,}")]
    model = {name: run.model.get(name) for name in ("kind", "weighting", "C", "standardize", "version", "condition")}
    rows += [(f"model {name}", _value(value)) for name, value in model.items() if value is not None]
    # The definition's own names, as they stand in a definition file, need no word before them.
    settings = {name: value for name, value in run.settings.items() if name != "definition"}
    definition = run.settings.get("definition")
    for part in (settings, definition if isinstance(definition, Mapping) else {}):
        rows += [(name, _value(value)) for name, value in _flat("", part) if value not in ([], {}, None)]
    return Table(("setting", "value"), tuple(rows))


def _flat(prefix: str, table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat += _flat(f"{prefix}{name}.", value)
        else:
            flat.append((f"{prefix}{name}", value))
    return flat


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        text = ", ".join(map(_value, value[:24]))
        value = text if len(value) <= 24 else f"{text}, … ({len(value):,} in all)"
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
