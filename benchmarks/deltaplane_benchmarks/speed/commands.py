"""The commands ``bench throughput``, ``latency`` and ``statistics``; ``memory`` has a module of its own."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from deltaplane_benchmarks.speed import embedded, latency, throughput
from deltaplane_benchmarks.speed import statistics as gram
from deltaplane_benchmarks.speed.figures import Figures, write_json
from deltaplane_benchmarks.speed.memory_command import memory_command
from deltaplane_benchmarks.speed.processes import Load

JsonTo = Annotated[
    str | None, typer.Option("--json", help="Write the figures as JSON to a file, or - for standard output.")
]
Seed = Annotated[int, typer.Option(help="Seed of the rows.")]
Broker = Annotated[str | None, typer.Option(help="HOST:PORT of Kafka; the stream's topics are made and deleted.")]
MICROSECONDS = 1e6
ROWS_OF_STATISTICS = {8: 400_000, 54: 200_000, 256: 40_000, 784: 8_000}


def register(app: typer.Typer) -> None:
    """Add the commands to ``deltaplane bench``."""
    app.command()(statistics)
    app.command("throughput")(throughput_command)
    app.command("latency")(latency_command)
    app.command("memory")(memory_command)


def statistics(json_to: JsonTo = None, repeats: int = 5, seed: Seed = 0) -> None:
    """Exact Gram matrices, every row entering and leaving, against the plain float64 product of the same rows."""
    table = Figures(
        "statistics: rows a second, each entering and leaving, on one thread",
        {
            "features": ",",
            "plain float64 rows/s": ",.0f",
            "exact rows/s": ",.0f",
            "exact / plain": ".2f",
            "two threads / one": ".2f",
            "share of dgemm peak": ".0%",
            "digest": "",
            "cut otherwise": "",
        },
    )
    for features, rows in ROWS_OF_STATISTICS.items():
        found = gram.compare(features, rows, repeats, seed)
        table.add(
            features,
            found.plain,
            found.exact,
            found.exact / found.plain,
            found.exact_two_threads / found.exact,
            found.peak,
            found.digest[:12],
            "same digest" if found.same_digest else "OTHER DIGEST",
        )
    table.notes.append(
        f"best of {repeats}, both ways in turn; rounding to the grid and the split into classes included"
    )
    _finish([table], json_to)


def throughput_command(  # noqa: PLR0913, PLR0917 - the options of a command.
    file: Annotated[Path | None, typer.Argument(help="A CSV file to replay; by default rows are made.")] = None,
    label: Annotated[str, typer.Option(help="Its label column.")] = "y",
    positive: Annotated[str | None, typer.Option(help="Its positive class.")] = None,
    broker: Broker = None,
    repeats: int = 3,
    json_to: JsonTo = None,
    seed: Seed = 0,
) -> None:
    """Rows a second: replays in one process, and, with --broker, producer, broker, worker and merger together."""
    tables = [_replays(file, label, positive, repeats, seed)]
    if broker is not None:
        tables.append(_on_kafka(broker, seed))
    _finish(tables, json_to)


def _replays(file: Path | None, label: str, positive: str | None, repeats: int, seed: int) -> Figures:
    table = Figures(
        "throughput: replays in one process, from the file to the last model",
        {
            "setting": "",
            "features": ",",
            "window": "",
            "chunk": ",",
            "rows": ",",
            "rows/s": ",.0f",
            "cpu µs a row": ".2f",
            "peak MB": ",.0f",
            "G-mean": ".4f",
            "digest": "",
            "verified": "",
        },
    )
    startup = embedded.startup_seconds()
    for setting in embedded.SETTINGS:
        with ExitStack() as stack:
            place, name, of = file, label, positive
            if place is None:
                place, name, of = (
                    stack.enter_context(embedded.data_file(setting.features, setting.rows, seed)),
                    "y",
                    "yes",
                )
            elif setting.chunk == 1:
                continue  # A whole file, row by row, takes minutes and says nothing else.
            best = embedded.best_of(repeats, place, name, of, setting)
            proof = embedded.replay(place, name, of, setting, verify=True)
        verified = proof.verified and proof.digest == best.digest
        table.add(
            setting.name,
            setting.features if file is None else None,
            setting.window,
            setting.chunk,
            best.rows,
            best.rows_per_second,
            (best.cpu_seconds - startup) / best.rows * MICROSECONDS,
            best.peak_megabytes,
            best.gmean,
            best.digest[:12],
            "yes" if verified else "NO",
        )
    table.notes.append(f"best of {repeats}; imports take {startup:.2f} s of processor time and are left out")
    table.notes.append("verified: the live rows refitted from scratch give the same digest and weights, bit for bit")
    return table


def _on_kafka(broker: str, seed: int) -> Figures:
    table = Figures(
        "throughput: producer, broker, one worker and the merger on this machine",
        {
            "messages": "",
            "rows": ",",
            "rows/s": ",.0f",
            "producer µs": ".2f",
            "worker µs": ".2f",
            "merger µs": ".2f",
            "bytes a row": ",.0f",
            "bytes a delta": ",.0f",
            "deltas": ",",
            "worker peak MB": ",.0f",
            "merger peak MB": ",.0f",
            "digest": "",
            "as the batch": "",
        },
    )
    for name, load in (
        ("SampleBatch of 500, float32", Load(1_000_000, 54, seed, 500)),
        ("Sample", Load(150_000, 54, seed, 0)),
    ):
        found = throughput.measure(broker, load, "20000", lambda _: None)
        share = MICROSECONDS / load.rows
        table.add(
            name,
            load.rows,
            load.rows / found.seconds,
            found.sent.cpu_seconds * share,
            found.worker_cpu_seconds * share,
            found.merger_cpu_seconds * share,
            found.sent.bytes / load.rows,
            found.delta_bytes,
            found.deltas,
            found.worker_peak_megabytes,
            found.merger_peak_megabytes,
            found.model.digest[:12],
            "same digest" if found.same_digest else "OTHER DIGEST",
        )
    table.notes.append("54 features, window 20,000; µs are processor time a row; bytes before compression")
    return table


def latency_command(
    broker: Annotated[str, typer.Option(help="HOST:PORT of Kafka; the stream's topics are made and deleted.")],
    rate: Annotated[float, typer.Option(help="Rows a second.")] = 20_000.0,
    seconds: Annotated[float, typer.Option(help="How long to send.")] = 15.0,
    json_to: JsonTo = None,
    seed: Seed = 0,
) -> None:
    """How old a sample is when a model contains it, at a steady rate, with default settings."""
    table = Figures(
        f"latency: from publication to the model that contains the sample, {rate:,.0f} rows/s of 54 features",
        {
            "messages": "",
            "part": "",
            "p50 ms": ".0f",
            "p90 ms": ".0f",
            "p99 ms": ".0f",
            "most ms": ".0f",
            "answers": "",
        },
    )
    parts = {
        "whole": "publication to a reader's model",
        "to_delta": "linger, broker, poll, Gram matrices",
        "to_model": "delta to the merger, refresh, solve",
        "to_reader": "model to a reader",
    }
    for name, batch in (("Sample", 0), ("SampleBatch of 100", 100)):
        found = latency.measure(
            broker, Load(int(rate * seconds), 54, seed, batch, "float32", rate), "20000", lambda _: None
        )
        for part, text in parts.items():
            same = ("same digest" if found.same_digest else "OTHER DIGEST") if part == "whole" else ""
            percentiles = (found.percentile(part, percent) for percent in (50, 90, 99, 100))
            table.add(name if part == "whole" else "", text, *percentiles, same)
        table.notes.append(f"{name}: {found.rows_per_second:,.0f} rows/s, {found.models} models")
    _finish([table], json_to)


def _finish(tables: list[Figures], json_to: str | None) -> None:
    console = Console(stderr=json_to == "-", highlight=False)
    for table in tables:
        table.show(console)
    if json_to is not None:
        write_json(tables, json_to)
