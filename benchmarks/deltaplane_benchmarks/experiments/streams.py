"""Real streams, test-then-train through the whole pipeline: the automatic mode against every fixed choice.

One run gives all of it. Every candidate of the automatic mode is scored on rows that it has not learned, so the sum of
its trials over the stream is what the same window and C, fixed, would have reached: the best of them in hindsight is
what somebody would have got who had tuned on this very stream.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deltaplane.arrays import Floats, Int32s
from deltaplane.log import confusion
from deltaplane.log.answers import answer
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Delta
from deltaplane.log.model import Model
from deltaplane.solve.candidates import THRESHOLDS
from deltaplane.solve.prequential_counts import Choice, PrequentialCounts
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_claim_or_delta
from deltaplane_benchmarks.bench import Bench, Experiment
from deltaplane_benchmarks.data.catalogue import DataSet
from deltaplane_benchmarks.exhibit import Cell, Chart, Column, Exhibit, Series, Target
from deltaplane_benchmarks.peers.no_change import last_known
from deltaplane_benchmarks.peers.ours import automatic_definition
from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, RunnerOptions
from deltaplane_services.processors.codec import codec_of
from deltaplane_services.processors.messages import DELTAS

__all__ = [
    "COLUMNS",
    "EXPERIMENT",
    "LOST_TO_CURVED",
    "MOST_OF_ALL",
    "NOTE",
    "QUICK_ROWS",
    "TASKS",
    "TOLERANCE",
    "Chunk",
    "Outcome",
    "StreamTask",
    "definition_of",
    "fed_chunks",
    "no_change",
    "run",
    "run_stream",
]

QUICK_ROWS = 20_000
TOLERANCE = 0.01
LOST_TO_CURVED = 0.003
MOST_OF_ALL = 0.99


@dataclass(frozen=True)
class StreamTask:
    """A stream, its positive class (None: all classes), rows between two models, and how many rows are used."""

    table: str
    positive: str | None
    chunk: int
    most_rows: int = 2**62
    label_delay: int = 0
    """A label is known when the row so many rows behind its own is predicted, at the next chunk at the earliest."""
    trial: float | None = None
    """The G-mean of a clear and slow trial of the same idea, with windows of its own."""

    @property
    def late(self) -> int:
        """How many rows later labels come than they must at least."""
        return max(0, self.label_delay - 1)

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.table if self.positive is None else f"{self.table}, {self.positive}"


TASKS = (
    StreamTask("Elec2", "1", 100, trial=0.775),
    StreamTask("Weather", "1", 100, trial=0.763),
    StreamTask("SEA", "1", 100, trial=0.856),
    StreamTask("CoverType", "2", 1000, 200_000, trial=0.816),
    StreamTask("SEA, larger", "1", 100),
    StreamTask("Moving squares", "0", 100),
    StreamTask("CoverType", None, 1000, 200_000),
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of one stream: the blend's G-mean, and that of every fixed window and choice, float64[w, c].

    With labels that come late the blend's G-mean is that of what was predicted when rows came. A fixed choice is scored
    when its rows are learned, as ever; it has the midpoint cut, and is NaN where it had no plane for more than a
    hundredth of the stream.
    """

    blend: float
    fixed: Floats
    windows: tuple[str, ...]
    choices: tuple[Choice, ...]
    rows: int
    seconds: float
    cpu_seconds: float

    def best(self, weighting: str) -> tuple[float, str]:
        """The best fixed choice with a weighting, and its name."""
        of = [at for at, choice in enumerate(self.choices) if choice.weighting == weighting]
        w, c = np.unravel_index(int(np.nanargmax(self.fixed[:, of])), (len(self.windows), len(of)))
        return float(self.fixed[w, of[c]]), f"window {self.windows[w]}, C {self.choices[of[c]].C:g}"


def definition_of(data: DataSet, task: StreamTask, *, curved: bool = False) -> StreamDefinition:
    """The stream as ``replay`` defines it with ``--feature-map linear``, or without a flag."""
    return automatic_definition(data.features, task.positive, curved=curved)


