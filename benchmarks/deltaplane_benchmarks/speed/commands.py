"""The commands ``bench statistics``, ``latency``, ``threads``, ``serve`` and ``drift``; others have their modules."""

from __future__ import annotations

import itertools
import time
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from deltaplane_benchmarks.exhibit import Chart, Series
from deltaplane_benchmarks.shared_options import KAFKA, Outputs, Seed
from deltaplane_benchmarks.speed import latency, threads
from deltaplane_benchmarks.speed import refresh as refreshing
from deltaplane_benchmarks.speed import statistics_speed as gram
from deltaplane_benchmarks.speed.figures import Figures
from deltaplane_benchmarks.speed.finishing import finish
from deltaplane_benchmarks.speed.lake_command import lake_command
from deltaplane_benchmarks.speed.massive_command import massive_command
from deltaplane_benchmarks.speed.memory_command import memory_command
from deltaplane_benchmarks.speed.processes import Load
from deltaplane_benchmarks.speed.throughput_command import MICROSECONDS, throughput_command
from deltaplane_services.cli.option_groups import with_groups

__all__ = [
    "CLASSES_OF_REFRESH",
    "FEATURES_OF_REFRESH",
    "PERCENTS",
    "ROWS_OF_STATISTICS",
    "WEIGHTINGS",
    "drift_command",
    "intake_command",
    "latency_command",
    "register",
    "serve_command",
    "statistics",
    "threads_command",
]

PERCENTS = tuple(float(percent) for percent in range(1, 100))
ROWS_OF_STATISTICS = {8: 131_072, 54: 49_152, 256: 12_288, 784: 4_096}
"""By features: rows that take a twentieth of a second or so, in whole chunks."""
FEATURES_OF_REFRESH = (54, 256, 1024)
CLASSES_OF_REFRESH = (2, 7)
WEIGHTINGS: tuple[refreshing.Weighting, ...] = ("inverse", "none")


def register(app: typer.Typer) -> None:
    """Add the commands to ``deltaplane bench``."""
    app.command()(statistics)
    app.command("throughput")(throughput_command)
    app.command("latency")(latency_command)
    app.command("memory")(memory_command)
    app.command("massive")(massive_command)
    app.command("threads")(threads_command)
    app.command("serve")(serve_command)
    app.command("lake")(lake_command)
    app.command("drift")(drift_command)
    app.command("intake")(intake_command)


@with_groups
def drift_command(
    outputs: Outputs,
    rows: Annotated[int, typer.Option(min=1000, help="Rows of each kind in which nothing changes.")] = 400_000,
    seed: Seed = 0,
) -> None:
    """How soon drift is found without labels, and how many false alarms there are where nothing changes."""
    from deltaplane_benchmarks.speed.drifts import figures

    began = time.perf_counter()
    finish([figures(rows, seed)], began, outputs)


@with_groups
def statistics(
    outputs: Outputs,
    rounds: Annotated[int, typer.Option(min=3, help="Rounds in which all ways are timed in turn.")] = 25,
    seed: Seed = 0,
) -> None:
    """Exact Gram matrices, each row entering and leaving, against plain float64 products; and what a model costs."""
    from deltaplane_benchmarks.speed import partial_fits

    began = time.perf_counter()
    estimators = partial_fits.figures(tuple(ROWS_OF_STATISTICS), rounds, seed)
    finish([*_statistics(rounds, seed), estimators, _refresh(rounds, seed)], began, outputs)


