"""The embedded pipeline with every service watched as it is on Kafka, so that real exporters tell of a real replay."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crashing_runner import CrashingRunner
from deltaplane.log.confusion import Confusion
from deltaplane.log.model import Model
from deltaplane.log.records import Query
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import write_query
from deltaplane_services.definition_file.definition_tables import load_tables
from deltaplane_services.definition_file.intake_table import intake_of
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.embedded.embedded_runner import RunnerOptions
from deltaplane_services.intake.joining import IntakeProcessor
from deltaplane_services.intake.reading import RecordReader
from deltaplane_services.intake.waiting_rows import WaitingRows
from deltaplane_services.observe.metrics import (
    FollowerMetrics,
    IntakeMetrics,
    JudgeMetrics,
    MergerMetrics,
    ScorerMetrics,
    ServiceMetrics,
    WorkerMetrics,
)
from deltaplane_services.processors.judge_processor import JudgeProcessor
from deltaplane_services.processors.messages import (
    DELTAS,
    MODELS,
    PREDICTIONS,
    QUERIES,
    RETIREMENTS,
    SAMPLES,
    Outgoing,
    Output,
    Record,
)
from deltaplane_services.processors.worker_processor import WorkerProcessor
from deltaplane_services.produce.feed import Feed
from deltaplane_services.produce.feed_options import ReplayOptions, complete_definition, reader_options
from deltaplane_services.readers import RowBlock, open_rows, rechunk
from deltaplane_services.serve.model_source import FollowedSource
from deltaplane_services.serve.serve_metrics import ServeMetrics

TOP = Path(__file__).resolve().parents[2]
ELECTRICITY = TOP / "examples" / "electricity.csv.gz"
DEFINITION = TOP / "deploy" / "deltaplane.toml"


def automatic(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a stream with the automatic mode's windows, up to 1600 rows, and its choices of C."""
    solver = {name: value for name, value in tables["solver"].items() if name != "C"}
    return {**tables, "window": {"length": "auto", "max": 1600}, "solver": solver}


class _Newest:
    """The newest model of a runner, as what follows a stream has it."""

    stale = None

    def __init__(self, runner: ObservedRunner) -> None:
        self._runner = runner

    @property
    def model(self) -> Model | None:
        return self._runner.scorer.model


class ObservedRunner(CrashingRunner):
    """Two workers, a merger, a scorer, a judge, an intake and one that follows a table, each with its metrics.

    The intake reads a topic of its own, in which each record is an event that waits.
    """

    def __init__(self, definition: StreamDefinition, options: RunnerOptions | None = None) -> None:
        options = options or RunnerOptions()
        self.workers = [WorkerMetrics(definition, options.site) for _ in range(min(2, definition.partitions))]
        self.merging = MergerMetrics(definition)
        self.scoring = ScorerMetrics(definition)
        self.serving = ServeMetrics(FollowedSource(definition, _Newest(self)))
        self.judging, self._judge = JudgeMetrics(definition, options.site), JudgeProcessor(definition)
        self._judged = dict.fromkeys(range(definition.partitions), (0, 0))
        self.taking_in = IntakeMetrics(definition, options.site)
        self.following = FollowerMetrics(definition, "history/0")
        labels = {"topic": "labels", "id": "id", "label": "label"}
        intake = intake_of({"intake": {"topic": "events", "id": "id", "labels": labels}}, definition)
        assert intake is not None, "the table is there"
        self._reader, self._read = RecordReader(definition, intake), 0
        self._waiting_in = IntakeProcessor(definition, intake, 0, WaitingRows(), "intake")
        self._telling: ServiceMetrics | None = None
        self._outputs: list[Output] = []
        super().__init__(definition, len(self.workers), options)

    @property
    def services(self) -> list[ServiceMetrics]:
        """The metrics of every process there would be."""
        return [*self.workers, self.merging, self.scoring, self.taking_in, self.judging, self.following]

    def turn(self) -> None:
        """What every service tells at the end of a turn of its loop."""
        for metrics, worker in zip(self.workers, self._workers, strict=True):
            metrics.turn(worker.sources, (), joined=True)
            lags = {}
            for partition, source in worker.sources.items():
                for topic, position in zip((SAMPLES, RETIREMENTS), source.position, strict=True):
                    lags[topic, partition] = self.broker.end(topic, partition) - position
            metrics.lags(lags)
        self.merging.turn(self.merger.verdicts, joined=True, has_place=True)
        self.merging.lags({(DELTAS, p): self.broker.end(DELTAS, p) - at for p, at in self._delta_positions.items()})
        self.scoring.turn(self.scorer)
        self.serving.answered("/predict", 200, 0.001)
        self.serving.rows(1, 1)
        self._take_in()
        self._judge_all()
        self.following.followed(2, 1, 0)
        self.following.turn(3, 1)
        for service in self.services:
            service.unsafe_topics({SAMPLES: 0})
        self.merging.trimmed({(SAMPLES, 0): 1}, {(SAMPLES, 0): int(self.broker.begin(SAMPLES, 0))})

    def _take_in(self) -> None:
        """A turn of the intake, in which one more event comes and waits."""
        event = {"id": self._read} | dict.fromkeys(self.definition.features, 0.0)
        record = Record("events", 0, self._read, self._read, None, json.dumps(event).encode())
        assert not list(self._waiting_in.process(self._reader.read([record], self._read)))
        self._read += 1
        self.taking_in.turn([self._waiting_in], joined=True, waiting=0)

    def _judge_all(self) -> None:
        """A turn of the judge: all predictions, then all samples."""
        ends = {p: (self.broker.end(PREDICTIONS, p), self.broker.end(SAMPLES, p)) for p in self._judged}
        for topic, at, take in ((PREDICTIONS, 0, self._judge.hear), (SAMPLES, 1, self._judge.see)):
            for partition, position in self._judged.items():
                take(self.broker.fetch(topic, partition, max(position[at], self.broker.begin(topic, partition))))
        self._judged = ends
        self.judging.turn(self._judge, caught_up=True)

    def crash_worker(self, index: int, now: int) -> None:
        """Lose a worker's memory; its partitions wait for their rebuild."""
        self.workers[index].turn({}, self._workers[index].sources, joined=True)
        super().crash_worker(index, now)

    def round(self, now: int) -> bool:
        """One round, and what everyone tells of it."""
        busy = super().round(now)
        self.turn()
        return busy

    def _poll_worker(self, processor: WorkerProcessor, now: int) -> bool:
        partition = processor.source.partition
        at = next(index for index, worker in enumerate(self._workers) if partition in worker.sources)
        self._telling = metrics = self.workers[at]
        samples = self.broker.fetch(SAMPLES, partition, processor.position[0], self.options.records_per_poll)
        tile, self._outputs = processor._sequence, []
        busy = super()._poll_worker(processor, now)
        for output in self._outputs:
            metrics.delta(processor, tile, samples, output)
        return busy

    def _poll_merger(self, now: int) -> bool:
        self._telling, self._outputs = self.merging, []
        began, before = time.perf_counter(), self.scorer.model
        busy = super()._poll_merger(now)
        for output in self._outputs:
            self.merging.published(output.first)
            if any(record.topic == MODELS for record in output.then):
                self.merging.solved(time.perf_counter() - began, output)
                self.merging.deviations(self.merger.deviations())
        model = self.scorer.model
        if model is not None and model is not before:
            self.merging.model(model)
            for metrics in self.workers:
                metrics.model(model)
        return busy

    def _poll_scorer(self, now: int) -> bool:
        self._telling, self._outputs = self.scoring, []
        busy = super()._poll_scorer(now)
        for output in self._outputs:
            self.scoring.answered(output)
        return busy

    def _publish(self, output: Output, now: int) -> None:
        began = time.perf_counter()
        super()._publish(output, now)
        self._outputs.append(output)
        for record in (*output.first, *output.then):
            assert self._telling is not None, "somebody publishes"
            self._telling.delivered(record.topic, time.perf_counter() - began)


