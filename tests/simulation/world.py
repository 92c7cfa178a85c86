"""A simulated world: the real processors over the embedded broker, and everything that can happen to them.

The world decides when who polls, how far, and who dies between which two records; what is to be done about it is the
processors' business. Nothing is random but the seed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from random import Random

from deltaplane.errors import DefinitionMismatch, LogDisorder, StateMismatch, WireError
from deltaplane.exact.statistics import Statistics
from deltaplane.log import trimming
from deltaplane.log.delta import Delta, Source, SourceState, Tile, TopicIds, Verdict, accept
from deltaplane.log.record_order import check_order
from deltaplane.log.records import Checkpoint
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_checkpoint, read_claim_or_delta, read_model, write_delta, write_model
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker, OffsetOutOfRange
from deltaplane_services.embedded.embedded_runner import start_merger, take_source
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import (
    CHECKPOINTS,
    DELTAS,
    MODELS,
    RETIREMENTS,
    SAMPLES,
    Outgoing,
    Output,
    Record,
)
from deltaplane_services.processors.worker_processor import WorkerProcessor
from simulation.producer import Producer

SITE = "here"
YEAR_MILLISECONDS = 365 * 86_400_000

FAULTS = (
    "worker dies before it publishes",
    "worker dies among its letters and receipts",
    "worker dies between its receipts and its delta",
    "worker dies after its delta without knowing",
    "worker dies while it rebuilds",
    "delta arrives late",
    "delta arrives twice",
    "old worker goes on",
    "old worker's receipts and letters",
    "old worker claims late",
    "impossible delta",
    "unreadable delta",
    "delta of another definition",
    "rebalance",
    "worker's log is gone",
    "merger dies",
    "merger dies before it publishes",
    "merger restarts from older checkpoints",
    "old merger goes on",
    "checkpoint",
    "samples trimmed",
    "retirements trimmed",
    "rows behind the window trimmed",
    "deltas trimmed",
    "samples let go of by a checkpoint",
    "retirements let go of by a checkpoint",
    "let go of by an older checkpoint",
    "flood of new labels",
    "flood of repeated retirements",
    "model with a watermark years ahead",
    "model that says a source is years ahead",
    "mark of a transaction",
    "aborted transaction",
    "older version compacted away",
    "tombstone compacted away",
    "offsets that do not ascend",
    "offset beyond the end",
)
"""Everything that can go wrong here; a test demands that each does."""


@dataclass(frozen=True)
class Accepted:
    """The state of a source after a record of its deltas log; ``delta`` is that record if it was accepted."""

    state: SourceState
    delta: Delta | None
    taken: bool = True
    """False where no reader could make anything of the record."""


class RememberingBroker(EmbeddedBroker):
    """The embedded broker, and a copy of every record it ever got, whatever retention and compaction did since.

    Offsets of ``hidden`` records, by topic and partition, are gaps to everyone who reads.
    """

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.everything: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
        self.hidden: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        self.topic_ids = TopicIds("samples 0", "retirements 0")

    def make_anew(self, topic: str) -> None:
        """Delete a topic, and make one of the same name: its offsets begin at 0 again."""
        for partition in range(self.partitions):
            self._logs[topic, partition] = type(self._logs[topic, partition])(topic, partition, compacted=False)
            self.everything[topic, partition], self.hidden[topic, partition] = [], set()
        number = int(getattr(self.topic_ids, topic).split()[-1]) + 1
        self.topic_ids = self.topic_ids._replace(**{topic: f"{topic} {number}"})

    def hide(self, topic: str, partition: int, offset: int) -> None:
        """Make a gap of a record."""
        self.hidden[topic, partition].add(offset)

    def fetch(self, topic: str, partition: int, offset: int, most: int = 2**31) -> list[Record]:
        """At most ``most`` records from ``offset`` on, over all gaps. Raises :class:`OffsetOutOfRange`."""
        hidden = self.hidden[topic, partition]
        if not hidden:
            return super().fetch(topic, partition, offset, most)
        return [record for record in super().fetch(topic, partition, offset) if record.offset not in hidden][:most]

    def read_to(self, topic: str, partition: int) -> int:
        """The offset behind the last record that is no gap."""
        hidden = self.hidden[topic, partition]
        shown = (record.offset for record in reversed(self.everything[topic, partition]))
        return next((offset + 1 for offset in shown if offset not in hidden), 0)

    def append(self, outgoing: Outgoing, log_time: int) -> int:
        """Append and remember."""
        offset = super().append(outgoing, log_time)
        self.everything[outgoing.topic, outgoing.partition].append(
            Record(outgoing.topic, outgoing.partition, offset, log_time, outgoing.key, outgoing.value)
        )
        return offset


class World:
    """One stream with its producers, workers, mergers and faults."""

    def __init__(self, definition: StreamDefinition, seed: int) -> None:
        self.definition = definition
        self.random = Random(seed)
        # Of its own: what else happens in a history does not depend on it.
        self.floods = Random(seed + 2)
        self.broker = RememberingBroker(definition.partitions)
        self.producer = Producer(definition, self.broker, Random(seed + 1))
        self.faults: Counter[str] = Counter()
        self.now = 1_000_000
        self.lives = 0
        self.workers = {partition: self.new_worker(partition) for partition in range(definition.partitions)}
        self.old_workers: list[WorkerProcessor] = []
        self.merger, self.merger_at = start_merger(definition, self.broker)
        self.old_mergers: list[tuple[MergerProcessor, dict[int, int]]] = []
        self.delayed: list[Outgoing] = []
        # What went with each delta, by partition, writer and sequence.
        self.outputs: dict[tuple[int, str, int], Output] = {}
        # Partitions whose samples topic has lost rows that a worker would have remembered.
        self.memory_lost: set[int] = set()
        # What can be let go of by the checkpoints, as of the last time that somebody looked.
        self.can_go: dict[int, trimming.TrimPoint] = {}
        self._truth: dict[int, list[Accepted]] = {}

    # Time ------------------------------------------------------------------------------------------------------------

    def live_through(self, events: int) -> None:
        """Let so many things happen."""
        actions = (
            (self.producer_publishes, 30),
            (self.worker_polls, 30),
            (self.old_worker_polls, 6),
            (self.merger_polls, 10),
            (self.old_merger_polls, 3),
            (self.models_are_seen, 8),
            (self.checkpoint, 4),
            (self.retention, 4),
            (self.forget_below, 4),
            (self.rebalance, 2),
            (self.merger_dies, 2),
            (self.delayed_delta_arrives, 3),
            (self.odd_delta, 1),
            (self.forged_model, 1),
            (self.gap, 4),
        )
        chosen = self.random.choices([action for action, _ in actions], [weight for _, weight in actions], k=events)
        for action in chosen:
            self.now += self.random.randrange(4)
            action()

    def drain(self) -> None:
        """The faults are over: go on until every input is read and every partition has heard the last watermark."""
        for worker in list(self.old_workers):
            self.old_workers.remove(worker)
        self.old_mergers.clear()
        while self.delayed:
            self.delayed_delta_arrives()
        for partition in self.workers:
            if self.random.random() < 0.2:
                # A rebuild up to a record that is not there any more, and nothing comes behind it.
                self.producer.tombstone(partition, self.now)
                self.poll(partition, 2**31, faults=False)
                self.compact(partition)
                self.workers[partition] = self.new_worker(partition)
        quiet = 0
        while quiet < 3:
            ends = self.ends()
            for partition in self.workers:
                self.poll(partition, 2**31, faults=False)
            self.poll_merger(2**31)
            self.append_all(self.merger.publish(self.now))
            self.models_are_seen(late=False)
            quiet = quiet + 1 if ends == self.ends() else 0

    def ends(self) -> list[int]:
        """How much there is in the logs that the services write for each other."""
        return [self.broker.end(MODELS, 0), *(self.broker.end(DELTAS, partition) for partition in self.workers)]

    def producer_publishes(self) -> None:
        """A few records of any kind."""
        for _ in range(self.random.choice((1, 1, 3))):
            self.producer.publish(self.now)
        if self.definition.classes.most is not None and self.random.random() < 0.1:
            self.fault("flood of new labels")
            self.producer.flood(self.now)
        if self.floods.random() < 0.04:
            self.fault("flood of repeated retirements")
            self.producer.repeat(self.now)

    def gap(self) -> None:
        """Somebody's transaction leaves a mark in a log, or more than that; or compaction takes a record out."""
        topic, partition = self.random.choice((SAMPLES, RETIREMENTS)), self.random.choice(list(self.workers))
        way = self.random.random()
        if way < 0.4:
            self.fault("mark of a transaction")
            self.broker.hide(topic, partition, self.broker.append(Outgoing(topic, partition, None, b"mark"), self.now))
        elif way < 0.7:
            self.fault("aborted transaction")
            for value in (*self.producer.never_sent(topic, self.now), b"mark"):
                offset = self.broker.append(Outgoing(topic, partition, b"aborted", value), self.now)
                self.broker.hide(topic, partition, offset)
        elif way < 0.8:
            self.producer.tombstone(partition, self.now)
        else:
            self.compact(partition)

    def compact(self, partition: int) -> None:
        """Compaction takes out what a source has read already: tombstones, and rows that have a younger version.

        What is compacted before it is read, and rows of windows that count, are missed: there compaction is a mistake.
        """
        read_to = self.truth(partition)[-1].state.samples_position
        records = [record for record in self.broker.everything[SAMPLES, partition] if record.offset < read_to]
        hidden = self.broker.hidden[SAMPLES, partition]
        tombstones = [r.offset for r in records if r.value is None and r.offset not in hidden]
        if tombstones:
            self.fault("tombstone compacted away")
            self.broker.hide(SAMPLES, partition, tombstones[-1])
        if any(window.kind != "all" for window in self.definition.nested_windows.windows):
            return
        older = self.producer.superseded(partition, read_to)
        if older:
            self.fault("older version compacted away")
            self.broker.hide(SAMPLES, partition, self.random.choice(older))

    # Workers ---------------------------------------------------------------------------------------------------------

    def new_worker(self, partition: int) -> WorkerProcessor:
        """Another life of a worker."""
        self.lives += 1
        source, topics = Source(SITE, partition), self.broker.topic_ids
        return take_source(self.definition, self.broker, source, f"life {self.lives}", self.now, topics)

    def worker_polls(self) -> None:
        """Some worker reads on, and may die of it."""
        self.poll(self.random.choice(list(self.workers)), self.random.choice((1, 3, 10, 100)), faults=True)

    def poll(self, partition: int, most: int, *, faults: bool) -> None:
        """One worker reads at most so many records of each log."""
        worker = self.workers[partition]
        if worker.fenced:
            # Someone claimed the source, although it is ours: claim it back.
            self.workers[partition] = self.new_worker(partition)
            return
        if faults and not worker.serving and self.random.random() < 0.3:
            self.fault("worker dies while it rebuilds")
            self.workers[partition] = self.new_worker(partition)
            return
        output = self.process(worker, most, whole=not faults)
        if output is None:
            self.fault("worker's log is gone")
            self.workers[partition] = self.new_worker(partition)
        elif faults and output.then and self.random.random() < 0.25:
            self.die(partition, output)
        else:
            self.append_all(output)
            if faults and output.then and self.random.random() < 0.05:
                self.fault("delta arrives twice")
                self.append(output.then[0])

    def process(self, processor: WorkerProcessor, most: int, *, whole: bool = False) -> Output | None:
        """What a worker makes of its next records; None where the log no longer has them."""
        partition = processor.source.partition
        samples_at, retirements_at = processor.position
        most_retirements = most
        if not whole:
            # One log may run ahead of the other, and a fetch may repeat itself.
            most_retirements = self.random.choice((0, 1, most))
            begin = min(samples_at, self.broker.begin(SAMPLES, partition))
            samples_at = max(samples_at - self.random.choice((0, 0, 2)), begin)
        try:
            samples = self.broker.fetch(SAMPLES, partition, samples_at, most)
            retirements = self.broker.fetch(RETIREMENTS, partition, retirements_at, most_retirements)
            handed = self.out_of_order(samples) if not whole and self.random.random() < 0.03 else samples
            check_order(SAMPLES, (r.offset for r in handed), samples_at, self.broker.end(SAMPLES, partition))
            output = processor.process(handed, retirements)
        except (OffsetOutOfRange, LogDisorder):
            return None
        if len(samples) < most and len(retirements) < most_retirements:
            processor.read_to(self.broker.end(SAMPLES, partition), self.broker.end(RETIREMENTS, partition))
        if output.then:
            delta = read_claim_or_delta(output.then[0].value, self.definition.dimensions)
            assert isinstance(delta, Delta)
            self.outputs[partition, delta.writer, delta.tile.sequence] = output
        return output

    def out_of_order(self, samples: list[Record]) -> list[Record]:
        """The same records, as a client hands them over that believes a batch with made-up offsets inside."""
        if len(samples) > 1 and self.random.random() < 0.7:
            self.fault("offsets that do not ascend")
            at = self.random.randrange(1, len(samples))
            offset = samples[self.random.randrange(at)].offset
            return [*samples[:at], samples[at]._replace(offset=offset), *samples[at + 1 :]]
        if samples:
            self.fault("offset beyond the end")
            return [*samples[:-1], samples[-1]._replace(offset=samples[-1].offset + 1_000_000)]
        return samples

    def die(self, partition: int, output: Output) -> None:
        """A worker dies somewhere in the middle of what it publishes; or is only thought to be dead."""
        old = self.workers[partition]
        way = self.random.randrange(6)
        if way == 0:
            self.fault("worker dies before it publishes")
        elif way == 1:
            if len(output.first) > 1:
                self.fault("worker dies among its letters and receipts")
            self.append_all(Output(output.first[: self.random.randrange(len(output.first) + 1)]))
        elif way == 2:
            if output.first:
                self.fault("worker dies between its receipts and its delta")
            self.append_all(Output(output.first))
        elif way == 3:
            self.fault("worker dies after its delta without knowing")
            self.append_all(output)
        elif way == 4:
            self.append_all(Output(output.first))
            self.delayed.append(output.then[0])
        else:
            self.append_all(output)
            self.old_workers.append(old)
        self.workers[partition] = self.new_worker(partition)
        if way == 3 and self.random.random() < 0.5:
            # A process that slept between assignment and claim.
            self.fault("old worker claims late")
            late = WorkerProcessor(self.definition, Source(SITE, partition), f"life {self.lives}, late")
            self.append(late.claim())

    def old_worker_polls(self) -> None:
        """A worker that has lost its source, and does not know it, goes on."""
        if not self.old_workers:
            return
        worker = self.random.choice(self.old_workers)
        try:
            output = self.process(worker, self.random.choice((1, 3, 10)))
        except StateMismatch:
            # It rebuilds a state of before, and what came since had a row compacted away that this state has.
            assert self.broker.hidden[SAMPLES, worker.source.partition]
            output = None
        if output is None or self.random.random() < 0.2:
            self.old_workers.remove(worker)
            return
        if output.then:
            self.fault("old worker goes on")
            if output.first:
                self.fault("old worker's receipts and letters")
        self.append_all(output)

    def rebalance(self) -> None:
        """Sources move to other workers; the old ones may not have noticed."""
        self.fault("rebalance")
        for partition in self.random.sample(list(self.workers), self.random.randint(1, len(self.workers))):
            if self.random.random() < 0.5:
                self.old_workers.append(self.workers[partition])
            self.workers[partition] = self.new_worker(partition)

    def delayed_delta_arrives(self) -> None:
        """A delta that was sent long ago."""
        if self.delayed:
            self.fault("delta arrives late")
            self.append(self.delayed.pop(self.random.randrange(len(self.delayed))))

    def odd_delta(self) -> None:
        """A record of the deltas topic that no reader may take, and all must skip alike."""
        partition = self.random.choice(list(self.workers))
        if self.random.random() < 0.5:
            self.fault("unreadable delta")
            self.append(Outgoing(DELTAS, partition, None, self.random.randbytes(self.random.randrange(40)) or None))
            return
        state = self.truth(partition)[-1].state
        position, retired = state.samples_position, state.retirements_position
        fingerprint, change = self.definition.stream_fingerprint, Statistics(self.definition.dimension)
        if state.statistics and self.random.random() < 0.5:
            self.fault("impossible delta")
            change = change - state.statistics - state.statistics
        else:
            self.fault("delta of another definition")
            fingerprint = b"\0" * len(fingerprint)
        tile = Tile(state.sequence, position, position + 1, retired, retired)
        odd = Delta(state.source, state.owner, fingerprint, tile, state.rebuild, change)
        self.append(Outgoing(DELTAS, partition, None, write_delta(odd)))

    # Mergers ---------------------------------------------------------------------------------------------------------

    def merger_polls(self) -> None:
        """The merger reads on, and publishes, or dies before it does."""
        self.poll_merger(self.random.choice((1, 5, 100)))
        output = self.merger.publish(self.now)
        if output.then and self.random.random() < 0.05:
            self.fault("merger dies before it publishes")
            self.merger, self.merger_at = start_merger(self.definition, self.broker)
            return
        self.append_all(output)

    def poll_merger(self, most: int) -> None:
        """The merger reads at most so many records of each partition."""
        self.follow(self.merger, self.merger_at, most)

    def follow(self, merger: MergerProcessor, positions: dict[int, int], most: int) -> None:
        """A merger reads at most so many records of each partition."""
        records: list[Record] = []
        for partition, position in positions.items():
            # A fetch may repeat itself.
            begin = max(position - self.random.choice((0, 0, 3)), min(position, self.broker.begin(DELTAS, partition)))
            found = self.broker.fetch(DELTAS, partition, begin, position - begin + most)
            positions[partition] = found[-1].offset + 1 if found else position
            records += found
        self.append_all(merger.process(records))

    def merger_dies(self) -> None:
        """The merger starts again, from the newest checkpoints or from older ones; the old one may go on."""
        if self.random.random() < 0.3:
            self.old_mergers.append((self.merger, self.merger_at))
        if self.random.random() < 0.5:
            self.fault("merger dies")
            self.merger, self.merger_at = start_merger(self.definition, self.broker)
            return
        if any(self.broker.begin(DELTAS, partition) for partition in self.workers):
            return
        self.fault("merger restarts from older checkpoints")
        every = self.broker.everything[CHECKPOINTS, 0]
        chosen = self.random.sample(every, self.random.randint(0, len(every)))
        self.merger = MergerProcessor(self.definition)
        resume = self.merger.restore(chosen, self.broker.fetch_topic(MODELS))
        self.merger_at = {partition: resume.get(partition, 0) for partition in self.workers}

    def old_merger_polls(self) -> None:
        """A merger that is no longer the one reads on, publishes stale models, and writes stale checkpoints."""
        if not self.old_mergers:
            return
        self.fault("old merger goes on")
        merger, positions = self.random.choice(self.old_mergers)
        try:
            self.follow(merger, positions, self.random.choice((1, 5)))
        except OffsetOutOfRange:
            self.old_mergers.clear()
            return
        self.append_all(merger.publish(self.now))
        self.append_all(merger.checkpoints())
        if self.random.random() < 0.3:
            self.old_mergers.clear()

    def checkpoint(self) -> None:
        """The merger writes its checkpoints, behind a model that has come as far."""
        self.fault("checkpoint")
        self.append_all(self.merger.publish(self.now))
        self.append_all(self.merger.checkpoints())

    def forged_model(self) -> None:
        """A record of the models topic that says that event time has come years further than any row has."""
        models = [read_model(record.value) for record in self.broker.fetch_topic(MODELS)]
        if not models or not self.definition.nested_windows.timed:
            return
        newest = max(models, key=lambda model: model.version)
        years = self.now + self.random.choice((1, 10, 1000)) * YEAR_MILLISECONDS
        if self.random.random() < 0.5 or not newest.positions:
            self.fault("model with a watermark years ahead")
            forged = replace(newest, version=newest.version + 1, watermark=years)
        else:
            self.fault("model that says a source is years ahead")
            first = replace(newest.positions[0], watermark=years)
            forged = replace(newest, version=newest.version + 1, positions=(first, *newest.positions[1:]))
        self.append(Outgoing(MODELS, 0, self.definition.name.encode(), write_model(forged)))

    def models_are_seen(self, *, late: bool = True) -> None:
        """Workers and the merger see the newest models, or some of them do."""
        for record in self.broker.fetch_topic(MODELS):
            model = read_model(record.value)
            self.merger.see_model(model)
            for worker in [*self.workers.values(), *self.old_workers]:
                if not late or self.random.random() < 0.7:
                    worker.see_model(model, record.log_time)

    # The log ---------------------------------------------------------------------------------------------------------

    def fault(self, name: str) -> None:
        """Count a fault."""
        assert name in FAULTS, name
        self.faults[name] += 1

    def append(self, outgoing: Outgoing) -> None:
        """One record reaches its log."""
        self.broker.append(outgoing, self.now)

    def append_all(self, output: Output) -> None:
        """Everything, in order."""
        self.broker.append_all((*output.first, *output.then), self.now)

    def retention(self) -> None:
        """The logs lose their oldest records, as far as what deltas and checkpoints record allows."""
        partition = self.random.choice(list(self.workers))
        state = self.truth(partition)[-1].state
        if state.sequence:
            rebuild = state.rebuild
            until = self.random.choice((rebuild.memory_from, rebuild.window_from))
            if until > rebuild.memory_from:
                self.fault("rows behind the window trimmed")
                self.memory_lost.add(partition)
            self.trim(SAMPLES, partition, until, "samples trimmed")
            self.trim(RETIREMENTS, partition, rebuild.retirements_window_from, "retirements trimmed")
        written = [
            checkpoint.next_offset
            for record in self.broker.everything[CHECKPOINTS, 0]
            if (checkpoint := read_checkpoint(record.value, self.definition.dimensions)).state.source.partition
            == partition
        ]
        if written and self.random.random() < 0.3:
            # Compaction keeps the last checkpoint, and a merger that is behind what is left may write none.
            self.old_mergers.clear()
            self.trim(DELTAS, partition, min(written[-1], self.merger_at[partition]), "deltas trimmed")

    def forget_below(self) -> None:
        """Somebody deletes what no window needs, as the checkpoints say; or as they said the time before."""
        newest: dict[int, Checkpoint] = {}
        for record in self.broker.everything[CHECKPOINTS, 0]:
            checkpoint = read_checkpoint(record.value, self.definition.dimensions)
            known = newest.get(checkpoint.state.source.partition)
            if known is None or checkpoint.next_offset > known.next_offset:
                newest[checkpoint.state.source.partition] = checkpoint
        before, self.can_go = self.can_go, {}
        for partition, checkpoint in newest.items():
            logs = [(self.broker.begin(t, partition), self.broker.end(t, partition)) for t in (SAMPLES, RETIREMENTS)]
            margin = trimming.TrimMargin(self.random.choice((0, 1, 5)), self.random.choice((0.0, 0.5)))
            point = trimming.trim_point(
                self.definition, checkpoint.state, trimming.LogSpans(*logs[0], *logs[1]), margin
            )
            if isinstance(point, trimming.TrimPoint):
                self.can_go[partition] = point
        now = self.random.random() < 0.5
        for partition, point in (self.can_go if now else before).items():
            if not now:
                self.fault("let go of by an older checkpoint")
            self.trim(SAMPLES, partition, point.samples, "samples let go of by a checkpoint")
            self.trim(RETIREMENTS, partition, point.retirements, "retirements let go of by a checkpoint")

    def trim(self, topic: str, partition: int, until: int, fault: str) -> None:
        """One log loses its records below an offset."""
        if until > self.broker.begin(topic, partition):
            self.fault(fault)
            self.broker.trim(topic, partition, until)

    def truth(self, partition: int) -> list[Accepted]:
        """The state of a source after each record of its deltas log, by the rule; the first is that before all."""
        truth = self._truth.setdefault(partition, [])
        source = Source(SITE, partition)
        if not truth:
            truth.append(Accepted(SourceState(source, Statistics(self.definition.dimension)), None))
        for record in self.broker.everything[DELTAS, partition][len(truth) - 1 :]:
            state, delta, taken = truth[-1].state, None, True
            try:
                change = read_claim_or_delta(record.value, self.definition.dimensions)
                after, verdict = accept(
                    state, change, self.definition.stream_fingerprint, self.definition.plane_grid.range
                )
                delta = change if verdict is Verdict.ACCEPTED and isinstance(change, Delta) else None
            except (WireError, DefinitionMismatch, StateMismatch):
                after, taken = state, False
            truth.append(Accepted(after, delta, taken=taken))
        return truth
