"""A table of measurements, for a person, as JSON, as Markdown, and drawn."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from deltaplane import __version__
from deltaplane.errors import DeltaplaneError
from deltaplane_benchmarks.exhibit import Cell, Chart, Column, Exhibit, Series

__all__ = ["Figures", "machine", "write_json"]


@dataclass
class Figures:
    """Rows of measurements under ``columns``: name to format, such as ``,.0f``; ``notes`` say how they were made."""

    title: str
    columns: dict[str, str]
    rows: list[dict[str, Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """One row, in the order of the columns."""
        self.rows.append(dict(zip(self.columns, cells, strict=True)))

    def draw(self, name: str, x: str, y: str, columns: Sequence[str], by: Sequence[str] = ()) -> None:
        """A chart of columns over the column ``x``, a curve for each and for all values of the columns ``by``."""
        groups: dict[tuple[Cell, ...], list[dict[str, Cell]]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row[column] for column in by), []).append(row)
        series = tuple(
            Series(
                ", ".join([column] * (not by) + [f"{name} {value}" for name, value in zip(by, group, strict=True)]),
                tuple(_number(row[x]) for row in rows),
                tuple(_number(row[column]) for row in rows),
            )
            for column in columns
            for group, rows in groups.items()
        )
        self.charts.append(Chart(name, x, y, series, log_x=True))

    def draw_bars(self, name: str, words: Sequence[str], column: str) -> None:
        """A chart of one column, over the words of the columns ``words``."""
        ticks = tuple("\n".join(str(row[word]) for word in words) for row in self.rows)
        values = tuple(_number(row[column]) for row in self.rows)
        x = tuple(map(float, range(len(ticks))))
        self.charts.append(Chart(name, ", ".join(words), column, (Series(column, x, values),), ticks=ticks))

    def exhibit(self) -> Exhibit:
        """The same as experiments give it, to be written as Markdown and drawn."""
        name, _, title = self.title.partition(": ")
        columns = tuple(Column(column, form) for column, form in self.columns.items())
        rows = tuple(tuple(row.values()) for row in self.rows)
        return Exhibit(0, name, title, columns, rows, tuple(self.charts), notes=tuple(self.notes))

    def show(self, console: Console) -> None:
        """Print it."""
        table = Table(title=self.title, title_justify="left")
        for name in self.columns:
            words = any(isinstance(row[name], str) for row in self.rows)
            table.add_column(name, justify="left" if words else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*(_text(row[name], form) for name, form in self.columns.items()))
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", style="dim", markup=False)


def _number(value: Cell) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _text(value: Cell, form: str) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return "–" if math.isnan(value) else format(value, form)


def machine() -> dict[str, Any]:
    """What every figure depends on."""
    return {
        "deltaplane": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": [round(value, 2) for value in os.getloadavg()],
        "date": datetime.now(UTC).date().isoformat(),
    }


def write_json(tables: Sequence[Figures], place: str) -> None:
    """The tables as JSON to a file, or to standard output for ``-``."""
    document = {
        "schema": "deltaplane speed 1",
        "machine": machine(),
        "tables": [{"title": table.title, "rows": table.rows, "notes": table.notes} for table in tables],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if place == "-":
        sys.stdout.write(text)
        return
    try:
        Path(place).write_text(text, "utf-8")
    except OSError as fault:
        raise DeltaplaneError(f"--json {place}: cannot be written: {fault.strerror}; give another file") from None
