"""Drives the processors over the embedded broker, in one thread, in a seeded order.

One round polls every source once, lets the merger read all deltas, and shows its model to the workers and the scorer.
So a chunk that is published before a round is scored by the model that existed before it. There is no service logic
here: the processors decide what a worker does with its input, and what survives a crash.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from deltaplane.arrays import Floats
from deltaplane.log.delta import UNKNOWN_TOPICS, Source, TopicIds
from deltaplane.log.scoring import ScoredRows
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.intake_table import IntakeDefinition
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.intake.joining import IntakeProcessor
from deltaplane_services.intake.positions import last_position, sent_by
from deltaplane_services.intake.reading import RecordReader
from deltaplane_services.intake.waiting_rows import WaitingRows
from deltaplane_services.processors.codec import Codec, readable
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import (
    CHECKPOINTS,
    DELTAS,
    MODELS,
    QUERIES,
    RETIREMENTS,
    SAMPLES,
    Output,
    Record,
)
from deltaplane_services.processors.recovery import accepted_state, newest_checkpoint
from deltaplane_services.processors.scorer_processor import ScorerProcessor
from deltaplane_services.processors.worker_processor import WorkerProcessor

__all__ = [
    "DELTAS_BYTES",
    "MERGERS_CHECKPOINT_EVERY_ROUNDS",
    "EmbeddedRunner",
    "RunnerOptions",
    "start_merger",
    "take_source",
]

MERGERS_CHECKPOINT_EVERY_ROUNDS = 256
DELTAS_BYTES = 2**23
"""Bytes of deltas from which a checkpoint is written at once to drop them, unless the statistics take more."""


@dataclass(frozen=True)
class RunnerOptions:
    """Options of an embedded runner.

    - ``site``: the name of its site.
    - ``records_per_poll``: the most records of one poll of a source.
    - ``keep_log``: whether to keep records that have been read, for rebuilds and audits.
    - ``keep_window``: whether to keep those records that a worker must read that takes a source over.
    - ``decode``: whether readers decode the bytes of every record, as they must on Kafka; if not, they get the value
      that was encoded, which is the same.
    - ``seed``: that of the order in which sources are polled.
    - ``keep_scored``: whether to keep the prediction of each row, until :meth:`EmbeddedRunner.take_scored`.
    """

    site: str = "local"
    records_per_poll: int = 500
    keep_log: bool = False
    keep_window: bool = False
    decode: bool = True
    seed: int = 0
    keep_scored: bool = False


@dataclass
class _Worker:
    name: str
    sources: dict[int, WorkerProcessor] = field(default_factory=dict)


def take_source(
    definition: StreamDefinition,
    broker: EmbeddedBroker,
    source: Source,
    writer: str,
    now: int,
    topics: TopicIds = UNKNOWN_TOPICS,
) -> WorkerProcessor:
    """A processor that has claimed a source, at time ``now``, and knows where to read on.

    Raises :class:`SourceRemoved`, :class:`DeltaGap`, :class:`LogReplaced` and :class:`OffsetOutOfRange`.
    """
    processor = WorkerProcessor(definition, source, writer, topics)
    claimed_at = broker.append(processor.claim(), now)
    checkpoint, offset = newest_checkpoint(
        definition, source, broker.fetch_topic(CHECKPOINTS), broker.end(DELTAS, source.partition)
    )
    # This raises if retention has deleted deltas after the checkpoint, which nothing can replace.
    deltas = broker.fetch(DELTAS, source.partition, offset)
    resume = processor.restore(accepted_state(definition, checkpoint, deltas, claimed_at), claimed_at)
    processor.check_ends(broker.end(SAMPLES, source.partition), broker.end(RETIREMENTS, source.partition))
    processor.skip_to(
        max(resume.samples, broker.begin(SAMPLES, source.partition)),
        max(resume.retirements, broker.begin(RETIREMENTS, source.partition)),
    )
    for record in broker.fetch_topic(MODELS):
        processor.see_model(readable(Codec.model(record)), record.log_time)
    return processor


def start_merger(definition: StreamDefinition, broker: EmbeddedBroker) -> tuple[MergerProcessor, dict[int, int]]:
    """(a merger that has read the checkpoints, partition of deltas to the offset to read on from)."""
    merger = MergerProcessor(definition)
    resume = merger.restore(broker.fetch_topic(CHECKPOINTS), broker.fetch_topic(MODELS))
    return merger, {partition: resume.get(partition, 0) for partition in range(definition.partitions)}


class EmbeddedRunner:
    """A whole pipeline in one process; it goes on from what a ``broker`` holds, at time ``now`` in milliseconds.

    With an ``intake`` it begins with the users' topics that the broker has.
    """

    def __init__(
        self,
        definition: StreamDefinition,
        workers: int = 1,
        options: RunnerOptions | None = None,
        broker: EmbeddedBroker | None = None,
        now: int = 0,
        intake: IntakeDefinition | None = None,
    ) -> None:
        self.definition = definition
        self.options = options or RunnerOptions()
        self.broker = broker or EmbeddedBroker(definition.partitions, keep_messages=not self.options.decode)
        self.merger, self._delta_positions = start_merger(definition, self.broker)
        self.scorer = ScorerProcessor(definition)
        self._random = random.Random(self.options.seed)  # noqa: S311 - an order to poll in is no secret.
        self._workers = [_Worker(f"worker-{index}") for index in range(workers)]
        self._query_positions = {p: self.broker.end(QUERIES, p) for p in range(definition.partitions)}
        self._model_position = self.broker.begin(MODELS, 0)
        self._rounds = 0
        self._scored: list[tuple[int, ScoredRows]] = []
        # No writer's name is ever used twice: each life has appended a claim, so that no more lives than deltas exist.
        self._lives = sum(self.broker.end(DELTAS, p) for p in range(definition.partitions))
        self._intake = intake
        self.intakes: dict[int, IntakeProcessor] = {}
        if intake is not None:
            self._reader = RecordReader(definition, intake)
            for partition in range(definition.partitions):
                self.take_intake(partition, WaitingRows(identity=intake.identity))
        self.rebalance(now)

    # Assignment ------------------------------------------------------------------------------------------------------

    def rebalance(self, now: int, workers: int | None = None) -> None:
        """Spread the partitions over ``workers`` workers by range; a source that moves is dropped and claimed anew."""
        if workers is not None:
            self._workers = self._workers[:workers] + [
                _Worker(f"worker-{index}") for index in range(len(self._workers), workers)
            ]
        for index, worker in enumerate(self._workers):
            partitions = range(self.definition.partitions)
            mine = {p for p in partitions if p * len(self._workers) // self.definition.partitions == index}
            worker.sources = {p: processor for p, processor in worker.sources.items() if p in mine}
            for partition in sorted(mine - worker.sources.keys()):
                worker.sources[partition] = self._assign(worker, partition, now)

    def _assign(self, worker: _Worker, partition: int, now: int) -> WorkerProcessor:
        self._lives += 1
        source = Source(self.options.site, partition)
        processor = take_source(self.definition, self.broker, source, f"{worker.name}.{self._lives}", now)
        if self.options.keep_scored:
            processor.note_scored = lambda scored: self._scored.append((partition, scored))
        return processor

    def take_scored(self) -> list[tuple[int, ScoredRows]]:
        """(partition, scored rows) of all that was scored since the last call; empty unless ``keep_scored``."""
        scored, self._scored = self._scored, []
        return scored

    @property
    def rounding_error(self) -> Floats:
        """The largest distance of a value from the grid so far, float64[d], in the features' own units."""
        errors = [processor.rounding_error for worker in self._workers for processor in worker.sources.values()]
        return np.asarray(np.max(errors, axis=0), dtype=np.float64)

    def take_intake(self, partition: int, rows: WaitingRows) -> IntakeProcessor:
        """The intake of a partition, which goes on from what the samples say, with a store that may be empty."""
        assert self._intake is not None, "there is one where a definition has one"
        self._lives += 1
        made = IntakeProcessor(self.definition, self._intake, partition, rows, f"intake.{self._lives}")
        records = self.broker.fetch(SAMPLES, partition, self.broker.begin(SAMPLES, partition))
        found = last_position([(one, sent) for one in records if (sent := sent_by(one.headers)) is not None])
        begins = {place: self.broker.begin(*place) for place in self.broker.of_users}
        made.restore({} if found is None else found[0], begins)
        self.intakes[partition] = made
        for late in [] if found is None else found[1]:
            self.answer_late(partition, late)
        return made

    def answer_late(self, partition: int, record: Record, now: int = 0) -> None:
        """Have the intake of a partition send again what another one has sent too late."""
        while self.intakes[partition].rebuilding:
            self._poll_intake(self.intakes[partition], now)
        for output in self.intakes[partition].again(record):
            self._publish(output, now)

    # Rounds ----------------------------------------------------------------------------------------------------------

    def round(self, now: int) -> bool:
        """Whether there was anything to do, in a poll of everything at ``now``, in milliseconds since the epoch."""
        self._rounds += 1
        busy = False
        for one in list(self.intakes.values()):
            busy |= self._poll_intake(one, now)
        sources = [processor for worker in self._workers for processor in worker.sources.values()]
        if len(sources) > 1:
            self._random.shuffle(sources)
        for processor in sources:
            busy |= self._poll_worker(processor, now)
        busy |= self._poll_merger(now)
        busy |= self._poll_scorer(now)
        return busy

    def drain(self, now: int) -> None:
        """Do rounds until every input is consumed and every partition knows the last watermark."""
        while self.round(now):
            pass

    def _poll_intake(self, intake: IntakeProcessor, now: int) -> bool:
        busy = False
        for place in self.broker.of_users:
            records = self.broker.fetch(*place, intake.position(place), self.options.records_per_poll)
            if records:
                busy = True
                for output in intake.process(self._reader.read(records, now)):
                    self._publish(output, now)
        intake.commit()
        return busy

    def _poll_worker(self, processor: WorkerProcessor, now: int) -> bool:
        partition = processor.source.partition
        samples_at, retirements_at = processor.position
        most = self.options.records_per_poll
        samples = self.broker.fetch(SAMPLES, partition, samples_at, most)
        retirements = self.broker.fetch(RETIREMENTS, partition, retirements_at, most)
        output = processor.process(samples, retirements)
        self._publish(output, now)
        if not self.options.keep_log:
            samples_at, retirements_at = processor.needed_from if self.options.keep_window else processor.position
            self.broker.trim(SAMPLES, partition, samples_at)
            self.broker.trim(RETIREMENTS, partition, retirements_at)
        return bool(samples or retirements or output.then)

    def _poll_merger(self, now: int) -> bool:
        deltas = []
        for partition, position in self._delta_positions.items():
            records = self.broker.fetch(DELTAS, partition, position)
            if records:
                self._delta_positions[partition] = records[-1].offset + 1
                deltas += records
        self._publish(self.merger.process(deltas), now)
        self._publish(self.merger.publish(now), now)
        if self._rounds % MERGERS_CHECKPOINT_EVERY_ROUNDS == 0 or self._deltas_take_too_much():
            self.checkpoint(now)
        models = self.broker.fetch(MODELS, 0, self._model_position)
        if models:
            self._model_position = models[-1].offset + 1
            # Readers take the model from its topic, as they do on Kafka, and not from the merger.
            model = readable(Codec.model(models[-1]))
            self.scorer.see_model(model)
            for worker in self._workers:
                for processor in worker.sources.values():
                    processor.see_model(model, models[-1].log_time)
        return bool(deltas)

    def _deltas_take_too_much(self) -> bool:
        """Whether the deltas that a checkpoint would drop take so much memory that it is worth writing one."""
        held = sum(self.broker.nbytes(DELTAS, partition) for partition in self._delta_positions)
        return not self.options.keep_log and held > max(DELTAS_BYTES, self.merger.merger.statistics.nbytes)

    def checkpoint(self, now: int) -> None:
        """Write the merger's checkpoints, and drop the deltas before them unless the log is kept."""
        self._publish(self.merger.checkpoints(), now)
        if not self.options.keep_log:
            for partition, position in self._delta_positions.items():
                self.broker.trim(DELTAS, partition, position)

    def _poll_scorer(self, now: int) -> bool:
        if not self.scorer.ready:
            return False
        busy = False
        for partition, position in self._query_positions.items():
            queries = self.broker.fetch(QUERIES, partition, position, self.options.records_per_poll)
            if queries:
                self._query_positions[partition] = queries[-1].offset + 1
                self._publish(self.scorer.process(queries), now)
                busy = True
        return busy

    def _publish(self, output: Output, now: int) -> None:
        self.broker.append_all(output.first, now)
        self.broker.append_all(output.then, now)
