"""The command ``compare``: several replays side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["compare"]


def compare(
    files: Annotated[list[Path], typer.Argument(help="Files that replay --json has written, two or more.")],
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML page with the curves of all runs that opens offline.")
    ] = None,
    different_rows: Annotated[
        bool, typer.Option("--different-rows", help="Show runs over different rows, too, without stars.")
    ] = False,
) -> None:
    """Show the measures of several replays side by side, and what differs between them; the best is bold with a star.

    deltaplane compare a.json b.json --report comparison.html
    """
    from rich.table import Table
    from rich.text import Text

    from deltaplane_services.observe.report.compare import best, check_same_rows, comparison, read_runs, remarks
    from deltaplane_services.observe.report.report_outputs import check_outputs, write_comparison
    from deltaplane_services.system.closed_pipe import PatientConsole
    from deltaplane_services.system.printable import plain

    check_outputs(report)
    runs = read_runs(files)
    if not different_rows:
        check_same_rows(runs)
    content, winners = comparison(runs), best(runs)
    table = Table()
    # Text from files is printed as it is, and never interpreted as markup.
    for at, name in enumerate(content.head):
        table.add_column(
            Text(plain(name)), justify="right" if at else "left", style="" if at else "cyan", overflow="fold"
        )
    for name, *cells in content.body:
        shown = [
            Text(f"{plain(value)} *", "bold") if (name, run) in winners else Text(plain(value))
            for run, value in zip(runs, cells, strict=True)
        ]
        table.add_row(Text(plain(name)), *shown)
    if report is not None:
        write_comparison(runs, report)
    console = PatientConsole(highlight=False, emoji=False)
    console.print(table)
    for remark in remarks(runs):
        console.print(Text(plain(remark), "yellow"))
