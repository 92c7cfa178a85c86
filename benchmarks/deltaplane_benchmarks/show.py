"""A report as a person reads it: tables in the terminal and as text, JSON, and pictures."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deltaplane.errors import DeltaplaneError
from deltaplane_benchmarks.exhibit import Cell, Chart, Exhibit, Report
from deltaplane_benchmarks.shared_options import Outputs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "MOST_DOTS",
    "PICTURE_DOTS_PER_INCH",
    "PICTURE_INCHES",
    "cell",
    "draw",
    "markdown",
    "progress",
    "show",
    "write_json",
    "write_markdown",
    "write_out",
]

PICTURE_INCHES = (8.0, 5.0)
PICTURE_DOTS_PER_INCH = 120
MOST_DOTS = 60
"""Points of a curve that are drawn as dots too; of more than these the line says enough."""


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Yields what says how far the run is: one line that changes on a terminal, one line each elsewhere."""
    if not console.is_terminal:
        yield lambda text: console.print(Text(text, "dim"))
        return
    with console.status("") as status:
        yield lambda text: status.update(Text(text))


def cell(value: Cell, form: str) -> str:
    """A value as a table shows it; what is undefined is a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return str(value) if isinstance(value, str) else format(value, form)


def show(report: Report, console: Console) -> None:
    """All exhibits with their targets, then what was missing, then the targets that were missed."""
    for exhibit in report.exhibits:
        _show_exhibit(exhibit, console)
    for name, reason in report.missing.items():
        text = Text.assemble(("missing data ", "bold yellow"), f"{name}: {reason.removeprefix(f'{name}: ')}")
        console.print(text, soft_wrap=True)  # Not cut into lines, since it holds a command to copy.
    wanted = sum(len(exhibit.targets) for exhibit in report.exhibits)
    missed = report.targets_missed
    settings = ", ".join(f"{name} {value}" for name, value in report.settings.items())
    console.print(
        Text(f"{wanted - len(missed)} of {wanted} targets met in {report.seconds:.0f} s ({settings})", "bold")
    )
    for exhibit, target in missed:
        console.print(Text(f"not met: {exhibit.full_name}: {target.text} ({target.measured})", "red"))


def _show_exhibit(exhibit: Exhibit, console: Console) -> None:
    title = Text.assemble((f"{exhibit.full_name}. ", "bold"), exhibit.title)
    table = Table(title=title, title_justify="left", title_style="")
    for at, column in enumerate(exhibit.columns):
        words = any(isinstance(row[at], str) for row in exhibit.rows)
        style = "dim" if column.name.startswith("paper") else ""
        table.add_column(Text(column.name), justify="left" if words else "right", style=style, overflow="fold")
    for row in exhibit.rows:
        table.add_row(*(Text(cell(value, column.form)) for value, column in zip(row, exhibit.columns, strict=True)))
    console.print()
    console.print(table)
    for line in (*exhibit.data, *exhibit.notes):
        console.print(Text(f"  {line}", "dim"))
    for target in exhibit.targets:
        mark, style = ("met", "green") if target.met else ("NOT MET", "bold red")
        console.print(Text.assemble("  ", (mark, style), f"  {target.text}: {target.measured}"))


def write_json(report: Report, place: str) -> None:
    """The report as JSON to a file, or to standard output for ``-``."""
    text = json.dumps(report.plain(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if place == "-":
        sys.stdout.write(text)
    else:
        _write(text, Path(place), "--json")


def write_markdown(report: Report, place: Path) -> None:
    """The report as a text of tables to a file."""
    _write(markdown(report), place, "--markdown")


def write_out(report: Report, outputs: Outputs, console: Console) -> None:
    """Write the tables and draw the charts of a report where that was asked for."""
    if outputs.markdown is not None:
        write_markdown(report, outputs.markdown)
    if outputs.plots is not None:
        console.print(f"{len(draw(report, outputs.plots))} pictures in {outputs.plots}")


def _write(text: str, place: Path, option: str) -> None:
    try:
        place.write_text(text, "utf-8")
    except OSError as fault:
        raise DeltaplaneError(f"{option} {place}: cannot be written: {fault.strerror}; give another file") from None


def markdown(report: Report) -> str:
    """Every exhibit with its data, notes and targets, under the settings they were made with."""
    settings = ", ".join(f"{name} {value}" for name, value in report.settings.items())
    parts = ["# Figures", f"Made in {report.seconds:.0f} s by `deltaplane bench`: {settings}."]
    parts += [f"Missing data: {name}: {reason}" for name, reason in report.missing.items()]
    for exhibit in report.exhibits:
        parts += [f"## {exhibit.full_name}", exhibit.title, _markdown_table(exhibit)]
        parts.append("\n".join(f"- {line}" for line in (*exhibit.data, *exhibit.notes)))
        marked = [("met", target) if target.met else ("**not met**", target) for target in exhibit.targets]
        parts.append("\n".join(f"- {mark}: {target.text}: {target.measured}" for mark, target in marked))
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_table(exhibit: Exhibit) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    numbers = [all(not isinstance(row[at], str) for row in exhibit.rows) for at in range(len(exhibit.columns))]
    lines = [line(column.name for column in exhibit.columns), line("--:" if number else "---" for number in numbers)]
    for row in exhibit.rows:
        cells = [cell(value, column.form) for value, column in zip(row, exhibit.columns, strict=True)]
        lines.append(line(cells))
    return "\n".join(lines)


def draw(report: Report, directory: Path) -> list[Path]:
    """Every chart as PNG and SVG; returns what was written. Raises :class:`DeltaplaneError` where that cannot be."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise DeltaplaneError("--plots needs matplotlib; install deltaplane[bench]") from None

    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for exhibit in report.exhibits:
            for chart in exhibit.charts:
                figure = Figure(figsize=PICTURE_INCHES, layout="constrained")
                _draw_chart(figure.add_subplot(), chart)
                of = f"paper {exhibit.paper} " if exhibit.paper else ""
                name = re.sub(r"[^a-z0-9]+", "-", f"{of}{chart.name}".lower()).strip("-")
                for suffix in ("png", "svg"):
                    place = directory / f"{name}.{suffix}"
                    figure.savefig(place, dpi=PICTURE_DOTS_PER_INCH)
                    written.append(place)
    except OSError as fault:
        raise DeltaplaneError(f"--plots {directory}: cannot be written: {fault}; give another directory") from None
    return written


