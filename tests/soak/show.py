"""What a soak gives to be looked at: exhibits as the benchmarks have them, so tables, JSON and pictures are theirs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from deltaplane_benchmarks import show
from deltaplane_benchmarks.exhibit import Cell, Chart, Column, Exhibit, Report, Series, Target
from soak.curves import Curves, ProcessSample, StreamSample
from soak.verdicts import judge_processes, judge_stream, recoveries, stretches


def exhibits(
    curves: Curves, account: Sequence[Target], figures: dict[str, int | str], rows_per_second: float
) -> list[Exhibit]:
    """Processes, restarts, and the account."""
    return [_processes(curves), _stream(curves, rows_per_second), _account(account, figures)]


def _processes(curves: Curves) -> Exhibit:
    columns = ("process", "life", "work", "from min", "min", "MB", "grown MB", "files", "grown files", "threads")
    forms = ("", "", "", ".1f", ".1f", ".1f", "+.2f", ".0f", "+.1f", ".0f")
    rows: list[tuple[Cell, ...]] = [
        (
            one.name,
            one.life,
            one.doing or None,
            one.begin_seconds / 60,
            one.span_seconds / 60,
            one.megabytes,
            one.grown_megabytes,
            one.files,
            one.grown_files,
            one.threads,
        )
        for one in stretches(curves)
    ]
    charts = (
        _chart_of_processes(curves, "resident memory", "MB", lambda sample: sample.resident_megabytes),
        _chart_of_processes(curves, "open files", "files", lambda sample: float(sample.files)),
        _chart_of_processes(curves, "threads", "threads", lambda sample: float(sample.threads)),
    )
    return Exhibit(
        0,
        "processes",
        "What each stretch of work took, warm-up aside, and by how much it grew",
        tuple(Column(name, form) for name, form in zip(columns, forms, strict=True)),
        tuple(rows),
        charts,
        tuple(judge_processes(curves)),
    )


def _chart_of_processes(curves: Curves, name: str, unit: str, read: Callable[[ProcessSample], float]) -> Chart:
    """A line for each process; it breaks where one life ends and the next begins."""
    series = []
    for process in curves.names:
        x: list[float] = []
        y: list[float] = []
        life = 1
        for sample in curves.of(process):
            if sample.life != life:
                x.append(sample.seconds / 60)
                y.append(math.nan)
                life = sample.life
            x.append(sample.seconds / 60)
            y.append(read(sample))
        series.append(Series(process, tuple(x), tuple(y)))
    return Chart(name, "minutes", unit, tuple(series), marks=_marks(curves))


def _marks(curves: Curves) -> tuple[float, ...]:
    return tuple(event.seconds / 60 for event in curves.events)


def _stream(curves: Curves, rows_per_second: float) -> Exhibit:
    rows: list[tuple[Cell, ...]] = [
        (one.seconds / 60, one.what, one.peak_rows, one.back_after_seconds)
        for one in recoveries(curves, rows_per_second)
    ]

    def chart(name: str, unit: str, read: dict[str, Callable[[StreamSample], float | None]]) -> Chart:
        series = []
        for line, value in read.items():
            values = [value(sample) for sample in curves.stream]
            y = tuple(math.nan if found is None else float(found) for found in values)
            series.append(Series(line, tuple(sample.seconds / 60 for sample in curves.stream), y))
        return Chart(name, "minutes", unit, tuple(series), marks=_marks(curves))

    return Exhibit(
        0,
        "restarts",
        "The lag after each restart: its peak, and after how many seconds it was gone",
        (Column("minute", ".1f"), Column("what"), Column("most rows behind", ","), Column("gone after s", ".0f")),
        tuple(rows),
        (
            chart("rows behind", "rows", {"acknowledged, not in the newest model": lambda one: one.rows_behind}),
            chart("lag", "records", {"of all services, by their metrics": lambda one: one.lag_records}),
            chart("freshness", "seconds", {"sample to model, mean": lambda one: one.freshness_seconds}),
            chart("live rows", "rows", {"of the window": lambda one: one.live_rows or None}),
            chart("disk", "MB", {"of the broker": lambda one: one.disk_megabytes}),
        ),
        tuple(judge_stream(curves, rows_per_second)),
    )


def _account(account: Sequence[Target], figures: dict[str, int | str]) -> Exhibit:
    rows = tuple((name, f"{value:,}" if isinstance(value, int) else value) for name, value in figures.items())
    return Exhibit(
        0,
        "account",
        "What was sent, and what became of it",
        (Column("what"), Column("count")),
        rows,
        (),
        tuple(account),
    )


def write(report: Report, directory: Path, console: Console) -> None:
    """Tables to the terminal and as Markdown, everything as JSON, curves as PNG and SVG."""
    show.show(report, console)
    show.write_markdown(report, directory / "soak.md")
    show.write_json(report, str(directory / "soak.json"))
    written = show.draw(report, directory / "plots")
    pictures = "\n\n".join(f"![{place.stem}](plots/{place.name})" for place in written if place.suffix == ".png")
    with (directory / "soak.md").open("a", encoding="utf-8") as page:
        page.write(f"\n# Curves\n\nThin lines: restarts.\n\n{pictures}\n")
    console.print(f"tables, JSON and {len(written)} pictures in {directory}")


def keep_account(directory: Path, account: Sequence[Target], figures: dict[str, int | str]) -> None:
    """Write down what cannot be seen from the curves, so that they can be judged and drawn again."""
    kept = {"account": [[one.text, one.met, one.measured] for one in account], "figures": figures}
    (directory / "account.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def kept_account(directory: Path) -> tuple[list[Target], dict[str, int | str]]:
    """What was written down; an unmet target where the run never came to its end."""
    place = directory / "account.json"
    if not place.exists():
        return [Target("the run has come to its end", met=False, measured="there is no account.json")], {}
    kept = json.loads(place.read_text("utf-8"))
    return [Target(text, met, measured) for text, met, measured in kept["account"]], kept["figures"]
