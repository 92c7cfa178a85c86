"""The command ``bench throughput``."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from deltaplane_benchmarks import show
from deltaplane_benchmarks.shared_options import KAFKA, Outputs, Seed
from deltaplane_benchmarks.speed import embedded, throughput
from deltaplane_benchmarks.speed.figures import Figures
from deltaplane_benchmarks.speed.finishing import finish
from deltaplane_benchmarks.speed.processes import Load
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.processors.messages import DELTAS, SAMPLES

__all__ = ["MICROSECONDS", "MIXED_ROWS", "mixed", "throughput_command"]

MICROSECONDS = 1e6
MIXED_ROWS = 100_000

_Broker = Annotated[str | None, typer.Option(help=KAFKA)]


@with_groups
def throughput_command(  # noqa: PLR0913, PLR0917 - the options of a command.
    outputs: Outputs,
    file: Annotated[Path | None, typer.Argument(help="A CSV file to replay; by default rows are made.")] = None,
    label: Annotated[str, typer.Option(help="Its label column.")] = "y",
    positive: Annotated[str | None, typer.Option(help="Its positive class.")] = None,
    broker: _Broker = None,
    repeats: int = 3,
    seed: Seed = 0,
) -> None:
    """Rows a second: replays in one process, and, with --broker, producer, broker, worker and merger together."""
    began = time.perf_counter()
    with show.progress(Console(stderr=True, highlight=False)) as say:
        tables = [_replays(file, label, positive, repeats, seed, say)]
        if file is None:
            tables.append(mixed(MIXED_ROWS, repeats, seed, say))
        if broker is not None:
            say("rows on Kafka")
            tables.append(_on_kafka(broker, seed))
    finish(tables, began, outputs)


def _replays(
    file: Path | None, label: str, positive: str | None, repeats: int, seed: int, say: Callable[[str], None]
) -> Figures:
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
        say(f"replay: {setting.name}, window {setting.window}, chunk {setting.chunk:,}")
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
    table.draw_bars("throughput, replays", ("setting", "window", "chunk"), "rows/s")
    return table


def mixed(rows: int, repeats: int, seed: int, say: Callable[[str], None]) -> Figures:
    """A table of mixed columns, and one of numbers alone that has as many features as it is encoded to."""
    table = Figures(
        "throughput, mixed columns: a replay of texts, dates, truths and gaps against one of numbers, equally wide",
        {
            "table": "",
            "columns": ",",
            "features": ",",
            "rows": ",",
            "rows/s": ",.0f",
            "against numbers": ".2f",
            "cpu µs a row": ".2f",
            "peak MB": ",.0f",
            "digest": "",
            "verified": "",
        },
    )
    startup = embedded.startup_seconds()

    def measured(place: Path, positive: str) -> embedded.Replayed:
        best = embedded.best_of(repeats, place, "y", positive, embedded.MIXED)
        proof = embedded.replay(place, "y", positive, embedded.MIXED, verify=True)
        return replace(best, verified=proof.verified and proof.digest == best.digest)

    say(f"replay: mixed columns, {rows:,} rows")
    with embedded.mixed_file(rows, seed) as place:
        as_columns = measured(place, "fraud")
        with place.open(encoding="utf-8") as file:
            columns = file.readline().count(",")
    say(f"replay: numbers alone, {rows:,} rows of {as_columns.features} features")
    with embedded.data_file(as_columns.features, rows, seed) as place:
        numbers = measured(place, "yes")
    for name, width, one in (("mixed", columns, as_columns), ("numbers", numbers.features, numbers)):
        table.add(
            name,
            width,
            one.features,
            one.rows,
            one.rows_per_second,
            one.rows_per_second / numbers.rows_per_second,
            (one.cpu_seconds - startup) / one.rows * MICROSECONDS,
            one.peak_megabytes,
            one.digest[:12],
            "yes" if one.verified else "NO",
        )
    setting = embedded.MIXED
    table.notes.append(f"window {setting.window}, C {setting.choice_of_c}, chunk {setting.chunk:,}; best of {repeats}")
    table.notes.append(
        "of the mixed columns an id, a row number and a constant are left out, and the rules are decided on"
    )
    return table


def _on_kafka(broker: str, seed: int) -> Figures:
    table = Figures(
        "throughput on Kafka: producer, broker, one worker and the merger on this machine",
        {
            "messages": "",
            "rows": ",",
            "rows/s": ",.0f",
            "producer µs": ".2f",
            "worker µs": ".2f",
            "merger µs": ".2f",
            "bytes a row": ",.0f",
            "on the wire a row": ",.0f",
            "deltas": ",",
            "bytes a delta": ",.0f",
            "on the wire a delta": ",.0f",
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
            found.samples.wire_bytes / load.rows,
            found.deltas.records,
            found.deltas.bytes / found.deltas.records,
            found.deltas.wire_bytes / found.deltas.records,
            found.worker_peak_megabytes,
            found.merger_peak_megabytes,
            found.model.digest[:12],
            "same digest" if found.same_digest else "OTHER DIGEST",
        )
    table.notes.append("54 features, window 20,000; µs are processor time a row")
    table.notes.append(
        f"bytes are those of the messages; on the wire: as compressed ({found.codecs[SAMPLES]} for samples,"
        f" {found.codecs[DELTAS]} for deltas), with keys, headers and framing"
    )
    return table