def _draw_chart(axes: Axes, chart: Chart) -> None:
    """Ours as solid lines; theirs dashed, in grey."""
    for at, series in enumerate(chart.series):
        style: dict[str, Any] = {"marker": "o"} if len(series.x) <= MOST_DOTS else {"linewidth": 1.2}
        if series.theirs:
            style = {"linestyle": "--", "color": str(0.35 + 0.12 * (at % 4)), "marker": "x"}
        axes.plot(series.x, series.y, label=series.name, markersize=4, **style)
    for mark in chart.marks:
        axes.axvline(mark, color="0.8", linewidth=0.7, zorder=0)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.set_title(chart.name)
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    if chart.ticks:
        axes.set_xticks(range(len(chart.ticks)), chart.ticks)
    if chart.from_zero:
        axes.set_ylim(bottom=0.0)
    axes.grid(visible=True, alpha=0.3)
    if all(len(series.x) == 1 for series in chart.series):
        # Points have their names beside them: a legend of so many colours tells nobody which is which.
        for at, series in enumerate(chart.series):
            above = 4 if at % 2 else -10
            place = (series.x[0], series.y[0])
            axes.annotate(series.name, place, (4, above), textcoords="offset points", fontsize="x-small")
        axes.margins(x=0.2)
    else:
        axes.legend(fontsize="small")
