"""A simulated stream beside whose workers a history is published and retired from, by processes that die or sleep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np

from crashing_runner import CrashingRunner
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Source, SourceState
from deltaplane.log.history import History
from deltaplane.log.partial import Partial
from deltaplane.log.records import Receipt
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_receipt, write_sample_batch
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.embedded.embedded_runner import RunnerOptions
from deltaplane_services.processors import history_source
from deltaplane_services.processors.history_source import HistorySource, Standing, VersionChange
from deltaplane_services.processors.messages import CHECKPOINTS, DELTAS, RECEIPTS, SAMPLES, Outgoing
from deltaplane_services.processors.recovery import accepted_state, newest_checkpoint
from lake_tables import TABLES

DEFINITION = StreamDefinition.from_tables({**TABLES, "window": {"length": "all"}})
PAST = Source("history", 0)
PAST_IDS = [f"row-{number}" for number in range(12)]
ALL_LATER = [f"row-{number}" for number in range(200, 230)]
EVENTS = 60
"""How long a history is."""

FAULTS = (
    "publisher dies",
    "retirer dies",
    "who had died wakes up late",
    "receipts of a tile that was not accepted",
    "worker dies",
    "merger dies",
    "deltas trimmed",
    "published before",
    "follower dies",
    "version accepted",
    "version taken again",
)


def rows_of(ids: Sequence[str]) -> Samples:
    """The rows of some ids, of which the table is a function."""
    numbers = np.array([int(one.removeprefix("row-")) for one in ids], dtype=np.float64)
    features = np.stack([numbers / 7, numbers % 5], axis=1).reshape(len(ids), 2)
    return Samples.of_record(list(ids), 0, ("DOWN", "UP"), (numbers % 2).astype(np.int32), features)


def partial_of(ids: Sequence[str]) -> Partial:
    return Partial.of(DEFINITION, rows_of(ids))


class Died(Exception):
    """The process is gone, or asleep."""


class DyingLog:
    """The log as a process sees it that dies before its record number ``dies_before``; ``left`` it would have sent."""

    def __init__(self, broker: EmbeddedBroker, now: int, dies_before: int | None = None) -> None:
        self.broker, self.now = broker, now
        self.left = dies_before
        self.unsent: list[Outgoing] = []

    def state(self, source: Source) -> SourceState:
        end = self.broker.end(DELTAS, 0)
        checkpoint, start = newest_checkpoint(DEFINITION, source, self.broker.fetch_topic(CHECKPOINTS), end)
        deltas = self.broker.fetch(DELTAS, 0, max(start, self.broker.begin(DELTAS, 0)))
        return accepted_state(DEFINITION, checkpoint, deltas, end)

    def receipts(self, source: Source) -> list[Receipt]:
        found = (read_receipt(record.value) for record in self.broker.fetch_topic(RECEIPTS))
        return [receipt for receipt in found if receipt.source == source]

    def append(self, *records: Outgoing) -> None:
        for at, record in enumerate(records):
            if self.left == 0:
                self.unsent = list(records[at:])
                raise Died
            self.broker.append(record, self.now)
            self.left = None if self.left is None else self.left - 1


class LakeWorld:
    """One stream of one partition, live rows, a merger, and operators of a history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.runner = CrashingRunner(DEFINITION, options=RunnerOptions(keep_log=True, seed=seed))
        history = History(DEFINITION, partial_of(PAST_IDS), {"version": 0})
        self.source = HistorySource(DEFINITION, PAST, history, "0123456789abcdef")
        self.versions = [frozenset(PAST_IDS)]
        self.in_peace = False
        self.now = 0
        self.live: list[str] = []
        self.told_out: set[str] = set()
        self.asleep: list[list[Outgoing]] = []
        self.faults: Counter[str] = Counter()

    def found_among(self, ids: Sequence[str], standing: Standing) -> tuple[Statistics, Sequence[str]]:
        """What the lake says of some ids, at the version that the source stands at."""
        there = [one for one in ids if one in self.versions[standing.version or 0]]
        return partial_of(there).statistics, there

    def log(self, most: int) -> DyingLog:
        """The log of a process that may die."""
        dies = self.random.randrange(most) if not self.in_peace and self.random.random() < 0.5 else None
        return DyingLog(self.runner.broker, self.now, dies)

    def live_through(self, events: int) -> None:
        """Let so many things happen."""
        actions = (
            (self.produce, 6),
            (self.round, 8),
            (self.publish, 3),
            (self.retire, 4),
            (self.change_the_table, 3),
            (self.follow, 6),
            (self.wake, 3),
            (self.crash, 2),
            (self.checkpoint, 2),
        )
        chosen = self.random.choices([one for one, _ in actions], [weight for _, weight in actions], k=events)
        for action in chosen:
            self.now += 1
            action()

    def produce(self) -> None:
        ids = [f"row-{1000 + len(self.live) + at}" for at in range(self.random.randrange(1, 4))]
        self.live += ids
        value = write_sample_batch(rows_of(ids), DEFINITION.data_fingerprint)
        self.runner.broker.append(Outgoing(SAMPLES, 0, None, value), self.now)

    def round(self) -> None:
        self.runner.round(self.now)

    def publish(self) -> None:
        log = self.log(3)
        try:
            if not self.source.publish(log):
                self.faults["published before"] += 1
        except Died:
            self.faults["publisher dies"] += 1
            self.asleep.append(log.unsent)

    def retire(self, asked: Sequence[str] = ()) -> None:
        """Somebody has rows taken out: those that are asked for, or any."""
        ids = asked or self.random.sample([*PAST_IDS, *ALL_LATER, "row-900"], self.random.randrange(1, 4))
        log = self.log(5)
        if not log.state(PAST).begun:
            return
        try:
            outcomes = self.source.retire(log, ids, self.found_among, frozenset())
        except Died:
            self.faults["retirer dies"] += 1
            self.asleep.append(log.unsent)
            return
        self.told_out |= {one for one, outcome in outcomes.items() if outcome in ("retired", "duplicate")}

    def change_the_table(self) -> None:
        """A version with some rows more, and some fewer, of which some come back later."""
        newest = self.versions[-1]
        came = [f"row-{self.random.randrange(200, 230)}" for _ in range(self.random.randrange(3))]
        went = self.random.sample(sorted(newest), min(len(newest), self.random.randrange(3)))
        self.versions.append(newest.difference(went).union(came))

    def follow(self) -> bool:
        """A process reads a version, which takes its time, and follows it; False if there is none."""
        if not self.log(1).state(PAST).begun:
            return False
        standing = self.source.standing(DyingLog(self.runner.broker, self.now))
        at = standing.version
        assert at is not None, "the table has versions"
        if at + 1 == len(self.versions):
            return False
        before, after = self.versions[at] - standing.out, self.versions[at + 1] - standing.out
        change = VersionChange(at + 1, partial_of(sorted(after - before)), partial_of(sorted(before - after)))
        if not self.in_peace and before != after and self.random.random() < 0.3:
            self.retire(sorted(before ^ after)[:2])
        log = self.log(4)
        try:
            now = self.source.follow(log, standing, change)
        except Died:
            self.faults["follower dies"] += 1
            self.asleep.append(log.unsent)
            return True
        accepted = now.samples_position > standing.state.samples_position
        self.faults["version accepted" if accepted else "version taken again"] += 1
        return True

    def wake(self) -> None:
        """A process that was thought dead sends what it had in hand; what it would have done then, it does not."""
        if self.asleep:
            self.faults["who had died wakes up late"] += 1
            for record in self.asleep.pop(self.random.randrange(len(self.asleep))):
                self.runner.broker.append(record, self.now)

    def crash(self) -> None:
        if self.random.random() < 0.5:
            self.faults["worker dies"] += 1
            self.runner.crash_worker(0, self.now)
        else:
            self.faults["merger dies"] += 1
            self.runner.crash_merger()

    def checkpoint(self) -> None:
        """The merger writes checkpoints, and retention takes the deltas that they hold."""
        self.runner.round(self.now)
        self.runner.checkpoint(self.now)
        broker = self.runner.broker
        broker.trim(DELTAS, 0, broker.end(DELTAS, 0))
        self.faults["deltas trimmed"] += 1

    def drain(self) -> None:
        """Everybody who sleeps wakes up, and somebody publishes in peace."""
        while self.asleep:
            self.wake()
        self.source.publish(DyingLog(self.runner.broker, self.now))
        self.in_peace = True
        while self.follow():
            pass
        self.runner.drain(self.now)


def check(world: LakeWorld) -> None:
    """Raise AssertionError unless the model holds each row once that is not out, and what was told to be out is."""
    log = DyingLog(world.runner.broker, world.now)
    state, receipts = log.state(PAST), log.receipts(PAST)
    out = history_source.retired_ids_of(state, receipts, DEFINITION, world.source.statistics)
    if {receipt.id for receipt in receipts} - out:
        world.faults["receipts of a tile that was not accepted"] += 1
    assert world.told_out <= out, "somebody was told that a row is out, and it is not"
    version = world.source.standing_at(state, receipts).version
    assert version is not None, "the table has versions"
    kept = sorted(world.versions[version] - out)
    assert state.statistics == partial_of(kept).statistics
    total = partial_of([*kept, *world.live]).statistics
    assert world.runner.merger.merger.statistics == total


def live_with_a_lake(seed: int, events: int = EVENTS) -> LakeWorld:
    """A world that has lived through a seed's history, checked."""
    world = LakeWorld(seed)
    world.live_through(events)
    world.drain()
    check(world)
    return world
