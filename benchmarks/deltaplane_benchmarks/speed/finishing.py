"""What every command of the speeds does last: its tables are shown, and written where they were asked for."""

from __future__ import annotations

import time

from rich.console import Console

from deltaplane_benchmarks import show
from deltaplane_benchmarks.exhibit import Report
from deltaplane_benchmarks.shared_options import Outputs
from deltaplane_benchmarks.speed.figures import Figures, machine, write_json

__all__ = ["finish"]


def finish(tables: list[Figures], began: float, outputs: Outputs) -> None:
    """Show the tables, and write them; ``began`` is when the command did, by ``time.perf_counter``."""
    console = Console(stderr=outputs.json_to == "-", highlight=False)
    for table in tables:
        table.show(console)
    if outputs.json_to is not None:
        write_json(tables, outputs.json_to)
    report = Report(machine(), [table.exhibit() for table in tables], seconds=time.perf_counter() - began)
    show.write_out(report, outputs, console)
