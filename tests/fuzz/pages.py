"""What other programs have written: reports as JSON, and pages of metrics."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any

from prometheus_client.exposition import generate_latest

from deltaplane.log.delta import Verdict
from deltaplane_services.observe.metrics import MergerMetrics, WorkerMetrics
from deltaplane_services.observe.report.compare import best, comparison
from deltaplane_services.observe.report.record import read_run, run_of
from deltaplane_services.observe.top.draw import draw
from deltaplane_services.observe.top.gather import Address, Gathering, Scrape, Silence, read_metrics
from deltaplane_services.observe.top.history import History
from deltaplane_services.observe.top.snapshot import frame_of
from fuzz.mutation import NUMBERS
from fuzz.target import Target
from services.metrics_models import model, plane, scores, stream
from services.report_summaries import vanishing

JSON_VALUES = (
    *(
        "null",
        "true",
        "0",
        "-1",
        "1e999",
        "NaN",
        "Infinity",
        "-0.0",
        '""',
        '"x"',
        "[]",
        "{}",
        "[null]",
        '{"a":1}',
        "1.5",
    ),
    *("9223372036854775808", "1" * 400, "9" * 5000, "[" * 3000, '"\\ud800"', '"\\u0000"', '"<script>"', '"[bold]"'),
)


def other_json(chance: random.Random, data: bytes) -> bytes:
    """A JSON text with other values in some places."""
    try:
        value = json.loads(data)
        for _ in range(chance.choice((1, 1, 2))):
            value = _replaced(chance, value)
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return data
    return text.replace('"@@"', chance.choice(JSON_VALUES)).encode("utf-8", "surrogatepass")


def _replaced(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(sorted(value))
        if chance.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _replaced(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.85:
        at = chance.randrange(len(value))
        return [*value[:at], _replaced(chance, value[at]), *value[at + 1 :]]
    return "@@"


SCRATCH = Path(tempfile.gettempdir())
USUAL_RUN = run_of(vanishing(), "usual")


def _report(data: bytes) -> str:
    path = SCRATCH / f"fuzz-{os.getpid()}.json"
    path.write_bytes(data)
    runs = {"a": read_run(path), "b": USUAL_RUN}
    comparison(runs)
    best(runs)
    return "read"


def _pages() -> tuple[bytes, ...]:
    definition = stream(name="s")
    worker, merger = WorkerMetrics(definition, "here"), MergerMetrics(definition)
    worker.lags({("samples", 0): 7, ("samples", 1): 3, ("retirements", 0): 0})
    merger.model(
        model(
            3,
            definition,
            plane=plane(),
            plane_version=3,
            counts={"no": 60, "yes": 40},
            scores=scores(no_no=80, no_yes=20, yes_yes=45, yes_no=5),
            totals={"applied": 1000, "refused bad value": 3, "retirements retired": 9},
        )
    )
    merger.turn(dict.fromkeys(Verdict, 0), joined=True, has_place=True)
    return tuple(generate_latest(metrics.registry) for metrics in (worker, merger))


def _metrics(data: bytes) -> str:
    """What ``top`` makes of a page, asked twice, beside a service that does not answer."""
    try:
        series = read_metrics(data.decode())
    except ValueError:
        return "no metrics"
    if isinstance(series, Silence):
        return "a stranger"
    here, there = Address("here", 1), Address("there", 2)
    history = History()
    for at in (100.0, 101.0):
        answers: dict[Address, Scrape | Silence] = {here: Scrape(at, series, True, "ok"), there: Silence("no")}  # noqa: FBT003
        history.see(Gathering(at, at, answers, {here: "here", there: "there"}))
    frame = frame_of(history)
    json.dumps(dataclasses.asdict(frame))
    draw(frame, history, 80)
    return "shown"


METRIC_WORDS = (
    b"NaN",
    b"+Inf",
    b"-Inf",
    b"{",
    b"}",
    b'"',
    b"\n",
    b"# TYPE x counter\n",
    b"1e400",
    b"-1",
    b'stream="',
    b'le="',
    b" ",
)


def _numbers(chance: random.Random, data: bytes) -> bytes:
    """A page with other numbers, or without some of its labels or lines."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    front, space, _ = lines[at].rpartition(b" ")
    match chance.randrange(3):
        case 0 if space:
            lines[at] = front + space + chance.choice(NUMBERS)
        case 1:
            lines[at] = b""
        case _:
            lines[at] = lines[at].replace(
                chance.choice((b"stream=", b"site=", b"topic=", b"class=", b"le=", b"of=")), b"x="
            )
    return b"\n".join(lines)


def targets() -> list[Target]:
    """Every reader of such pages."""
    reports = tuple(json.dumps(summary).encode() for summary in (vanishing(), vanishing(("a", "b", "c"))))
    return [
        Target("report", reports, _report, 0.3, (b"[", b"]", b"{", b"}", b'"', b"null"), other_json),
        Target("metrics", _pages(), _metrics, 0.2, METRIC_WORDS, _numbers),
    ]