QUERIES_OF_A_CHUNK = 10
"""Enough that a scorer knows within the replay how far the features of its queries have shifted."""


class ObservedReplay:
    """The electricity market through an observed pipeline, and the score that somebody keeps who looks on.

    ``truth`` and ``guess`` are of every row that a plane existed for: predicted here, by the plane, before its chunk is
    published. Time is the machine's own.
    """

    def __init__(self, chunk: int = 250) -> None:
        tables = automatic(load_tables(DEFINITION))
        self._options = ReplayOptions(str(ELECTRICITY), DefinitionFile.of(tables), chunk, retire_fraction=0.05, seed=7)
        with open_rows(self._options.source, reader_options(self._options.definition_file)) as reader:
            self.definition = complete_definition(self._options, reader.feature_names, None)
        self.runner = ObservedRunner(self.definition, RunnerOptions(keep_log=True))
        self.truth: list[str] = []
        self.guess: list[str] = []
        self._feed = Feed(self.definition, self._options)
        self._chunks = self._read()

    def _read(self) -> Iterator[RowBlock]:
        with open_rows(self._options.source, reader_options(self._options.definition_file)) as reader:
            yield from rechunk(reader, self._options.chunk)

    def go_on(self, chunks: int) -> None:
        """Replay so many chunks more, with some queries and a record that is none beside each."""
        for chunk in (next(self._chunks) for _ in range(chunks)):
            now = time.time_ns() // 1_000_000
            plane = None if self.runner.scorer.model is None else self.runner.scorer.model.plane
            if plane is not None:
                self.guess += [plane.classes[at] for at in plane.predict(chunk.features).tolist()]
                self.truth += chunk.labels
            records, _ = self._feed.publish(chunk)
            for number, row in list(zip(chunk.line_numbers, chunk.features, strict=True))[:QUERIES_OF_A_CHUNK]:
                query = Query(str(number), row, self.definition.data_fingerprint)
                records.append(Outgoing(QUERIES, 0, None, write_query(query)))
            records.append(Outgoing(SAMPLES, 0, None, b"no record"))
            self.runner.broker.append_all(records, now)
            self.runner.round(now)

    def confusion_of_the_last(self, rows: int) -> Confusion:
        """The score of the last so many rows, counted by hand."""
        counts: dict[tuple[str, str], int] = {}
        for pair in zip(self.truth[-rows:], self.guess[-rows:], strict=True):
            counts[pair] = counts.get(pair, 0) + 1
        return Confusion(counts)


def gmean_by_hand(confusion: Confusion) -> float:
    """√(recall · recall) of two classes, by another road than the core's: through an array."""
    labels = confusion.classes
    table = np.array([[confusion.counts.get((truth, guess), 0) for guess in labels] for truth in labels], dtype=float)
    return float(np.sqrt(np.prod(np.diag(table) / table.sum(axis=1))))
