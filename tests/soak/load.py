"""A steady load: batches, by name and not, single samples, retirements, queries, and now and then what is refused.

Event times are the time of sending, so that the window is always the last so many seconds of it.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from deltaplane.errors import DeltaplaneError
from deltaplane.log.records import Query
from deltaplane.stream.sample import Retirement, Samples
from deltaplane.wire import (
    read_answer,
    write_named_sample_batch,
    write_query,
    write_retirement,
    write_sample,
    write_sample_batch,
)
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import reader
from deltaplane_services.processors.messages import PREDICTIONS, QUERIES, RETIREMENTS, SAMPLES, Outgoing
from kafka.background import Background
from kafka.sending import CheckedProducer
from soak.stream import FEATURES, LABELS, LEVELS, NUMBERS

TICK_SECONDS = 0.05
SINGLES = 2
"""Rows of a tick that are sent as single samples."""

QUERIES_PER_SECOND = 5.0
RETIREMENTS_PER_SECOND = 2.0
"""Few: a worker remembers a million retired ids, and until then its memory grows with every one."""

BAD_PER_SECOND = 0.1
RECENT = 20_000
"""Ids that a retirement chooses among: those of the last seconds."""


@dataclass
class Sent:
    """What was sent, as counts that must be found again."""

    rows: int = 0
    retirements: int = 0
    queries: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Rows and records that must be refused, by kind."""


