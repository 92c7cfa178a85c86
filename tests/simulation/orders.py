"""A simulated world in which an operator removes whole sources and lets them in again, amid everything else.

A source that is let in again begins anew, from the beginning of its logs, so retention takes nothing of them here.
"""

from __future__ import annotations

from collections import Counter

from deltaplane.errors import LogReplaced, SourceRemoved, StateMismatch
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Source, SourceOrder, TopicIds
from deltaplane.wire import read_model, write_source_order
from deltaplane_services.processors.messages import DELTAS, MODELS, RETIREMENTS, SAMPLES, Outgoing, Output, source_key
from deltaplane_services.processors.worker_processor import WorkerProcessor
from simulation.audits import check_audit
from simulation.histories import EVENTS, check_prefixes, definition_for
from simulation.world import SITE, Accepted, World

ORDERS = (
    "source removed",
    "source removed again",
    "source let in again",
    "worker of a removed source is turned away",
    "worker learns from a model that its source is not its own",
    "delta of a removed source",
    "delta of a source that began anew since",
    "merger restarts while a source is out",
    "deltas trimmed while a source is out",
    "samples topic made anew",
    "retirements topic made anew",
    "worker of another topic is turned away",
)
"""What can happen to sources here; a test demands that each does."""


class OrderedWorld(World):
    """One stream with an operator who orders sources out and in."""

    def __init__(self, seed: int) -> None:
        self.orders: Counter[str] = Counter()
        # Partitions whose source has a state that was read from a topic which is another one now.
        self.stale: set[int] = set()
        # The topics that there were when each life began.
        self.topics_of: dict[str, TopicIds] = {}
        super().__init__(definition_for(seed), seed)

    def live_through(self, events: int) -> None:
        """Let so many things happen, and an order now and then."""
        for _ in range(events):
            if self.random.random() < 0.06:
                self.order(self.random.choice(list(self.workers)))
            if self.random.random() < 0.006:
                self.make_anew(self.random.choice((SAMPLES, RETIREMENTS)))
            super().live_through(1)

    def make_anew(self, topic: str) -> None:
        """A topic is deleted and made again. Workers that have noticed are turned away; others go on as they were."""
        self.orders[f"{topic} topic made anew"] += 1
        self.broker.make_anew(topic)
        self.producer.forget(topic)
        for partition in self.workers:
            state = self.truth(partition)[-1].state
            if state.begun:
                self.stale.add(partition)

    def removed(self, partition: int) -> bool:
        """Whether a source is out, by the log."""
        return self.truth(partition)[-1].state.removed

    def order(self, partition: int, *, removed: bool | None = None) -> None:
        """Order a source out, or in if it is out; now and then the same once more."""
        out = self.removed(partition)
        if removed is None:
            removed = not out or self.random.random() < 0.2
        self.orders["source let in again" if not removed else "source removed again" if out else "source removed"] += 1
        said = SourceOrder(Source(SITE, partition), removed, "a test", self.definition.stream_fingerprint)
        self.append(Outgoing(DELTAS, partition, source_key(said.source), write_source_order(said)))
        if removed:
            self.stale.discard(partition)

    def new_worker(self, partition: int) -> WorkerProcessor:
        """Another life of a worker; where its source is out, the one that there was goes on."""
        try:
            worker = super().new_worker(partition)
        except SourceRemoved:
            self.orders["worker of a removed source is turned away"] += 1
            return self.workers[partition]
        except LogReplaced:
            self.orders["worker of another topic is turned away"] += 1
            return self.workers[partition]
        self.topics_of[worker.writer] = self.broker.topic_ids
        assert partition not in self.stale, "a state of the old topic was taken for one of the new"
        return worker

    def process(self, processor: WorkerProcessor, most: int, *, whole: bool = False) -> Output | None:
        """What a worker makes of its next records; None also where it was at a rebuild when its topic was made anew."""
        try:
            return super().process(processor, most, whole=whole)
        except StateMismatch:
            assert self.topics_of[processor.writer] != self.broker.topic_ids
            return None

    def poll(self, partition: int, most: int, *, faults: bool) -> None:
        """Read on, unless a model says that the source is not this worker's own."""
        if self.workers[partition].fenced:
            self.orders["worker learns from a model that its source is not its own"] += 1
        super().poll(partition, most, faults=faults)

    def merger_dies(self) -> None:
        """The merger starts again, maybe while a source is out."""
        if any(self.removed(partition) for partition in self.workers):
            self.orders["merger restarts while a source is out"] += 1
        super().merger_dies()

    def fault(self, name: str) -> None:
        """Count a fault, but for one that cannot be here."""
        if name != "rows behind the window trimmed":
            super().fault(name)

    def trim(self, topic: str, partition: int, until: int, fault: str) -> None:
        """Only deltas are trimmed: a source that begins anew needs all of the rest."""
        if topic == DELTAS:
            if self.removed(partition) and until > self.broker.begin(topic, partition):
                self.orders["deltas trimmed while a source is out"] += 1
            super().trim(topic, partition, until, fault)

    def compact(self, partition: int) -> None:
        """Nothing is compacted: a source that begins anew would not see what its account expects."""

    def drain(self) -> None:
        """Let every source in, and then everything be read."""
        for partition in self.workers:
            if self.truth(partition)[-1].state.topics.differ(self.broker.topic_ids):
                self.order(partition, removed=True)
            if self.removed(partition):
                self.order(partition, removed=False)
        super().drain()

    def take_out(self, partition: int) -> None:
        """The very last: a source leaves, and everybody hears of it."""
        self.order(partition, removed=True)
        self.poll_merger(2**31)
        self.append_all(self.merger.publish(self.now))

    def last_life(self, partition: int) -> list[Accepted]:
        """The records of the deltas log since a source was let in last, or since the beginning."""
        life: list[Accepted] = []
        for before, entry in zip(self.truth(partition), self.truth(partition)[1:], strict=False):
            life = [] if entry.state.removed != before.state.removed else [*life, entry]
        return life

    def count_drops(self) -> None:
        """What the rule said of deltas of sources that were out, or had been."""
        for partition in self.workers:
            dropped = self.truth(partition)[-1].state.dropped
            self.orders["delta of a removed source"] += dropped.get("barred", 0)
            self.orders["delta of a source that began anew since"] += dropped.get("stale writer", 0)