def _statistics(rounds: int, seed: int) -> tuple[Figures, Figures]:
    table = Figures(
        "statistics: rows a second, each entering and leaving, on one thread",
        {
            "features": ",",
            "plain float64 rows/s": ",.0f",
            "exact rows/s": ",.0f",
            **_ratio("exact / plain", ".2f"),
            "plain, share of dgemm peak": ".0%",
            "exact, share of dgemm peak": ".0%",
            "digest": "",
            "cut otherwise": "",
        },
    )
    two = Figures(
        "statistics, two at once: rows a second against one",
        {"features": ",", **_ratio("two threads", ".2f"), **_ratio("two processes", ".2f")},
    )
    for features, rows in ROWS_OF_STATISTICS.items():
        found = gram.compare(features, rows, rounds, seed)
        table.add(
            features,
            found.plain,
            found.exact,
            *found.exact_to_plain.cells(),
            found.plain_share,
            found.exact_share,
            found.digest[:12],
            "same digest" if found.same_digest else "OTHER DIGEST",
        )
        two.add(features, *found.two_threads.cells(), *found.two_processes.cells())
    table.notes.append(f"{rounds} rounds of all ways in turn: ratios are medians of the rounds' own, rows/s the best")
    table.notes.append("rounding to the grid and the split into classes included; exact / plain is of processor time")
    two.notes.append("two threads share the rows of one; two processes hold as many each, begin at a barrier, and are")
    two.notes.append("done when the slower one is")
    table.draw("statistics, rows a second", "features", "rows/s", ("plain float64 rows/s", "exact rows/s"))
    table.draw("statistics, exact against plain", "features", "exact / plain", tuple(_ratio("exact / plain", "")))
    two.draw("statistics, two at once", "features", "against one", ("two threads", "two processes"))
    return table, two


def _ratio(name: str, form: str) -> dict[str, str]:
    """The columns of a ratio, as :meth:`Ratio.cells` gives it."""
    return {name: form, f"{name}, lower quartile": form, f"{name}, upper quartile": form}


def _refresh(rounds: int, seed: int) -> Figures:
    table = Figures(
        "refresh: a model from the statistics, milliseconds on one thread",
        {
            "features": ",",
            "classes": "",
            "weighting": "",
            "Cholesky ms": ".2f",
            "solve ms": ".2f",
            **_ratio("solve / Cholesky", ".1f"),
            "choose C ms": ".1f",
            **_ratio("choose C / solve", ".1f"),
            "C": "g",
        },
    )
    for features, classes, weighting in itertools.product(FEATURES_OF_REFRESH, CLASSES_OF_REFRESH, WEIGHTINGS):
        found = refreshing.refresh(features, classes, weighting, rounds, seed)
        table.add(
            features,
            str(classes),
            weighting,
            found.cholesky,
            found.solve,
            *found.solve_to_cholesky.cells(),
            found.choose,
            *found.choose_to_solve.cells(),
            found.chosen,
        )
    table.notes.append("solve: from exact integers to a plane; with inverse weights, seven classes are seven matrices,")
    table.notes.append("without weights one. Choose C: five folds of 17 candidates, from the statistics alone")
    table.notes.append("milliseconds are by the clock, the best; ratios are of processor time, medians of pairs")
    kinds = ("classes", "weighting")
    table.draw("refresh, solve", "features", "against one Cholesky", ("solve / Cholesky",), kinds)
    table.draw("refresh, choice of C", "features", "against one solve", ("choose C / solve",), kinds)
    return table


@with_groups
def threads_command(
    outputs: Outputs,
    rows: Annotated[int, typer.Option(min=500, help="Rows to replay.")] = 2_500,
    seed: Seed = 0,
) -> None:
    """A replay with one thread of BLAS against one with all that it would take: time, and the same model."""
    began = time.perf_counter()
    columns = {"threads": "", "seconds": ".2f", "cpu seconds": ".2f", "digest": "", "as with one": "", "planes": ""}
    table = Figures(f"threads: a replay of {rows:,} rows through 200 Fourier features", columns)
    for found in threads.compare(rows, seed):
        table.add(
            str(found.threads or "all"),
            found.replayed.seconds,
            found.replayed.cpu_seconds,
            found.replayed.digest[:12],
            "same digest" if found.same_digest else "OTHER DIGEST",
            "same bits" if found.difference == 0.0 else f"a weight is {found.difference:.1g} apart",
        )
    table.draw_bars("threads, seconds", ("threads",), "seconds")
    finish([table], began, outputs)