class Load(Background):
    """Sends from a thread of its own, so many rows a second, until it is stopped."""

    def __init__(self, settings: ServiceSettings, seed: int, rows_per_second: float) -> None:
        self.sent = Sent()
        self.producer = CheckedProducer(settings, (SAMPLES, RETIREMENTS, QUERIES))
        self.faults: list[str] = []
        self._definition = settings.definition
        self._print = settings.definition.data_fingerprint
        self._random = Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._centre = self._numbers.normal(size=FEATURES)
        self._by_name = False
        self._recent: deque[str] = deque(maxlen=RECENT)
        self._rows_per_second = rows_per_second
        super().__init__("soak-load")

    def _work(self) -> None:
        began = time.monotonic()
        try:
            while not self._stopping.is_set():
                seconds = time.monotonic() - began
                due = int(seconds * self._rows_per_second) - self.sent.rows
                if due > 0:
                    # After a pause of the machine, the load makes up for it in parts.
                    self._send_rows(min(due, int(4 * TICK_SECONDS * self._rows_per_second) + 1))
                while self.sent.retirements < seconds * RETIREMENTS_PER_SECOND and self._recent:
                    self._retire()
                while self.sent.queries < seconds * QUERIES_PER_SECOND:
                    self._ask()
                while self.sent.refused["bad record"] < seconds * BAD_PER_SECOND:
                    self._spoil()
                self.producer.poll()
                time.sleep(TICK_SECONDS if due < TICK_SECONDS * 2 * self._rows_per_second else 0.0)
        except Exception as fault:  # noqa: BLE001
            self.faults.append(f"load: {fault!r}")
        self.producer.flush()
        self.faults += self.producer.faults

    def _send_rows(self, count: int) -> None:
        """Rows of two overlapping classes: a few as single samples, the rest as one batch for each partition."""
        now = time.time_ns() // 1_000_000
        codes = (self._numbers.random(count) < 0.2).astype(np.int32)
        features = self._numbers.normal(size=(count, FEATURES)) + codes[:, None] * self._centre
        ids = [f"s{self.sent.rows + number}" for number in range(count)]
        home = self._definition.partitions_of(ids)
        self._by_name = not self._by_name
        if self.sent.refused["bad value"] < self.sent.refused["bad record"] and count > SINGLES:
            features[-1, 0] = np.nan
            self.sent.refused["bad value"] += 1
        for row in range(min(SINGLES, count)):
            value = write_sample(ids[row], now, LABELS[codes[row]], features[row].tolist(), self._print)
            self.producer.send(Outgoing(SAMPLES, int(home[row]), ids[row].encode(), value), rows=1)
        for partition in range(self._definition.partitions):
            rows = np.flatnonzero(home == partition)
            rows = rows[rows >= SINGLES]
            if len(rows):
                chosen = [ids[row] for row in rows.tolist()]
                samples = Samples.of_record(chosen, now, LABELS, codes[rows], features[rows])
                value = self._batch(samples)
                self.producer.send(Outgoing(SAMPLES, partition, None, value), rows=len(rows))
        self._recent.extend(ids)
        self.sent.rows += count

    def _batch(self, samples: Samples) -> bytes:
        """A batch of encoded features, or every other time of rows by name."""
        if not self._by_name:
            return write_sample_batch(samples, self._print, "float32")
        columns = self._definition.columns
        assert columns is not None, "the stream that is soaked has columns"
        # What is none refuses its row, where a missing number would be filled in.
        table: dict[str, list[Any]] = {
            name: ["none at all" if math.isnan(number) else number for number in samples.features[:, at].tolist()]
            for at, name in enumerate(NUMBERS)
        }
        table["kind"] = [(*LEVELS, "c", None)[at] for at in self._numbers.integers(0, 4, len(samples))]
        return write_named_sample_batch(samples, table, columns, self._print)

    def _retire(self) -> None:
        """Of a recent sample; one in four is of a sample that never comes."""
        recent = self._random.random() < 0.75
        sample_id = self._random.choice(self._recent) if recent else f"nobody{self.sent.retirements}"
        retirement = Retirement(sample_id, "asked for", 0, time=time.time_ns() // 1_000_000)
        partition = self._definition.partition_of(sample_id)
        value = write_retirement(retirement, self._print)
        self.producer.send(Outgoing(RETIREMENTS, partition, sample_id.encode(), value))
        self.sent.retirements += 1

    def _ask(self) -> None:
        query_id = f"q{self.sent.queries}"
        value = write_query(Query(query_id, self._numbers.normal(size=FEATURES), self._print))
        self.producer.send(Outgoing(QUERIES, self._definition.partition_of(query_id), None, value))
        self.sent.queries += 1

    def _spoil(self) -> None:
        """A record that is none."""
        partition = self._random.randrange(self._definition.partitions)
        self.producer.send(Outgoing(SAMPLES, partition, None, self._random.randbytes(40)))
        self.sent.refused["bad record"] += 1


class Answers(Background):
    """Reads the predictions as they come, and counts the queries that were answered, each once."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.faults: list[str] = []
        self.repeated = 0
        self._partitions = settings.definition.partitions
        self._settings = settings
        self._up_to = [0] * self._partitions
        self._beyond: list[set[int]] = [set() for _ in range(self._partitions)]
        super().__init__("soak-answers")

    @property
    def answered(self) -> int:
        """Queries that have an answer."""
        return sum(self._up_to) + sum(len(beyond) for beyond in self._beyond)

    def _work(self) -> None:
        log = reader(self._settings, "central")
        try:
            log.follow([(PREDICTIONS, partition, 0) for partition in range(self._partitions)])
            while not self._stopping.is_set():
                for record in log.poll(500, 0.2):
                    prediction = read_answer(record.value)
                    self._note(prediction.partition, prediction.offset)
        except DeltaplaneError as fault:
            self.faults.append(f"reader of predictions: {fault}")
        finally:
            log.close()

    def _note(self, partition: int, offset: int) -> None:
        """Hold only what is answered beyond the first query without an answer: a set that stays small."""
        beyond = self._beyond[partition]
        if offset < self._up_to[partition] or offset in beyond:
            self.repeated += 1
            return
        beyond.add(offset)
        while self._up_to[partition] in beyond:
            beyond.remove(self._up_to[partition])
            self._up_to[partition] += 1