def run_stream(data: DataSet, task: StreamTask, *, curved: bool = False) -> Outcome:
    """Send the rows through the embedded pipeline, a chunk a round; if ``curved``, through the mixed map as well."""
    definition = definition_of(data, task, curved=curved)
    runner = EmbeddedRunner(definition, options=RunnerOptions(records_per_poll=2**31, keep_log=True))
    total: PrequentialCounts | None = None
    served = Confusion()
    begin, cpu, position, sent = time.perf_counter(), time.process_time(), 0, 0
    for chunk in fed_chunks(runner, data, task):
        sent += len(chunk.codes)
        if task.late:
            served += _served(definition, data, chunk)
        for record in runner.broker.fetch(DELTAS, 0, position):
            position = record.offset + 1
            delta = read_claim_or_delta(record.value, definition.dimensions)
            if isinstance(delta, Delta) and delta.prequential_counts is not None:
                total = delta.prequential_counts if total is None else total + delta.prequential_counts
    model = runner.merger.model
    assert model is not None, "a stream with rows has a model"
    assert total is not None, "a stream of more than a chunk has trials"
    return Outcome(
        blend=confusion.gmean(served if task.late else model.scores),
        fixed=_gmeans(total),
        windows=tuple(map(str, definition.nested_windows.windows)),
        choices=definition.choices_tried,
        rows=sent,
        seconds=time.perf_counter() - begin,
        cpu_seconds=time.process_time() - cpu,
    )


def _served(definition: StreamDefinition, data: DataSet, chunk: Chunk) -> Confusion:
    """What the model of the time predicted of rows when they came; those that no plane can answer are not counted."""
    plane = None if chunk.before is None else chunk.before.plane
    if plane is None:
        return Confusion()
    chosen = answer(plane, definition, data.features[chunk.start : chunk.start + len(chunk.codes)]).chosen
    truths = [definition.classes.class_of(name) or name for name in chunk.names]
    names = tuple(dict.fromkeys((*truths, *plane.classes)))
    truth = np.array([names.index(one) for one in truths])[chunk.codes]
    guess = np.array([names.index(one) for one in plane.classes])[chosen]
    return Confusion.of(truth[chosen >= 0], guess[chosen >= 0], names)


def no_change(data: DataSet, task: StreamTask) -> float:
    """The G-mean of whoever guesses, for each row of a chunk, the last label known; of two classes."""
    flags = data.labels[: task.most_rows].astype(str) == task.positive
    guesses = last_known(flags, task.chunk, task.late)
    counted = slice(task.chunk, None)
    truths, told = flags[counted].astype(np.int64), guesses[counted].astype(np.int64)
    return confusion.gmean(Confusion.of(truths, told, ("other", "own")))


def _gmeans(total: PrequentialCounts) -> Floats:
    """float64[w, c]: the root of both recalls of the midpoint cut, of the one class that has a plane."""
    target, rows = next(iter(total.rows.items()))
    tried = rows.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        gmeans = np.sqrt((total.hits[target][:, :, THRESHOLDS.index("midpoint")] / rows).prod(axis=-1))
    return np.where(tried >= MOST_OF_ALL * tried.max(), gmeans, np.nan)


class Chunk(NamedTuple):
    """Rows that came to a pipeline: the first one's place, int32[k] of ``names``, and the model that was before."""

    start: int
    names: tuple[str, ...]
    codes: Int32s
    before: Model | None


def fed_chunks(runner: EmbeddedRunner, data: DataSet, task: StreamTask) -> Iterator[Chunk]:
    """The chunks of a stream, each once the pipeline has had its round; ids are the places of rows.

    A round learns the rows whose labels have come: those of the chunk, unless labels are late.
    """
    features, labels = data.features[: task.most_rows], data.labels[: task.most_rows]
    table, codes = np.unique(labels, return_inverse=True)
    names = tuple(map(str, table.tolist()))
    for start in range(0, len(features), task.chunk):
        stop = min(start + task.chunk, len(features))
        rows = slice(max(0, start - task.late), max(0, stop - task.late))
        before = runner.merger.model
        come = codes[start:stop].astype(np.int32)
        if rows.start == rows.stop:
            yield Chunk(start, names, come, before)
            continue
        ids = [str(row) for row in range(rows.start, rows.stop)]
        own = codes[rows].astype(np.int32)
        samples = Samples.of_record(ids, 0, names, own, features[rows])
        runner.broker.append(codec_of(runner.definition).sample_batch(0, samples), 0)
        runner.round(0)
        yield Chunk(start, names, come, before)


COLUMNS = (
    Column("stream"),
    Column("rows", ",d"),
    Column("NoChange", ".4f"),
    Column("automatic", ".4f"),
    Column("with curved", ".4f"),
    Column("times the processor time", ".1f"),
    Column("best fixed in hindsight", ".4f"),
    Column("which"),
    Column("worst fixed", ".4f"),
    Column("best fixed, unweighted", ".4f"),
    Column("trial", ".3f"),
    Column("rows/s", ",.0f"),
)


