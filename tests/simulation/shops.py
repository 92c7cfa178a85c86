"""A seeded shop whose own topics go through an intake, workers and a merger, each of which may fail at any moment.

The end must be that of the batch over the joined table: what the logs say of each payment at last.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crashing_runner import CrashingRunner
from deltaplane.reference import Reference
from deltaplane.stream.sample import Samples
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.embedded.embedded_runner import RunnerOptions
from deltaplane_services.intake.waiting_rows import WaitingRows
from deltaplane_services.processors.messages import SAMPLES, Outgoing, Record
from services.intake_shop import DAY, FIRST_TIME, chargeback, payment, shop

__all__ = ["FAULTS", "Payment", "SimulatedShop"]

FAULTS = (
    "intake crashed",
    "store lost",
    "intake frozen",
    "worker crashed",
    "merger crashed",
    "poison",
    "payment again",
    "payment changed",
    "label early",
    "label late",
    "label again",
    "label contradicts",
    "label never",
)
"""All that happens to a shop in enough histories."""

AFTER = 30 * DAY


@dataclass
class Payment:
    """What the logs say of a payment: its newest event, its newest label, and when silence becomes its label."""

    time: int
    amount: float
    due: int
    label: str | None = None


@dataclass
class SimulatedShop:
    """One history; ``do`` is its next event, and ``digests`` compares its end with the batch."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    payments: dict[str, Payment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.definition, self.intake = shop(partitions=self.chance.choice([1, 2, 3]))
        of_users = {"payments": self.chance.choice([1, 3]), "chargebacks": self.chance.choice([1, 2])}
        options = RunnerOptions(records_per_poll=self.chance.choice([1, 3, 20]), keep_log=True, seed=self.seed)
        broker = EmbeddedBroker(self.definition.partitions, of_users=of_users)
        self.runner = CrashingRunner(self.definition, 2, options, broker, FIRST_TIME, self.intake)
        self.now = FIRST_TIME
        self.of_users = of_users
        self._late: list[tuple[int, Outgoing]] = []

    # What happens ----------------------------------------------------------------------------------------------------

    def do(self) -> None:
        """The next event: something is sent, time passes, a round is made, or something fails."""
        self.now += self.chance.randrange(3) * DAY
        chance = self.chance.random()
        if chance < 0.45:
            self._sell()
        elif chance < 0.65:
            self._label()
        elif chance < 0.85:
            self.runner.round(self.now)
        else:
            self.chance.choice([self._crash_intake, self._freeze, self._crash_worker, self._crash_merger])()

    def end(self) -> None:
        """Everything is read to its end; whoever was frozen wakes up and sends what it had ready."""
        for partition, out in self._late:
            offset = self.runner.broker.append(out, self.now)
            (record,) = self.runner.broker.fetch(SAMPLES, partition, offset, 1)
            self._notice(partition, record)
        self.runner.drain(self.now)

    def _send(self, topic: str, name: str, value: bytes) -> None:
        """One record, in the partition of some key that is not the id; poison beside it now and then."""
        self.now += 1
        partition = self.chance.randrange(self.of_users[topic])
        self.runner.broker.append(Outgoing(topic, partition, name[:1].encode(), value), self.now)
        if self.chance.random() < 0.1:
            self.faults["poison"] += 1
            self.runner.broker.append(Outgoing(topic, partition, None, b'{"tx": '), self.now)

    def _sell(self) -> None:
        name, time = f"tx-{self.chance.randrange(40)}", self.now - self.chance.randrange(20) * DAY
        amount, known = float(self.chance.randrange(100)), self.payments.get(name)
        label, due = None if known is None else known.label, time + AFTER
        if known is not None and known.time >= 0:
            again = self.chance.random() < 0.5
            self.faults["payment again" if again else "payment changed"] += 1
            if again:
                time, amount = known.time, known.amount
            due = min(known.due, time + AFTER)
        self._send("payments", name, payment(name, time, amount))
        self.payments[name] = Payment(time, amount, due, label)

    def _label(self) -> None:
        name, label = f"tx-{self.chance.randrange(40)}", self.chance.choice(["fraud", "ok"])
        known = self.payments.get(name)
        if known is None or known.time < 0:
            self.faults["label early"] += 1
        elif known.label is not None:
            self.faults["label again" if known.label == label else "label contradicts"] += 1
        elif known.due <= self.now:
            self.faults["label late"] += 1
        if known is None:
            # There is no event yet, which is a time before all others.
            known = self.payments[name] = Payment(-1, 0.0, 2**62)
        known.label = label
        self._send("chargebacks", name, chargeback(name, label))

    # What fails ------------------------------------------------------------------------------------------------------

    def _crash_intake(self) -> None:
        self.faults["intake crashed"] += 1
        partition = self.chance.choice(list(self.runner.intakes))
        self._take_over(partition)

    def _take_over(self, partition: int) -> None:
        """Another process goes on: with the store as it was committed, or with none."""
        rows = self.runner.intakes[partition]._rows
        if rows._begun:
            rows._file.execute("ROLLBACK")
            rows._begun = False
        rows.facts = rows._read_facts()
        if self.chance.random() < 0.5:
            self.faults["store lost"] += 1
            rows = WaitingRows(identity=self.intake.identity)
        self.runner.take_intake(partition, rows)

    def _freeze(self) -> None:
        """An intake is frozen with records ready to be sent, and another one takes its partition over."""
        partition = self.chance.choice(list(self.runner.intakes))
        frozen, broker = self.runner.intakes[partition], self.runner.broker
        place = self.chance.choice(broker.of_users)
        records = broker.fetch(*place, frozen.position(place), 5)
        if records:
            outputs = list(frozen.process(self.runner._reader.read(records, self.now)))
            late = [(partition, out) for output in outputs for out in output.then]
            self.faults["intake frozen"] += len(late)
            self._late += late
        self._take_over(partition)

    def _notice(self, partition: int, record: Record) -> None:
        self.runner.answer_late(partition, record, self.now)

    def _crash_worker(self) -> None:
        self.faults["worker crashed"] += 1
        self.runner.crash_worker(self.chance.randrange(2), self.now)

    def _crash_merger(self) -> None:
        self.faults["merger crashed"] += 1
        self.runner.checkpoint(self.now)
        self.runner.crash_merger()

    # The end ---------------------------------------------------------------------------------------------------------

    def digests(self) -> tuple[str, str]:
        """(the digest of the merger's statistics, that of the batch over the joined table)."""
        clock = max((log[-1].log_time for log in map(self._log, self.runner.broker.of_users) if log), default=0)
        joined: list[tuple[str, Payment, str]] = []
        for name, one in self.payments.items():
            if one.time < 0:
                continue
            if one.label is None:
                self.faults["label never"] += 1
            label = one.label or ("ok" if one.due <= clock else None)
            if label is not None:
                joined.append((name, one, label))
        reference, definition = Reference(self.definition), self.definition
        assert definition.columns is not None
        if joined:
            cells: list[dict[str, Any]] = [{"amount": p.amount, "country": "DE", "known": True} for _, p, _ in joined]
            features = definition.columns.encode_records(cells).features
            ids, times = [name for name, _, _ in joined], np.array([p.time for _, p, _ in joined], dtype=np.int64)
            codes = np.array([("fraud", "ok").index(label) for _, _, label in joined], dtype=np.int32)
            samples = Samples.of_record(ids, times, ("fraud", "ok"), codes, features, log_time=2**60)
            homes = definition.partitions_of(ids)
            for partition in range(definition.partitions):
                reference.add(partition, samples.chosen(np.flatnonzero(homes == partition)))
        found = self.runner.merger.merger.statistics.digest(definition.data_fingerprint)
        return found, reference.statistics().digest(definition.data_fingerprint)

    def _log(self, place: tuple[str, int]) -> list[Record]:
        return self.runner.broker.fetch(*place, 0)
