"""The command ``bench massive``: paper 3 at its size, by processes and by Spark, with the load beside each figure."""

from __future__ import annotations

import os
import time
from typing import Annotated, Literal

import typer
from rich.console import Console

from deltaplane.errors import DeltaplaneError
from deltaplane_benchmarks.shared_options import Outputs, Seed
from deltaplane_benchmarks.speed.figures import Figures, write_json
from deltaplane_services.cli.option_groups import with_groups

__all__ = ["PAPER", "figures", "massive_command", "memory_figures", "of_speed"]

PAPER = (
    "Paper 3, 80,000,000 rows of 64 features on Spark, 1 to 4 cores: accuracy 84.89 %; speedup 1, 1.72, 2.13, 2.65;"
    " sizeup 1, 1.59, 2.21, 3.15; scaleup 872, 948, 1052, 1123 s. Its rows and its machines are others"
)
_UNITS_OF_A_LARGE_SUM = 512
"""Of the hidden layer by which the driver's memory is measured: a sum of some megabytes."""


_MOST_LOAD = 0.5
"""Of the machine before a run, beyond which cores are not said to have been free."""


@with_groups
def massive_command(
    outputs: Outputs,
    rows: Annotated[
        int, typer.Option(min=20_000, help="Rows to be made and summed, in blocks of 20,000; 80000000 is the paper.")
    ] = 2_000_000,
    units: Annotated[int, typer.Option(min=0, help="Units of the hidden layer; 0: none.")] = 64,
    engine: Annotated[Literal["local", "spark", "both"], typer.Option(help="What adds rows up.")] = "local",
    partitions: Annotated[
        list[int] | None,
        typer.Option(
            min=1, help="Measure the memory of Spark's driver at so many partitions instead; may be repeated."
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Paper 3: an extreme support vector machine in one pass over rows that are made in the tasks."""
    if partitions:
        table = memory_figures(partitions, seed)
    else:
        table = figures(rows, units, ("local", "spark") if engine == "both" else (engine,), seed)
    table.show(Console(stderr=outputs.json_to == "-", highlight=False))
    if outputs.json_to is not None:
        write_json([table], outputs.json_to)


def figures(rows: int, units: int, engines: tuple[str, ...], seed: int) -> Figures:
    """The table. Raises :class:`DeltaplaneError` where two engines give two digests."""
    from deltaplane_benchmarks.speed.massive import BLOCK_ROWS, Summed, by_processes, by_spark, definition_of, quality

    blocks, cores = -(-rows // BLOCK_ROWS), os.cpu_count() or 1
    definition = definition_of(units, seed)
    table = Figures(
        f"massive: {blocks * BLOCK_ROWS:,} rows of 64 features, {units} hidden units, seed {seed}",
        {
            "engine": "",
            "cores": "",
            "rows": ",.0f",
            "seconds": ".1f",
            "µs Python": ".2f",
            "µs JVM": ".2f",
            "load": ".1f",
            "accuracy": ".4f",
            "G-mean": ".4f",
        },
    )

    def add(found: Summed) -> None:
        count = found.partial.rows
        _, accuracy, gmean = quality(definition, found.partial, seed)
        per_row = (1e6 * found.cpu_seconds / count, 1e6 * found.others / count)
        table.add(found.engine, found.cores, count, found.seconds, *per_row, found.load, accuracy, gmean)

    whole: list[Summed] = []
    if "local" in engines:
        fewer = max(1, blocks // max(2, cores))
        add(by_processes(definition, seed, fewer, 1))
        add(by_processes(definition, seed, fewer, cores))
        whole.append(by_processes(definition, seed, blocks, cores))
        add(whole[-1])
        table.notes += of_speed(table, cores)
    if "spark" in engines:
        from deltaplane_services.lake.spark import spark_session

        began = time.perf_counter()
        session = spark_session()
        table.notes.append(f"Spark took {time.perf_counter() - began:.0f} s to start, which are not in the figures.")
        whole.append(by_spark(definition, seed, blocks, session))
        add(whole[-1])
    digests = sorted({found.partial.digest() for found in whole})
    if len(digests) > 1:
        raise DeltaplaneError(f"massive: engines gave other digests: {', '.join(digests)}")
    table.notes.append(f"Digest of {blocks * BLOCK_ROWS:,} rows, the same from every engine here: {digests[0]}.")
    table.notes.append("µs are of the processor, a row; load is that of the minute before. Accuracy and G-mean are of")
    table.notes.append("20,000 rows that are in no sum.")
    table.notes.append(PAPER + ".")
    return table


def of_speed(table: Figures, cores: int) -> list[str]:
    """What the first rows of the table say of speedup, sizeup and scaleup, where cores were free."""
    alone, few, every = table.rows[:3]
    seconds = [float(row["seconds"] or 0.0) for row in (alone, few, every)]
    busy = max(float(row["load"] or 0.0) for row in (alone, few, every))
    size = float(every["rows"] or 0.0) / float(few["rows"] or 1.0)
    said = [
        f"speedup of {cores} processes over one: {seconds[0] / seconds[1]:.2f}",
        f"sizeup: {size:.1f} times the rows took {seconds[2] / seconds[1]:.2f} times the seconds",
        f"scaleup: {size:.1f} times the rows by {cores} processes took {seconds[2] / seconds[0]:.2f} of one's time",
    ]
    if busy > _MOST_LOAD:
        of_load = f"; cores were not free (load {busy:.1f}), so that this says little"
        said = [said[0] + of_load, said[1], said[2] + of_load]
    return [one + "." for one in said]


def memory_figures(partitions: list[int], seed: int) -> Figures:
    """The table of the driver's memory. Raises :class:`ExtraMissing` where pyspark is not installed."""
    from deltaplane_benchmarks.speed.driver_memory import cluster_session, measure
    from deltaplane_benchmarks.speed.massive import definition_of

    definition, session = definition_of(_UNITS_OF_A_LARGE_SUM, seed), cluster_session()
    table = Figures(
        f"massive: memory of Spark's driver, {_UNITS_OF_A_LARGE_SUM} hidden units",
        {
            "partitions": ",",
            "rows": ",",
            "MB of a sum": ".1f",
            "MB of all sums": ",.0f",
            "driver, Python, MB": ",.0f",
            "driver, JVM, MB": ",.0f",
            "load": ".1f",
            "digest": "",
        },
    )
    # The first work of a driver has it load what it needs.
    measure(session, definition, seed, 2)
    for count in partitions:
        found = measure(session, definition, seed, count)
        sizes = (found.partial_megabytes, found.partial_megabytes * count, found.python_megabytes, found.jvm_megabytes)
        table.add(count, found.rows, *sizes, found.load, found.digest[:12])
    table.notes.append("Resident memory of each process at its most, of which 512 MB may be heap of the JVM.")
    table.notes.append("Sums are added eight at a time by the executors; the driver gets one.")
    return table