def live_with_orders(seed: int, events: int = EVENTS) -> OrderedWorld:
    """The whole history of a seed, drained; with fewer events it is the beginning of the longer one."""
    world = OrderedWorld(seed)
    for at in range(3):
        world.live_through(events * (at + 1) // 3 - events * at // 3)
        check_prefixes(world, but=world.stale)
    world.drain()
    world.count_drops()
    return world


def check_orders(world: OrderedWorld) -> None:
    """Everything is in again, as if no source had ever been out; and what is then taken out is gone to the last bit."""
    definition = world.definition
    reference = world.producer.reference()
    merger = world.merger.merger
    assert merger.statistics == reference.statistics()
    for partition in world.workers:
        state = world.truth(partition)[-1].state
        assert state == merger.state(Source(SITE, partition))
        assert not state.removed
        assert world.broker.read_to("samples", partition) <= state.samples_position
        assert state.samples_position <= world.broker.end("samples", partition)
        assert world.broker.read_to("retirements", partition) <= state.retirements_position
        assert state.retirements_position <= world.broker.end("retirements", partition)
        accepted = [entry.delta for entry in world.last_life(partition) if entry.delta is not None]
        edges = [(0, 0), *((d.tile.samples_to, d.tile.retirements_to) for d in accepted)]
        assert [(d.tile.samples_from, d.tile.retirements_from) for d in accepted] == edges[:-1]
        sequences = [d.tile.sequence for d in accepted]
        assert sequences == list(range(state.sequence - len(accepted), state.sequence))
        check_account(world, partition)
    check_audit(world, any_orders=True)
    partition = world.random.choice(list(world.workers))
    world.take_out(partition)
    states = [world.truth(other)[-1].state for other in world.workers if other != partition]
    others = sum((state.statistics for state in states), Statistics(definition.dimension))
    assert merger.statistics == others
    newest = max((read_model(record.value) for record in world.broker.fetch_topic(MODELS)), key=lambda m: m.version)
    assert newest.digest == others.digest(definition.data_fingerprint)
    assert {position.source.partition for position in newest.positions if position.removed} == {partition}


def check_account(world: OrderedWorld, partition: int) -> None:
    """Since a source was let in last, every row that was ever sent to it has had exactly one outcome."""
    totals: Counter[str] = Counter()
    for entry in world.last_life(partition):
        if entry.delta is not None:
            totals.update(entry.delta.counts)
    sent = sum(len(record.samples) for record in world.producer.sent.get(partition, []))
    outcomes = ("applied", "duplicate", "late", "annihilated", "retired id")
    records = totals["refused bad record"] + totals["refused other definition"]
    refused = sum(count for name, count in totals.items() if name.startswith("refused ")) - records
    assert sum(totals[name] for name in outcomes) + refused - world.producer.astray[partition] == sent
    answers = ("retired", "waiting", "duplicate", "expired", "unknown")
    answered = sum(totals[f"retirements {name}"] for name in answers) - totals["annihilated"]
    assert answered == len(world.producer.retired.get(partition, []))
