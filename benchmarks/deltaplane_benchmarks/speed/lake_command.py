"""The command ``bench lake``."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from deltaplane_benchmarks.shared_options import Outputs, Seed
from deltaplane_benchmarks.speed.figures import Figures
from deltaplane_benchmarks.speed.finishing import finish
from deltaplane_services.cli.option_groups import with_groups

__all__ = ["ROWS_OF_A_LAKE", "lake_command"]

ROWS_OF_A_LAKE = {8: 400_000, 64: 200_000, 256: 40_000}
"""By features: rows of a folder that take about a second."""


@with_groups
def lake_command(
    outputs: Outputs,
    rounds: Annotated[int, typer.Option(min=3, help="Rounds in which all ways are timed in turn.")] = 9,
    seed: Seed = 0,
) -> None:
    """What a row of a history costs the processor, beside bare Arrow and sums, which look at no row."""
    from deltaplane_benchmarks.speed.lake import measure

    began = time.perf_counter()
    table = Figures(
        "lake: nanoseconds of the processor a row of Parquet, on one thread",
        {
            "features": ",",
            "bare Arrow and sums": ",.0f",
            "local engine": ",.0f",
            "local engine, with ids": ",.0f",
            "local / bare": ".2f",
            "local / bare, lower quartile": ".2f",
            "local / bare, upper quartile": ".2f",
            "with ids / bare": ".2f",
            "start of a process, s": ".2f",
            "digest": "",
            "all ways": "",
        },
        notes=["Ratios are the medians of the rounds' own; nanoseconds are those of the best round."],
    )
    for features, rows in ROWS_OF_A_LAKE.items():
        found = measure(features, rows, rounds, seed)
        table.add(
            features,
            found.bare,
            found.local,
            found.with_ids,
            *found.local_to_bare.cells(),
            found.ids_to_bare.median,
            found.start,
            found.digest[:12],
            "same digest" if found.same_digest else "OTHER DIGEST",
        )
    finish([table], began, outputs)