def run(bench: Bench) -> list[Exhibit]:
    """All streams that can be had."""
    rows, targets, sources, charts = [], [], [], []
    for task in TASKS:
        data = bench.table(task.table)
        if data is None:
            continue
        bench.say(f"stream {task.name}")
        quick = bench.settings.quick
        shown = replace(task, label_delay=bench.settings.label_delay)
        shown = replace(shown, most_rows=min(task.most_rows, QUICK_ROWS)) if quick else shown
        outcome = run_stream(data, shown)
        curved = None if task.positive is None else run_stream(data, shown, curved=True)
        rows.append(_row(data, shown, outcome, curved))
        sources.append(f"{data.name}: {data.source} {data.note}".strip())
        if task.positive is not None and not shown.late:
            best = max(outcome.best("inverse")[0], outcome.best("none")[0])
            text = f"{task.name}: automatic within {TOLERANCE} of the best fixed choice in hindsight, weighted or not"
            targets.append(Target(text, outcome.blend >= best - TOLERANCE, f"{outcome.blend:.4f} against {best:.4f}"))
            charts.append(_chart(task, outcome))
        if curved is not None:
            text = f"{task.name}: with curved candidates not more than {LOST_TO_CURVED} below those without"
            met = curved.blend >= outcome.blend - LOST_TO_CURVED
            targets.append(Target(text, met, f"{curved.blend:.4f} against {outcome.blend:.4f}"))
        if task.trial is not None and not quick and not shown.late:
            text = f"{task.name}: not more than {TOLERANCE} below the trial"
            met = outcome.blend >= task.trial - TOLERANCE
            targets.append(Target(text, met, f"{outcome.blend:.4f} against {task.trial}"))
    if not rows:
        return []
    return [
        Exhibit(
            paper=0,
            name="streams",
            title=f"Prequential G-mean on real streams, in file order{_delayed(bench)}",
            columns=COLUMNS,
            rows=tuple(rows),
            charts=tuple(charts),
            targets=tuple(targets),
            data=tuple(dict.fromkeys(sources)),
            notes=(NOTE,),
        )
    ]


def _delayed(bench: Bench) -> str:
    late = bench.settings.label_delay
    return f", labels {late:,} rows late" if late > 1 else ""


NOTE = (
    "Test, then train. The best fixed choice is known only when the stream is over; the automatic mode knows nothing"
    " beforehand. NoChange guesses the last label known: that of the chunk before, and with `--label-delay N` one of"
    " N - 1 rows earlier. Then the automatic mode is judged by what it predicted when rows came, and fixed choices when"
    " they were learned, which is easier. *Automatic* is flat (`--feature-map linear`); *with curved* is the default,"
    " and what it costs. Of several classes no fixed choice is shown: their candidates are scored one against the rest."
)


def _row(data: DataSet, task: StreamTask, outcome: Outcome, curved: Outcome | None) -> tuple[Cell, ...]:
    speed = outcome.rows / outcome.seconds
    if curved is None:
        return (task.name, outcome.rows, None, outcome.blend, None, None, None, "", None, None, task.trial, speed)
    best, which = outcome.best("inverse")
    weighted = [at for at, choice in enumerate(outcome.choices) if choice.weighting == "inverse"]
    worst, unweighted = float(np.nanmin(outcome.fixed[:, weighted])), outcome.best("none")[0]
    times = curved.cpu_seconds / outcome.cpu_seconds
    ours = (no_change(data, task), outcome.blend, curved.blend, times)
    return (task.name, outcome.rows, *ours, best, which, worst, unweighted, task.trial, speed)


def _chart(task: StreamTask, outcome: Outcome) -> Chart:
    x = tuple(float(at) for at in range(len(outcome.windows)))
    series = [
        Series(f"C {choice.C:g}{'' if choice.weighting == 'inverse' else ', unweighted'}", x, tuple(line.tolist()))
        for choice, line in zip(outcome.choices, outcome.fixed.T, strict=True)
    ]
    series.append(Series("automatic", x, (outcome.blend,) * len(x)))
    name = f"streams {task.name}".replace(",", "").lower().replace(" ", "_")
    return Chart(name, "window", "G-mean", tuple(series), ticks=outcome.windows)


EXPERIMENT = Experiment(0, "streams", run)
