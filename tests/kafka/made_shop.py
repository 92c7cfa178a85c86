"""A shop whose payments and chargebacks lie on two topics of its own, and the table that they are when joined."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer

from deltaplane.reference import Reference
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples
from kafka.clients import create_topic
from services.intake_shop import DAY, FIRST_TIME, INTAKE, chargeback, payment

__all__ = ["INPUT", "MadeShop"]

INPUT = {"id": "ref", "time": "created", "time_unit": "ms", "label": "verdict"}
"""How the joined table is read."""


class MadeShop:
    """Payments and chargebacks that a seed makes, the topics that they go to, and the table that they are joined."""

    def __init__(self, bootstrap: str, name: str, seed: int) -> None:
        self.payments, self.chargebacks = f"{name}-payments", f"{name}.charge.backs"
        # The records are of years ago, and would be deleted as soon as the broker looks.
        for topic, partitions in ((self.payments, 3), (self.chargebacks, 2)):
            create_topic(bootstrap, topic, partitions=partitions, config={"retention.ms": "-1"})
        self.rows: dict[str, dict[str, Any]] = {}
        self._random = random.Random(seed)
        # A retry must not come behind the next label: contradictions are decided by their order.
        self._out = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
        self._last = FIRST_TIME

    def sell(self, count: int, *, label_share: float = 0.3) -> None:
        """Send payments, and labels of some of them: early, late, twice, contradicting."""
        chance = self._random
        for _ in range(count):
            ref, at = f"tx-{len(self.rows)}", FIRST_TIME + 60_000 * len(self.rows)
            row: dict[str, Any] = {
                "amount": round(chance.lognormvariate(3, 1), 2),
                "country": chance.choice(["DE", "FR", "PL"]),
                "known": chance.random() < 0.7,
            }
            value = payment(ref, at, row["amount"], row["country"], known=row["known"])
            labels = ["fraud"] if chance.random() < label_share else []
            if chance.random() < 0.1:
                labels += ["ok", chance.choice(["ok", "fraud"])]
            self.rows[ref] = {"ref": ref, "created": at, **row, "verdict": labels[-1] if labels else "ok"}
            sends = [(self.chargebacks, ref, chargeback(ref, label)) for label in labels]
            early = chance.random() < 0.3
            for topic, key, data in [*(sends if early else ()), (self.payments, ref, value), *(() if early else sends)]:
                self.send(topic, key, data, at)
            if chance.random() < 0.05:
                self.send(self.payments, ref, value, at)

    def send(self, topic: str, ref: str, value: bytes | None, at: int) -> None:
        """Send a record; the labels of one payment have one partition, as contradictions are decided by their order."""
        key = f"customer {len(ref) % 7}{ref[-1]}" if topic == self.payments else f"cb-{ref}"
        self._out.produce(topic, value, key=key, timestamp=at, headers=[("trace", ref.encode()), ("empty", None)])
        self._last = max(self._last, at)

    def let_pass(self, days: int) -> None:
        """Let time pass: a record that says nothing comes in each topic."""
        for topic in (self.payments, self.chargebacks):
            self._out.produce(topic, b"no json", key=b"x", timestamp=self._last + days * DAY)
        self._last += days * DAY
        self._out.flush()

    def flush(self) -> None:
        self._out.flush()

    def intake(self) -> dict[str, Any]:
        return {**INTAKE, "topic": self.payments, "labels": {**INTAKE["labels"], "topic": self.chargebacks}}

    def table(self, path: Path) -> Path:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["ref", "created", "amount", "country", "known", "verdict"])
            writer.writeheader()
            writer.writerows(self.rows.values())
        return path

    def digest(self, definition: StreamDefinition) -> str:
        """That of the joined table, of a stream over everything."""
        assert definition.columns is not None
        rows, reference = list(self.rows.values()), Reference(definition)
        cells = [{name: row[name] for name in ("amount", "country", "known")} for row in rows]
        features = definition.columns.encode_records(cells).features
        codes = np.array([int(row["verdict"] == "ok") for row in rows], dtype=np.int32)
        times = np.array([row["created"] for row in rows], dtype=np.int64)
        samples = Samples.of_record(list(self.rows), times, ("fraud", "ok"), codes, features, log_time=2**60)
        home = definition.partitions_of(list(self.rows))
        for partition in range(definition.partitions):
            reference.add(partition, samples.chosen(np.flatnonzero(home == partition)))
        return reference.statistics().digest(definition.data_fingerprint)