@with_groups
def latency_command(
    outputs: Outputs,
    broker: Annotated[str, typer.Option(help=KAFKA)],
    rate: Annotated[float, typer.Option(help="Rows a second.")] = 20_000.0,
    seconds: Annotated[float, typer.Option(help="How long to send.")] = 15.0,
    seed: Seed = 0,
) -> None:
    """How old a sample is when a model contains it, at a steady rate, with default settings."""
    began = time.perf_counter()
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
        curves = tuple(
            Series(text, PERCENTS, tuple(found.percentile(part, percent) for percent in PERCENTS))
            for part, text in parts.items()
        )
        table.charts.append(Chart(f"latency, {name}", "percent of messages", "milliseconds", curves, log_y=True))
    finish([table], began, outputs)


@with_groups
def serve_command(
    outputs: Outputs,
    rounds: Annotated[int, typer.Option(min=100, help="Requests of each kind.")] = 5_000,
    features: Annotated[int, typer.Option(min=1, help="Features of a row.")] = 54,
    seed: Seed = 0,
) -> None:
    """One row over HTTP on loopback, beside an endpoint of the same stack that reads its body and answers nothing."""
    from deltaplane_benchmarks.speed.serve_speed import time_requests

    began = time.perf_counter()
    columns = {"request": "", "requests": ",", "p50 ms": ".2f", "p99 ms": ".2f", "most ms": ".1f"}
    table = Figures(f"serve: one row of {features} features a request, one connection", columns)
    for question, found in time_requests(features, rounds, seed).items():
        table.add(question, found.requests, found.median, found.p99, found.worst)
    finish([table], began, outputs)


@with_groups
def intake_command(
    outputs: Outputs,
    broker: Annotated[str, typer.Option(help=KAFKA)],
    rows: Annotated[int, typer.Option(min=1000, help="Events of the race with produce.")] = 200_000,
    rate: Annotated[float, typer.Option(min=1.0, help="Labels a second, from label to model.")] = 2_000.0,
    waiting: Annotated[int, typer.Option(min=1000, help="Events that wait in the end.")] = 1_000_000,
    seed: Seed = 0,
) -> None:
    """JSON events through one intake beside produce, labels to the model, and memory over events that wait."""
    from deltaplane_benchmarks.speed import intake_speed

    began, console = time.perf_counter(), Console(stderr=True, highlight=False)

    def say(text: str) -> None:
        console.print(f"{time.perf_counter() - began:.0f} s: {text}", style="dim")

    raced = Figures(
        "intake: events in JSON, each with its label, against produce from a CSV file; each alone with the broker",
        {"way": "", "rows": ",", "rows/s": ",.0f", "cpu µs a row": ".1f", "rows a cpu second": ",.0f", "digest": ""},
    )
    found = intake_speed.speed(broker, rows, seed, say)
    same = "same digest as replay" if found.same_digest else "OTHER DIGEST"
    for way, seconds, cpu, digest in (
        ("intake", found.intake_seconds, found.intake_cpu_seconds, same),
        ("produce", found.produce_seconds, found.produce_cpu_seconds, ""),
    ):
        raced.add(way, rows, rows / seconds, cpu / rows * MICROSECONDS, rows / cpu, digest)
    raced.notes.append(f"intake / produce, rows a second: {found.produce_seconds / found.intake_seconds:.2f}")
    raced.notes.append("processor time of produce has its start in it; both have the client's own threads")
    fresh = Figures(
        f"intake: from a label to the model that contains its row, {rate:,.0f} labels/s",
        {"labels": ",", "p50 ms": ".0f", "p90 ms": ".0f", "p99 ms": ".0f", "most ms": ".0f"},
    )
    ages = intake_speed.label_to_model(broker, rate, 15.0, seed, say).milliseconds
    fresh.add(len(ages), *(float(np.percentile(ages, percent)) for percent in (50, 90, 99, 100)))
    memory = Figures(
        "intake: memory over events that wait",
        {"events": ",", "resident MB": ",.0f", "store MB": ",.0f", "seconds": ",.0f"},
    )
    looks = sorted({max(1000, waiting // 10), max(1000, waiting // 2), waiting})
    for look in intake_speed.waiting(broker, looks, seed, say):
        memory.add(look.events, look.megabytes, look.store_megabytes, look.seconds)
    finish([raced, fresh, memory], began, outputs)
